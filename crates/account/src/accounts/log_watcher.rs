//! Tickets and watchers: what remains of a released account, to notice changes and to open it again.

use std::sync::Arc;

use sealpost_base::{AccountId, Position};
use sealpost_vault::RootKey;

use crate::log_end::LogEnd;

/// Watches for new entries in an account's log, whether or not the account is loaded.
#[derive(Clone)]
pub struct LogWatcher {
    head: Arc<LogEnd>,
    heard: Position,
}

/// Opens an account again.
#[derive(Clone)]
pub struct Ticket {
    id: AccountId,
    root: RootKey,
    watcher: LogWatcher,
}

impl LogWatcher {
    pub(crate) fn new(head: Arc<LogEnd>, heard: Position) -> Self {
        LogWatcher { head, heard }
    }

    /// Completes when the log, as this process knows it, has an entry after those at the creation of this
    /// watcher.
    pub async fn changed(&self) {
        let mut positions = self.head.known_end.subscribe();
        // `self` has the sender, so this cannot fail.
        let _ = positions.wait_for(|position| *position > self.heard).await;
    }

    /// Whether there is such an entry.
    pub fn has_changed(&self) -> bool {
        *self.head.known_end.borrow() > self.heard
    }

    /// Marks all entries that this process knows as seen.
    pub fn mark_seen(&mut self) {
        self.heard = self.heard.max(*self.head.known_end.borrow());
    }
}

impl Ticket {
    pub(crate) fn new(id: AccountId, root: RootKey, watcher: LogWatcher) -> Self {
        Ticket { id, root, watcher }
    }

    /// The id of the account.
    pub fn id(&self) -> AccountId {
        self.id
    }

    /// Its root key.
    pub(crate) fn root(&self) -> &RootKey {
        &self.root
    }

    /// Notifies of entries after the state from which the ticket was made.
    pub fn log_watcher(&self) -> &LogWatcher {
        &self.watcher
    }

    /// As [`Ticket::log_watcher`].
    pub fn log_watcher_mut(&mut self) -> &mut LogWatcher {
        &mut self.watcher
    }
}
