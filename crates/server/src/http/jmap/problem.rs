//! Problems of JMAP (RFC 8620 §3.6.1) as responses.

use sealpost_http::{BodyError, HeaderValue, Response, StatusCode, header};
use sealpost_jmap::Problem;

/// What a client that may not log in is asked for (RFC 9110 §11.6.1).
const CHALLENGES: [&str; 2] = ["Basic realm=\"Sealpost\", charset=\"UTF-8\"", "Bearer realm=\"Sealpost\""];
/// Seconds after which a client that was refused for now may try again.
const RETRY_AFTER: &str = "5";

/// The response with the problem.
pub(super) fn response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // Types of strings and numbers alone: writing them cannot fail.
    let mut response = Response::problem_json(status, serde_json::to_vec(problem).unwrap_or_default());
    if status == StatusCode::UNAUTHORIZED {
        for challenge in CHALLENGES {
            response.headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
    }
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    response
}

/// What is wrong with the body of a request to the API.
pub(super) fn of_body(error: BodyError) -> Response {
    match error {
        BodyError::TooLarge(limit) => {
            let detail = format!("A request has at most {limit} bytes.");
            response(&Problem::limit("maxSizeRequest", detail))
        }
        BodyError::TimedOut | BodyError::Disconnected => error.into(),
    }
}
