//! The answer to an upload for which there is no room.

use sealpost_base::limits::JMAP_UPLOADS;
use sealpost_jmap::SetError;
use sealpost_jmap::error::SetErrorType;

/// Why: not one of the last hour is removed for another (RFC 8620 §6).
pub(super) fn too_many() -> String {
    format!("the user has {JMAP_UPLOADS} uploads of the last hour; use them, or try again later")
}

/// The same as the error of an object.
pub(super) fn over_quota() -> SetError {
    SetError::from(SetErrorType::OverQuota).describe(too_many())
}
