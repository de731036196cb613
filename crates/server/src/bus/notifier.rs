//! Notifies servers of the appends of a command while it runs: a command is not a node, receives no
//! notices and is never missed.
//!
//! Appends within a second are sent together, over a connection of their own, so that an import
//! that takes hours does not have to answer the bus all that time, and one that takes a moment
//! sends one notice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sealpost_account::Accounts;
use sealpost_base::{AccountId, Error, Position, Result};
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::Connection;
use super::{ANNOUNCE_TIME, TOGETHER};
use sealpost_session::settings::Bus;

/// Appends within this time are sent together.
const EVERY: Duration = Duration::from_secs(1);

/// Sends notices of the appends of a process, until it is [ended](Telling::end); dropped, it
/// continues as long as the process.
pub struct BusNotifier {
    end: Arc<Notify>,
    task: JoinHandle<Result<()>>,
}

impl BusNotifier {
    /// Tells from now on of what is appended through `accounts`.
    pub fn begin(bus: &Bus, accounts: &Accounts) -> BusNotifier {
        let end = Arc::new(Notify::new());
        let task = tokio::spawn(announce(bus.clone(), accounts.appended(), end.clone()));
        BusNotifier { end, task }
    }

    /// Sends the remaining notices.
    ///
    /// # Errors
    /// `Retry` if they could not be sent; servers find the appends by themselves within minutes.
    pub async fn end(self) -> Result<()> {
        self.end.notify_one();
        self.task.await.map_err(|e| Error::internal("announcing on the bus ended").with_source(e))?
    }
}

/// Ends of logs, by their accounts: a node that learns of the last entry reads those before it too.
type Ends = BTreeMap<AccountId, Position>;

async fn announce(bus: Bus, mut appended: Receiver<(AccountId, Position)>, end: Arc<Notify>) -> Result<()> {
    let (mut ends, mut is_over) = (Ends::new(), false);
    while !is_over {
        tokio::select! {
            next = appended.recv() => match next {
                Ok((account, position)) => drop(ends.insert(account, position)),
                // Those that are left are of the same logs, most likely.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => is_over = true,
            },
            () = end.notified() => is_over = true,
        }
        if !is_over {
            is_over = timeout(EVERY, end.notified()).await.is_ok();
        }
        take(&mut appended, &mut ends);
        match publish(&bus, &ends).await {
            Ok(()) => ends.clear(),
            Err(e) if is_over => return Err(e),
            // With the next notices.
            Err(error) => tracing::debug!(%error, "cannot notify other nodes"),
        }
    }
    Ok(())
}

/// The waiting notices.
fn take(appended: &mut Receiver<(AccountId, Position)>, ends: &mut Ends) {
    loop {
        match appended.try_recv() {
            Ok((account, position)) => drop(ends.insert(account, position)),
            Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

async fn publish(bus: &Bus, ends: &Ends) -> Result<()> {
    if ends.is_empty() {
        return Ok(());
    }
    let hints: Vec<_> = ends.iter().map(|(account, position)| (*account, *position)).collect();
    let announce = async {
        let mut connection = Connection::open(bus, ANNOUNCE_TIME).await?;
        for hints in hints.chunks(TOGETHER) {
            connection.publish(&bus.subject, hints).await?;
        }
        connection.taken().await
    };
    timeout(ANNOUNCE_TIME, announce).await.map_err(|_| Error::retry("the bus does not answer"))?
}
