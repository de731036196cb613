//! Whether sessions that logged in may go on: their account is still there, and so is the slot that let them in.
//!
//! A record is read for every login, but a session may last for weeks. For each account with sessions one task reads
//! its record every [`PERIOD`]; sessions hold a [`Standing`], which costs nothing while they wait, and end when the
//! account is removed, their token revoked or the password they used changed. A store that cannot be asked ends
//! nobody's session.
//!
//! While a bus is connected, those who change a record tell (`crate::bus`), and it is read only every [`SELDOM`] besides: what is
//! told may be lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use sealpost_account::directory::{AccountName, AccountRecord, Directory};
use sealpost_base::AccountId;
use sealpost_vault::slot::SlotId;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

/// How often an account's record is read while it has sessions: what a session may outlive its login by.
pub const PERIOD: Duration = Duration::from_secs(30);

/// The same while somebody tells of changes.
pub const SELDOM: Duration = Duration::from_secs(300);
/// Between two readings of one record, however often somebody tells.
const BETWEEN: Duration = Duration::from_secs(1);

/// All accounts with sessions. Cloning shares them.
#[derive(Clone)]
pub struct Standings {
    directory: Directory,
    accounts: Arc<Accounts>,
}

#[derive(Default)]
struct Accounts {
    watched: Mutex<HashMap<AccountName, Watched>>,
    /// Somebody tells of changes.
    told: AtomicBool,
}

/// An account with sessions.
struct Watched {
    known: watch::Sender<Known>,
    /// Rings when its record is to be read.
    look: Arc<Notify>,
}

/// What the store last said of an account.
struct Known {
    id: AccountId,
    version: u64,
    /// Empty once the account is removed.
    slots: Vec<SlotId>,
}

/// The right of a session to go on.
pub struct Standing {
    id: AccountId,
    slot: SlotId,
    known: watch::Receiver<Known>,
}

impl Standings {
    /// Nobody has logged in yet.
    pub fn new(directory: Directory) -> Self {
        Standings { directory, accounts: Arc::default() }
    }

    /// Of a session that logged in with `slot` of `record`. Must be called inside a tokio runtime.
    pub fn begin(&self, record: &AccountRecord, slot: SlotId) -> Standing {
        let mut watched = self.accounts.lock();
        let known = match watched.get(&record.name) {
            Some(account) => {
                // A login reads the record too, and may know more than the task.
                account.known.send_if_modified(|known| known.learn(record));
                account.known.subscribe()
            }
            None => {
                let (sender, receiver) = watch::channel(Known::of(record));
                let look = Arc::new(Notify::new());
                watched.insert(record.name.clone(), Watched { known: sender, look: look.clone() });
                let accounts = Arc::downgrade(&self.accounts);
                tokio::spawn(watch(self.directory.clone(), accounts, record.name.clone(), look));
                receiver
            }
        };
        Standing { id: record.id, slot, known }
    }

    /// Whether somebody tells of changes from now on. When nobody does any more, all records are read: one may have changed
    /// unheard.
    pub fn told(&self, told: bool) {
        let before = self.accounts.told.swap(told, Ordering::Relaxed);
        if before && !told {
            self.accounts.lock().values().for_each(|account| account.look.notify_one());
        }
    }

    /// Somebody says that the record of this account has changed.
    pub fn look(&self, account: AccountId) {
        let watched = self.accounts.lock();
        for account in watched.values().filter(|watched| watched.known.borrow().id == account) {
            account.look.notify_one();
        }
    }

    /// How many accounts are watched now.
    pub fn accounts(&self) -> usize {
        self.accounts.lock().len()
    }
}

impl Standing {
    /// Whether the session may go on.
    pub fn holds(&self) -> bool {
        self.known.borrow().admits(self.id, self.slot)
    }

    /// Waits until it may not. Cancel-safe.
    pub async fn lost(&self) {
        let mut known = self.known.clone();
        // The sender is there as long as receivers are. If it went nevertheless, the session would go on as before.
        if known.wait_for(|known| !known.admits(self.id, self.slot)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Known {
    fn of(record: &AccountRecord) -> Self {
        let slots =
            if record.is_active() { record.slots.iter().map(|slot| slot.id()).collect() } else { Vec::new() };
        Known { id: record.id, version: record.version, slots }
    }

    /// Takes over a newer record; whether it was newer.
    fn learn(&mut self, record: &AccountRecord) -> bool {
        let newer = record.version > self.version;
        if newer {
            *self = Known::of(record);
        }
        newer
    }

    fn admits(&self, id: AccountId, slot: SlotId) -> bool {
        self.id == id && self.slots.contains(&slot)
    }
}

/// Reads the record of one account again and again, until it has no sessions or the server is gone.
async fn watch(directory: Directory, accounts: Weak<Accounts>, name: AccountName, look: Arc<Notify>) {
    let mut read = Instant::now();
    loop {
        let asked = timeout(PERIOD, look.notified()).await.is_ok();
        let Some(accounts) = accounts.upgrade() else { return };
        {
            // Under the lock, so that nobody subscribes to what is being given up.
            let mut watched = accounts.lock();
            if watched.get(&name).is_none_or(|account| account.known.receiver_count() == 0) {
                watched.remove(&name);
                return;
            }
        }
        if !asked && accounts.told.load(Ordering::Relaxed) && read.elapsed() < SELDOM {
            continue;
        }
        read = Instant::now();
        let found = directory.find(&name).await;
        {
            let watched = accounts.lock();
            let Some(Watched { known, .. }) = watched.get(&name) else { return };
            match found {
                Ok(Some(record)) => drop(known.send_if_modified(|known| known.learn(&record))),
                Ok(None) => known.send_modify(|known| known.slots.clear()),
                Err(error) => tracing::warn!(%error, "cannot ask whether sessions may go on; they do"),
            }
        }
        drop(accounts);
        sleep(BETWEEN).await;
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<AccountName, Watched>> {
        self.watched.lock().unwrap_or_else(|e| e.into_inner())
    }
}
