//! Maps refusals of the domain to errors of one mailbox.

use sealpost_base::{Error, Kind};
use sealpost_jmap::SetError;
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_jmap::id::MailboxId;
use sealpost_mailbox::Refusal;

/// `invalidProperties` for one property.
pub(super) fn wrong(property: &str, why: impl Into<String>) -> SetError {
    SetError::invalid_properties(vec![property.to_owned()], why)
}

/// `alreadyExists`: another mailbox has the name.
pub(super) fn exists(id: MailboxId) -> SetError {
    let error = SetError::from(SetErrorType::AlreadyExists);
    error.describe("a mailbox of that name is there").with(SetErrorDetail::ExistingId(id.into()))
}

/// `forbidden`.
pub(super) fn forbidden(why: &str) -> SetError {
    SetError::from(SetErrorType::Forbidden).describe(why)
}

/// Why one mailbox was not changed.
pub(super) enum Refused {
    /// The response reports this object.
    Object(SetError),
    /// The server failed; earlier changes of the call stay.
    Server(Error),
}

impl From<SetError> for Refused {
    fn from(error: SetError) -> Self {
        Refused::Object(error)
    }
}

impl From<SetErrorType> for Refused {
    fn from(error: SetErrorType) -> Self {
        Refused::Object(error.into())
    }
}

/// Domain errors that concern the mailbox are about its name.
impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Invalid | Kind::Conflict | Kind::Limit => wrong("name", error.to_string()).into(),
            Kind::Denied => forbidden(&error.to_string()).into(),
            Kind::NotFound => SetErrorType::NotFound.into(),
            // RFC 8620 §5.3 has no error type for a server failure at one object.
            Kind::Retry | Kind::Corrupt | Kind::Offloaded | Kind::Internal => Refused::Server(error),
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::OverQuota(_) => SetErrorType::OverQuota.into(),
            Refusal::Error(error) => error.into(),
            _ => forbidden("this cannot be done with this mailbox").into(),
        }
    }
}
