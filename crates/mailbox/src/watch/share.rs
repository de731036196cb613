//! A shared mailbox that an observer watches. Its messages are in a log of its own, which is opened only when
//! it has grown (`docs/decisions/0010-sharing.md`).

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

/// The difference of a shared mailbox from an observer's known state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareChange {
    /// The position of the previous read.
    pub since: Position,
    /// The position of this read.
    pub position: Position,
    /// The observer's rights at the previous read.
    pub rights_before: Rights,
    /// The observer's rights now.
    pub rights: Rights,
    /// The difference of its messages.
    pub messages: MessagesChange,
    /// Names of changed metadata entries, among those visible to all users of the mailbox; `None` if the log
    /// no longer has changes that old.
    pub metadata: Option<Vec<String>>,
}

impl WatchedShare {
    /// Opens the share to which a user has a link, under the user's name for it.
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

    /// Renames it for this user.
    #[must_use]
    pub fn named(mut self, name: String) -> Self {
        self.known.name = name;
        self
    }

    /// The account whose log has it.
    pub fn id(&self) -> AccountId {
        self.ticket.id()
    }

    /// The known state of the mailbox.
    pub fn known(&self) -> &MailboxDigest {
        &self.known
    }

    /// The observer's rights at the last read.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Notifies of entries after the last read.
    pub fn watcher(&self) -> &LogWatcher {
        self.ticket.log_watcher()
    }

    /// Updates the known state if the log has grown; returns the difference. A share with a new key that is
    /// not sealed to this user keeps its known state, without rights.
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
    /// The difference when the user has lost all rights and nothing else is known.
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
