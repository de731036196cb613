//! Maps refusals of the domain to errors of one email.

use sealpost_base::{Error, Kind};
use sealpost_jmap::SetError;
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_mailbox::email_change::EmailRefusal;

use crate::method::Failure;

/// Why one email was not changed.
pub(super) enum Refused {
    /// The response reports the error for this email.
    Object(SetError),
    /// The account's state is not the one that the client requires (`ifInState`).
    StateMismatch,
    /// The server failed; earlier changes of the call stay.
    Server(Error),
}

impl From<SetError> for Refused {
    fn from(error: SetError) -> Self {
        Refused::Object(error)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::Denied => SetError::from(SetErrorType::Forbidden).describe(error.to_string()).into(),
            // A limit that flags do not cause: memory, or the number of messages.
            Kind::Limit => SetError::from(SetErrorType::TooLarge).describe(error.to_string()).into(),
            _ => Refused::Server(error),
        }
    }
}

impl From<EmailRefusal> for Refused {
    fn from(refusal: EmailRefusal) -> Self {
        Refused::Object(match refusal {
            EmailRefusal::NotFound => SetErrorType::NotFound.into(),
            EmailRefusal::Forbidden => SetErrorType::Forbidden.into(),
            EmailRefusal::Mailboxes => {
                let why = "an email is in one mailbox at least, and in those that exist";
                SetError::invalid_properties(vec!["mailboxIds".to_owned()], why)
            }
            EmailRefusal::TooManyMailboxes => SetErrorType::TooManyMailboxes.into(),
            EmailRefusal::TooManyFlags(error) => {
                SetError::from(SetErrorType::TooManyKeywords).describe(error.to_string())
            }
            EmailRefusal::OverQuota(_) => SetErrorType::OverQuota.into(),
            EmailRefusal::Stale => return Refused::StateMismatch,
            EmailRefusal::Error(error) => return error.into(),
        })
    }
}

/// The error to report for one email. If the server failed, the method fails, and the client must read the
/// state of the earlier emails (RFC 8620 §3.6.2).
pub(super) fn of_object(refused: Refused) -> Result<SetError, Failure> {
    match refused {
        Refused::Object(error) => Ok(error),
        Refused::StateMismatch => Err(MethodErrorType::StateMismatch.into()),
        Refused::Server(error) => {
            tracing::error!(%error, "an email could not be changed");
            Err(MethodErrorType::ServerPartialFail.into())
        }
    }
}
