//! What all IMAP sessions of a server share, beside what sessions of every protocol do.

use std::sync::Arc;

use sealpost_base::Budget;
use sealpost_mailbox::append::AppendMemory;
use sealpost_session::Context;
use sealpost_vault::server_key::ServerKeys;

use super::deflate::Compressions;
use super::leftovers::Leftovers;
use super::long_commands::LongCommands;
use super::urlauth::UrlMarks;

/// What long values of metadata that are on their way to clients may take: an eighth of what is common.
const LONG_VALUES_SHARE: usize = 8;

/// What all IMAP sessions of a server share.
pub struct ImapShared {
    pub(crate) ctx: Arc<Context>,
    /// Marks the URLs that this server authorizes.
    pub(crate) url_marks: UrlMarks,
    /// How many connections may be compressed.
    pub(crate) compressions: Compressions,
    /// How many commands may be long at once.
    pub(crate) long_commands: LongCommands,
    /// What part of the budget long values of metadata may hold while they are sent.
    pub(crate) long_values: Budget,
    /// What part of it APPEND may hold for messages that are stored and not placed yet.
    pub(crate) appends: AppendMemory,
    /// When it was looked at what is left of accounts' shared mailboxes.
    pub(crate) leftovers: Leftovers,
}

impl ImapShared {
    /// What sessions of every protocol share.
    pub fn context(&self) -> &Arc<Context> {
        &self.ctx
    }

    /// That of a server with that key.
    pub fn new(ctx: Arc<Context>, key: &ServerKeys) -> Self {
        let budget = &ctx.budget;
        ImapShared {
            url_marks: UrlMarks::new(key),
            compressions: Compressions::of(budget),
            long_commands: LongCommands::of(budget),
            long_values: budget.share(budget.common() / LONG_VALUES_SHARE),
            appends: AppendMemory::of(budget),
            leftovers: Leftovers::default(),
            ctx,
        }
    }
}

/// What the sessions share of a server with a store in memory.
#[cfg(test)]
pub(crate) fn for_tests() -> ImapShared {
    let key = ServerKeys::generate(&sealpost_base::SeededRandom::new(1));
    let random = Arc::new(sealpost_base::SeededRandom::new(1));
    let (store, clock) = (sealpost_vault::Store::memory(), Arc::new(sealpost_base::SystemClock::new()));
    let settings = sealpost_session::Settings { domain: Some("localhost".to_owned()), ..Default::default() };
    let ctx = Context::new(settings, store, key.clone(), None, clock, random).expect("default settings");
    ImapShared::new(Arc::new(ctx), &key)
}
