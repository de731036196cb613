//! The mailboxes of an account in the form of JMAP.

use std::collections::BTreeMap;

use sealpost_account::object_id::{mailbox_id, nonexistent_parent_id};
use sealpost_account::rights::Rights;
use sealpost_account::state::{MailboxCounts, Parent};
use sealpost_account::{AccountState, Mailbox as StoredMailbox, SpecialUse};
use sealpost_base::{AccountId, MailboxId as OwnId};
use sealpost_jmap::GivenId;
use sealpost_jmap::id::MailboxId;
use sealpost_jmap::mailbox::{Mailbox, Role, SortOrder};

use super::rights::{of_nonexistent_parent, to_jmap};
use crate::scope::Logs;

/// The name that JMAP reports for the inbox.
const INBOX_NAME: &str = "Inbox";
/// Estimated memory for one listed mailbox, in bytes.
pub(super) const LISTED_BYTES: usize = 512;

/// The id for a text that `object_id.rs` made.
pub(super) fn id(text: String) -> MailboxId {
    MailboxId::new(text).expect("object ids are safe characters")
}

/// A mailbox in the account's own log, with the location of its messages.
pub(super) struct Placed<'s> {
    own: &'s StoredMailbox,
    log: AccountId,
    state: &'s AccountState,
    /// The mailbox in the log of its messages: for a shared one, the inbox.
    mailbox: &'s StoredMailbox,
}

impl Placed<'_> {
    /// Its id.
    pub(super) fn id(&self) -> MailboxId {
        id(mailbox_id(self.log, self.mailbox))
    }

    /// The log that has the messages, and the mailbox there.
    pub(super) fn place(&self) -> (AccountId, OwnId) {
        (self.log, self.mailbox.id())
    }

    /// Whether it is the mailbox in that log with this UIDVALIDITY.
    pub(super) fn is(&self, log: AccountId, validity: u32) -> bool {
        self.log == log && self.mailbox.uid_validity().0.get() == validity
    }
}

/// Locates the messages of a mailbox of the own log. `None` if it belongs to another user, or has just become
/// shared.
pub(super) fn place<'s>(logs: &'s Logs<'s>, own: &'s StoredMailbox) -> Option<Placed<'s>> {
    let (log, state, mailbox) = match own.link() {
        None => {
            let (log, state) = logs.first()?;
            (*log, *state, own)
        }
        Some(link) if link.owner.is_some() => return None,
        Some(link) => {
            let (log, state) = logs.iter().find(|(log, _)| *log == link.share)?;
            (*log, *state, state.inbox())
        }
    };
    Some(Placed { own, log, state, mailbox })
}

/// Locates the messages of the mailbox with that id in the own log.
pub(super) fn place_of<'s>(logs: &'s Logs<'s>, own: OwnId) -> Option<Placed<'s>> {
    place(logs, logs.first()?.1.any_mailbox(own)?)
}

/// All mailboxes that `wanted` accepts, by name, then the nonexistent parents.
pub(super) fn list(logs: &Logs<'_>, wanted: impl Fn(&MailboxId) -> bool) -> Vec<Mailbox> {
    let Some((own_log, own)) = logs.first() else { return Vec::new() };
    let mut found = Vec::new();
    let mut above = BTreeMap::new();
    for placed in own.mailboxes().filter_map(|mailbox| place(logs, mailbox)) {
        note_parents(own, placed.own.name(), &mut above);
        let id = placed.id();
        if wanted(&id) {
            found.push(show(logs, &placed, id));
        }
    }
    for name in above.into_keys() {
        let id = id(nonexistent_parent_id(*own_log, name));
        if wanted(&id) {
            found.push(show_nonexistent(logs, name, id));
        }
    }
    found
}

/// The most mailboxes that [`list`] can find.
pub(super) fn count(logs: &Logs<'_>) -> usize {
    let Some((_, own)) = logs.first() else { return 0 };
    let mut above = BTreeMap::new();
    let placed = own.mailboxes().filter(|mailbox| place(logs, mailbox).is_some());
    placed.inspect(|mailbox| note_parents(own, mailbox.name(), &mut above)).count() + above.len()
}

/// Notes the nonexistent parents above a name.
fn note_parents<'s>(own: &AccountState, name: &'s str, above: &mut BTreeMap<&'s str, ()>) {
    let mut name = name;
    while let Some((parent, _)) = name.rsplit_once('/') {
        if own.mailbox_named(parent).is_none() && above.insert(parent, ()).is_some() {
            return;
        }
        name = parent;
    }
}

/// The last component of a name.
fn leaf(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, leaf)| leaf)
}

fn parent_id(logs: &Logs<'_>, name: &str) -> Option<GivenId> {
    let (own_log, own) = logs.first()?;
    let parent = match own.parent(name) {
        Parent::None => return None,
        Parent::Mailbox(parent) => place_of(logs, parent)?.id(),
        Parent::Nonexistent(parent) => id(nonexistent_parent_id(*own_log, parent)),
    };
    Some(parent.into())
}

fn show(logs: &Logs<'_>, placed: &Placed<'_>, id: MailboxId) -> Mailbox {
    let Placed { own, log, state, mailbox } = placed;
    let (own_log, own_state) = logs[0];
    let is_inbox = own.id() == own_state.inbox().id();
    let rights = if *log == own_log { Rights::ALL } else { state.rights_of(own_log) };
    let counts = state.maps().and_then(|maps| maps.counts(mailbox.id())).unwrap_or_default();
    Mailbox {
        id: Some(id),
        name: Some(if is_inbox { INBOX_NAME.to_owned() } else { leaf(own.name()).to_owned() }),
        parent_id: Some(parent_id(logs, own.name())),
        role: Some(if is_inbox { Some(Role::Inbox) } else { role_of(own_state, own) }),
        my_rights: Some(to_jmap(rights, is_inbox)),
        is_subscribed: Some(own_state.is_subscribed(own.name())),
        sort_order: Some(SortOrder::new(own_state.sort_order(own.id())).unwrap_or_default()),
        ..counted(counts)
    }
}

/// A nonexistent parent: it has no messages, and only its children can change.
fn show_nonexistent(logs: &Logs<'_>, name: &str, id: MailboxId) -> Mailbox {
    Mailbox {
        id: Some(id),
        name: Some(leaf(name).to_owned()),
        parent_id: Some(parent_id(logs, name)),
        role: Some(None),
        my_rights: Some(of_nonexistent_parent()),
        is_subscribed: Some(logs[0].1.is_subscribed(name)),
        sort_order: Some(SortOrder::default()),
        ..counted(MailboxCounts::default())
    }
}

fn counted(counts: MailboxCounts) -> Mailbox {
    Mailbox {
        total_emails: Some(counts.total_emails.into()),
        unread_emails: Some(counts.unread_emails.into()),
        total_threads: Some(counts.total_threads.into()),
        unread_threads: Some(counts.unread_threads.into()),
        ..Mailbox::default()
    }
}

/// The first special use that belongs to this mailbox. A role has one mailbox, and a mailbox has one role
/// (RFC 8621 §2).
fn role_of(state: &AccountState, mailbox: &StoredMailbox) -> Option<Role> {
    let mut uses = mailbox.special_uses().iter();
    let one = uses.find(|one| state.mailbox_for(*one).is_some_and(|first| first.id() == mailbox.id()))?;
    Some(match one {
        SpecialUse::All => Role::All,
        SpecialUse::Archive => Role::Archive,
        SpecialUse::Drafts => Role::Drafts,
        SpecialUse::Flagged => Role::Flagged,
        SpecialUse::Important => Role::Important,
        SpecialUse::Junk => Role::Junk,
        SpecialUse::Sent => Role::Sent,
        SpecialUse::Trash => Role::Trash,
    })
}
