//! A shared mailbox that is observed: its messages are in a log of its own, which is opened when it
//! has grown and not held (`docs/decisions/0010-sharing.md`).

use sealpost_account::metadata::Holder;
use sealpost_account::rights::Rights;
use sealpost_account::share::Link;
use sealpost_account::{AccountState, LogWatcher, Ticket};
use sealpost_base::{AccountId, Kind, MailboxId, Position, Result};

use super::digest::{MailboxDigest, MessagesChange};
use crate::access::Access;
use crate::resolve::{User, follow};

/// A shared mailbox as an observer knows it.
pub struct WatchedShare {
    ticket: Ticket,
    access: Access,
    known: MailboxDigest,
    position: Position,
    rights: Rights,
}

/// How a shared mailbox differs from an observer's known state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareChange {
    /// The state that was read before.
    pub since: Position,
    /// The state that was read now.
    pub position: Position,
    /// The rights that the observer had.
    pub rights_before: Rights,
    /// The rights that it has.
    pub rights: Rights,
    /// How its messages differ.
    pub messages: MessagesChange,
    /// Names of metadata entries that changed, among those that all users of the mailbox see;
    /// `None` if the log does not keep changes that far back.
    pub metadata: Option<Vec<String>>,
}

impl WatchedShare {
    /// Opens the share that a user has a link to, under the user's name for it.
    ///
    /// # Errors
    /// Store errors.
    pub async fn open(user: User<'_>, mailbox: MailboxId, name: String, link: &Link) -> Result<Self> {
        let (account, access, rights) = follow(user.accounts, user.account, mailbox, link).await?;
        let subscribed = user.account.state().is_subscribed(&name);
        let (known, position) = {
            let state = account.state();
            (MailboxDigest::of_share(&state, name, subscribed), state.position())
        };
        Ok(WatchedShare { ticket: account.ticket(), access, known, position, rights })
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: String) -> Self {
        self.known.name = name;
        self
    }

    /// The log that it is in.
    pub fn id(&self) -> AccountId {
        self.ticket.id()
    }

    /// The mailbox as it is known.
    pub fn known(&self) -> &MailboxDigest {
        &self.known
    }

    /// The rights that the observer had when it looked last.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Notifies of entries after the state that was read last.
    pub fn watcher(&self) -> &LogWatcher {
        self.ticket.log_watcher()
    }

    /// Brings the known state up to date, if the log has grown; how it differed. A share that has a
    /// new key, and not for this user, is known by what it was, without rights.
    ///
    /// # Errors
    /// Store errors. It is read again when the log has grown further.
    pub async fn update(&mut self, user: User<'_>) -> Result<Option<ShareChange>> {
        if !self.watcher().has_changed() {
            return Ok(None);
        }
        let account = match user.accounts.reopen_by(user.account, &self.ticket).await {
            Ok(account) => account,
            Err(error) if error.kind() == Kind::NotFound => {
                self.ticket.log_watcher_mut().mark_seen();
                return Ok(self.without_rights());
            }
            Err(error) => {
                self.ticket.log_watcher_mut().mark_seen();
                return Err(error);
            }
        };
        self.ticket = account.ticket();
        let state = account.state();
        if state.position() == self.position {
            return Ok(None);
        }
        let now = MailboxDigest::of_share(&state, self.known.name.clone(), self.known.subscribed);
        let change = ShareChange {
            since: self.position,
            position: state.position(),
            rights_before: self.rights,
            rights: self.access.rights(&state),
            messages: self.known.compare(&now),
            metadata: metadata(&state, self.position),
        };
        (self.known, self.position, self.rights) = (now, change.position, change.rights);
        Ok(Some(change))
    }
}

impl WatchedShare {
    /// How it differs when it is known that there are no rights any more, and nothing else.
    fn without_rights(&mut self) -> Option<ShareChange> {
        let rights_before = std::mem::replace(&mut self.rights, Rights::NONE);
        (!rights_before.is_empty()).then(|| ShareChange {
            since: self.position,
            position: self.position,
            rights_before,
            rights: Rights::NONE,
            messages: MessagesChange::default(),
            metadata: Some(Vec::new()),
        })
    }
}

/// The metadata entries of the mailbox that changed after that position.
fn metadata(state: &AccountState, since: Position) -> Option<Vec<String>> {
    let mut entries: Vec<String> = Vec::new();
    for change in state.metadata_changes(since)? {
        if change.holder == Holder::Mailbox(state.inbox().id()) && !entries.contains(&change.entry) {
            entries.push(change.entry.clone());
        }
    }
    Some(entries)
}
