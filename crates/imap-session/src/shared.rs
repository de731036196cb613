//! State that all IMAP sessions of a server share, in addition to that of all protocols.

use std::sync::Arc;

use sealpost_base::Budget;
use sealpost_mailbox::append::AppendMemory;
use sealpost_session::Context;
use sealpost_vault::server_key::ServerKeys;

use super::deflate::Compressions;
use super::leftovers::Leftovers;
use super::long_commands::LongCommands;
use super::urlauth::UrlMarks;

/// Share of the common budget for long metadata values in transit to clients: the budget divided by this.
const LONG_VALUES_SHARE: usize = 8;
/// Share of the common budget for content that submission reads.
const SUBMITTED_CONTENT_SHARE: usize = 8;

/// State that all IMAP sessions of a server share.
pub struct ImapShared {
    pub(crate) ctx: Arc<Context>,
    /// Marks the URLs that this server authorizes.
    pub(crate) url_marks: UrlMarks,
    /// Bounds how many connections are compressed.
    pub(crate) compressions: Compressions,
    /// Bounds how many long commands there are at once.
    pub(crate) long_commands: LongCommands,
    /// The share of the budget for long metadata values in transit.
    pub(crate) long_values: Budget,
    /// The share of the budget for messages of APPEND that are stored and not placed yet.
    pub(crate) appends: AppendMemory,
    /// When accounts were checked for leftovers of shared mailboxes.
    pub(crate) leftovers: Leftovers,
    /// The share of the budget for content that submission reads ([`crate::urlauth`]). A reader waits for its
    /// writer, which acquires from the budget too, so readers may not use all of it.
    pub(crate) submitted_content: Budget,
}

impl ImapShared {
    /// The state that sessions of every protocol share.
    pub fn context(&self) -> &Arc<Context> {
        &self.ctx
    }

    /// The shared state of a server with that key.
    pub fn new(ctx: Arc<Context>, key: &ServerKeys) -> Self {
        let budget = &ctx.budget;
        ImapShared {
            url_marks: UrlMarks::new(key),
            compressions: Compressions::of(budget),
            long_commands: LongCommands::of(budget),
            long_values: budget.share(budget.common() / LONG_VALUES_SHARE),
            appends: AppendMemory::of(budget),
            leftovers: Leftovers::default(),
            submitted_content: budget.share(budget.common() / SUBMITTED_CONTENT_SHARE),
            ctx,
        }
    }
}

/// The shared state of a server with a store in memory.
#[cfg(test)]
pub(crate) fn for_tests() -> ImapShared {
    let key = ServerKeys::generate(&sealpost_base::SeededRandom::new(1));
    let random = Arc::new(sealpost_base::SeededRandom::new(1));
    let (store, clock) = (sealpost_vault::Store::memory(), Arc::new(sealpost_base::SystemClock::new()));
    let settings = sealpost_session::Settings { domain: Some("localhost".to_owned()), ..Default::default() };
    let ctx = Context::new(settings, store, key.clone(), None, clock, random).expect("default settings");
    ImapShared::new(Arc::new(ctx), &key)
}
