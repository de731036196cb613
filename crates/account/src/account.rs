//! A loaded account: its state, which all sessions share, and the only way to change it.
//!
//! A change is decided on the state at the end of the log, and appended there. If another writer was first,
//! the account applies that entry and decides again. A change is durable before it is in the state, and in
//! the state before [`Account::commit`] returns.

mod append;
mod convert;
mod leaving;
mod load;
mod maintain;
mod messages;
mod recent;
mod renew;
#[cfg(test)]
mod tests;
mod unplaced;
mod uploads;

use std::any::Any;
use std::collections::HashMap;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use sealpost_base::{AccountId, Budget, Error, MailboxId, Position, Random, Result, Uid, UidValidity};
use sealpost_journal::{Append, Replay, Seal, Tail};
use sealpost_vault::entry::Origin;
use sealpost_vault::{AccountKeys, Epoch, PublicKey, RootKey, Store};
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::Instant;

pub use append::{Check, NewMessage, Placed};
pub use maintain::Maintenance;
pub use unplaced::Unplaced;
pub use uploads::FinishedUpload;

use crate::accounts::{LogWatcher, Reservation, Ticket};
use crate::bodies::BodyFetcher;
use crate::cache::Cache;
use crate::cpu_gate::{self, LONG_ROWS};
use crate::env::AccountEnv;
use crate::event::{Batch, Event};
use crate::grown::Touched;
use crate::log_end::LogEnd;
use crate::share::Link;
use crate::share_keys::Openers;
use crate::state::{AccountState, Applied, MAP_BYTES};

/// An account in memory.
pub struct Account {
    this: Weak<Account>,
    env: AccountEnv,
    id: AccountId,
    /// The root key, and the keys derived from it. A share's keys are replaced by later ones.
    keys: RwLock<(RootKey, Arc<AccountKeys>)>,
    /// The accounts that opened it as a share.
    openers: Openers<Account>,
    head: Arc<LogEnd>,
    state: RwLock<AccountState>,
    /// Whether a bulk update of the state is in progress, for which readers wait long.
    bulk_update: AtomicBool,
    /// Notified at the end of a bulk update.
    bulk_update_done: Notify,
    /// The account's memory, reserved in account memory.
    charge: Reservation,
    /// When it was loaded.
    loaded: Instant,
    /// When it was loaded, if its log was empty: none of its objects is older.
    new_since: Option<Duration>,
    /// How long the load took.
    took: Duration,
    /// True if other accounts need this account's memory. Its sender is dropped with the account, which wakes
    /// those that wait for the eviction.
    leaving: watch::Sender<bool>,
    work: AsyncMutex<Work>,
    appends: Mutex<Vec<append::Waiting>>,
    recents: Mutex<HashMap<(MailboxId, UidValidity), Uid>>,
    /// Whether the load found damage: nothing may be removed.
    damaged: AtomicBool,
    /// Up to this position nothing may be removed either: the entries after the state are damaged, or were
    /// for a while.
    damaged_end: AtomicU64,
    maintaining: AtomicBool,
    /// Data that another crate attached to the account.
    derived: Option<Arc<dyn Any + Send + Sync>>,
    reading: Budget,
    reading_much: Budget,
}

/// How often the maps are built before the account counts as changing too fast.
const MAP_ATTEMPTS: usize = 8;
/// More events than any account has.
const NOT_COLLECTED: usize = usize::MAX;

/// The content of the lock that writers of the state hold.
struct Work {
    /// The entries in the state, as far as they are compared with the store's.
    replay: Replay,
    /// Events since the last checkpoint; an unreadable entry counts as one.
    since_checkpoint: usize,
    /// Events since the last garbage collection; [`NOT_COLLECTED`] if there was none since the load.
    since_collection: usize,
    /// Whether the load opened a checkpoint or an entry with the account's key.
    has_opened: bool,
}

impl Work {
    /// The last log entry in the state.
    fn tail(&self) -> Tail {
        self.replay.tail()
    }
}

/// Marks a bulk update of the state for as long as it lives.
struct BulkUpdate<'a>(&'a Account);

impl<'a> BulkUpdate<'a> {
    fn from_now(account: &'a Account) -> Self {
        account.bulk_update.store(true, Ordering::Relaxed);
        BulkUpdate(account)
    }
}

impl Drop for BulkUpdate<'_> {
    fn drop(&mut self) {
        self.0.bulk_update.store(false, Ordering::Relaxed);
        self.0.bulk_update_done.notify_waiters();
    }
}

/// The state at one moment. Do not hold it across an await.
pub struct StateGuard<'a>(RwLockReadGuard<'a, AccountState>);

impl Deref for StateGuard<'_> {
    type Target = AccountState;

    fn deref(&self) -> &AccountState {
        &self.0
    }
}

/// The result of a commit.
#[derive(Debug, Clone)]
pub struct Committed<T> {
    /// The value that the decision returned.
    pub value: T,
    /// The position of the change; the position of the state if there was nothing to change.
    pub position: Position,
    /// The effects of the events, in order.
    pub applied: Vec<Applied>,
}

impl Account {
    /// The id of the account.
    pub fn id(&self) -> AccountId {
        self.id
    }

    /// The public key to which deliveries are sealed.
    pub fn public(&self) -> PublicKey {
        self.keys().public()
    }

    pub(crate) fn this(&self) -> Option<Arc<Account>> {
        self.this.upgrade()
    }

    /// The keys that seal its objects, for data derived from them.
    pub fn keys(&self) -> Arc<AccountKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The root key.
    pub fn root(&self) -> RootKey {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Replaces the key of this share, for all of its holders, if `root` is a later one.
    pub fn take_key(&self, root: &RootKey) {
        let keys = Arc::new(AccountKeys::derive(root, self.id));
        let mut held = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if root.follows(&held.0) {
            *held = (root.clone(), keys);
        }
    }

    /// Notes that `own` opened this share by that link.
    pub(crate) fn opened_by(&self, own: &Arc<Account>, link: &Link) {
        self.openers.add(own, link.owner.clone());
    }

    /// The store that has its objects.
    pub fn store(&self) -> &Store {
        self.env.store()
    }

    /// The memory budget of all accounts.
    pub fn budget(&self) -> &Budget {
        self.env.budget()
    }

    pub(crate) fn bodies(&self) -> Option<Arc<dyn BodyFetcher>> {
        self.env.bodies()
    }

    /// The budget for reading and sending messages of this account: half of the budget of all accounts, so
    /// that slow readers of one account do not delay those of another.
    pub fn reading(&self) -> &Budget {
        &self.reading
    }

    /// As [`Account::reading`], for large structures: half as much, so that slow readers of bytes cannot
    /// exhaust it.
    pub fn reading_much(&self) -> &Budget {
        &self.reading_much
    }

    /// The source of randomness.
    pub fn random(&self) -> &dyn Random {
        self.env.random()
    }

    /// The cache of sealed structures that arrived with deliveries.
    pub fn delivered(&self) -> &Cache<Bytes> {
        self.env.delivered()
    }

    /// The value from [`crate::Derived::attach`]; `None` if this process attaches no derived data.
    pub fn derived(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.derived.clone()
    }

    /// The present state.
    pub fn state(&self) -> StateGuard<'_> {
        let wait = || self.state.read().unwrap_or_else(PoisonError::into_inner);
        // A long wait must not block sessions of other accounts.
        let much = self.bulk_update.load(Ordering::Relaxed);
        StateGuard(if much { cpu_gate::block_in_place(wait) } else { wait() })
    }

    /// The state with its maps ([`AccountState::maps`]). Builds missing maps by reading all messages once, or
    /// counts them again after a bulk update. The maps stay while the account is loaded and take about ten
    /// bytes per message. Do not hold the guard across an await.
    ///
    /// # Errors
    /// `Limit` if the account with maps would be too large; `Retry` if large parts of it change all the time.
    pub async fn with_maps(&self) -> Result<StateGuard<'_>> {
        for _ in 0..MAP_ATTEMPTS {
            self.wait_for_bulk_update().await;
            let (messages, growth) = {
                let state = self.state();
                if state.has_maps() {
                    return Ok(state);
                }
                let messages = state.message_count();
                (messages, if state.maps().is_some() { 0 } else { messages * MAP_BYTES })
            };
            self.env.may_grow(self.weight(), growth)?;
            self.change_state(messages, AccountState::make_maps).await;
            // The maps exist: too large or not, they stay until the account is evicted.
            let _ = self.env.weigh(self.id, &self.charge, self.state().memory());
        }
        Err(Error::retry("the account changes faster than its messages are counted"))
    }

    /// Waits for the end of a bulk update. A task that reads the state meanwhile would block a thread.
    pub async fn wait_for_bulk_update(&self) {
        while self.bulk_update.load(Ordering::Relaxed) {
            let mut done = pin!(self.bulk_update_done.notified());
            done.as_mut().enable();
            if self.bulk_update.load(Ordering::Relaxed) {
                done.await;
            }
        }
    }

    /// Passes the state to `change`, which reads about `rows` rows.
    async fn change_state<T>(&self, rows: usize, change: impl FnOnce(&mut AccountState) -> T) -> T {
        let step = || {
            let _much = (rows >= LONG_ROWS).then(|| BulkUpdate::from_now(self));
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut state)
        };
        self.env.cpu_gate().run(rows, step).await
    }

    /// Whether the load found damage. The account works, but nothing is removed from it.
    pub fn is_damaged(&self) -> bool {
        let state = self.state().position().0;
        self.damaged.load(Ordering::Relaxed) || self.damaged_end.load(Ordering::Relaxed) > state
    }

    /// Whether anything in the log opened with the key of the load.
    pub(crate) async fn has_opened(&self) -> bool {
        self.work.lock().await.has_opened
    }

    /// Notifies of every entry after the present state, even while no session has the account open.
    pub fn log_watcher(&self) -> LogWatcher {
        LogWatcher::new(self.head.clone(), self.state().position())
    }

    /// A ticket that opens the account again after its release.
    pub fn ticket(&self) -> Ticket {
        Ticket::new(self.id, self.root(), self.log_watcher())
    }

    /// As [`crate::Accounts::is_pressure_severe`].
    pub fn is_pressure_severe(&self) -> bool {
        self.env.memory().is_pressure_severe()
    }

    /// How long it has been loaded.
    pub(crate) fn age(&self) -> Duration {
        self.loaded.elapsed()
    }

    /// How long the load took.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    /// Whether another load would take only a few milliseconds, however busy the server is.
    pub(crate) fn is_quick(&self) -> bool {
        self.env.is_quick(self.weight())
    }

    /// Its memory, in bytes.
    pub fn weight(&self) -> usize {
        self.charge.bytes()
    }

    pub(crate) fn has_root(&self, root: &RootKey) -> bool {
        self.root().same(root)
    }

    /// Whether it was loaded with an earlier key than `root`.
    pub(crate) fn is_behind(&self, root: &RootKey) -> bool {
        root.follows(&self.root())
    }

    /// Replaces the key if this is a share and `root` is a later key of it; returns whether it did.
    pub(crate) fn renewed(&self, root: &RootKey) -> bool {
        let is_renewed = self.openers.is_any() && self.is_behind(root);
        if is_renewed {
            self.take_key(root);
        }
        is_renewed
    }

    /// Whether it was loaded with a later key than `root`.
    pub(crate) fn is_ahead(&self, root: &RootKey) -> bool {
        self.root().follows(root)
    }

    /// Decides on a change and commits it as one log entry. `decide` may run again on a newer state. Without
    /// events, nothing is written.
    ///
    /// # Errors
    /// Those of `decide`; `Limit` if the account would become too large to load; `Retry` if the store did not
    /// accept the entry, which may still appear.
    pub async fn commit<T>(
        &self,
        decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, T)> + Send,
    ) -> Result<Committed<T>> {
        self.commit_many(0, decide).await
    }

    /// As [`Account::commit`], for a decision that reads about `rows` rows.
    ///
    /// # Errors
    /// As [`Account::commit`].
    pub async fn commit_many<T>(
        &self,
        rows: usize,
        mut decide: impl FnMut(&AccountState) -> Result<(Vec<Event>, T)> + Send,
    ) -> Result<Committed<T>> {
        let mut work = self.work.lock().await;
        let mut known = self.head.tail.lock().await;
        loop {
            if *self.head.known_end.borrow() > work.tail().position {
                self.follow(&mut work).await?;
            }
            let decision = || -> Result<_> {
                let state = self.state();
                let (events, value) = decide(&state)?;
                if events.is_empty() {
                    return Ok((None, value));
                }
                self.env.may_grow(self.weight(), state.growth(&events))?;
                let batch = Batch { at: self.env.clock().now(), events };
                let plaintext = batch.encode();
                Ok((Some((batch, plaintext)), value))
            };
            let (change, value) = self.env.cpu_gate().run(rows, decision).await?;
            let Some((batch, plaintext)) = change else {
                return Ok(Committed { value, position: self.state().position(), applied: Vec::new() });
            };
            self.head.may_follow(&work.tail())?;
            let keys = self.keys();
            let appended = match batch.events.iter().all(Event::frees_room) {
                true => {
                    self.head.journal.freeing().append(&work.tail(), Seal::Owner(&keys), &plaintext).await
                }
                false => self.head.journal.append(&work.tail(), Seal::Owner(&keys), &plaintext).await,
            };
            match appended {
                Ok(Append::Done(tail)) => {
                    // Before the first wait, so that a cancelled caller has notified the others.
                    self.head.appended(&mut known, tail, Touched::of(&batch));
                    let applied = self.apply(&mut work, tail, keys.public().epoch(), &batch).await;
                    drop(known);
                    self.checkpoint_if_due(&work);
                    return Ok(Committed { value, position: tail.position, applied });
                }
                Ok(Append::Lost) => self.follow(&mut work).await?,
                Ok(Append::Trimmed) => self.reload(&mut work).await?,
                Err(e) => {
                    *known = None;
                    return Err(e);
                }
            }
            self.head.advance(&mut known, work.tail());
        }
    }

    /// Applies all entries that this process knows, such as deliveries that it has acknowledged.
    ///
    /// # Errors
    /// Store errors.
    pub async fn catch_up(&self) -> Result<()> {
        self.wait_for_bulk_update().await;
        if *self.head.known_end.borrow() <= self.state().position() {
            return Ok(());
        }
        let mut work = self.work.lock().await;
        if *self.head.known_end.borrow() > work.tail().position {
            self.follow(&mut work).await?;
            self.checkpoint_if_due(&work);
        }
        Ok(())
    }

    /// Applies the log up to its end, including entries of other processes.
    ///
    /// # Errors
    /// Store errors.
    pub async fn refresh(&self) -> Result<()> {
        let mut work = self.work.lock().await;
        self.follow(&mut work).await?;
        let mut known = self.head.tail.lock().await;
        self.head.advance(&mut known, work.tail());
        self.checkpoint_if_due(&work);
        Ok(())
    }

    async fn apply(&self, work: &mut Work, tail: Tail, epoch: Epoch, batch: &Batch) -> Vec<Applied> {
        let rows = self.state().rows_of(&batch.events);
        let change = |state: &mut AccountState| {
            let origin = state.origin_in_epoch(Origin::Owner, epoch);
            state.apply(tail.position, origin, batch)
        };
        let applied = self.change_state(rows, change).await;
        work.replay.appended(tail);
        self.applied_up_to(work, tail, batch.events.len());
        applied
    }

    fn applied_up_to(&self, work: &mut Work, tail: Tail, events: usize) {
        work.since_checkpoint += events.max(1);
        work.since_collection = work.since_collection.saturating_add(events.max(1));
        self.head.notify(tail.position);
        // The entry is in the log: too large or not, its memory is needed.
        let _ = self.env.weigh(self.id, &self.charge, self.state().memory());
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.env.metrics().evictions.increment();
    }
}
