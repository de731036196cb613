//! [`Unplaced`]: stored messages on their way into a mailbox.

use std::sync::Arc;

use sealpost_vault::message;

use super::{Account, NewMessage};

/// Messages that are stored in an account and that no event refers to yet. Those that are dropped
/// are removed from the store, in the background: a command that is refused leaves nothing. What a
/// process that ended left is collected with the garbage.
pub struct Unplaced {
    account: Arc<Account>,
    messages: Vec<NewMessage>,
}

impl Unplaced {
    /// None yet, of that account.
    pub fn of(account: Arc<Account>) -> Self {
        Unplaced { account, messages: Vec::new() }
    }

    /// Adds one. It may be that it is not durable yet.
    pub fn push(&mut self, new: NewMessage) {
        self.messages.push(new);
    }

    /// The messages, in the order in which they came.
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
    /// Removes messages from the store that no event refers to, and none ever will.
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
