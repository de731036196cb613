//! What is kept of an account that is not held: enough to hear of changes, and to open it again.

use std::sync::Arc;

use sealpost_base::{AccountId, Position};
use sealpost_vault::RootKey;

use crate::log_end::LogEnd;

/// Hears of entries in an account's log, whether or not the account is loaded.
#[derive(Clone)]
pub struct Bell {
    head: Arc<LogEnd>,
    heard: Position,
}

/// An account that can be opened again.
#[derive(Clone)]
pub struct Ticket {
    id: AccountId,
    root: RootKey,
    bell: Bell,
}

impl Bell {
    pub(crate) fn new(head: Arc<LogEnd>, heard: Position) -> Self {
        Bell { head, heard }
    }

    /// Ends when there is an entry in the log, as far as this process knows, that was not there when this bell was made.
    pub async fn rung(&self) {
        let mut positions = self.head.bell.subscribe();
        // The sender is in the head, which is held here.
        let _ = positions.wait_for(|position| *position > self.heard).await;
    }

    /// Whether there is such an entry.
    pub fn has_rung(&self) -> bool {
        *self.head.bell.borrow() > self.heard
    }

    /// The last position that this process knows of counts as heard.
    pub fn hush(&mut self) {
        self.heard = self.heard.max(*self.head.bell.borrow());
    }
}

impl Ticket {
    pub(crate) fn new(id: AccountId, root: RootKey, bell: Bell) -> Self {
        Ticket { id, root, bell }
    }

    /// Whose account it is.
    pub fn id(&self) -> AccountId {
        self.id
    }

    /// What opens it.
    pub(crate) fn root(&self) -> &RootKey {
        &self.root
    }

    /// Rings for what is appended after the state that the ticket was made from.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// As [`Ticket::bell`].
    pub fn bell_mut(&mut self) -> &mut Bell {
        &mut self.bell
    }
}
