//! The table from refusals of the domain to errors of one mailbox.

use sealpost_base::{Error, Kind};
use sealpost_jmap::SetError;
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_jmap::id::MailboxId;
use sealpost_mailbox::Refusal;

/// One property is wrong.
pub(super) fn wrong(property: &str, why: impl Into<String>) -> SetError {
    SetError::invalid_properties(vec![property.to_owned()], why)
}

/// Another mailbox has the name.
pub(super) fn exists(id: MailboxId) -> SetError {
    let error = SetError::from(SetErrorType::AlreadyExists);
    error.describe("a mailbox of that name is there").with(SetErrorDetail::ExistingId(id.into()))
}

/// Not allowed.
pub(super) fn forbidden(why: &str) -> SetError {
    SetError::from(SetErrorType::Forbidden).describe(why)
}

/// An error of the domain, about the name if it is about anything of the mailbox.
pub(super) fn of_error(error: &Error) -> SetError {
    match error.kind() {
        Kind::Invalid | Kind::Conflict | Kind::Limit => wrong("name", error.to_string()),
        Kind::Denied => forbidden(&error.to_string()),
        Kind::NotFound => SetErrorType::NotFound.into(),
        Kind::Retry | Kind::Corrupt | Kind::Offloaded | Kind::Internal => {
            tracing::error!(%error, "a mailbox could not be changed");
            // RFC 8620 §5.3 has no type for a server that fails at one object.
            SetError::from(SetErrorType::Forbidden).describe("the server cannot do this now, try again later")
        }
    }
}

/// A refusal.
pub(super) fn of_refusal(refusal: Refusal) -> SetError {
    match refusal {
        Refusal::OverQuota(_) => SetErrorType::OverQuota.into(),
        Refusal::Error(error) => of_error(&error),
        _ => forbidden("this cannot be done with this mailbox"),
    }
}
