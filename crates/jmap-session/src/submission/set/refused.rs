//! The table from refusals of the outbox to errors of one submission (RFC 8621 §7.5).

use sealpost_base::Error;
use sealpost_jmap::SetError;
use sealpost_jmap::error::{SetErrorDetail, SetErrorType};
use sealpost_submission::header::Fault;
use sealpost_submission::outbox::{LimitReached, Refusal};

use crate::method::Failure;

/// Why a submission was not made.
pub(crate) enum Refused {
    /// The response reports this one.
    Object(SetError),
    /// The method fails.
    Method(Failure),
}

impl From<SetError> for Refused {
    fn from(error: SetError) -> Self {
        Refused::Object(error)
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Refused::Method(failure)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Method(error.into())
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        let of = |error: SetErrorType| SetError::from(error).describe(text.clone());
        Refused::Object(match refusal {
            Refusal::Sender(_) => of(SetErrorType::ForbiddenFrom),
            Refusal::Header(fault) => invalid_email(fault, &text),
            Refusal::TooLarge(most) => of(SetErrorType::TooLarge).with(SetErrorDetail::MaxSize(most)),
            Refusal::Loop => invalid("headers", &text),
            Refusal::Limit(reached) => limit(&reached),
            // It is said to be the mail's, and may work later.
            Refusal::NoMemory => of(SetErrorType::RateLimit),
            Refusal::Store(error) => return error.into(),
        })
    }
}

impl Refused {
    /// The error of the object.
    ///
    /// # Errors
    /// The failure of the method.
    pub(crate) fn of_object(self) -> Result<SetError, Failure> {
        match self {
            Refused::Object(error) => Ok(error),
            Refused::Method(failure) => Err(failure),
        }
    }
}

fn invalid_email(fault: Fault, text: &str) -> SetError {
    match fault {
        Fault::TooLarge => invalid("headers", text),
        Fault::NoFrom | Fault::Unreadable | Fault::Repeated => invalid("from", text),
    }
}

/// `invalidEmail`, with the property of the email that is.
pub(crate) fn invalid(property: &str, text: &str) -> SetError {
    let properties = SetErrorDetail::Properties(vec![property.to_owned()]);
    SetError::from(SetErrorType::InvalidEmail).describe(text).with(properties)
}

/// `invalidProperties` of one property.
pub(crate) fn invalid_property(property: &str, text: &str) -> SetError {
    SetError::invalid_properties(vec![property.to_owned()], text)
}

/// What the account may send: `forbiddenToSend` if it may later, `tooManyRecipients` if it never may.
pub(crate) fn limit(reached: &LimitReached) -> SetError {
    let error = match reached.until {
        Some(_) => SetError::from(SetErrorType::ForbiddenToSend),
        None => SetError::from(SetErrorType::TooManyRecipients)
            .with(SetErrorDetail::MaxRecipients(reached.limit.into())),
    };
    error.describe(reached.to_string())
}
