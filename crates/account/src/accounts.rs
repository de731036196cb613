//! All accounts as this process uses them: each loaded once, shared by its sessions, unloaded when they do not use it.
//!
//! What loaded accounts take together is bounded ([`AccountMemory`]): whoever needs one that is not loaded makes others go that are
//! not in use, and waits for those that are.

mod account_memory;
mod load_limiter;
mod loaded;
mod log_watcher;
mod poll;
mod watch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_base::{
    AccountId, Budget, Clock, Error, MemoryDivision, Position, Random, Result, Timestamp, limits,
};
use sealpost_directory::Watermarks;
use sealpost_journal::Journal;
use sealpost_mime::Structure;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{PublicKey, RootKey, RootKeyWatch, Store};
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::account::Account;
use crate::bodies::BodyFetcher;
use crate::cache::Cache;
use crate::cpu_gate::CpuGate;
use crate::decoded::DecodedCache;
use crate::event::{Event, Flags, Message, Target};
use crate::ingest::{Ingest, Resealed, Stored};
use crate::log_end::LogEnd;
use crate::metrics::AccountMetrics;
use crate::share::Link;
use crate::summary::Entry;
use account_memory::AccountMemory;
pub use account_memory::{Pressure, Reservation};
use load_limiter::{LoadLimiter, LoadPermit, QUICK_BYTES};
use loaded::LoadedAccounts;
pub use log_watcher::{LogWatcher, Ticket};
use poll::Polls;

/// Accounts whose end of the log is remembered between deliveries.
const HEADS: usize = 4096;
/// What an account takes beside its state, in bytes.
const ACCOUNT_BYTES: usize = 4096;
/// The part of the room for accounts that no command fills with one account, as a divisor: an eighth.
const KEPT_FREE: usize = 8;
/// How long whoever wants an account that is about to go waits for that. Somebody holds it for longer than that: it stays.
const LEAVING: Duration = Duration::from_secs(5);
/// How long expunged messages, and objects that no event refers to, are kept.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The accounts of a store. Cloning shares them.
#[derive(Clone)]
pub struct Accounts(Arc<Shared>);

struct Shared {
    store: Store,
    log_key: LogKey,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    budget: Budget,
    storing: Budget,
    reading: Budget,
    grace: Duration,
    heads: Mutex<Heads>,
    memory: AccountMemory,
    loaded: Mutex<HashMap<AccountId, Arc<Slot>>>,
    kept: Mutex<LoadedAccounts>,
    /// Whose derived data may be in the caches, and whether anybody has the key.
    cached: Mutex<HashMap<AccountId, RootKeyWatch>>,
    load_limiter: LoadLimiter,
    cpu_gate: CpuGate,
    structures: Cache<Structure>,
    decoded: DecodedCache,
    summaries: Cache<Entry>,
    /// Sealed structures that came with deliveries.
    delivered: Cache<Bytes>,
    metrics: AccountMetrics,
    /// Nothing is removed for good: the clock is not believed.
    keeps_all: AtomicBool,
    /// What this process appends.
    appended: broadcast::Sender<(AccountId, Position)>,
    polls: Polls,
    /// Who is asked for bodies that are not kept here.
    bodies: OnceLock<Arc<dyn BodyFetcher>>,
    /// How far logs had come.
    watermarks: OnceLock<Watermarks>,
}

/// The ends of logs that are in use, or were lately.
struct Heads {
    by_account: HashMap<AccountId, Arc<LogEnd>>,
    /// With as many it is looked which are not in use any more.
    most: usize,
}

/// What an operator decides about accounts.
pub struct Options {
    /// What work draws on.
    pub budget: Budget,
    /// How memory is divided.
    pub memory: MemoryDivision,
    /// How long expunged messages, and objects that no event refers to, are kept.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let memory = MemoryDivision::default();
        Options { budget: memory.budget(), memory, grace: GRACE }
    }
}

/// Where an account is, or is being loaded.
#[derive(Default)]
struct Slot(tokio::sync::Mutex<Weak<Account>>);

/// What a delivery says beside the message.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// INTERNALDATE.
    pub received: Timestamp,
    /// Where to; the inbox if that is no mailbox of the account, or a shared one.
    pub target: Option<Target>,
    /// Its first flags. Those that the account has no room for, or that are no flags, are left out.
    pub flags: Flags,
    /// Whether a mailbox of the target's name is made, and subscribed to, if there is none.
    pub create: bool,
}

impl Delivery {
    /// A delivery to the inbox.
    pub fn to_inbox(received: Timestamp) -> Self {
        Delivery { received, ..Delivery::default() }
    }

    /// A delivery to the mailbox of that name, if there is one.
    pub fn to(received: Timestamp, mailbox: Option<String>) -> Self {
        Delivery { target: mailbox.map(Target::Named), ..Delivery::to_inbox(received) }
    }
}

/// A share for somebody.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The share, with its key.
    pub link: Link,
    /// What its owner calls the mailbox; with `below`, the last level of its name.
    pub name: String,
    /// It is for the owner of this share, and becomes a mailbox below it.
    pub below: Option<AccountId>,
}

impl Accounts {
    /// The accounts in `store`, whose logs `key` authenticates, with the default grace period and division of memory. Starts a
    /// task that listens to the store, so it must be called inside a tokio runtime.
    pub fn new(
        store: Store,
        key: LogKey,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        budget: Budget,
    ) -> Self {
        Self::with(store, key, clock, random, Options { budget, ..Options::default() })
    }

    /// As [`Accounts::new`], with what the operator decided.
    pub fn with(
        store: Store,
        key: LogKey,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        options: Options,
    ) -> Self {
        let Options { budget, memory, grace } = options;
        let delivered = if store.wants_packs() { memory.delivered() } else { 0 };
        let accounts = Accounts(Arc::new(Shared {
            structures: Cache::new(memory.structures() - delivered),
            summaries: Cache::new(memory.summaries()),
            decoded: DecodedCache::new(memory.decoded()),
            delivered: Cache::new(delivered),
            load_limiter: LoadLimiter::default(),
            cpu_gate: CpuGate::default(),
            store,
            log_key: key,
            clock,
            random,
            storing: budget.share(budget.common() / 4 * 3),
            reading: budget.share(budget.common() / 2),
            budget,
            grace,
            heads: Mutex::new(Heads { by_account: HashMap::new(), most: HEADS }),
            memory: AccountMemory::new(memory.accounts),
            loaded: Mutex::default(),
            kept: Mutex::default(),
            cached: Mutex::default(),
            metrics: AccountMetrics::default(),
            keeps_all: AtomicBool::new(false),
            appended: broadcast::Sender::new(limits::APPENDED_QUEUE),
            polls: Polls::default(),
            bodies: OnceLock::new(),
            watermarks: OnceLock::new(),
        }));
        tokio::spawn(watch::watch(Arc::downgrade(&accounts.0)));
        tokio::spawn(poll::poll(Arc::downgrade(&accounts.0)));
        accounts
    }

    /// Whether what was expunged, and what no event refers to, is removed for good when its time is over; not while the clock is not
    /// believed.
    pub fn remove_for_good(&self, on: bool) {
        self.0.keeps_all.store(!on, Ordering::Relaxed);
    }

    pub(crate) fn keeps_all(&self) -> bool {
        self.0.keeps_all.load(Ordering::Relaxed)
    }

    /// The account with that root key: loaded if it is not, then shared. What other nodes appended may be missing for as long
    /// as between two polls.
    ///
    /// # Errors
    /// `Denied` if the key is not the one of the account that is loaded; `Corrupt` if there is nothing that this key
    /// opens; `Limit` if the account is larger than all accounts together may be; `Retry` if others were in use for too
    /// long; what the store says.
    pub async fn open(&self, id: AccountId, root: &RootKey) -> Result<Arc<Account>> {
        self.open_if(id, root, self.is_stale(id)).await
    }

    /// As [`Accounts::open`], with all that any node has acknowledged before: for whoever begins, and may have been
    /// served elsewhere until now.
    ///
    /// # Errors
    /// As [`Accounts::open`].
    pub async fn open_current(&self, id: AccountId, root: &RootKey) -> Result<Arc<Account>> {
        self.open_if(id, root, true).await
    }

    /// With `refresh`, an account that is loaded is read on.
    async fn open_if(&self, id: AccountId, root: &RootKey, refresh: bool) -> Result<Arc<Account>> {
        let slot = lock(&self.0.loaded).entry(id).or_default().clone();
        let mut loaded = slot.0.lock().await;
        if loaded.strong_count() == 0 && self.memory_pressure() > Pressure::Ample {
            self.expire();
        }
        let account = match loaded.upgrade() {
            Some(account) if account.has_root(root) => {
                if refresh {
                    self.head(id).looks(self.0.clock.monotonic());
                    account.refresh().await?;
                }
                account
            }
            Some(account) if account.is_ahead(root) => {
                return Err(Error::denied("the account has a newer key: log in again"));
            }
            Some(account) if !account.is_behind(root) => {
                return Err(Error::denied("that key is not this account's"));
            }
            // Sessions that have the one that was loaded with the key before end soon.
            _ => {
                let head = self.head(id);
                head.looks(self.0.clock.monotonic());
                let account = Account::load(self.clone(), head, root).await?;
                *loaded = Arc::downgrade(&account);
                account
            }
        };
        drop(loaded);
        lock(&self.0.cached).insert(id, root.watch());
        let before = lock(&self.0.kept).keep(account.clone(), self.0.clock.monotonic());
        drop(before);
        self.0.polls.somebody_listens();
        Ok(account)
    }

    /// The account that was let go of with that ticket, with everything that this process knows to be in its log.
    ///
    /// # Errors
    /// As [`Accounts::open`].
    pub async fn reopen(&self, ticket: &Ticket) -> Result<Arc<Account>> {
        let account = self.open(ticket.id(), ticket.root()).await?;
        account.catch_up().await?;
        Ok(account)
    }

    /// As [`Accounts::reopen`], for whoever holds no account. If others wait for the room that this one takes, it is their
    /// turn first: this waits until it is unloaded, and then for room as they did.
    ///
    /// # Errors
    /// As [`Accounts::open`].
    pub async fn reopen_in_turn(&self, ticket: &Ticket) -> Result<Arc<Account>> {
        let left =
            self.peek(ticket.id()).filter(|account| account.is_leaving()).map(|account| account.left());
        if let Some(left) = left
            && timeout(LEAVING, left).await.is_err()
            && let Some(account) = self.peek(ticket.id())
        {
            account.stay();
        }
        self.reopen(ticket).await
    }

    /// Where what goes through thousands of rows at once is done.
    pub fn cpu_gate(&self) -> &CpuGate {
        &self.0.cpu_gate
    }

    /// How short the memory for loaded accounts is.
    pub fn memory_pressure(&self) -> Pressure {
        self.0.memory.pressure()
    }

    /// Whether it is [`Pressure::Severe`]; cheap enough to ask for every piece that is sent.
    pub fn is_pressure_severe(&self) -> bool {
        self.0.memory.is_pressure_severe()
    }

    /// What loaded accounts may take together, and what they take now, in bytes.
    pub fn account_memory(&self) -> (usize, usize) {
        (self.0.memory.bytes(), self.0.memory.used())
    }

    /// Memory for what a session keeps of an account; `None` if there is not that much.
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        if let Some(reserved) = self.0.memory.try_reserve(bytes) {
            return Some(reserved);
        }
        self.evict(self.0.memory.missing(bytes));
        self.0.memory.try_reserve(bytes)
    }

    /// Memory for an account that is about to be loaded.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.0.memory.reserve(bytes + ACCOUNT_BYTES, |missing| self.evict(missing)).await
    }

    /// Whether to load an account that takes so much is a matter of a few milliseconds, however busy the server is.
    pub(crate) fn is_quick(&self, bytes: usize) -> bool {
        bytes <= QUICK_BYTES && !self.0.store.wants_packs()
    }

    /// An account that takes so much may be read now. Whoever asks holds the room for it, and waits for nothing but the store
    /// meanwhile.
    pub(crate) async fn turn_to_load(&self, bytes: usize) -> Option<LoadPermit<'_>> {
        if self.is_quick(bytes) { self.0.load_limiter.next().await } else { None }
    }

    /// An account takes that much by now, its state included.
    ///
    /// # Errors
    /// `Limit` if that is more than there is for all.
    pub(crate) fn weigh(&self, id: AccountId, charge: &Reservation, state: usize) -> Result<()> {
        let bytes = state + ACCOUNT_BYTES;
        charge.set(bytes);
        if bytes > self.0.memory.bytes() {
            let room = self.0.memory.bytes();
            tracing::error!(account = %id, bytes, room, "the account is too large for this server: raise `memory`");
            return Err(Error::limit("the account is too large for the memory of this server"));
        }
        self.evict(self.0.memory.missing(0));
        Ok(())
    }

    /// Whether an account that takes so much may grow by `growth`: one that is larger than all of the room could not be loaded
    /// again. A part of it is left for what nobody is refused: deliveries, and the memory of what went away.
    ///
    /// # Errors
    /// `Limit` if it would be.
    pub(crate) fn may_grow(&self, bytes: usize, growth: usize) -> Result<()> {
        let room = self.0.memory.bytes() / KEPT_FREE * (KEPT_FREE - 1);
        if growth > 0 && bytes.saturating_add(growth) > room {
            return Err(Error::limit("the account would be too large for the memory of this server"));
        }
        Ok(())
    }

    /// Unloads accounts until that much is free, if as many are not in use.
    fn evict(&self, bytes: usize) {
        if bytes > 0 {
            let evicted = lock(&self.0.kept).evict(bytes);
            drop(evicted);
        }
    }

    /// The account, if it is loaded now.
    pub fn peek(&self, id: AccountId) -> Option<Arc<Account>> {
        let slot = lock(&self.0.loaded).get(&id)?.clone();
        slot.0.try_lock().ok()?.upgrade()
    }

    /// Starts to store a message for an account.
    ///
    /// # Errors
    /// What the store says.
    pub async fn ingest(&self, id: AccountId) -> Result<Ingest> {
        Ingest::new(self, id, 0).await
    }

    /// As [`Accounts::ingest`], for whoever holds `beside` bytes of other buffers while the message comes: they are drawn
    /// from the budget together with the ingest's own, so that nobody waits for some while holding others.
    ///
    /// # Errors
    /// What the store says.
    pub async fn ingest_beside(&self, id: AccountId, beside: usize) -> Result<Ingest> {
        Ingest::new(self, id, beside).await
    }

    /// Delivers a stored message to the account with that public key. Durable when it returns.
    ///
    /// # Errors
    /// What the store says. The message may then still turn up.
    pub async fn deliver(
        &self,
        id: AccountId,
        to: &PublicKey,
        message: Stored,
        delivery: Delivery,
    ) -> Result<()> {
        let Delivery { received, target, flags, create } = delivery;
        let (structure, stored) = (message.sealed_structure(), message.message(received));
        let event = Event::Delivered { target, message: stored, structure, flags, create };
        message.check_age()?;
        self.head(id).deliver(*to, event, self.0.clock.now()).await?;
        message.check_age()
    }

    /// Gives an account a share, by its public key alone. Durable when it returns; with the account's next look at its
    /// log the share has a name there.
    ///
    /// # Errors
    /// What the store says. The offer may then still turn up.
    pub async fn offer(&self, to: AccountId, public: &PublicKey, offer: Offer) -> Result<()> {
        let Offer { link, name, below } = offer;
        self.head(to).deliver(*public, Event::Offered { link, name, below }, self.0.clock.now()).await
    }

    /// Stores a message of one log anew for another: its own key cannot be given away, because the log that it is in
    /// decides how long its object is kept. Nothing is scanned again.
    ///
    /// # Errors
    /// `Corrupt` if the message cannot be read; what the store says.
    pub async fn reseal(&self, from: &Account, message: &Message, to: AccountId) -> Result<Stored> {
        let reader = from.reader(message);
        let (text, structure) = (reader.text().await?, reader.structure().await?);
        let mut writer = Resealed::new(self, to, message).await?;
        let mut raw = reader.raw(0..message.size());
        while let Some(piece) = raw.try_next().await? {
            writer.write(&piece).await?;
        }
        writer.finish(&text, &structure).await
    }

    /// Says where this node remembers how far logs had come; before an account is used, and once for a process. Without it that is
    /// remembered as long as the process runs.
    pub fn set_watermarks(&self, watermarks: Watermarks) {
        let _ = self.0.watermarks.set(watermarks);
    }

    fn watermarks(&self) -> Watermarks {
        self.0.watermarks.get_or_init(Watermarks::default).clone()
    }

    /// Says who is asked for bodies that are not kept here; once for a process. Without it they cannot be read.
    pub fn set_bodies(&self, bodies: Arc<dyn BodyFetcher>) {
        // Whoever was first is asked.
        let _ = self.0.bodies.set(bodies);
    }

    pub(crate) fn bodies(&self) -> Option<Arc<dyn BodyFetcher>> {
        self.0.bodies.get().cloned()
    }

    /// Unloads accounts that nobody has used for a while. Called from time to time by whoever runs the process.
    pub fn evict_idle(&self) {
        self.expire();
        self.forget_unloaded();
        self.forget_derived();
    }

    /// Unloads every account, or has whoever uses it last do so. Loaded accounts know these, so without that they stay in memory
    /// although nobody has either any more.
    pub fn evict_all(&self) {
        let kept = lock(&self.0.kept).clear();
        drop(kept);
        self.forget_unloaded();
        self.forget_derived();
    }

    /// Drops what was derived from the mail of accounts that nobody has the key of any more: no session, no login that is
    /// remembered, and not the account itself, which was unloaded.
    fn forget_derived(&self) {
        let is_gone = |id: &AccountId, watch: &RootKeyWatch| watch.is_gone() && self.peek(*id).is_none();
        let gone: Vec<_> = {
            let mut cached = lock(&self.0.cached);
            cached.extract_if(|id, watch| is_gone(id, watch)).map(|(id, _)| id).collect()
        };
        for id in gone {
            self.0.structures.forget(id);
            self.0.decoded.forget(id);
            self.0.summaries.forget(id);
            self.0.delivered.forget(id);
        }
    }

    fn expire(&self) {
        let expired = lock(&self.0.kept).expire(self.0.clock.monotonic(), self.0.memory.ample());
        drop(expired);
    }

    /// How many accounts are loaded now.
    pub fn loaded(&self) -> usize {
        self.all_loaded().len()
    }

    /// The store they are in.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// What they measure.
    pub fn metrics(&self) -> &AccountMetrics {
        &self.0.metrics
    }

    pub(crate) fn random(&self) -> &dyn Random {
        &*self.0.random
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    pub(crate) fn shared_clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone()
    }

    /// The memory that they draw on.
    pub fn memory(&self) -> &Budget {
        &self.0.budget
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// The share of it for messages that are being stored. With that for reading it is more than the whole; each leaves the
    /// other something.
    pub(crate) fn storing(&self) -> &Budget {
        &self.0.storing
    }

    /// The share of it for messages that are being read and sent.
    pub(crate) fn reading(&self) -> &Budget {
        &self.0.reading
    }

    pub(crate) fn grace(&self) -> Duration {
        self.0.grace
    }

    pub(crate) fn decoded(&self) -> &DecodedCache {
        &self.0.decoded
    }

    /// Sealed structures that came with deliveries, by their objects.
    pub(crate) fn delivered(&self) -> &Cache<Bytes> {
        &self.0.delivered
    }

    pub(crate) fn structures(&self) -> &Cache<Structure> {
        &self.0.structures
    }

    pub(crate) fn summaries(&self) -> &Cache<Entry> {
        &self.0.summaries
    }

    fn head(&self, id: AccountId) -> Arc<LogEnd> {
        let mut heads = lock(&self.0.heads);
        let Heads { by_account, most } = &mut *heads;
        if by_account.len() >= *most && !by_account.contains_key(&id) {
            by_account.retain(|_, head| Arc::strong_count(head) > 1);
            // Not again before there are so many more that looking through all of them is worth it.
            *most = HEADS.max(by_account.len() * 2);
        }
        let journal = || {
            let journal = Journal::new(self.0.store.clone(), id, &self.0.log_key, self.0.random.clone());
            journal.timed(self.0.clock.clone()).counted(self.0.metrics.journal.clone())
        };
        let head = || Arc::new(LogEnd::new(journal(), self.0.appended.clone(), self.watermarks()));
        by_account.entry(id).or_insert_with(head).clone()
    }

    /// Those that are loaded now.
    pub fn all_loaded(&self) -> Vec<Arc<Account>> {
        let slots: Vec<_> = lock(&self.0.loaded).values().cloned().collect();
        slots.iter().filter_map(|slot| slot.0.try_lock().ok()?.upgrade()).collect()
    }

    fn forget_unloaded(&self) {
        lock(&self.0.loaded).retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.0.try_lock().is_ok_and(|account| account.strong_count() > 0)
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
