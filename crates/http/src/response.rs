//! Responses of handlers, and problem details (RFC 9457) for errors.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

use crate::request_body::BodyError;
use crate::response_body::ResponseBody;

/// The media type of problem details.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The response of a handler.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The header fields. The server adds its standard fields later, unless they are here.
    pub headers: HeaderMap,
    /// The body.
    pub body: ResponseBody,
}

impl Response {
    /// A response without a body.
    pub fn empty(status: StatusCode) -> Self {
        Response { status, headers: HeaderMap::new(), body: ResponseBody::empty() }
    }

    /// A response with a body of this media type.
    pub fn new(status: StatusCode, media_type: &'static str, body: ResponseBody) -> Self {
        let mut response = Response { body, ..Self::empty(status) };
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response
    }

    /// A plain text response.
    pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", ResponseBody::bytes(text))
    }

    /// A JSON response.
    pub fn json(json: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "application/json", ResponseBody::bytes(json))
    }

    /// Problem details for programs and users: `about:blank`, the status, and `detail`.
    pub fn problem(status: StatusCode, detail: &str) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        let problem =
            json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail});
        Self::problem_json(status, problem.to_string())
    }

    /// Problem details of another type, already encoded.
    pub fn problem_json(status: StatusCode, json: impl Into<Bytes>) -> Self {
        Self::new(status, PROBLEM_JSON, ResponseBody::bytes(json))
    }

    /// A redirect, for any method, to a path of this server.
    pub fn redirect(path: &'static str) -> Self {
        Self::empty(StatusCode::TEMPORARY_REDIRECT).with(header::LOCATION, HeaderValue::from_static(path))
    }

    /// A page, with the policy that says what it may load and where its forms go. Its own origin may
    /// hear where a form came from: without that, browsers hide the origin (Fetch §3.2).
    pub fn page(status: StatusCode, html: impl Into<Bytes>, policy: &str) -> Self {
        // A policy that cannot be in a field would be a bug; then the page may do nothing.
        let none = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
        let policy = HeaderValue::from_str(policy).unwrap_or(none);
        Self::new(status, "text/html; charset=utf-8", ResponseBody::bytes(html))
            .with(header::CONTENT_SECURITY_POLICY, policy)
            .with(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
            .with(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"))
    }

    /// The browser continues with GET at that URL, which may be of another server; `None` if it cannot
    /// be in a field.
    pub fn see_other(url: &str) -> Option<Self> {
        let location = HeaderValue::from_str(url).ok()?;
        Some(Self::empty(StatusCode::SEE_OTHER).with(header::LOCATION, location))
    }

    /// The same with that field.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

/// A refusal that does not depend on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) &'static str);

impl From<Refusal> for Response {
    fn from(Refusal(status, detail): Refusal) -> Self {
        Response::problem(status, detail)
    }
}

impl From<BodyError> for Response {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TooMany => StatusCode::TOO_MANY_REQUESTS,
            BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
            BodyError::Disconnected => StatusCode::BAD_REQUEST,
        };
        Response::problem(status, &error.to_string())
    }
}
