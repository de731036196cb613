//! How much accounts hold, as deliveries have to know it without a key, and whether there is room for more.
//!
//! An account that a session of this process has loaded is known exactly. Of others the last usage record is known,
//! and what this process has delivered since; what other processes deliver meanwhile is seen when they write it down.
//! A record is written when a session ends, and by deliveries whenever what is not written yet passes
//! [`UNRECORDED_OCTETS`] or [`UNRECORDED_MESSAGES`]. So an account can pass its limits by that much for each process, and by
//! the messages that are on their way at the same moment, and by no more (`docs/decisions/0015-mailboxes-and-quota.md`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealpost_account::directory::{Quotas, Resource, Usage};
use sealpost_account::{AccountState, metadata};
use sealpost_base::{AccountId, Result};

use crate::context::Context;

/// Octets delivered to an account that are not in its usage record yet.
pub const UNRECORDED_OCTETS: u64 = 4 * 1024 * 1024;
/// Messages, likewise.
pub const UNRECORDED_MESSAGES: u64 = 64;
/// Accounts whose usage is remembered.
const REMEMBERED: usize = 8192;

/// What this process knows of the usage of accounts.
#[derive(Default)]
pub struct Book {
    known: Mutex<HashMap<AccountId, Known>>,
    /// Counts changes of limits made by this process.
    changes: AtomicU64,
}

#[derive(Clone, Copy)]
struct Known {
    /// All of it.
    usage: Usage,
    /// What of it is in shares, as far as a session of this process has seen them.
    shared: Usage,
    /// What the record says.
    recorded: Option<Usage>,
}

/// How much a state holds.
pub fn usage(state: &AccountState) -> Usage {
    let (storage, messages) = state.mailboxes().fold((0u64, 0u64), |(octets, messages), mailbox| {
        (octets.saturating_add(mailbox.bytes()), messages.saturating_add(mailbox.len() as u64))
    });
    let (mailboxes, annotations) = (state.mailbox_count() as u64, metadata::bytes(state) as u64);
    Usage { storage, messages, mailboxes, annotations }
}

impl Book {
    /// How often this process has changed limits: sessions look at theirs again when it has.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Limits were changed.
    pub fn limits_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// How much an account holds, as far as it is known here.
    ///
    /// # Errors
    /// What the store says.
    pub async fn usage(&self, ctx: &Context, account: AccountId) -> Result<Usage> {
        if let Some(loaded) = ctx.accounts.peek(account) {
            loaded.catch_up().await?;
            let own = usage(&loaded.state());
            return Ok(match self.lock().get_mut(&account) {
                Some(known) => {
                    known.usage = own.with(known.shared);
                    known.usage
                }
                None => own,
            });
        }
        let known = self.lock().get(&account).map(|known| known.usage);
        if let Some(usage) = known {
            return Ok(usage);
        }
        self.reread(ctx, account).await
    }

    /// What the record says, whatever was known here.
    async fn reread(&self, ctx: &Context, account: AccountId) -> Result<Usage> {
        let recorded = ctx.directory.usage(account).await?;
        let usage = recorded.unwrap_or_default();
        self.remember(account, Known { usage, recorded, shared: self.shared(account) });
        Ok(usage)
    }

    /// The resource of which an account has not enough for messages that arrive.
    ///
    /// # Errors
    /// What the store says.
    pub async fn lacks(
        &self,
        ctx: &Context,
        account: AccountId,
        quotas: Quotas,
        more: Usage,
    ) -> Result<Option<Resource>> {
        if !quotas.limit_messages() {
            return Ok(None);
        }
        let lacks = quotas.exceeded(self.usage(ctx, account).await?, more);
        if lacks.is_none() || ctx.accounts.peek(account).is_some() {
            return Ok(lacks);
        }
        // Before mail is refused: somebody may have made room in another process, and have written it down.
        let known = self.lock().get(&account).copied();
        let recorded = ctx.directory.usage(account).await?;
        if known.is_some_and(|known| known.recorded == recorded) {
            return Ok(lacks);
        }
        Ok(quotas.exceeded(self.reread(ctx, account).await?, more))
    }

    /// Messages were delivered to an account with these limits.
    pub async fn delivered(&self, ctx: &Context, account: AccountId, quotas: Quotas, more: Usage) {
        if !quotas.limit_messages() || self.usage(ctx, account).await.is_err() {
            return;
        }
        let due = {
            let mut known = self.lock();
            let Some(known) = known.get_mut(&account) else { return };
            if ctx.accounts.peek(account).is_none() {
                known.usage = known.usage.with(more);
            }
            let recorded = known.recorded.unwrap_or_default();
            let due = known.usage.storage.abs_diff(recorded.storage) > UNRECORDED_OCTETS
                || known.usage.messages.abs_diff(recorded.messages) > UNRECORDED_MESSAGES;
            due.then_some((known.usage, known.shared))
        };
        if let Some((usage, shared)) = due {
            self.record(ctx, account, usage, shared).await;
        }
    }

    /// A session saw that much in the account's own log and in its shares; written down if it is news and limits depend
    /// on it.
    pub async fn observed(
        &self,
        ctx: &Context,
        account: AccountId,
        quotas: Quotas,
        own: Usage,
        shared: Usage,
    ) {
        if quotas == Quotas::default() {
            return;
        }
        let usage = own.with(shared);
        let known = self.lock().get(&account).copied();
        let recorded = match known {
            Some(known) => Ok(known.recorded),
            None => ctx.directory.usage(account).await,
        };
        match recorded {
            Ok(recorded) if recorded == Some(usage) => {
                self.remember(account, Known { usage, shared, recorded });
            }
            _ => self.record(ctx, account, usage, shared).await,
        }
    }

    /// What is not written is known here all the same, and tried again with the next change.
    async fn record(&self, ctx: &Context, account: AccountId, usage: Usage, shared: Usage) {
        let recorded = match ctx.directory.record_usage(account, usage).await {
            Ok(()) => Some(usage),
            Err(error) => {
                tracing::warn!(%account, %error, "how much an account holds could not be written down");
                self.lock().get(&account).and_then(|known| known.recorded)
            }
        };
        self.remember(account, Known { usage, shared, recorded });
    }

    fn shared(&self, account: AccountId) -> Usage {
        self.lock().get(&account).map_or(Usage::default(), |known| known.shared)
    }

    fn remember(&self, account: AccountId, known: Known) {
        let mut all = self.lock();
        if all.len() >= REMEMBERED && !all.contains_key(&account) {
            // What is forgotten is read again; half at a time, so that this is seldom.
            let mut keep = false;
            all.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        all.insert(account, known);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
