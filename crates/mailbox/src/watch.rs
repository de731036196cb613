//! An observer's knowledge of mailboxes, and its difference from their present state: created, renamed and
//! deleted mailboxes, and those with new, changed or expunged messages.
//!
//! Nothing is queued for a slow observer. When it asks, its known state is compared with the present one, so
//! repeated changes in between become one.

mod digest;
mod share;

use std::collections::BTreeMap;

use sealpost_account::AccountState;
use sealpost_base::{MailboxId, Position};

pub use digest::{MailboxDigest, MessagesChange};
pub use share::{ShareChange, WatchedShare};

/// A difference between an account's mailboxes and an observer's known state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeChange {
    /// A mailbox is new, or newly observed.
    Created(MailboxDigest),
    /// A mailbox was renamed.
    Renamed {
        /// The known state.
        was: MailboxDigest,
        /// The present state.
        now: MailboxDigest,
    },
    /// Messages of a mailbox changed.
    Messages {
        /// The mailbox.
        mailbox: MailboxId,
        /// The known state.
        was: MailboxDigest,
        /// The present state.
        now: MailboxDigest,
        /// The difference of its messages.
        change: MessagesChange,
    },
    /// A mailbox was deleted.
    Destroyed(MailboxDigest),
    /// A name was subscribed or unsubscribed.
    Subscription(String),
}

/// The mailboxes of one account as an observer knows them.
#[derive(Debug, Default)]
pub struct KnownMailboxes {
    position: Position,
    mailboxes: BTreeMap<MailboxId, MailboxDigest>,
    /// Subscribed names, sorted. Their mailboxes need not exist (RFC 3501 §6.3.6).
    subscribed: Vec<String>,
}

/// Selects the observed mailboxes.
pub trait Observed {
    /// Whether the mailbox with that name is observed.
    fn mailbox(&self, name: &str, subscribed: bool) -> bool;

    /// Whether a subscription to that name is observed.
    fn subscription(&self, name: &str) -> bool;

    /// The most mailboxes, and likewise subscriptions, to keep.
    fn most(&self) -> usize;
}

/// More is observed than may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl KnownMailboxes {
    /// The observed mailboxes in their present state.
    ///
    /// # Errors
    /// `TooMany`
    pub fn new(state: &AccountState, observed: &impl Observed) -> Result<Self, TooMany> {
        let mut known = KnownMailboxes { position: state.position(), ..KnownMailboxes::default() };
        for mailbox in state.mailboxes() {
            let now = MailboxDigest::new(state, mailbox);
            known.remember(mailbox.id(), now, observed)?;
        }
        known.subscribed = subscribed(state, observed)?;
        Ok(known)
    }

    /// The position of the last read.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The known mailboxes.
    pub fn mailboxes(&self) -> impl Iterator<Item = (MailboxId, &MailboxDigest)> {
        self.mailboxes.iter().map(|(id, digest)| (*id, digest))
    }

    /// Memory of the known state, in bytes.
    pub fn bytes(&self) -> usize {
        let name = |name: &String| 2 * size_of::<String>() + name.len();
        let mailboxes = self.mailboxes.values().map(|known| size_of::<MailboxDigest>() + name(&known.name));
        mailboxes.sum::<usize>() + self.subscribed.iter().map(name).sum::<usize>()
    }

    /// Updates the known state; returns the differences.
    ///
    /// # Errors
    /// `TooMany`: the known state is incomplete then.
    pub fn update(
        &mut self,
        state: &AccountState,
        observed: &impl Observed,
    ) -> Result<Vec<TreeChange>, TooMany> {
        let mut changes = Vec::new();
        if state.position() == self.position {
            return Ok(changes);
        }
        self.position = state.position();
        let mut before = std::mem::take(&mut self.mailboxes);
        for mailbox in state.mailboxes() {
            let (id, now) = (mailbox.id(), MailboxDigest::new(state, mailbox));
            match before.remove(&id) {
                None if observed.mailbox(&now.name, now.subscribed) => {
                    changes.push(TreeChange::Created(now.clone()));
                }
                None => {}
                Some(was) if was.name != now.name => {
                    changes.push(TreeChange::Renamed { was, now: now.clone() });
                }
                Some(was) => {
                    let change = was.compare(&now);
                    if change != MessagesChange::default() {
                        changes.push(TreeChange::Messages { mailbox: id, was, now: now.clone(), change });
                    }
                }
            }
            self.remember(id, now, observed)?;
        }
        changes.extend(before.into_values().map(TreeChange::Destroyed));
        let subscribed = subscribed(state, observed)?;
        let gone = difference(&self.subscribed, &subscribed);
        let new = difference(&subscribed, &self.subscribed);
        changes.extend(gone.chain(new).map(|name| TreeChange::Subscription(name.to_owned())));
        self.subscribed = subscribed;
        Ok(changes)
    }

    fn remember(
        &mut self,
        id: MailboxId,
        digest: MailboxDigest,
        observed: &impl Observed,
    ) -> Result<(), TooMany> {
        if !observed.mailbox(&digest.name, digest.subscribed) {
            return Ok(());
        }
        self.mailboxes.insert(id, digest);
        if self.mailboxes.len() > observed.most() { Err(TooMany) } else { Ok(()) }
    }
}

/// The observed subscriptions, sorted.
fn subscribed(state: &AccountState, observed: &impl Observed) -> Result<Vec<String>, TooMany> {
    let names = state.subscriptions().filter(|name| observed.subscription(name));
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.len() > observed.most() { Err(TooMany) } else { Ok(names) }
}

/// The names in `these` and not in `those`; both are sorted.
fn difference<'a>(these: &'a [String], those: &'a [String]) -> impl Iterator<Item = &'a str> {
    these.iter().filter(|name| those.binary_search(name).is_err()).map(String::as_str)
}
