//! All accounts as this process uses them: each loaded once, shared by its sessions, unloaded when
//! they do not use it.
//!
//! The memory of loaded accounts is bounded ([`AccountMemory`]): loading another account unloads
//! idle ones, and waits for those in use.

mod account_memory;
mod load_limiter;
mod loaded;
mod log_watcher;
mod poll;
mod shares;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use sealpost_base::{
    AccountId, Budget, Clock, Error, MemoryDivision, Position, Random, Result, SubmissionId, Timestamp,
    limits,
};
use sealpost_directory::{Directory, Watermarks};
use sealpost_journal::Journal;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{PublicKey, RootKey, RootKeyWatch, Store};
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::account::Account;
use crate::bodies::BodyFetcher;
use crate::cache::CacheCounts;
use crate::cpu_gate::CpuGate;
use crate::derived::Derived;
use crate::env::{self, AccountEnv, Evict};
use crate::event::{Event, Flags, Message, Target};
use crate::grown::Grown;
use crate::ingest::{Ingest, Stored};
use crate::log_end::LogEnd;
use crate::metrics::AccountMetrics;
use crate::share::{Link, UnacceptedLinks};
use crate::submission::SubmissionNews;
pub(crate) use account_memory::AccountMemory;
pub use account_memory::{Borrower, Loan, Pressure, Reservation};
pub(crate) use load_limiter::{LoadLimiter, LoadPermit};
use loaded::LoadedAccounts;
pub use log_watcher::{LogWatcher, Ticket};
use poll::Polls;

/// Accounts whose end of the log is remembered between deliveries.
const HEADS: usize = 4096;
/// The timeout of an open that waits for the unloading of its account. If a session holds the
/// account for longer, it stays loaded.
const LEAVING: Duration = Duration::from_secs(5);
/// How long expunged messages, and objects that no event refers to, are kept.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The accounts of a store. Cloning shares them.
#[derive(Clone)]
pub struct Accounts(Arc<Shared>);

struct Shared {
    env: AccountEnv,
    log_key: LogKey,
    heads: Mutex<Heads>,
    loaded: Mutex<HashMap<AccountId, Arc<Slot>>>,
    kept: Arc<Kept>,
    /// The accounts whose derived data may be cached, and whether a session has the key.
    cached: Mutex<HashMap<AccountId, RootKeyWatch>>,
    /// What this process appends.
    appended: broadcast::Sender<(AccountId, Position)>,
    /// What any process appends, as far as this one notices it.
    grown: broadcast::Sender<Grown>,
    polls: Polls,
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
    /// What is derived from the mail; `None`: nothing.
    pub derived: Option<Arc<dyn Derived>>,
}

impl Default for Options {
    fn default() -> Self {
        let memory = MemoryDivision::default();
        Options { budget: memory.budget(), memory, grace: GRACE, derived: None }
    }
}

/// The accounts that stay loaded for a while.
#[derive(Default)]
struct Kept(Mutex<LoadedAccounts>);

impl Kept {
    fn lock(&self) -> MutexGuard<'_, LoadedAccounts> {
        lock(&self.0)
    }
}

impl Evict for Kept {
    fn evict(&self, bytes: usize) {
        let evicted = self.lock().evict(bytes);
        // When nothing is locked any more.
        drop(evicted);
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
    /// Its first flags. Invalid flags, and those beyond the account's limits, are left out.
    pub flags: Flags,
    /// Whether a mailbox of the target's name is made, and subscribed to, if there is none.
    pub create: bool,
    /// The submission of the account that the message is a delivery status notification about.
    pub report_on: Option<SubmissionId>,
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

/// Creates a share for an account.
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
    /// The accounts in `store`, whose logs `key` authenticates, with the default grace period and
    /// division of memory. Starts a task that listens to the store, so it must be called inside a
    /// tokio runtime.
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
        let Options { budget, memory, grace, derived } = options;
        let kept = Arc::new(Kept::default());
        let evictor: Weak<Kept> = Arc::downgrade(&kept);
        let parts = env::Parts { store, clock, random, budget, memory, grace, derived, evictor };
        let accounts = Accounts(Arc::new(Shared {
            env: AccountEnv::new(parts),
            log_key: key,
            heads: Mutex::new(Heads { by_account: HashMap::new(), most: HEADS }),
            loaded: Mutex::default(),
            kept,
            cached: Mutex::default(),
            appended: broadcast::Sender::new(limits::APPENDED_QUEUE),
            grown: broadcast::Sender::new(limits::APPENDED_QUEUE),
            polls: Polls::default(),
            watermarks: OnceLock::new(),
        }));
        tokio::spawn(watch::watch(Arc::downgrade(&accounts.0)));
        tokio::spawn(poll::poll(Arc::downgrade(&accounts.0)));
        accounts
    }

    /// Whether expunged messages and unreferenced objects are removed permanently after their grace
    /// period; not while the clock is doubted.
    pub fn remove_for_good(&self, on: bool) {
        self.0.env.remove_for_good(on);
    }

    /// The account with that root key: loaded if it is not, then shared. What other nodes appended
    /// may be missing for as long as between two polls.
    ///
    /// # Errors
    /// `Denied` if the key is not the one of the account that is loaded; `Corrupt` if there is
    /// nothing that this key opens; `Limit` if the account is larger than all accounts together may
    /// be; `Retry` if others were in use for too long; what the store says.
    pub async fn open(&self, id: AccountId, root: &RootKey) -> Result<Arc<Account>> {
        self.open_if(id, root, self.is_stale(id)).await
    }

    /// As [`Accounts::open`], with everything that any node has acknowledged before: for a new
    /// session, whose client may have used another node until now.
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
            Some(account) if account.has_root(root) || account.renewed(root) => {
                if refresh {
                    self.head(id).looks(self.0.env.clock().monotonic());
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
                head.looks(self.0.env.clock().monotonic());
                let account = Account::load(self.0.env.clone(), head, root).await?;
                *loaded = Arc::downgrade(&account);
                account
            }
        };
        drop(loaded);
        lock(&self.0.cached).insert(id, root.watch());
        let before = self.0.kept.lock().keep(account.clone(), self.0.env.clock().monotonic());
        drop(before);
        self.0.polls.somebody_listens();
        Ok(account)
    }

    /// Whether `root` is the key of the account's log, as a login with it finds out: for a change of
    /// the record, which says nothing about the log. A log without entries has any key.
    ///
    /// # Errors
    /// `Denied` if the account has a newer key; `Corrupt` if the log cannot be opened, or nothing
    /// in it opens with this key; as [`Accounts::open`].
    pub async fn check_key(&self, id: AccountId, root: &RootKey) -> Result<()> {
        let account = self.open(id, root).await?;
        if account.is_damaged() && !account.has_opened().await {
            return Err(Error::corrupt(format!(
                "account {id}: no entry of its log opens with the key in its record: the record is not the \
                 one that belongs to the log, or the log is damaged; \"sealpost check\" names the damage"
            )));
        }
        Ok(())
    }

    /// The account that was released with that ticket, with everything that this process knows to
    /// be in its log.
    ///
    /// # Errors
    /// As [`Accounts::open`].
    pub async fn reopen(&self, ticket: &Ticket) -> Result<Arc<Account>> {
        let account = self.open(ticket.id(), ticket.root()).await?;
        account.catch_up().await?;
        Ok(account)
    }

    /// As [`Accounts::reopen`], for a session that holds no account. If other loads wait for the
    /// memory of this account, they come first: this call waits for the unloading, and then for
    /// memory as they did.
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

    /// The gate for steps over thousands of rows.
    pub fn cpu_gate(&self) -> &CpuGate {
        self.0.env.cpu_gate()
    }

    /// How short the memory for loaded accounts is.
    pub fn memory_pressure(&self) -> Pressure {
        self.0.env.memory().pressure()
    }

    /// Whether it is [`Pressure::Severe`]; cheap enough to ask for every piece that is sent.
    pub fn is_pressure_severe(&self) -> bool {
        self.0.env.memory().is_pressure_severe()
    }

    /// What loaded accounts may take together, and what they take now, in bytes.
    pub fn account_memory(&self) -> (usize, usize) {
        (self.0.env.memory().bytes(), self.0.env.memory().used())
    }

    /// Memory for what a session keeps of an account; `None` if there is not that much.
    pub fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        if let Some(reserved) = self.0.env.memory().try_reserve(bytes) {
            return Some(reserved);
        }
        self.0.env.evict(self.0.env.memory().missing(bytes));
        self.0.env.memory().try_reserve(bytes)
    }

    /// To lend some of this memory for something else ([`Accounts::lend`]); nothing is lent yet.
    pub fn loan(&self) -> Loan {
        self.0.env.memory().loan()
    }

    /// Sets the holder of the loan, who is asked to return some of it while a load waits for memory.
    pub fn set_borrower(&self, borrower: Weak<dyn Borrower>) {
        self.0.env.memory().set_borrower(borrower);
    }

    /// Lends `bytes` in total, and unloads idle accounts for it. Returns false and changes nothing
    /// if that is more than before and not free, or if a load waits for memory.
    pub fn lend(&self, loan: &Loan, bytes: usize) -> bool {
        let more = bytes.saturating_sub(loan.bytes());
        if more == 0 {
            return loan.try_set(bytes);
        }
        if self.memory_pressure() >= Pressure::Short {
            return false;
        }
        let missing = self.0.env.memory().missing(more);
        if missing > 0 {
            self.0.env.evict(missing);
        }
        loan.try_set(bytes)
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
        Ingest::new(&self.0.env, id, 0).await
    }

    /// As [`Accounts::ingest`], for a caller that holds `beside` bytes of other buffers while the
    /// message arrives: both are reserved together, so that no caller waits for memory while
    /// holding some.
    ///
    /// # Errors
    /// What the store says.
    pub async fn ingest_beside(&self, id: AccountId, beside: usize) -> Result<Ingest> {
        Ingest::new(&self.0.env, id, beside).await
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
        let Delivery { received, target, flags, create, report_on } = delivery;
        let (structure, stored) = (message.sealed_structure(), message.message(received));
        let event = Event::Delivered { target, message: stored, structure, flags, create, report_on };
        message.check_age()?;
        self.head(id).deliver(*to, event, self.0.env.clock().now()).await?;
        message.check_age()
    }

    /// Gives an account a share, by its public key alone. Durable when it returns; once the account
    /// reads its log the share has a name there.
    ///
    /// # Errors
    /// What the store says. The offer may then still turn up.
    pub async fn offer(&self, to: AccountId, public: &PublicKey, offer: Offer) -> Result<()> {
        let Offer { link, name, below } = offer;
        let event = Event::Offered { link, name, below, unaccepted: Some(UnacceptedLinks::LIMITS) };
        self.head(to).deliver(*public, event, self.0.env.clock().now()).await
    }

    /// Reports what became of a submission to the account with that public key. Durable when it returns.
    ///
    /// # Errors
    /// What the store says. The report may then still turn up; it may come twice.
    pub async fn report_submission(
        &self,
        to: AccountId,
        public: &PublicKey,
        submission: SubmissionId,
        news: Vec<SubmissionNews>,
    ) -> Result<()> {
        let event = Event::SubmissionOutcome { submission, news };
        self.head(to).deliver(*public, event, self.0.env.clock().now()).await
    }

    /// Seals a message of one log again for another. The message's own key cannot be passed on,
    /// because the log of the message decides how long its object is kept. The message is not
    /// scanned again.
    ///
    /// # Errors
    /// `Corrupt` if the message cannot be read; what the store says.
    pub async fn reseal(&self, from: &Account, message: &Message, to: AccountId) -> Result<Stored> {
        from.reseal(message, to).await
    }

    /// Says where this node remembers how far logs had come; before an account is used, and once
    /// for a process. Without it that is remembered as long as the process runs.
    pub fn set_watermarks(&self, watermarks: Watermarks) {
        let _ = self.0.watermarks.set(watermarks);
    }

    fn watermarks(&self) -> Watermarks {
        self.0.watermarks.get_or_init(Watermarks::default).clone()
    }

    /// Sets the source of evicted bodies, once per process. Without it they cannot be read.
    pub fn set_bodies(&self, bodies: Arc<dyn BodyFetcher>) {
        self.0.env.set_bodies(bodies);
    }

    /// Says where the later keys of shares are looked up; once for a process. Without it shares that
    /// were given another key cannot be opened.
    pub fn set_directory(&self, directory: Directory) {
        self.0.env.set_directory(directory);
    }

    /// Where the keys of shares are looked up.
    pub fn directory(&self) -> Option<&Directory> {
        self.0.env.directory()
    }

    /// Unloads accounts that have been idle for a while. The process calls it periodically.
    pub fn evict_idle(&self) {
        self.expire();
        self.forget_unloaded();
        self.forget_derived();
    }

    /// Unloads every account, or makes the last session that uses it do so.
    pub fn evict_all(&self) {
        let kept = self.0.kept.lock().clear();
        drop(kept);
        self.forget_unloaded();
        self.forget_derived();
    }

    /// Removes derived data from the cache for accounts whose key this process no longer has: they
    /// have no session and no cached login, and are unloaded.
    fn forget_derived(&self) {
        let is_wiped = |id: &AccountId, watch: &RootKeyWatch| watch.is_wiped() && self.peek(*id).is_none();
        let gone: Vec<_> = {
            let mut cached = lock(&self.0.cached);
            cached.extract_if(|id, watch| is_wiped(id, watch)).map(|(id, _)| id).collect()
        };
        for id in gone {
            self.0.env.forget(id);
        }
    }

    fn expire(&self) {
        let expired = self.0.kept.lock().expire(self.0.env.clock().monotonic(), self.0.env.memory().ample());
        drop(expired);
    }

    /// How many accounts are loaded now.
    pub fn loaded(&self) -> usize {
        self.all_loaded().len()
    }

    /// The store they are in.
    pub fn store(&self) -> &Store {
        self.0.env.store()
    }

    /// What they measure.
    pub fn metrics(&self) -> &AccountMetrics {
        self.0.env.metrics()
    }

    /// What the caches of what was read of messages counted, by name.
    pub fn cache_counts(&self) -> Vec<(&'static str, CacheCounts)> {
        self.0.env.cache_counts()
    }

    /// The memory that they draw on.
    pub fn memory(&self) -> &Budget {
        self.0.env.budget()
    }

    fn head(&self, id: AccountId) -> Arc<LogEnd> {
        let mut heads = lock(&self.0.heads);
        let Heads { by_account, most } = &mut *heads;
        if by_account.len() >= *most && !by_account.contains_key(&id) {
            by_account.retain(|_, head| Arc::strong_count(head) > 1);
            // Not again before there are so many more that looking through all of them is worth it.
            *most = HEADS.max(by_account.len() * 2);
        }
        let env = &self.0.env;
        let journal = || {
            let journal = Journal::new(env.store().clone(), id, &self.0.log_key, env.shared_random());
            journal.timed(env.shared_clock()).counted(env.metrics().journal.clone())
        };
        let (appended, grown) = (self.0.appended.clone(), self.0.grown.clone());
        let head = || Arc::new(LogEnd::new(journal(), appended, grown, self.watermarks()));
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
