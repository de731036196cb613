//! Metadata of the authorization server (RFC 8414) and of what it protects (RFC 9728).

use std::sync::Arc;

use sealpost_http::{Request, Response, StatusCode};
use sealpost_oauth::OAuth;

/// Answers GET of the authorization server's metadata.
pub(super) async fn server(oauth: Arc<OAuth>, request: Request) -> Response {
    Response::json(oauth.server_metadata(request.head.base_url()).to_string())
}

/// Answers GET of the metadata of a protected resource, whose path is behind the well-known one
/// (RFC 9728 §3.1).
pub(super) async fn resource(oauth: Arc<OAuth>, request: Request) -> Response {
    let head = request.head;
    let path = match (head.param("first"), head.param("second")) {
        ("", _) => String::new(),
        (first, second) => format!("/{first}/{second}"),
    };
    match oauth.resource_metadata(head.base_url(), &path) {
        Some(metadata) => Response::json(metadata.to_string()),
        None => Response::problem(StatusCode::NOT_FOUND, "nothing that OAuth protects is there"),
    }
}
