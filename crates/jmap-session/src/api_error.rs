//! How a request ends that has no complete response.

use sealpost_jmap::Problem;

/// Why a request has no complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// Nothing was sent; send this problem instead of a response.
    Problem(Problem),
    /// The client has disconnected, or the login is no longer valid. The response is incomplete, and its end
    /// must show that to the client.
    Ended,
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        ApiError::Problem(problem)
    }
}
