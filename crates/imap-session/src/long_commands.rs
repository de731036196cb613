//! Memory for long commands: the bytes received of a command, and what it is parsed into.
//!
//! A connection holds [`limits::IMAP_COMMAND_FREE_BYTES`] of one for nothing; more is acquired from
//! shares of the memory budget set aside for this, so that thousands of endless literals wait only
//! for each other. A client that has not logged in does not wait: an honest client sends no command
//! that long before login.

use sealpost_base::{Budget, Permit, limits};

/// Memory of a command in all, parsed, for each of its bytes.
const PARSED_FACTOR: usize = 2;
/// Each share is the memory budget divided by this.
const SHARE: usize = 8;

/// The shares. Cloning shares them.
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
    /// Of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        let share = || Budget::new(budget.common() / SHARE);
        LongCommands { strangers: share(), users: share() }
    }

    /// For a client that has not logged in; `None` if there is none.
    pub(super) fn stranger(&self, budget: &Budget) -> Option<LongCommand> {
        drawn_at_once(&self.strangers, budget, limits::IMAP_COMMAND_BYTES_ANONYMOUS)
    }

    /// For a logged-in client that holds memory already: does not wait.
    pub(super) fn at_once(&self, budget: &Budget) -> Option<LongCommand> {
        drawn_at_once(&self.users, budget, limits::IMAP_COMMAND_BYTES)
    }

    /// For a logged-in client: waits.
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
