//! The doorbell between nodes: what is appended here is told to the others over a message bus, and what they tell is
//! looked into.
//!
//! A message says an account and a position, and is a hint: it is never believed, only looked into by reading the log, at most as
//! often as [`Accounts::look`] allows. Without a bus, or while it is away, polling does the same, later
//! (`docs/decisions/0029-doorbell.md`). The bus is NATS: core publish and subscribe, a text protocol of a few lines, spoken by
//! [`protocol`].

mod connection;
mod protocol;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use sealpost_account::Accounts;
use sealpost_base::{AccountId, Error, Position, Random, Result};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::settings::Bus;
use crate::shutdown::Shutdown;
use connection::Connection;
pub(crate) use connection::address;
use protocol::{Line, hint};

/// The first wait before the bus is tried again, and the longest.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(10);
/// After so much silence the bus is asked whether it is there; after twice as much it is taken for gone.
const SILENCE: Duration = Duration::from_secs(20);
/// Hints sent together.
const TOGETHER: usize = 64;

/// Tells and listens until the server ends.
pub(crate) async fn run(bus: Bus, accounts: Accounts, random: Arc<dyn Random>, shutdown: Shutdown) {
    let mut failures = 0;
    loop {
        let mut connected = false;
        let session = session(&bus, &accounts, &mut connected);
        let ended = tokio::select! {
            ended = session => ended,
            () = shutdown.wait() => return,
        };
        accounts.poll_often(true);
        if connected {
            failures = 0;
        }
        if let Err(error) = ended {
            tracing::warn!(%error, "no bus; the store is polled for what other nodes append");
        }
        let longest = RETRY.saturating_mul(1 << failures.min(10)).min(RETRY_MAX);
        let wait = longest / 2 + longest.mul_f64((random.next_u64() % 512) as f64 / 1024.0);
        failures += 1;
        tokio::select! {
            () = sleep(wait) => {}
            () = shutdown.wait() => return,
        }
    }
}

/// One connection, from its beginning to its end.
async fn session(bus: &Bus, accounts: &Accounts, connected: &mut bool) -> Result<()> {
    let late = |_| Error::retry("the bus does not answer");
    let mut told = accounts.appended();
    let mut connection = timeout(CONNECT, Connection::open(bus)).await.map_err(late)??;
    *connected = true;
    tracing::info!("connected to the bus");
    accounts.poll_often(false);
    let mut asked = false;
    let mut silent_at = Instant::now() + SILENCE;
    loop {
        tokio::select! {
            line = connection.next() => {
                (asked, silent_at) = (false, Instant::now() + SILENCE);
                match line? {
                    Line::Message(payload) => {
                        if let Some((account, _)) = hint(&payload) {
                            accounts.look(account);
                        }
                    }
                    Line::Ping => connection.pong().await?,
                    Line::Error(why) => return Err(Error::retry(format!("the bus says: {why}"))),
                    Line::Other => {}
                }
            }
            hints = next_hints(&mut told) => connection.publish(&bus.subject, &hints).await?,
            () = sleep_until(silent_at) => {
                if asked {
                    return Err(Error::retry("the bus has gone silent"));
                }
                connection.ping().await?;
                (asked, silent_at) = (true, Instant::now() + SILENCE);
            }
        }
    }
}

/// What was appended here, at least one thing. Those that were too many are left to polling.
async fn next_hints(told: &mut Receiver<(AccountId, Position)>) -> Vec<(AccountId, Position)> {
    let mut hints = Vec::new();
    loop {
        match told.recv().await {
            Ok(hint) => hints.push(hint),
            Err(RecvError::Lagged(_)) => continue,
            // The accounts are gone, and so is the server.
            Err(RecvError::Closed) => std::future::pending().await,
        }
        while hints.len() < TOGETHER
            && let Ok(hint) = told.try_recv()
        {
            hints.push(hint);
        }
        return hints;
    }
}
