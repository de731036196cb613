//! The doorbell between nodes: what is appended here is told to the others over a message bus, and what they tell is
//! looked into.
//!
//! A message says an account and a position, or that its record has changed, and is a hint: it is never believed, only looked into
//! by reading the log or the record, at most as often as [`Accounts::look`] and [`Standings::look`] allow. Without a bus, while it
//! is away, and for a while after somebody has connected to it, polling does the same, later (`docs/decisions/0029-doorbell.md`).
//! The bus is NATS: core publish and subscribe, a text protocol of a few lines, spoken by
//! [`protocol`].

mod connection;
pub(crate) mod fuzz;
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

use crate::auth::standing::Standings;
use crate::settings::Bus;
use crate::shutdown::Shutdown;
use connection::Connection;
pub(crate) use connection::address;
use protocol::{BACK, Line, hint};

/// The first wait before the bus is tried again, and the longest.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(10);
/// After so much silence the bus is asked whether it is there; after twice as much it is taken for gone. What others appended
/// meanwhile is found then, so twice this is well below the ten seconds within which clients are to hear.
const SILENCE: Duration = Duration::from_millis(2500);
/// How long a node that has connected goes on polling, and so do those who hear that it has: others, which were cut off with
/// it, are on their way back, and tell nothing until they are there.
const SETTLE: Duration = RETRY_MAX.saturating_add(CONNECT);
/// Hints sent together.
const TOGETHER: usize = 64;

/// In the place of a position: the account's record has changed, not its log.
const RECORD: Position = Position(u64::MAX);
/// How long it may take to tell of a record.
const TELL: Duration = Duration::from_secs(3);

/// Who is told what is heard.
pub(crate) struct Ears {
    /// Of logs that have grown.
    pub accounts: Accounts,
    /// Of records that have changed.
    pub standings: Standings,
}

/// Tells those who are connected to the bus that the record of an account has changed, for a command that has changed it.
///
/// # Errors
/// `Retry` if they could not be told; they find it out by themselves within minutes.
pub async fn tell_of_record(bus: &Bus, account: AccountId) -> Result<()> {
    let tell = async {
        let mut connection = Connection::open(bus).await?;
        connection.publish(&bus.subject, &[(account, RECORD)]).await?;
        // The answer comes after what was sent before it has been taken.
        connection.ping().await?;
        connection.next().await
    };
    timeout(TELL, tell).await.map_err(|_| Error::retry("the bus does not answer"))?.map(drop)
}

/// Tells and listens until the server ends.
pub(crate) async fn run(bus: Bus, ears: Ears, random: Arc<dyn Random>, shutdown: Shutdown) {
    stay(&bus.subject, || Connection::open(&bus), ears, random, shutdown).await;
}

/// The same over the connections that `open` gives.
async fn stay<Opening: Future<Output = Result<Connection>>>(
    subject: &str,
    open: impl Fn() -> Opening,
    ears: Ears,
    random: Arc<dyn Random>,
    shutdown: Shutdown,
) {
    let mut failures = 0;
    loop {
        let mut connected = false;
        let session = session(subject, open(), &ears, &mut connected);
        let ended = tokio::select! {
            ended = session => ended,
            () = shutdown.wait() => return,
        };
        ears.accounts.poll_often(true);
        ears.standings.told(false);
        if connected {
            failures = 0;
        }
        if let Err(error) = ended {
            tracing::warn!(
                %error,
                "no bus; the store is polled for what other nodes append. Idle clients of nodes that are connected to the \
                 bus may hear of what is appended here minutes late, until this node is connected too"
            );
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
async fn session(
    subject: &str,
    opening: impl Future<Output = Result<Connection>>,
    ears: &Ears,
    connected: &mut bool,
) -> Result<()> {
    let Ears { accounts, standings } = ears;
    let late = |_| Error::retry("the bus does not answer");
    let mut told = accounts.appended();
    let mut connection = timeout(CONNECT, opening).await.map_err(late)??;
    *connected = true;
    tracing::info!("connected to the bus");
    connection.say_back(subject).await?;
    let (mut polls, mut settled_at) = (true, Instant::now() + SETTLE);
    let mut asked = false;
    let mut silent_at = Instant::now() + SILENCE;
    loop {
        tokio::select! {
            line = connection.next() => {
                (asked, silent_at) = (false, Instant::now() + SILENCE);
                match line? {
                    Line::Message(payload) => {
                        match hint(&payload) {
                            Some((account, RECORD)) => standings.look(account),
                            Some((account, _)) => accounts.look(account),
                            // What it appended before was told to nobody.
                            None if payload == BACK => {
                                accounts.poll_often(true);
                                (polls, settled_at) = (true, Instant::now() + SETTLE);
                            }
                            None => {}
                        }
                    }
                    Line::Ping => connection.pong().await?,
                    Line::Error(why) => return Err(Error::retry(format!("the bus says: {why}"))),
                    Line::Other => {}
                }
            }
            hints = next_hints(&mut told) => connection.publish(subject, &hints).await?,
            () = sleep_until(settled_at), if polls => {
                polls = false;
                accounts.poll_often(false);
                // Where asking is cheap, it is asked all the same: not every command may know of the bus.
                standings.told(accounts.store().wants_packs());
            }
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
