//! Errors that clients get (RFC 6749 §4.1.2.1 and §5.2, RFC 7591 §3.2.2, RFC 8707 §2).

use sealpost_base::Error;
use serde_json::json;

/// Which error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The user refused.
    AccessDenied,
    /// The client's registration has something that is not possible.
    InvalidClientMetadata,
    /// The client's id is none.
    InvalidClient,
    /// A code or refresh token is wrong, or was revoked.
    InvalidGrant,
    /// A redirect URI is not possible.
    InvalidRedirectUri,
    /// A parameter is missing, malformed or there twice.
    InvalidRequest,
    /// No scope that was asked for can be granted.
    InvalidScope,
    /// A resource is not one of this server.
    InvalidTarget,
    /// The server failed, or is busy.
    TemporarilyUnavailable,
    /// Another grant type than those of the profile.
    UnsupportedGrantType,
    /// Another response type than `code`.
    UnsupportedResponseType,
}

impl ErrorCode {
    /// As clients see it.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::AccessDenied => "access_denied",
            ErrorCode::InvalidClientMetadata => "invalid_client_metadata",
            ErrorCode::InvalidClient => "invalid_client",
            ErrorCode::InvalidGrant => "invalid_grant",
            ErrorCode::InvalidRedirectUri => "invalid_redirect_uri",
            ErrorCode::InvalidRequest => "invalid_request",
            ErrorCode::InvalidScope => "invalid_scope",
            ErrorCode::InvalidTarget => "invalid_target",
            ErrorCode::TemporarilyUnavailable => "temporarily_unavailable",
            ErrorCode::UnsupportedGrantType => "unsupported_grant_type",
            ErrorCode::UnsupportedResponseType => "unsupported_response_type",
        }
    }
}

/// An error and what is wrong, in the characters that RFC 6749 §5.2 allows: ASCII without quotation
/// marks and backslashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OAuthError {
    /// Which error.
    pub code: ErrorCode,
    /// What is wrong.
    pub description: &'static str,
}

impl OAuthError {
    /// That error.
    pub(crate) fn new(code: ErrorCode, description: &'static str) -> Self {
        OAuthError { code, description }
    }

    /// A request that cannot be understood.
    pub fn invalid_request(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidRequest, description)
    }

    pub(crate) fn invalid_grant(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidGrant, description)
    }

    /// The store failed; the error is for the log.
    pub(crate) fn unavailable(error: &Error) -> Self {
        tracing::warn!(%error, "a request of OAuth failed");
        Self::busy()
    }

    pub(crate) fn busy() -> Self {
        Self::new(ErrorCode::TemporarilyUnavailable, "try again later")
    }

    /// Whether the client may try again: HTTP says 503 then, else 400.
    pub fn is_temporary(&self) -> bool {
        self.code == ErrorCode::TemporarilyUnavailable
    }

    /// The body of the response.
    pub fn json(&self) -> String {
        json!({"error": self.code.name(), "error_description": self.description}).to_string()
    }
}
