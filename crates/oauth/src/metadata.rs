//! What clients find out by themselves: the authorization server (RFC 8414) and what it protects
//! (RFC 9728).

use serde_json::{Value, json};

use crate::OAuth;

/// What is protected over HTTP; each path has metadata of its own (RFC 9728 §3.1).
const RESOURCES: [&str; 5] =
    ["/jmap/session", "/.well-known/jmap", "/jmap/api", "/jmap/eventsource", "/jmap/ws"];

impl OAuth {
    /// The metadata of the authorization server `issuer` (RFC 8414 §2).
    pub fn server_metadata(&self, issuer: &str) -> Value {
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/oauth/authorize"),
            "token_endpoint": format!("{issuer}/oauth/token"),
            "registration_endpoint": format!("{issuer}/oauth/register"),
            "revocation_endpoint": format!("{issuer}/oauth/revoke"),
            "scopes_supported": self.scopes(),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    /// The metadata of what is at `path` of `issuer`, or of all of it (RFC 9728 §2); `None` if nothing
    /// protected is there.
    pub fn resource_metadata(&self, issuer: &str, path: &str) -> Option<Value> {
        (path.is_empty() || RESOURCES.contains(&path)).then(|| {
            json!({
                "resource": format!("{issuer}{path}"),
                "authorization_servers": [issuer],
                "scopes_supported": self.scopes(),
                "bearer_methods_supported": ["header"],
                "resource_name": "Sealpost",
            })
        })
    }

    /// Where a client that was refused at `path` finds the metadata (RFC 9728 §5.1).
    pub fn resource_metadata_url(issuer: &str, path: &str) -> String {
        let path = if RESOURCES.contains(&path) { path } else { "" };
        format!("{issuer}/.well-known/oauth-protected-resource{path}")
    }

    fn scopes(&self) -> Vec<&'static str> {
        self.supported.iter().map(|scope| scope.name()).collect()
    }
}
