//! Changes one mailbox; one entry of the log has all changes.

use sealpost_account::{AccountState, Event, ops};
use sealpost_base::{Error, MailboxId};
use sealpost_directory::Usage;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::mailbox::{Mailbox, SortOrder};
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::standard::ObjectMap;
use sealpost_jmap::{Id, SetError};
use sealpost_mailbox::shared_accounts::Reach;

use super::create::{check_sort_order, full_name, uses_of};
use super::error::{Refused, exists, forbidden, wrong};
use crate::entries::Entries;
use crate::mailbox::list::list;
use crate::mailbox::target::{id_of_name, with_id};
use crate::scope::{Logs, Scope};

/// The changes of a mailbox.
struct Change {
    mailbox: MailboxId,
    name: String,
    /// Its new name, if it changes.
    to: Option<String>,
    uses: Option<sealpost_account::SpecialUses>,
    sort_order: Option<u32>,
    is_subscribed: bool,
}

pub(super) async fn update(
    scope: &Scope<'_>,
    entries: &mut Entries,
    id: &Id,
    patch: ObjectMap,
) -> Result<(), Refused> {
    let changed = Mailbox::for_update(PatchObject::new(patch)?)?;
    let change = scope.look(|logs| decide(scope, logs, id, &changed)).await??;
    let headroom = scope.headroom().await?;
    let committed = scope.account().commit(|state| {
        let events = events(state, &change)?;
        let more = Usage { mailboxes: ops::mailboxes_made(&events) as u64, ..Usage::default() };
        Ok(match headroom.check(state, more) {
            Ok(()) => (events, true),
            Err(_) => (Vec::new(), false),
        })
    });
    let committed = committed.await?;
    entries.committed(scope.account().id(), &committed);
    if !committed.value {
        return Err(SetErrorType::OverQuota.into());
    }
    if change.to.is_some() {
        // Opening the links makes shared mailboxes record their new names.
        scope.resolver().links().await?;
    }
    Ok(())
}

fn decide(scope: &Scope<'_>, logs: &Logs<'_>, id: &Id, changed: &Mailbox) -> Result<Change, SetError> {
    let none = || SetError::from(SetErrorType::NotFound);
    let target = with_id(logs, id).ok_or_else(none)?;
    let current = list(logs, |other| other.as_str() == id.as_str()).pop().ok_or_else(none)?;
    let conflicts = changed.conflicts(&current);
    if !conflicts.is_empty() {
        return Err(SetError::invalid_properties(conflicts, "set by the server alone"));
    }
    let mailbox =
        target.own.ok_or_else(|| forbidden("it has no messages, and only its children can change"))?;
    let parent = match &changed.parent_id {
        Some(parent) => parent.as_ref(),
        None => current.parent_id.as_ref().and_then(Option::as_ref),
    };
    let is_moved = changed.parent_id.is_some()
        || changed.name.as_ref().is_some_and(|name| Some(name) != current.name.as_ref());
    let to = match is_moved && !target.is_inbox {
        false => None,
        true => {
            let leaf =
                changed.name.as_ref().or(current.name.as_ref()).map(String::as_str).unwrap_or_default();
            let to = full_name(logs, scope, parent, leaf)?;
            // RFC 8621 §2: parents form no loop.
            if to.strip_prefix(&target.name).is_some_and(|rest| rest.starts_with('/')) {
                return Err(wrong("parentId", "a mailbox is not below itself"));
            }
            Some(to).filter(|to| *to != target.name)
        }
    };
    if target.is_inbox
        && (is_moved && changed.parent_id != Some(None)
            || changed.name.is_some() && changed.name != current.name)
    {
        return Err(forbidden("the inbox stays where it is"));
    }
    let taken = to.as_ref().and_then(|to| id_of_name(logs, to)).filter(|taken| taken.as_str() != id.as_str());
    if let Some(taken) = taken {
        return Err(exists(taken));
    }
    let uses = match changed.role {
        Some(role) if Some(role) != current.role => Some(uses_of(logs, role, Some(mailbox))?),
        _ => None,
    };
    if uses.is_some() && target.is_inbox {
        return Err(forbidden("the inbox stays the inbox"));
    }
    if logs.reach() != Reach::Own && (to.is_some() || uses.is_some()) {
        return Err(forbidden("only its owner gives it a name or a role"));
    }
    let sort_order = changed.sort_order.map(SortOrder::value);
    if let Some(order) = sort_order {
        check_sort_order(logs.own().1, mailbox, order)?;
    }
    let is_subscribed = changed.is_subscribed.or(current.is_subscribed).unwrap_or(true);
    Ok(Change { mailbox, name: target.name, to, uses, sort_order, is_subscribed })
}

/// The events of a change, decided at the end of the log.
fn events(state: &AccountState, change: &Change) -> Result<Vec<Event>, Error> {
    let mailbox = state.any_mailbox(change.mailbox).filter(|mailbox| mailbox.name() == change.name);
    let mailbox = mailbox.ok_or_else(|| Error::conflict("the mailbox has another name by now"))?;
    let mut events = Vec::new();
    if let Some(to) = &change.to {
        events = ops::rename_mailbox(state, &change.name, to)?;
        // Subscriptions are by name in the log; JMAP clients subscribe to mailboxes.
        for inferior in state.inferiors(&change.name).filter(|inferior| state.is_subscribed(inferior.name()))
        {
            let renamed = format!("{to}{}", &inferior.name()[change.name.len()..]);
            events.extend(ops::subscribe(state, inferior.name(), false)?);
            events.extend(ops::subscribe(state, &renamed, true)?);
        }
        events.extend(ops::subscribe(state, &change.name, false)?);
    }
    if let Some(uses) = change.uses {
        events.extend(ops::set_special_uses(mailbox, uses)?);
    }
    if let Some(order) = change.sort_order {
        events.extend(ops::set_sort_order(state, mailbox.id(), order)?);
    }
    let name = change.to.as_ref().unwrap_or(&change.name);
    events.extend(ops::subscribe(state, name, change.is_subscribed)?);
    Ok(events)
}
