//! Whether sessions that logged in may go on: their account is still there, and so is the slot that let them in.
//!
//! A record is read for every login, but a session may last for weeks. For each account with sessions one task reads
//! its record every [`PERIOD`]; sessions hold a [`Standing`], which costs nothing while they wait, and end when the
//! account is removed, their token revoked or the password they used changed. A store that cannot be asked ends
//! nobody's session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use sealpost_account::directory::{AccountName, AccountRecord, Directory};
use sealpost_base::AccountId;
use sealpost_vault::slot::SlotId;
use tokio::sync::watch;

/// How often an account's record is read while it has sessions: what a session may outlive its login by.
pub const PERIOD: Duration = Duration::from_secs(30);

/// All accounts with sessions.
pub struct Standings {
    directory: Directory,
    accounts: Arc<Accounts>,
}

type Accounts = Mutex<HashMap<AccountName, watch::Sender<Known>>>;

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
        let mut accounts = lock(&self.accounts);
        let known = match accounts.get(&record.name) {
            Some(sender) => {
                // A login reads the record too, and may know more than the task.
                sender.send_if_modified(|known| known.learn(record));
                sender.subscribe()
            }
            None => {
                let (sender, receiver) = watch::channel(Known::of(record));
                accounts.insert(record.name.clone(), sender);
                let watching =
                    watch(self.directory.clone(), Arc::downgrade(&self.accounts), record.name.clone());
                tokio::spawn(watching);
                receiver
            }
        };
        Standing { id: record.id, slot, known }
    }

    /// How many accounts are watched now.
    pub fn accounts(&self) -> usize {
        lock(&self.accounts).len()
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
async fn watch(directory: Directory, accounts: Weak<Accounts>, name: AccountName) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(accounts) = accounts.upgrade() else { return };
        {
            // Under the lock, so that nobody subscribes to what is being given up.
            let mut accounts = lock(&accounts);
            if accounts.get(&name).is_none_or(|sender| sender.receiver_count() == 0) {
                accounts.remove(&name);
                return;
            }
        }
        let found = directory.find(&name).await;
        let accounts = lock(&accounts);
        let Some(sender) = accounts.get(&name) else { return };
        match found {
            Ok(Some(record)) => drop(sender.send_if_modified(|known| known.learn(&record))),
            Ok(None) => sender.send_modify(|known| known.slots.clear()),
            Err(error) => tracing::warn!(%error, "cannot ask whether sessions may go on; they do"),
        }
    }
}

fn lock(accounts: &Accounts) -> MutexGuard<'_, HashMap<AccountName, watch::Sender<Known>>> {
    accounts.lock().unwrap_or_else(|e| e.into_inner())
}
