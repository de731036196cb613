//! Destroys one mailbox. Emails that are also in other mailboxes stay there.

use std::cmp::Reverse;

use sealpost_account::{AccountState, Event, ops};
use sealpost_base::{Error, Result};
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::{GivenId, Id, SetError};

use super::error::{Refused, forbidden};
use crate::entries::Entries;
use crate::mailbox::target::{Target, with_id};
use crate::scope::Scope;

/// Orders deeper mailboxes first: a call can destroy a mailbox together with all of its children.
pub(super) async fn children_first(scope: &Scope<'_>, destroy: Vec<GivenId>) -> Result<Vec<GivenId>> {
    scope
        .look(|logs| {
            let depth = |given: &GivenId| {
                let target = given.resolve(&scope.created).and_then(|id| with_id(logs, id));
                Reverse(target.map_or(0, |target| target.name.matches('/').count()))
            };
            let mut sorted = destroy.clone();
            sorted.sort_by_cached_key(depth);
            sorted
        })
        .await
}

pub(super) async fn destroy(
    scope: &Scope<'_>,
    entries: &mut Entries,
    given: &GivenId,
    with_emails: bool,
) -> Result<Id, Refused> {
    let none = || SetError::from(SetErrorType::NotFound);
    let id = given.resolve(&scope.created).cloned().ok_or_else(none)?;
    let target = scope.look(|logs| with_id(logs, &id)).await?;
    let target = target.ok_or_else(none)?;
    if target.is_inbox {
        return Err(forbidden("the inbox cannot be destroyed").into());
    }
    if target.own.is_none() {
        return Err(SetErrorType::MailboxHasChild.into());
    }
    if target.is_shared {
        destroy_shared(scope, entries, &target, with_emails).await?;
    }
    let committed = scope.account().commit(|state| {
        Ok(match refuses(state, &target, with_emails) {
            Some(refused) => (Vec::new(), Err(refused)),
            None => (events(state, &target)?, Ok(())),
        })
    });
    let committed = committed.await?;
    entries.committed(scope.account().id(), &committed);
    committed.value?;
    Ok(id)
}

/// Removes the mailbox's own log first, then its name if that still exists.
async fn destroy_shared(
    scope: &Scope<'_>,
    entries: &mut Entries,
    target: &Target,
    with_emails: bool,
) -> Result<(), Refused> {
    let place = scope.resolver().resolve(&target.name).await?;
    if scope.account().state().has_inferiors(&target.name) {
        return Err(SetErrorType::MailboxHasChild.into());
    }
    let has_emails = {
        let state = place.account.state();
        state.inbox().len() > state.inbox().deleted()
    };
    if has_emails && !with_emails {
        return Err(SetErrorType::MailboxHasEmail.into());
    }
    entries.lose_track();
    Ok(scope.resolver().delete_share(&place).await?)
}

/// The reason to refuse, decided at the end of the log.
fn refuses(state: &AccountState, target: &Target, with_emails: bool) -> Option<SetError> {
    if state.has_inferiors(&target.name) {
        return Some(SetErrorType::MailboxHasChild.into());
    }
    let mailbox = target.own.and_then(|own| state.mailbox(own))?;
    // Messages flagged as deleted are not visible.
    let has_emails = mailbox.len() > mailbox.deleted();
    (has_emails && !with_emails).then(|| SetErrorType::MailboxHasEmail.into())
}

fn events(state: &AccountState, target: &Target) -> Result<Vec<Event>, Error> {
    let mut events = ops::subscribe(state, &target.name, false)?;
    if let Some(mailbox) = target.own.and_then(|own| state.any_mailbox(own)) {
        events.push(Event::MailboxDeleted { mailbox: mailbox.id() });
    }
    Ok(events)
}
