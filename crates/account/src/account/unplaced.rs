//! [`Unplaced`]: stored messages that are not in a mailbox yet.

use std::sync::Arc;

use sealpost_vault::message;

use super::{Account, NewMessage};

/// Messages stored in an account to which no event refers yet. Dropped ones are removed from the store in the
/// background, so that a refused command leaves nothing. Garbage collection removes leftovers of processes
/// that ended.
pub struct Unplaced {
    account: Arc<Account>,
    messages: Vec<NewMessage>,
}

impl Unplaced {
    /// An empty set for that account.
    pub fn of(account: Arc<Account>) -> Self {
        Unplaced { account, messages: Vec::new() }
    }

    /// Adds a message, which need not be durable yet.
    pub fn push(&mut self, new: NewMessage) {
        self.messages.push(new);
    }

    /// The messages in order of arrival.
    pub fn messages(&self) -> &[NewMessage] {
        &self.messages
    }

    /// Takes all of them for placing: from here on an event may refer to them, whatever the outcome
    /// of the append.
    pub fn into_messages(mut self) -> Vec<NewMessage> {
        std::mem::take(&mut self.messages)
    }
}

impl Drop for Unplaced {
    fn drop(&mut self) {
        self.account.remove_unplaced(&self.messages);
    }
}

impl Account {
    /// Removes messages from the store to which no event will ever refer.
    pub(super) fn remove_unplaced(&self, messages: &[NewMessage]) {
        let (Ok(runtime), false) = (tokio::runtime::Handle::try_current(), messages.is_empty()) else {
            return;
        };
        let paths = messages.iter().map(|new| message::path(self.id, new.stored.object())).collect();
        let (store, account) = (self.store().clone(), self.id);
        runtime.spawn(async move {
            if let Err(error) = store.delete_in_order(paths).await {
                tracing::debug!(%account, %error, "messages of a refused command were left to be collected");
            }
        });
    }
}
