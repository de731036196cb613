//! Polls for entries of other nodes, where the store does not report them: every few seconds the
//! logs of accounts with sessions here, and at once a log that a notification names. Decision 29.
//!
//! One listing for each polled account, a bounded number at a time; none for accounts without
//! sessions here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures::StreamExt;
use sealpost_base::{AccountId, Position, Result};
use sealpost_vault::store::Mark;
use tokio::sync::{Notify, broadcast};
use tokio::time::{sleep, timeout};

use super::{Accounts, Shared, lock};
use crate::grown::Grown;
use crate::log_end::LogEnd;

/// The polling interval without notifications.
const OFTEN: Duration = Duration::from_secs(5);
/// The polling interval with notifications: one may be lost.
const SELDOM: Duration = Duration::from_secs(300);
/// Logs that are listed at once.
const AT_ONCE: usize = 8;
/// The pause between two listings of one log.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// How it is polled.
#[derive(Default)]
pub(super) struct Polls {
    /// Whether notifications of other nodes' entries arrive.
    told: AtomicBool,
    /// The store tells by itself.
    store_tells: AtomicBool,
    /// Rings when there may be a session where there was none.
    listens: Arc<Notify>,
    /// Rings when it is to be polled otherwise.
    changed: Arc<Notify>,
    /// Logs that are being read after a notification, and whether another one arrived since.
    looking: Mutex<HashMap<AccountId, bool>>,
}

impl Polls {
    pub(super) fn somebody_listens(&self) {
        self.listens.notify_one();
    }

    fn bells(&self) -> (Arc<Notify>, Arc<Notify>) {
        (self.listens.clone(), self.changed.clone())
    }

    fn period(&self) -> Duration {
        if self.told.load(Ordering::Relaxed) { SELDOM } else { OFTEN }
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        self.listens.notify_one();
        self.changed.notify_one();
    }
}

impl Accounts {
    /// Entries that this process appends from now on: account and position. A slow receiver misses
    /// some.
    pub fn appended(&self) -> broadcast::Receiver<(AccountId, Position)> {
        self.0.appended.subscribe()
    }

    /// New entries in logs, for a task without keys: all that this process appends, and those of
    /// other processes where the store reports them. A slow receiver misses some.
    pub fn grown(&self) -> broadcast::Receiver<Grown> {
        self.0.grown.subscribe()
    }

    /// The position of the last entry in the log of an account or a shared mailbox, as the store
    /// has it now. Needs no key; takes one listing.
    ///
    /// # Errors
    /// What the store says.
    pub async fn log_position(&self, log: AccountId) -> Result<Position> {
        let head = self.head(log);
        head.look(self.0.env.clock().monotonic()).await?;
        let position = *head.known_end.borrow();
        Ok(position)
    }

    /// Sets the polling interval: short, or long while notifications arrive ([`Accounts::look`]).
    /// Either way it polls at once, because earlier entries may have been missed.
    pub fn poll_often(&self, often: bool) {
        let before = self.0.polls.told.swap(!often, Ordering::Relaxed);
        if before == often {
            for head in lock(&self.0.heads).by_account.values() {
                head.is_behind();
            }
            self.0.polls.changed.notify_one();
        }
    }

    /// Handles the notification that another node has appended to this account. If the account is
    /// in use here, its log is read: one read at a time, with a pause between two.
    pub fn look(&self, id: AccountId) {
        let Some(head) = lock(&self.0.heads).by_account.get(&id).cloned() else { return };
        head.is_behind();
        if !self.is_listened_to(id, &head) {
            return;
        }
        if let Some(again) = lock(&self.0.polls.looking).get_mut(&id) {
            *again = true;
            return;
        }
        lock(&self.0.polls.looking).insert(id, false);
        let accounts = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                let Some(shared) = accounts.upgrade() else { return };
                look(&shared, &head).await;
                drop(shared);
                sleep(BETWEEN_LOOKS).await;
                let Some(shared) = accounts.upgrade() else { return };
                let mut looking = lock(&shared.polls.looking);
                match looking.get_mut(&id) {
                    Some(again) if *again => *again = false,
                    _ => {
                        looking.remove(&id);
                        return;
                    }
                }
            }
        });
    }

    /// Whether a loaded account may lack entries of other nodes: its log was not read recently.
    pub(super) fn is_stale(&self, id: AccountId) -> bool {
        let polls = &self.0.polls;
        if polls.store_tells.load(Ordering::Relaxed) {
            return false;
        }
        let head = self.head(id);
        !head.was_looked_at(self.0.env.clock().monotonic(), 2 * polls.period())
    }

    /// Whether sessions of this process use the account, or wait for its bell.
    fn is_listened_to(&self, id: AccountId, head: &Arc<LogEnd>) -> bool {
        let slot = lock(&self.0.loaded).get(&id).cloned();
        let account = match slot {
            // It is being loaded.
            Some(slot) => match slot.0.try_lock() {
                Ok(account) => account.upgrade(),
                Err(_) => return true,
            },
            None => None,
        };
        let kept = usize::from(self.0.kept.lock().holds(id));
        let holders =
            account.as_ref().map_or(0, |account| Arc::strong_count(account).saturating_sub(1 + kept));
        // Beside the map, the caller and the account itself, bells hold it.
        let others = 2 + usize::from(account.is_some());
        holders > 0 || Arc::strong_count(head) > others
    }

    fn listened_to(&self) -> Vec<Arc<LogEnd>> {
        let heads = lock(&self.0.heads);
        let heads: Vec<_> = heads.by_account.iter().map(|(id, head)| (*id, head.clone())).collect();
        heads.into_iter().filter(|(id, head)| self.is_listened_to(*id, head)).map(|(_, head)| head).collect()
    }
}

async fn look(shared: &Shared, head: &LogEnd) {
    if let Err(e) = head.look(shared.env.clock().monotonic()).await {
        tracing::debug!(account = %head.journal.account(), error = %e, "cannot poll for new entries of other \
            nodes");
    }
}

/// Polls for as long as there are accounts.
pub(super) async fn poll(accounts: Weak<Shared>) {
    let Some(store) = accounts.upgrade().map(|shared| shared.env.store().clone()) else { return };
    // A store that fails now may tell or not; looking too often does no harm.
    if matches!(store.newer(Mark::default()).await, Ok(Some(_))) {
        if let Some(shared) = accounts.upgrade() {
            shared.polls.store_tells.store(true, Ordering::Relaxed);
        }
        return;
    }
    let Some((listens, changed)) = accounts.upgrade().map(|shared| shared.polls.bells()) else { return };
    loop {
        let Some(shared) = accounts.upgrade() else { return };
        let (nobody, period) = (Accounts(shared.clone()).listened_to().is_empty(), shared.polls.period());
        // Nothing here keeps the accounts: when they go, they ring.
        drop(shared);
        if nobody {
            listens.notified().await;
        }
        let _ = timeout(period, changed.notified()).await;
        let Some(shared) = accounts.upgrade() else { return };
        let (now, recently) = (shared.env.clock().monotonic(), shared.polls.period() / 2);
        let mut heads = Accounts(shared.clone()).listened_to();
        heads.retain(|head| !head.was_looked_at(now, recently));
        futures::stream::iter(&heads).for_each_concurrent(AT_ONCE, |head| look(&shared, head)).await;
    }
}
