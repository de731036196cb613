//! Leases on loaded accounts. A session that waits for its client, or for changes, releases the memory of its
//! accounts and keeps tickets that open them again (`docs/decisions/0022-memory.md`).
//!
//! A lease covers all accounts that a session uses: the user's own, and the logs of shared mailboxes. They
//! are released together, and opened again together or not at all. Meanwhile [`LogWatchers`] notify the
//! session of new log entries, whether or not the accounts are loaded.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use sealpost_account::{Account, Accounts, LogWatcher, Pressure, Ticket};
use sealpost_base::Result;
use tokio::time::sleep;

/// How long a waiting session keeps its accounts while many are loaded. A client that sends several commands
/// in a row finds them loaded.
const BRIEFLY: Duration = Duration::from_millis(50);

/// The accounts of a session: held, or released with `A` = [`Ticket`].
pub struct Lease<A = Arc<Account>> {
    /// The user's own account.
    pub own: A,
    /// Other accounts that the session uses. One of them may also be the user's own.
    pub others: Vec<A>,
}

/// Watches several logs for entries after the states of their accounts.
pub struct LogWatchers(Vec<LogWatcher>);

impl LogWatchers {
    /// Combines watchers.
    pub fn new(watchers: impl IntoIterator<Item = LogWatcher>) -> Self {
        LogWatchers(watchers.into_iter().collect())
    }

    /// Completes when one of the logs has such an entry; never if there are no logs.
    pub async fn notified(&self) {
        if self.0.is_empty() {
            std::future::pending::<()>().await;
        }
        select_all(self.0.iter().map(|watcher| Box::pin(watcher.changed()))).await;
    }
}

impl Lease {
    /// A lease on a user's own account, and on another one that the session uses.
    pub fn new(own: Arc<Account>, other: Option<Arc<Account>>) -> Self {
        Lease { own, others: other.into_iter().collect() }
    }

    /// Watchers for entries after the present states of the accounts. Create them before reading the states,
    /// so that no entry is missed.
    pub fn watchers(&self) -> impl Iterator<Item = LogWatcher> {
        self.all().map(|account| account.log_watcher())
    }

    /// Whether other requests wait for the memory of one of the accounts. A session then releases them
    /// between two commands.
    pub fn is_wanted(&self) -> bool {
        self.all().any(|account| account.is_leaving())
    }

    /// Completes when a waiting session must release the accounts, and holds them until then: after `keep`;
    /// earlier if many accounts are loaded; at once if loaded accounts take more than half of their memory;
    /// and as soon as other requests need it.
    pub async fn release_due(self, accounts: Accounts, keep: Duration) {
        let pressure = accounts.memory_pressure();
        if keep.is_zero() || pressure >= Pressure::Scarce {
            return;
        }
        let keep = if pressure == Pressure::Ample { keep } else { keep.min(BRIEFLY) };
        let wanted = select_all(self.all().map(|account| Box::pin(account.wanted())));
        tokio::select! {
            () = sleep(keep) => {}
            _ = wanted => {}
        }
    }

    /// Releases the accounts.
    pub fn release(self) -> Lease<Ticket> {
        let ticket = |account: &Arc<Account>| account.ticket();
        Lease { own: ticket(&self.own), others: self.others.iter().map(ticket).collect() }
    }

    /// Catches up with the log entries that this process knows.
    ///
    /// # Errors
    /// Store errors.
    pub async fn catch_up(&self) -> Result<()> {
        for account in self.all() {
            account.catch_up().await?;
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Account>> {
        [&self.own].into_iter().chain(&self.others)
    }
}

impl Lease<Ticket> {
    /// Opens the accounts again, with all log entries that this process knows. Waits behind other requests
    /// for the memory of the user's own account.
    ///
    /// # Errors
    /// As [`Accounts::reopen_by`]; no account is held then.
    pub async fn reopen(&self, accounts: &Accounts) -> Result<Lease> {
        let own = accounts.reopen_in_turn(&self.own).await?;
        let mut others = Vec::with_capacity(self.others.len());
        for ticket in &self.others {
            others.push(accounts.reopen_by(&own, ticket).await?);
        }
        Ok(Lease { own, others })
    }
}
