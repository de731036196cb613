//! Memory for long commands: their received bytes, and the result of parsing.
//!
//! A connection holds [`limits::IMAP_COMMAND_FREE_BYTES`] without a permit. More comes from separate shares
//! of the memory budget, so thousands of endless literals wait only for each other. A client that has not
//! logged in does not wait: no correct client sends such a long command before login.

use sealpost_base::{Budget, Permit, limits};

/// Memory of a command, parsed, per byte of it.
const PARSED_FACTOR: usize = 2;
/// Each share is the memory budget divided by this.
const SHARE: usize = 8;

/// The shares. Clones share them.
#[derive(Clone)]
pub struct LongCommands {
    strangers: Budget,
    users: Budget,
}

/// The memory for one long command.
pub(super) struct LongCommand {
    _share: Permit,
    _memory: Permit,
}

impl LongCommands {
    /// The shares of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        let share = || Budget::new(budget.common() / SHARE);
        LongCommands { strangers: share(), users: share() }
    }

    /// Memory for a client that has not logged in; `None` if there is none.
    pub(super) fn stranger(&self, budget: &Budget) -> Option<LongCommand> {
        drawn_at_once(&self.strangers, budget, limits::IMAP_COMMAND_BYTES_ANONYMOUS)
    }

    /// Memory for a logged-in client that already holds memory: does not wait.
    pub(super) fn at_once(&self, budget: &Budget) -> Option<LongCommand> {
        drawn_at_once(&self.users, budget, limits::IMAP_COMMAND_BYTES)
    }

    /// Memory for a logged-in client: waits.
    pub(super) async fn user(&self, budget: &Budget) -> LongCommand {
        let bytes = PARSED_FACTOR * limits::IMAP_COMMAND_BYTES;
        let share = self.users.acquire(bytes).await;
        LongCommand { _share: share, _memory: budget.acquire(bytes).await }
    }
}

fn drawn_at_once(share: &Budget, budget: &Budget, command_bytes: usize) -> Option<LongCommand> {
    let bytes = PARSED_FACTOR * command_bytes;
    Some(LongCommand { _share: share.try_acquire(bytes)?, _memory: budget.try_acquire(bytes)? })
}
