//! Plans the change of a message over all logs of the account, before any change is made.

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::rights::Rights;
use sealpost_account::{AccountState, Flags, Message, SystemFlags};
use sealpost_base::{AccountId, MailboxId, ObjectId, limits};
use sealpost_directory::Usage;

use super::{EmailChange, EmailRefusal, FlagEdit, Place, READS, by_log};
use crate::access::Access;
use crate::emails::{Email, EmailFlags, placements};

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
    /// The rights that it needs in each log.
    needs: BTreeMap<AccountId, Rights>,
}

/// Plans one change; `access` says how the user reaches each of the logs.
pub(super) fn plan(
    logs: &[(AccountId, &AccountState)],
    access: impl Fn(AccountId) -> Access,
    object: ObjectId,
    change: &EmailChange,
) -> Result<Plan, EmailRefusal> {
    let rights_in = |log: AccountId, state: &AccountState| access(log).rights(state);
    // A mailbox that may be added to and not be read shows nothing of what is there.
    let readable = logs.iter().filter(|(log, state)| rights_in(*log, state).contains(READS));
    let readable: Vec<(AccountId, &AccountState)> = readable.copied().collect();
    let email = Email::find(&readable, object).ok_or(EmailRefusal::NotFound)?;
    let message = email.message(&readable).ok_or(EmailRefusal::NotFound)?;
    let before: BTreeSet<Place> =
        placements(&readable, object).map(|placement| (placement.log, placement.mailbox)).collect();
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
    let mut needs = BTreeMap::new();
    for (log, state) in logs {
        let is_of = |place: &Place| place.0 == *log;
        let mut need = Rights::NONE;
        if before.iter().any(is_of) {
            // RFC 8621 §2 `maySetSeen`, `maySetKeywords`: in all of its mailboxes.
            need = need.with(READS).with(rights_to_set(&changed));
        }
        if after.difference(&before).any(is_of) {
            need = need.with(Rights::INSERT);
        }
        if before.difference(&after).any(is_of) {
            need = need.with(REMOVES);
        }
        if !rights_in(*log, state).contains(need) {
            return Err(EmailRefusal::Forbidden);
        }
        needs.insert(*log, need);
    }
    let flags = flags.map_or_else(|| by_name(&email.flags), |edit| edited(edit, &email.flags));
    let (before, after) = (by_log(&before), by_log(&after));
    Ok(Plan { source: email.stored.0, message, flags, before, after, needs })
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

    /// The rights that the change needs in that log.
    pub(super) fn needs(&self, log: AccountId) -> Rights {
        self.needs.get(&log).copied().unwrap_or(Rights::NONE)
    }

    /// What the logs lose that the message leaves.
    pub(super) fn freed_by_moving(&self) -> Usage {
        let left = self.before.iter().filter(|(log, _)| !self.after.contains_key(log));
        let placements = left.map(|(_, mailboxes)| mailboxes.len() as u64).sum();
        Usage::of_messages(placements, self.message.size().saturating_mul(placements))
    }
}

/// The rights that setting or removing these flags needs (RFC 4314 §4).
fn rights_to_set(flags: &Flags) -> Rights {
    let mut rights = Rights::NONE;
    if flags.system.contains(SystemFlags::SEEN) {
        rights = rights.with(Rights::SEEN);
    }
    if flags.system.without(SystemFlags::SEEN) != SystemFlags::NONE || !flags.keywords.is_empty() {
        rights = rights.with(Rights::WRITE);
    }
    rights
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
