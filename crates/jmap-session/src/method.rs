//! How the call of a method ends; maps domain errors to JMAP errors.

use sealpost_base::{Error, Kind};
use sealpost_jmap::MethodError;
use sealpost_jmap::error::MethodErrorType;

use crate::api_error::ApiError;

/// Why a call has no response of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The method failed with an `error` response; the next call runs.
    Method(MethodError),
    /// The request has ended.
    Ended(ApiError),
}

/// The result of a method, which has written its own response, if any.
pub(crate) type Outcome = Result<(), Failure>;

impl From<MethodError> for Failure {
    fn from(error: MethodError) -> Self {
        Failure::Method(error)
    }
}

impl From<MethodErrorType> for Failure {
    fn from(error: MethodErrorType) -> Self {
        Failure::Method(error.into())
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Failure::Ended(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Method(method_error(&error))
    }
}

/// The error that makes the client read everything again.
pub(crate) fn cannot_calculate(why: impl Into<String>) -> MethodError {
    MethodError::from(MethodErrorType::CannotCalculateChanges).describe(why)
}

/// The error if /changes has no answer.
pub(crate) fn too_old() -> MethodError {
    cannot_calculate("the state is unknown or too old")
}

/// The JMAP error for a domain error. Errors that need the operator are logged, and their text does not reach
/// the client.
fn method_error(error: &Error) -> MethodError {
    match error.kind() {
        Kind::Retry | Kind::Conflict | Kind::Offloaded => {
            tracing::warn!(%error, "a call failed for now");
            let text = "the server cannot do this now, try again later";
            MethodError::from(MethodErrorType::ServerUnavailable).describe(text)
        }
        Kind::Invalid => MethodError::invalid_arguments(error.to_string()),
        Kind::Denied => MethodError::from(MethodErrorType::Forbidden).describe(error.to_string()),
        Kind::Limit => MethodError::from(MethodErrorType::RequestTooLarge).describe(error.to_string()),
        Kind::NotFound | Kind::Corrupt | Kind::Internal => {
            tracing::error!(%error, "a call failed");
            MethodError::from(MethodErrorType::ServerFail)
        }
    }
}
