//! The endpoints that programs use: registration (RFC 7591), tokens (RFC 6749 §3.2), revocation
//! (RFC 7009).

use std::sync::Arc;

use sealpost_http::{HeaderValue, Request, Response, ResponseBody, StatusCode, header};
use sealpost_oauth::{OAuth, OAuthError};

use super::super::small_body::{media_type, small_body};
use super::form::form;

const JSON: &str = "application/json";
/// Seconds after which a client that was refused for now may try again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Answers POST of a registration.
pub(super) async fn register(oauth: Arc<OAuth>, request: Request) -> Response {
    let Request { head, body } = request;
    if media_type(&head.headers) != JSON {
        return refused(&OAuthError::invalid_request("the body is application/json"));
    }
    let body = match small_body(body).await {
        Ok(body) => body,
        Err(error) => return error.into(),
    };
    match oauth.register(&body) {
        Ok(client) => Response::new(StatusCode::CREATED, JSON, ResponseBody::bytes(client)),
        Err(error) => refused(&error),
    }
}

/// Answers POST of a code or a refresh token.
pub(super) async fn token(oauth: Arc<OAuth>, request: Request) -> Response {
    let Request { head, body } = request;
    let parameters = match form(&media_type(&head.headers), body).await {
        Ok(parameters) => parameters,
        Err(error) => return refused(&error),
    };
    match oauth.token(&parameters, head.client).await {
        // RFC 6749 §5.1; no response is cached anyway.
        Ok(tokens) => Response::json(tokens).with(header::PRAGMA, HeaderValue::from_static("no-cache")),
        Err(error) => refused(&error),
    }
}

/// Answers POST of a token that its client gives up.
pub(super) async fn revoke(oauth: Arc<OAuth>, request: Request) -> Response {
    let Request { head, body } = request;
    let parameters = match form(&media_type(&head.headers), body).await {
        Ok(parameters) => parameters,
        Err(error) => return refused(&error),
    };
    match oauth.revoke(&parameters, head.client).await {
        Ok(()) => Response::empty(StatusCode::OK),
        Err(error) => refused(&error),
    }
}

fn refused(error: &OAuthError) -> Response {
    let status = if error.is_temporary() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST };
    let response = Response::new(status, JSON, ResponseBody::bytes(error.json()));
    match error.is_temporary() {
        true => response.with(header::RETRY_AFTER, RETRY_AFTER),
        false => response,
    }
}
