//! Problems of JMAP (RFC 8620 §3.6.1) as responses.

use sealpost_http::{BodyError, HeaderValue, RequestHead, Response, StatusCode, header};
use sealpost_jmap::Problem;
use sealpost_jmap::error::ProblemType;
use sealpost_oauth::OAuth;

/// What a client that may not log in is asked for (RFC 9110 §11.6.1).
const BASIC: &str = "Basic realm=\"Sealpost\", charset=\"UTF-8\"";
const BEARER: &str = "Bearer realm=\"Sealpost\"";
/// Seconds after which a client that was refused for now may try again.
const RETRY_AFTER: &str = "5";

/// The response with the problem.
pub(super) fn response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // Types of strings and numbers alone: writing them cannot fail.
    let mut response = Response::problem_json(status, serde_json::to_vec(problem).unwrap_or_default());
    if status == StatusCode::UNAUTHORIZED {
        for challenge in [BASIC, BEARER] {
            response.headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
    }
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    response
}

/// The response to a login that failed. Its challenge says where the authorization server is found
/// (RFC 9728 §5.1), and that a token is wrong if there was one (RFC 6750 §3.1). A page of this server
/// gets no Basic: its browser would ask the user for a password beside the page.
pub(super) fn unauthorized(head: &RequestHead, problem: &Problem) -> Response {
    let mut response = response(problem);
    if response.status != StatusCode::UNAUTHORIZED {
        return response;
    }
    let metadata = OAuth::resource_metadata_url(head.base_url(), &head.path);
    let error =
        if head.headers.contains_key(header::AUTHORIZATION) { ", error=\"invalid_token\"" } else { "" };
    let bearer = format!("{BEARER}{error}, resource_metadata=\"{metadata}\"");
    response.headers.remove(header::WWW_AUTHENTICATE);
    let is_page = head.cookie().is_some() || head.headers.contains_key("sec-fetch-site");
    if !is_page {
        response.headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(BASIC));
    }
    let bearer = HeaderValue::try_from(bearer).unwrap_or(HeaderValue::from_static(BEARER));
    response.headers.append(header::WWW_AUTHENTICATE, bearer);
    response
}

/// What is wrong with the body of a request to the API.
pub(super) fn of_body(error: BodyError) -> Response {
    match error {
        BodyError::TooLarge(limit) => {
            let detail = format!("A request has at most {limit} bytes.");
            response(&Problem::limit("maxSizeRequest", detail))
        }
        BodyError::TooMany => response(&Problem::new(ProblemType::About, 429, error.to_string())),
        BodyError::TimedOut | BodyError::Disconnected => error.into(),
    }
}
