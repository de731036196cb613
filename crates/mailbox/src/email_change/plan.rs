//! Plans the change of a message over all logs of the account, before any change is made.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::rights::Rights;
use sealpost_account::{AccountState, Flags, Message};
use sealpost_base::{AccountId, MailboxId, ObjectId, limits};
use sealpost_directory::Usage;

use super::{EmailChange, EmailRefusal, FlagEdit, Place, access, by_log};
use crate::emails::{Email, EmailFlags, placements};
use crate::flags::permitted;

/// The rights that removing a message needs.
const REMOVES: Rights = Rights::DELETE_MESSAGES.with(Rights::EXPUNGE);

/// The effects of a change of a message.
pub(super) struct Plan {
    /// A log from which it can be read.
    pub(super) source: AccountId,
    /// The message there.
    pub(super) message: Message,
    /// Its flags after the change.
    pub(super) flags: Flags,
    /// Its mailboxes before the change, by log.
    before: BTreeMap<AccountId, Vec<MailboxId>>,
    /// Its mailboxes after the change, by log.
    after: BTreeMap<AccountId, Vec<MailboxId>>,
}

/// Plans one change.
pub(super) fn plan(
    logs: &[(AccountId, &AccountState)],
    user: AccountId,
    object: ObjectId,
    change: &EmailChange,
) -> Result<Plan, EmailRefusal> {
    let email = Email::find(logs, object).ok_or(EmailRefusal::NotFound)?;
    let message = email.message(logs).ok_or(EmailRefusal::NotFound)?;
    let before: BTreeSet<Place> =
        placements(logs, object).map(|placement| (placement.log, placement.mailbox)).collect();
    let (flags, after) = match change {
        EmailChange::Destroy => (None, BTreeSet::new()),
        EmailChange::Update { flags, mailboxes } => {
            let after = mailboxes.as_ref().map_or_else(|| before.clone(), |edit| edit.apply(&before));
            if after.is_empty() {
                return Err(EmailRefusal::Mailboxes);
            }
            if after.len() > limits::PLACEMENTS_COUNTED {
                return Err(EmailRefusal::TooManyMailboxes);
            }
            (flags.as_ref(), after)
        }
    };
    for (log, mailbox) in after.difference(&before) {
        let state = logs.iter().find(|(id, _)| id == log).map(|(_, state)| *state);
        if state.is_none_or(|state| state.mailbox(*mailbox).is_none()) {
            return Err(EmailRefusal::Mailboxes);
        }
    }
    let changed = flags.map_or_else(Flags::default, |edit| needed(edit, &email.flags));
    for (log, state) in logs {
        let is_of = |place: &Place| place.0 == *log;
        let rights = access(user, *log).rights(state);
        let adds = after.difference(&before).any(is_of);
        let removes = before.difference(&after).any(is_of);
        // RFC 8621 §2 `maySetSeen`, `maySetKeywords`: required in all of its mailboxes.
        let sets = before.iter().any(is_of) && permitted(&changed, rights) != changed;
        if sets || adds && !rights.contains(Rights::INSERT) || removes && !rights.contains(REMOVES) {
            return Err(EmailRefusal::Forbidden);
        }
    }
    let flags = flags.map_or_else(|| by_name(&email.flags), |edit| edited(edit, &email.flags));
    let (before, after) = (by_log(&before), by_log(&after));
    Ok(Plan { source: email.stored.0, message, flags, before, after })
}

impl Plan {
    /// The mailboxes of a log that the message is added to, if that log does not have it yet.
    pub(super) fn comes_into(&self, log: AccountId) -> Option<Vec<MailboxId>> {
        if self.before.contains_key(&log) { None } else { self.after.get(&log).cloned() }
    }

    /// Whether the message is in that log.
    pub(super) fn is_in(&self, log: AccountId) -> bool {
        self.before.contains_key(&log)
    }

    /// Whether the message is in another log after the change.
    pub(super) fn stays_elsewhere(&self, log: AccountId) -> bool {
        self.after.keys().any(|other| *other != log)
    }

    /// The usage freed in the logs that the message leaves.
    pub(super) fn freed_by_moving(&self) -> Usage {
        let left = self.before.iter().filter(|(log, _)| !self.after.contains_key(log));
        let placements = left.map(|(_, mailboxes)| mailboxes.len() as u64).sum();
        Usage::of_messages(placements, self.message.size().saturating_mul(placements))
    }
}

/// The flags that a change sets or removes.
fn needed(edit: &FlagEdit, flags: &EmailFlags) -> Flags {
    match edit {
        FlagEdit::Change { add, remove } => with(add, remove),
        FlagEdit::Replace(wanted) => {
            let mut removed = by_name(flags);
            removed.system = removed.system.without(wanted.system);
            with(wanted, &removed)
        }
    }
}

fn with(flags: &Flags, more: &Flags) -> Flags {
    let keywords = flags.keywords.iter().chain(&more.keywords).cloned().collect();
    Flags { system: flags.system.with(more.system), keywords }
}

fn by_name(flags: &EmailFlags) -> Flags {
    Flags { system: flags.system, keywords: flags.keywords.clone() }
}

/// The flags of the message after the change.
fn edited(edit: &FlagEdit, flags: &EmailFlags) -> Flags {
    let (add, remove) = match edit {
        FlagEdit::Replace(flags) => return flags.clone(),
        FlagEdit::Change { add, remove } => (add, remove),
    };
    let has = |names: &[String], name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    let kept = flags.keywords.iter().filter(|name| !has(&remove.keywords, name) && !has(&add.keywords, name));
    let keywords = kept.chain(&add.keywords).cloned().collect();
    Flags { system: flags.system.without(remove.system).with(add.system), keywords }
}
