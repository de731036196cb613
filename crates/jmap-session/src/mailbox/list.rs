//! The mailboxes of an account in the form of JMAP.

use std::collections::BTreeSet;

use sealpost_account::object_id::{mailbox_id, nonexistent_parent_id};
use sealpost_account::rights::Rights;
use sealpost_account::state::MailboxCounts;
use sealpost_account::{AccountState, Mailbox as StoredMailbox, SpecialUse};
use sealpost_base::{AccountId, MailboxId as OwnId};
use sealpost_jmap::GivenId;
use sealpost_jmap::id::MailboxId;
use sealpost_jmap::mailbox::{Mailbox, MailboxProperty, Role, SortOrder};
use sealpost_mailbox::shared_accounts::Reach;
use sealpost_vault::Hash;

use super::rights::{of_nonexistent_parent, to_jmap, to_other};
use crate::scope::Logs;

/// The name that JMAP reports for the inbox.
const INBOX_NAME: &str = "Inbox";
/// Estimated memory for one listed mailbox, in bytes.
pub(super) const LISTED_BYTES: usize = 512;

/// The id for a text that `object_id.rs` made.
pub(super) fn id(text: String) -> MailboxId {
    MailboxId::new(text).expect("object ids are safe characters")
}

/// A mailbox in the caller's own log, and where its messages are.
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

    /// The mailbox in the caller's own log.
    pub(super) fn own(&self) -> &StoredMailbox {
        self.own
    }

    /// The log with its messages, and the mailbox there.
    pub(super) fn place(&self) -> (AccountId, OwnId) {
        (self.log, self.mailbox.id())
    }

    /// Whether it is the mailbox in that log with this UIDVALIDITY.
    pub(super) fn is(&self, log: AccountId, validity: u32) -> bool {
        self.log == log && self.mailbox.uid_validity().0.get() == validity
    }
}

/// Where the messages of a mailbox of the caller's own log are. `None` if it is not one of this
/// account, or was shared just now.
pub(super) fn place<'s>(logs: &'s Logs<'s>, own: &'s StoredMailbox) -> Option<Placed<'s>> {
    let (log, state, mailbox) = match (own.link(), logs.reach()) {
        (None, Reach::Own) => {
            let (log, state) = logs.own();
            (log, state, own)
        }
        (Some(link), reach) if link.owner.is_some() == (reach != Reach::Own) => {
            let state = logs.listed(link.share)?;
            (link.share, state, state.inbox())
        }
        _ => return None,
    };
    Some(Placed { own, log, state, mailbox })
}

/// Locates the messages of the mailbox with that id in the own log.
pub(super) fn place_of<'s>(logs: &'s Logs<'s>, own: OwnId) -> Option<Placed<'s>> {
    place(logs, logs.own().1.any_mailbox(own)?)
}

/// The mailbox of this account with that name in the own log.
fn placed_as<'s>(logs: &'s Logs<'s>, name: &str) -> Option<Placed<'s>> {
    place(logs, logs.own().1.mailbox_named(name)?)
}

/// All mailboxes of the account, by name.
pub(super) fn placed<'s>(logs: &'s Logs<'s>) -> impl Iterator<Item = Placed<'s>> {
    logs.own().1.mailboxes().filter_map(|mailbox| place(logs, mailbox))
}

/// All mailboxes that `wanted` accepts, by name, then the nonexistent parents.
pub(super) fn list(logs: &Logs<'_>, wanted: impl Fn(&MailboxId) -> bool) -> Vec<Mailbox> {
    let mut found = Vec::new();
    for placed in placed(logs) {
        let id = placed.id();
        if wanted(&id) {
            found.push(show(logs, &placed, id));
        }
    }
    for name in nonexistent_parents(logs) {
        let id = parent_of_name(logs, name);
        if wanted(&id) {
            found.push(show_nonexistent(logs, name, id));
        }
    }
    found
}

/// The most mailboxes that [`list`] can find.
pub(super) fn count(logs: &Logs<'_>) -> usize {
    placed(logs).count() + nonexistent_parents(logs).len()
}

/// A print of the mailboxes as they are, but for what is in them.
pub(crate) fn tree_print(logs: &Logs<'_>) -> u32 {
    let mut mailboxes = list(logs, |_| true);
    let is_count = |property: &MailboxProperty| MailboxProperty::COUNTS.contains(property);
    let properties: Vec<_> =
        MailboxProperty::ALL.iter().copied().filter(|property| !is_count(property)).collect();
    mailboxes.iter_mut().for_each(|mailbox| mailbox.select(&properties));
    // Types that JSON can write.
    let hash = Hash::of(&serde_json::to_vec(&mailboxes).unwrap_or_default());
    let mut first = [0; 4];
    first.copy_from_slice(&hash.0[..4]);
    u32::from_be_bytes(first)
}

/// The names above mailboxes of this account that no mailbox of it has, by name.
pub(super) fn nonexistent_parents<'s>(logs: &'s Logs<'s>) -> BTreeSet<&'s str> {
    let mut found = BTreeSet::new();
    for placed in placed(logs) {
        let mut name = placed.own.name();
        while let Some(parent) = above(logs, name) {
            if placed_as(logs, parent).is_none() && !found.insert(parent) {
                break;
            }
            name = parent;
        }
    }
    found
}

/// The name right above a name, in this account: the mailboxes of another owner begin below
/// `Other Users/{owner}`.
fn above<'s>(logs: &Logs<'_>, name: &'s str) -> Option<&'s str> {
    let (parent, _) = name.rsplit_once('/')?;
    let is_top = logs.reach() != Reach::Own && parent.matches('/').count() < 2;
    (!is_top).then_some(parent)
}

/// The id of a name that no mailbox has.
pub(super) fn parent_of_name(logs: &Logs<'_>, name: &str) -> MailboxId {
    id(nonexistent_parent_id(logs.own().0, name))
}

/// The last component of a name.
fn leaf(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, leaf)| leaf)
}

fn parent_id(logs: &Logs<'_>, name: &str) -> Option<GivenId> {
    let parent = above(logs, name)?;
    let placed = placed_as(logs, parent).map(|placed| placed.id());
    Some(placed.unwrap_or_else(|| parent_of_name(logs, parent)).into())
}

fn show(logs: &Logs<'_>, placed: &Placed<'_>, id: MailboxId) -> Mailbox {
    let Placed { own, log, state, mailbox } = placed;
    let (own_log, own_state) = logs.own();
    let is_inbox = own.id() == own_state.inbox().id();
    let rights = if *log == own_log { Rights::ALL } else { state.rights_of(own_log) };
    let counts = state.maps().filter(|_| logs.is_readable(*log));
    let counts = counts.and_then(|maps| maps.counts(mailbox.id())).unwrap_or_default();
    Mailbox {
        id: Some(id),
        name: Some(if is_inbox { INBOX_NAME.to_owned() } else { leaf(own.name()).to_owned() }),
        parent_id: Some(parent_id(logs, own.name())),
        role: Some(if is_inbox { Some(Role::Inbox) } else { role_of(own_state, own) }),
        my_rights: Some(match logs.reach() {
            Reach::Own => to_jmap(rights, is_inbox),
            Reach::SharedBy(_) => to_other(rights),
        }),
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
        my_rights: Some(match logs.reach() {
            Reach::Own => of_nonexistent_parent(),
            Reach::SharedBy(_) => to_other(Rights::LOOKUP),
        }),
        is_subscribed: Some(logs.own().1.is_subscribed(name)),
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
