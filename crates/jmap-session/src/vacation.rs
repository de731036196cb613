//! Vacation responses (RFC 8621 §8): one object for each account, always there.
//!
//! Its state is the number of its changes: equal on all nodes, and changed by nothing else.

mod get;
mod set;

use sealpost_directory::AccountName;
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::vacation::VacationResponse;
use sealpost_jmap::{GivenId, MethodError, State};
use sealpost_submission::vacation::{Vacation, Vacations};

use crate::method::Failure;
use crate::scope::Scope;
pub(crate) use get::get;
pub(crate) use set::set;

/// The vacation responses of the server, and whose is asked for.
fn own<'a>(scope: &'a Scope<'_>) -> Result<(&'a Vacations, AccountName), Failure> {
    let user = scope.user();
    let name = AccountName::parse(&user.name)?;
    // Without them the capability is not announced, and no request can use it.
    let none = || Failure::from(MethodError::from(MethodErrorType::UnknownMethod));
    let outbox = user.shared.outbox.as_ref().ok_or_else(none)?;
    Ok((outbox.vacation().vacations(), name))
}

fn state_of(vacation: &Vacation) -> State {
    state_at(vacation.number)
}

/// The state after so many changes.
pub(crate) fn state_at(number: u64) -> State {
    State::new(format!("v{number:x}"))
}

/// The object as clients see it.
fn object(vacation: &Vacation) -> VacationResponse {
    let settings = &vacation.settings;
    VacationResponse {
        id: Id::new(VacationResponse::ID),
        is_enabled: Some(settings.is_enabled),
        from_date: Some(settings.from.map(UtcDate::new)),
        to_date: Some(settings.to.map(UtcDate::new)),
        subject: Some(settings.subject.clone()),
        text_body: Some(settings.text.clone()),
        html_body: Some(settings.html.clone()),
    }
}

fn is_singleton(given: &GivenId) -> bool {
    given.id().is_some_and(|id| id.as_str() == VacationResponse::ID)
}
