//! Which pages of other origins may use the server: CORS (Fetch §3.2).
//!
//! Credentials are in the `Authorization` field, which a page has to know; a browser adds none by
//! itself. So `Access-Control-Allow-Credentials` is never sent.

use http::{HeaderMap, HeaderValue, Method, header};
use sealpost_session::settings::Origin;

use crate::response::Response;

/// Fields that a page may send, beyond those that any may.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, If-None-Match, If-Range, Last-Event-ID, Range";
/// Fields that a page may read, beyond those that any may.
const EXPOSED_HEADERS: &str = "Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After";
/// Seconds for which a browser may remember what it was allowed; Chromium remembers no longer.
const MAX_AGE: &str = "7200";

/// Adds to a response what its page has to know.
pub(crate) fn allow(response: &mut Response, request: &HeaderMap, allowed: &[Origin]) {
    if allowed.is_empty() {
        return;
    }
    response.headers.append(header::VARY, HeaderValue::from_static("Origin"));
    let Some(origin) = request.get(header::ORIGIN) else { return };
    if !allowed.iter().any(|known| known.as_str().as_bytes() == origin.as_bytes()) {
        return;
    }
    response.headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    let exposed = HeaderValue::from_static(EXPOSED_HEADERS);
    response.headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// Adds to the response to OPTIONS which methods and fields a page may use.
pub(crate) fn answer_preflight(response: &mut Response, methods: &[Method]) {
    let methods = list(methods);
    response.headers.insert(header::ALLOW, methods.clone());
    if response.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        response.headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        let allowed = HeaderValue::from_static(ALLOWED_HEADERS);
        response.headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        response.headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    }
}

/// Methods with commas between them.
pub(crate) fn list(methods: &[Method]) -> HeaderValue {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    HeaderValue::try_from(names.join(", ")).unwrap_or_else(|_| HeaderValue::from_static(""))
}
