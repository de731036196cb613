//! The usage of accounts as deliveries know it without a key, and whether quotas allow more.
//!
//! The usage of an account that a session of this process has loaded is exact. For others it is the usage
//! record plus the deliveries of this process since. The process adds these to the record when they pass
//! [`UNRECORDED_BYTES`] or [`UNRECORDED_MESSAGES`], and when it stops. Without a record, the tracker counts
//! the objects in the store. Sessions write an exact record when they end. So an account can exceed its
//! limits by at most that much per process, plus the messages in delivery at that moment
//! (`docs/decisions/0015-mailboxes-and-quota.md`).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealpost_account::{Accounts, usage};
use sealpost_base::{AccountId, Result};
use sealpost_directory::{Directory, Quotas, Resource, StoreMoment, Usage, UsageRecord};
use tokio::task::JoinSet;

/// The most bytes delivered to an account that are not in its usage record.
pub const UNRECORDED_BYTES: u64 = 4 * 1024 * 1024;
/// The most messages delivered to an account that are not in its usage record.
pub const UNRECORDED_MESSAGES: u64 = 64;
/// Accounts whose usage is cached.
const REMEMBERED: usize = 8192;

/// The usage of accounts as this process knows it.
pub struct UsageTracker {
    accounts: Accounts,
    directory: Directory,
    known: Mutex<HashMap<AccountId, KnownUsage>>,
    /// Counts this process's changes of limits.
    changes: AtomicU64,
    noting: Mutex<JoinSet<()>>,
    /// Accounts whose records are being updated, so that nothing is added twice.
    adding: Mutex<HashSet<AccountId>>,
}

#[derive(Clone, Copy)]
struct KnownUsage {
    record: UsageRecord,
    /// Messages that this process has delivered and not yet recorded.
    delivered: Usage,
    /// The part in shares, as far as a session of this process has read them.
    shared: Usage,
    /// When the record was read.
    seen: Option<StoreMoment>,
}

impl KnownUsage {
    fn usage(&self) -> Usage {
        self.record.usage.with(self.delivered)
    }
}

impl UsageTracker {
    /// Creates an empty tracker.
    pub fn new(accounts: Accounts, directory: Directory) -> Self {
        UsageTracker {
            accounts,
            directory,
            known: Mutex::default(),
            changes: AtomicU64::new(0),
            noting: Mutex::default(),
            adding: Mutex::default(),
        }
    }

    /// How often this process has changed limits. A session reads its limits again when this changes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that limits were changed.
    pub fn limits_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The usage of an account, as far as this process knows it.
    ///
    /// # Errors
    /// Store errors.
    pub async fn usage(&self, account: AccountId) -> Result<Usage> {
        if let Some(loaded) = self.accounts.peek(account) {
            loaded.catch_up().await?;
            return Ok(usage::of(&loaded.state()).with(self.shared(account)));
        }
        let seen = self.directory.store_moment();
        match self.known(account) {
            // If the store does not report changes, read the record again before refusing mail.
            Some(known) if known.seen == seen => Ok(known.usage()),
            _ => Ok(self.read(account).await?.usage()),
        }
    }

    /// Reads the record, and adds the deliveries of this process since. Without a record, counts the usage
    /// and records it.
    async fn read(&self, account: AccountId) -> Result<KnownUsage> {
        let seen = self.directory.store_moment();
        let record = match self.directory.usage_record(account).await? {
            Some(record) => record,
            None => usage::settle(&self.directory, account).await?,
        };
        Ok(self.learn(account, record, seen))
    }

    /// Adopts a record that another process may have written. A complete one includes the deliveries of this
    /// process.
    fn learn(&self, account: AccountId, record: UsageRecord, seen: Option<StoreMoment>) -> KnownUsage {
        let known = self.known(account);
        if let Some(known) = known.filter(|known| known.record.version > record.version) {
            // A delivery updated it during the read.
            return known;
        }
        let delivered = match known {
            Some(known) if known.record == record || !record.complete => known.delivered,
            _ => Usage::default(),
        };
        let shared = known.map_or(Usage::default(), |known| known.shared);
        let known = KnownUsage { record, delivered, shared, seen };
        self.remember(account, known);
        known
    }

    /// The resource that arriving messages would exceed.
    ///
    /// # Errors
    /// Store errors.
    pub async fn lacks(&self, account: AccountId, quotas: Quotas, more: Usage) -> Result<Option<Resource>> {
        if !quotas.limit_messages() {
            return Ok(None);
        }
        let lacks = quotas.exceeded(self.usage(account).await?, more);
        if lacks.is_none() || self.accounts.peek(account).is_some() {
            return Ok(lacks);
        }
        // Before mail is refused: another process may have freed space and recorded it.
        Ok(quotas.exceeded(self.read(account).await?.usage(), more))
    }

    /// Counts messages delivered to an account with these limits.
    pub async fn delivered(&self, account: AccountId, quotas: Quotas, more: Usage) {
        if !quotas.limit_messages() {
            // The cached usage would be too low once the account is limited again.
            self.lock().remove(&account);
            return;
        }
        let exact = match self.accounts.peek(account) {
            Some(_) => self.usage(account).await.ok(),
            None => None,
        };
        let due = {
            let mut known = self.lock();
            // Usage that is not cached is read or counted at the next request.
            let Some(known) = known.get_mut(&account) else { return };
            known.delivered = known.delivered.with(more);
            let much = differ_much(exact.unwrap_or(known.usage()), known.record.usage);
            much.then_some(known.shared)
        };
        match (due, exact) {
            (Some(shared), Some(exact)) => self.record(account, exact, shared).await,
            (Some(_), None) => self.add(account).await,
            (None, _) => {}
        }
    }

    /// Takes the exact usage from a session: of the account's own log, and of its shares. Records it if
    /// limits depend on it and it changed, or if it changed much: an operator may set a limit while no
    /// session has the account loaded.
    pub async fn observed(&self, account: AccountId, quotas: Quotas, own: Usage, shared: Usage) {
        let usage = own.with(shared);
        let record = match self.known(account) {
            Some(known) => Some(known.record),
            None => match self.directory.usage_record(account).await {
                Ok(record) => record,
                Err(error) => {
                    tracing::warn!(%account, %error, "cannot read the usage record of an account");
                    return;
                }
            },
        };
        let is_news = match record {
            Some(record) if quotas == Quotas::default() => differ_much(usage, record.usage),
            Some(record) => record.usage != usage,
            None => true,
        };
        match (is_news, record) {
            (false, Some(record)) => {
                let seen = self.directory.store_moment();
                self.remember(account, KnownUsage { record, delivered: Usage::default(), shared, seen });
            }
            _ => self.record(account, usage, shared).await,
        }
    }

    /// Counts the usage of an account without a record, because limits were set. Skips a loaded account,
    /// whose usage is exact.
    ///
    /// # Errors
    /// Store errors.
    pub async fn settle(&self, account: AccountId) -> Result<()> {
        if self.accounts.peek(account).is_none() {
            usage::settle(&self.directory, account).await?;
        }
        Ok(())
    }

    /// Runs `noting`, which records the usage at the end of a session, in the background. Only
    /// [`UsageTracker::write_down`] waits for it.
    pub fn note(&self, noting: impl Future<Output = ()> + Send + 'static) {
        let mut all = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        while all.try_join_next().is_some() {}
        all.spawn(noting);
    }

    /// Records all pending usage when the process stops: deliveries of this process, and notes of its
    /// sessions.
    pub async fn write_down(&self) {
        let mut noting = std::mem::take(&mut *self.noting.lock().unwrap_or_else(PoisonError::into_inner));
        while noting.join_next().await.is_some() {}
        let unwritten = |(account, known): (&AccountId, &KnownUsage)| {
            (known.delivered != Usage::default()).then_some(*account)
        };
        let all: Vec<_> = self.lock().iter().filter_map(unwritten).collect();
        for account in all {
            self.add(account).await;
        }
    }

    /// Writes the record. After a failure the next change writes it again.
    async fn record(&self, account: AccountId, usage: Usage, shared: Usage) {
        match self.directory.record_usage(account, usage).await {
            Ok(record) => {
                let seen = self.directory.store_moment();
                self.remember(account, KnownUsage { record, delivered: Usage::default(), shared, seen });
            }
            Err(error) => {
                tracing::warn!(%account, %error, "cannot write the usage record of an account");
            }
        }
    }

    /// Adds deliveries to the record, unless it was rewritten and includes them.
    async fn add(&self, account: AccountId) {
        let Some(_adding) = Adding::begin(self, account) else { return };
        if let Err(error) = self.try_to_add(account).await {
            tracing::warn!(%account, %error, "cannot write the usage record of an account");
        }
    }

    async fn try_to_add(&self, account: AccountId) -> Result<()> {
        let delivered = self.read(account).await?.delivered;
        if delivered == Usage::default() {
            return Ok(());
        }
        let record = self.directory.add_usage(account, delivered).await?;
        let seen = self.directory.store_moment();
        if let Some(known) = self.lock().get_mut(&account) {
            // More deliveries may have come meanwhile.
            (known.record, known.seen) = (record, seen);
            known.delivered = known.delivered.without(delivered);
        }
        Ok(())
    }

    fn known(&self, account: AccountId) -> Option<KnownUsage> {
        self.lock().get(&account).copied()
    }

    fn shared(&self, account: AccountId) -> Usage {
        self.known(account).map_or(Usage::default(), |known| known.shared)
    }

    fn remember(&self, account: AccountId, known: KnownUsage) {
        let mut all = self.lock();
        if all.len() >= REMEMBERED && !all.contains_key(&account) {
            // Evict half of the entries at a time, so that it happens rarely. Evicted ones are read again.
            let mut keep = false;
            all.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        all.insert(account, known);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, KnownUsage>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks an account while deliveries are added to its record.
struct Adding<'a> {
    tracker: &'a UsageTracker,
    account: AccountId,
}

impl<'a> Adding<'a> {
    /// `None` if the account is already marked.
    fn begin(tracker: &'a UsageTracker, account: AccountId) -> Option<Self> {
        let mut all = tracker.adding.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(account).then_some(Adding { tracker, account })
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        self.tracker.adding.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.account);
    }
}

fn differ_much(now: Usage, recorded: Usage) -> bool {
    now.storage.abs_diff(recorded.storage) > UNRECORDED_BYTES
        || now.messages.abs_diff(recorded.messages) > UNRECORDED_MESSAGES
}
