//! Whether the logins of open sessions are still valid: the account exists, and has the slot of the login.
//!
//! Every login reads the record, but a session may last for weeks. So one task reads the records of accounts
//! with sessions every [`PERIOD`]. Sessions hold a [`Standing`], which costs nothing while they wait. A
//! session ends when its account is removed or suspended, its app password revoked, or its password changed.
//! A store that cannot be read ends no session.
//!
//! If the store reports changes, the task reads it only after a change: ten thousand waiting sessions cost
//! nothing. With a bus, processes that change a record announce it there. The task then also reads all
//! records every [`SELDOM`], since a notice may be lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures::StreamExt;
use sealpost_base::AccountId;
use sealpost_directory::{AccountName, AccountRecord, Directory, Quotas};
use sealpost_vault::PublicKey;
use sealpost_vault::slot::SlotId;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

/// How often the records of accounts with sessions are read: how long a session may outlive its login.
pub const PERIOD: Duration = Duration::from_secs(30);

/// The same interval while a bus is connected.
pub const SELDOM: Duration = Duration::from_secs(300);
/// The least interval between two reads of one record, however many notices arrive.
const BETWEEN: Duration = Duration::from_secs(1);
/// Concurrent reads of records.
const AT_ONCE: usize = 8;

/// All accounts with sessions. Clones share them.
#[derive(Clone)]
pub struct Standings {
    directory: Directory,
    accounts: Arc<Accounts>,
}

#[derive(Default)]
struct Accounts {
    table: Mutex<Table>,
    /// Whether a bus is connected.
    is_bus_connected: AtomicBool,
    /// Notified when a record must be read at once.
    look: Arc<Notify>,
}

#[derive(Default)]
struct Table {
    watched: HashMap<AccountName, Watched>,
    /// Whether the task runs.
    running: bool,
}

/// An account with sessions.
struct Watched {
    known: watch::Sender<StoredAccount>,
    due: Due,
}

/// When a record is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// After a change in the store.
    Changed,
    /// In the next round in any case: it may have changed since it was read.
    Next,
    /// At once.
    Now,
}

/// What sessions show of the account's record, as it was last read from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSummary {
    /// The version of the record.
    pub version: u64,
    /// The limits of the account.
    pub quotas: Quotas,
    /// How often its vacation response was changed.
    pub vacation: u64,
}

/// The account's record as last read from the store.
struct StoredAccount {
    id: AccountId,
    summary: RecordSummary,
    /// Empty while the account is suspended, and once it is removed.
    slots: Vec<SlotId>,
    /// The public part of the root key. Sessions under an earlier key must log in again, and a login refuses
    /// a forged one.
    public: PublicKey,
}

/// The validity of a session's login. Clones share its state.
#[derive(Clone)]
pub struct Standing {
    id: AccountId,
    slot: SlotId,
    public: PublicKey,
    known: watch::Receiver<StoredAccount>,
}

impl Standings {
    /// Starts without sessions.
    pub fn new(directory: Directory) -> Self {
        Standings { directory, accounts: Arc::default() }
    }

    /// The validity of a session that logged in with `slot` of `record`. Call it inside a tokio runtime.
    pub fn begin(&self, record: &AccountRecord, slot: SlotId) -> Standing {
        let mut table = self.accounts.lock();
        let known = match table.watched.get(&record.name) {
            Some(account) => {
                // A login reads the record too, and may have read a newer version than the task.
                account.known.send_if_modified(|known| known.learn(record));
                account.known.subscribe()
            }
            None => {
                let (sender, receiver) = watch::channel(StoredAccount::of(record));
                // A round may have passed since the login read the record.
                let watched = Watched { known: sender, due: Due::Next };
                table.watched.insert(record.name.clone(), watched);
                receiver
            }
        };
        if !std::mem::replace(&mut table.running, true) {
            let accounts = Arc::downgrade(&self.accounts);
            tokio::spawn(watch(self.directory.clone(), accounts, self.accounts.look.clone()));
        }
        Standing { id: record.id, slot, public: record.public, known }
    }

    /// Notes whether a bus is connected. When it disconnects, the task reads all records: a notice may have
    /// been lost.
    pub fn set_bus_connected(&self, is_connected: bool) {
        let before = self.accounts.is_bus_connected.swap(is_connected, Ordering::Relaxed);
        if before && !is_connected {
            self.look_at(|_| true);
        }
    }

    /// Handles a notice that the record of this account has changed.
    pub fn look(&self, account: AccountId) {
        self.look_at(|known| known.id == account);
    }

    fn look_at(&self, which: impl Fn(&StoredAccount) -> bool) {
        let mut table = self.accounts.lock();
        let mut any = false;
        for watched in table.watched.values_mut().filter(|watched| which(&watched.known.borrow())) {
            watched.due = Due::Now;
            any = true;
        }
        if any {
            self.accounts.look.notify_one();
        }
    }

    /// The number of watched accounts.
    pub fn accounts(&self) -> usize {
        self.accounts.lock().watched.len()
    }
}

impl Standing {
    /// The slot that the session logged in with.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Whether the login is still valid.
    pub fn holds(&self) -> bool {
        self.known.borrow().admits(self)
    }

    /// What the account's record says now, as far as this process has read it.
    pub fn record(&self) -> RecordSummary {
        self.known.borrow().summary
    }

    /// Waits until this process has read a later version of the record. Cancel-safe.
    pub async fn record_changed(&self, since: u64) {
        let mut known = self.known.clone();
        if known.wait_for(|known| known.summary.version > since).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the login is no longer valid. Cancel-safe.
    pub async fn lost(&self) {
        let mut known = self.known.clone();
        // The sender lives as long as receivers do. If it were dropped nevertheless, the session would
        // continue.
        if known.wait_for(|known| !known.admits(self)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl StoredAccount {
    fn of(record: &AccountRecord) -> Self {
        let slots =
            if record.lets_in() { record.slots.iter().map(|slot| slot.id()).collect() } else { Vec::new() };
        let (version, quotas) = (record.version, record.quotas());
        let vacation = record.vacation.map_or(0, |mark| mark.number);
        let summary = RecordSummary { version, quotas, vacation };
        StoredAccount { id: record.id, summary, slots, public: record.public }
    }

    /// Adopts a newer record; returns whether it was newer.
    fn learn(&mut self, record: &AccountRecord) -> bool {
        let newer = record.version > self.summary.version;
        if newer {
            *self = StoredAccount::of(record);
        }
        newer
    }

    fn admits(&self, session: &Standing) -> bool {
        self.id == session.id && self.public == session.public && self.slots.contains(&session.slot)
    }
}

/// Reads records in rounds until no session is left or the server stops.
async fn watch(directory: Directory, accounts: Weak<Accounts>, look: Arc<Notify>) {
    let (mut round, mut read_all, mut seen) = (Instant::now() + PERIOD, Instant::now(), None);
    loop {
        let asked = timeout_at(round, look.notified()).await.is_ok();
        let Some(accounts) = accounts.upgrade() else { return };
        let seldom = accounts.is_bus_connected.load(Ordering::Relaxed) && read_all.elapsed() < SELDOM;
        let from = if asked || seldom {
            Due::Now
        } else {
            // Taken before the records are read: later changes belong to the next round.
            let now = directory.store_moment();
            let same = now.is_some() && now == seen;
            (seen, read_all) = (now, Instant::now());
            if same { Due::Next } else { Due::Changed }
        };
        if !asked {
            round = Instant::now() + PERIOD;
        }
        // Under the lock, so that no session subscribes while the table is dropped.
        let Some(names) = accounts.lock().due(from) else { return };
        let any = !names.is_empty();
        let read = |name| read(&directory, &accounts, name);
        futures::stream::iter(names).for_each_concurrent(AT_ONCE, read).await;
        drop(accounts);
        if any {
            sleep(BETWEEN).await;
        }
    }
}

async fn read(directory: &Directory, accounts: &Accounts, name: AccountName) {
    let found = directory.find(&name).await;
    let mut table = accounts.lock();
    let Some(Watched { known, due }) = table.watched.get_mut(&name) else { return };
    match found {
        Ok(Some(record)) => drop(known.send_if_modified(|known| known.learn(&record))),
        Ok(None) => known.send_modify(|known| known.slots.clear()),
        Err(error) => {
            tracing::warn!(%error, "cannot check whether sessions are still authorized; they continue");
            *due = (*due).max(Due::Next);
        }
    }
}

impl Table {
    /// The accounts with sessions that are at least as due as `from`; marks them as read. `None` if there are
    /// no sessions, and the task ends.
    fn due(&mut self, from: Due) -> Option<Vec<AccountName>> {
        self.watched.retain(|_, watched| watched.known.receiver_count() > 0);
        if self.watched.is_empty() {
            // Free the memory of a table that was large.
            *self = Table::default();
            return None;
        }
        let due = self.watched.iter_mut().filter(|(_, watched)| watched.due >= from);
        let due = due.map(|(name, watched)| {
            watched.due = Due::Changed;
            name.clone()
        });
        Some(due.collect())
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }
}
