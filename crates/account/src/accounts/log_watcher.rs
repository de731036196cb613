//! What is kept of an account that is not held: enough to hear of changes, and to open it again.

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

/// An account that can be opened again.
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

    /// Ends when there is an entry in the log, as far as this process knows, that was not there
    /// when this watcher was made.
    pub async fn changed(&self) {
        let mut positions = self.head.known_end.subscribe();
        // The sender is in the head, which is held here.
        let _ = positions.wait_for(|position| *position > self.heard).await;
    }

    /// Whether there is such an entry.
    pub fn has_changed(&self) -> bool {
        *self.head.known_end.borrow() > self.heard
    }

    /// The last position that this process knows of counts as heard.
    pub fn mark_seen(&mut self) {
        self.heard = self.heard.max(*self.head.known_end.borrow());
    }
}

impl Ticket {
    pub(crate) fn new(id: AccountId, root: RootKey, watcher: LogWatcher) -> Self {
        Ticket { id, root, watcher }
    }

    /// Whose account it is.
    pub fn id(&self) -> AccountId {
        self.id
    }

    /// What opens it.
    pub(crate) fn root(&self) -> &RootKey {
        &self.root
    }

    /// Notices entries appended after the state that the ticket was made from.
    pub fn log_watcher(&self) -> &LogWatcher {
        &self.watcher
    }

    /// As [`Ticket::log_watcher`].
    pub fn log_watcher_mut(&mut self) -> &mut LogWatcher {
        &mut self.watcher
    }
}
