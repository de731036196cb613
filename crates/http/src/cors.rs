//! CORS (Fetch §3.2): which web pages of other origins may use the server.
//!
//! Credentials are in the `Authorization` field. A page must have them itself, since browsers never add them
//! on their own. So `Access-Control-Allow-Credentials` is never sent.

use http::{HeaderMap, HeaderValue, Method, header};
use sealpost_session::settings::Origin;

use crate::response::Response;

/// Request fields that a page may send in addition to the CORS-safelisted ones.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, If-None-Match, If-Range, Last-Event-ID, Range";
/// Response fields that a page may read in addition to the CORS-safelisted ones.
const EXPOSED_HEADERS: &str = "Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After";
/// How long browsers may cache a preflight response, in seconds. Chromium caches no longer.
const MAX_AGE: &str = "7200";

/// Adds the CORS fields to a response.
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

/// Adds the allowed methods and fields to the response to OPTIONS.
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

/// A comma-separated list of methods.
pub(crate) fn list(methods: &[Method]) -> HeaderValue {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    HeaderValue::try_from(names.join(", ")).unwrap_or_else(|_| HeaderValue::from_static(""))
}
