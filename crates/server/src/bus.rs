//! Notifications between nodes: each node reports its appends to the others over a message bus, and
//! reads the logs that others report.
//!
//! A message names an account and a position, or a changed record, and is a hint: a node only reads
//! that log or record, at most as often as [`Accounts::look`] and [`Standings::look`] allow.
//! Polling does the same later, without a bus, while it is disconnected, for a while after a node
//! has connected to it, and while a node is missed on it ([`others`];
//! `docs/decisions/0029-doorbell.md`). The bus is NATS: core publish and subscribe, a text protocol
//! of a few lines, in [`protocol`].

mod connection;
pub(crate) mod fuzz;
mod node_id;
mod notifier;
mod others;
mod protocol;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use sealpost_account::Accounts;
use sealpost_base::{AccountId, Error, Position, Random, Result};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(crate) use connection::addresses;
use connection::{Connection, refused};
use node_id::NodeId;
pub use notifier::BusNotifier;
use others::{Others, PRESENCE_INTERVAL};
use protocol::{Line, Presence, hint, presence};
use sealpost_auth::standing::Standings;
use sealpost_session::Shutdown;
use sealpost_session::settings::Bus;

/// What is wrong with the settings of the bus, in words.
pub fn check(bus: &Bus) -> Option<&'static str> {
    let subject = !bus.subject.is_empty()
        && bus.subject.len() <= 200
        && bus.subject.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if !subject {
        return Some("bus.subject: letters, digits, dots, `_` and `-`");
    }
    if !bus.url.is_empty() && addresses(&bus.url).is_err() {
        return Some("bus.url: as in \"nats://host:4222\" or \"tls://one:4222,tls://two:4222\"");
    }
    if bus.certificate.as_os_str().is_empty() != bus.key.as_os_str().is_empty() {
        return Some("bus.certificate and bus.key: both or none");
    }
    let tls = bus.url.starts_with("tls://");
    (tls && bus.ca.as_os_str().is_empty())
        .then_some("bus.ca: the certificates to trust are needed for tls://")
}

/// The first wait before the bus is tried again, and the longest.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A connection that lasted so long was none that failed.
const STAYED: Duration = Duration::from_secs(10);
/// How long connecting and logging in may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The time within which clients learn of appends of another node, whatever happens to the bus.
const PROMISE: Duration = Duration::from_secs(10);
/// After this silence a node sends a ping to the bus; after twice as much it counts the connection
/// as lost. Appends of others in that time are found then, so twice this is well below [`PROMISE`].
const SILENCE: Duration = Duration::from_millis(2500);
/// How long a node polls after it has connected, and after another one has: nodes that were
/// disconnected with it are reconnecting, and send no notifications until then.
const SETTLE: Duration = RETRY_MAX.saturating_add(CONNECT);
/// Hints sent together.
const TOGETHER: usize = 64;

/// In the place of a position: the account's record has changed, not its log.
const RECORD: Position = Position(u64::MAX);
/// How long announcing a record may take.
const ANNOUNCE_TIME: Duration = Duration::from_secs(3);
/// How long saying goodbye may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// The receivers of notifications.
pub(crate) struct Ears {
    /// Of logs that have grown.
    pub accounts: Accounts,
    /// Of records that have changed.
    pub standings: Standings,
}

/// Notifies the nodes on the bus that the record of an account has changed, for a command that has
/// changed it.
///
/// # Errors
/// `Retry` if they could not be notified; they find it out by themselves within minutes.
pub async fn notify_record_changed(bus: &Bus, account: AccountId) -> Result<()> {
    let announce = async {
        let mut connection = Connection::open(bus, ANNOUNCE_TIME).await?;
        connection.publish(&bus.subject, &[(account, RECORD)]).await?;
        connection.taken().await
    };
    timeout(ANNOUNCE_TIME, announce).await.map_err(|_| Error::retry("the bus does not answer"))?
}

/// Tells and listens until `shutdown`, which is to begin when nothing is appended here any more.
pub(crate) async fn run(bus: Bus, ears: Ears, random: Arc<dyn Random>, shutdown: Shutdown) {
    let (directory, fresh) = (bus.node.clone(), random.clone());
    let claim = move || NodeId::claim(directory.as_deref(), &*fresh);
    let claimed = tokio::task::spawn_blocking(claim).await;
    // No other process may take it before the goodbye.
    let claimed = claimed.unwrap_or_else(|_| NodeId::claim(None, &*random));
    stay(&bus.subject, claimed.id, || Connection::open(&bus, CONNECT), ears, random, shutdown).await;
    drop(claimed);
}

/// The same over the connections that `open` gives.
async fn stay<Opening: Future<Output = Result<Connection>>>(
    subject: &str,
    me: u64,
    open: impl Fn() -> Opening,
    ears: Ears,
    random: Arc<dyn Random>,
    shutdown: Shutdown,
) {
    let (others, fresh) = (Others::default(), random.clone());
    let mut node = Node { subject, me, random: fresh, others, polls: true, ears, shutdown };
    let mut failures = 0;
    loop {
        let (mut connected, began) = (false, Instant::now());
        let ended = node.session(open(), &mut connected).await;
        if node.shutdown.is_stopping() {
            return;
        }
        node.poll(true);
        node.ears.standings.set_bus_connected(false);
        // A bus that accepts the login and then refuses messages is retried after a pause.
        if connected && began.elapsed() >= STAYED {
            failures = 0;
        }
        if let Err(error) = ended {
            tracing::warn!(
                %error,
                "no connection to the bus: this node polls the store. Changes made here can take up to five \
                 minutes to reach idle clients of other nodes"
            );
        }
        let longest = RETRY.saturating_mul(1 << failures.min(10)).min(RETRY_MAX);
        let wait = longest / 2 + longest.mul_f64((random.next_u64() % 512) as f64 / 1024.0);
        failures += 1;
        tokio::select! {
            () = sleep(wait) => {}
            () = node.shutdown.wait() => return,
        }
    }
}

/// This node on the bus.
struct Node<'a> {
    subject: &'a str,
    /// What it calls itself, to be missed if it falls silent.
    me: u64,
    random: Arc<dyn Random>,
    others: Others,
    /// The store is polled.
    polls: bool,
    ears: Ears,
    shutdown: Shutdown,
}

impl Node<'_> {
    /// One connection, from its beginning to its end.
    async fn session(
        &mut self,
        opening: impl Future<Output = Result<Connection>>,
        connected: &mut bool,
    ) -> Result<()> {
        let late = |_| Error::retry("the bus does not answer");
        let shutdown = self.shutdown.clone();
        let told = self.ears.accounts.appended();
        let connection = tokio::select! {
            opened = timeout(CONNECT, opening) => opened.map_err(late)??,
            () = shutdown.wait() => return Ok(()),
        };
        *connected = true;
        tracing::info!("connected to the bus");
        self.talk(connection, told).await
    }

    /// Sends the notices of `told`, and receives others, until the connection or this node ends.
    async fn talk(
        &mut self,
        mut connection: Connection,
        mut told: Receiver<(AccountId, Position)>,
    ) -> Result<()> {
        let (subject, shutdown) = (self.subject, self.shutdown.clone());
        connection.say(subject, Presence::Back).await?;
        let records_at = Instant::now() + SETTLE;
        let mut settled_at = records_at;
        let (mut asked, mut silent_at) = (false, Instant::now() + SILENCE);
        let mut presence_at = Instant::now();
        loop {
            tokio::select! {
                line = connection.next() => {
                    (asked, silent_at) = (false, Instant::now() + SILENCE);
                    match line? {
                        Line::Message(payload) if presence(&payload) == Some(Presence::Back) => {
                            // No node was notified of its earlier appends.
                            settled_at = Instant::now() + SETTLE;
                            self.poll(true);
                        }
                        Line::Message(payload) if presence(&payload) == Some(Presence::Here(self.me)) => {
                            // The bus does not return this node's own messages. A second node with
                            // the same id would hide the silence of the first; the other one then
                            // announces itself again.
                            tracing::info!(
                                "another node uses the same id on the bus, as after copying a data directory; \
                                 this node takes a new id"
                            );
                            connection.say(subject, Presence::Leaves(self.me)).await?;
                            self.me = self.random.next_u64();
                        }
                        Line::Message(payload) => self.hear(&payload),
                        Line::Ping => connection.pong().await?,
                        Line::Error(why) => return Err(refused(&why)),
                        Line::Pong | Line::Other => {}
                    }
                }
                hints = next_hints(&mut told) => match hints {
                    Some(hints) => connection.publish(subject, &hints).await?,
                    // Some notices were lost.
                    None => connection.say(subject, Presence::Back).await?,
                },
                () = sleep_until(presence_at) => {
                    connection.say(subject, Presence::Here(self.me)).await?;
                    presence_at = Instant::now() + PRESENCE_INTERVAL;
                    self.look_round(Instant::now() >= settled_at, Instant::now() >= records_at);
                }
                () = sleep_until(silent_at) => {
                    if asked {
                        return Err(Error::retry("the bus no longer responds"));
                    }
                    connection.ping().await?;
                    (asked, silent_at) = (true, Instant::now() + SILENCE);
                }
                () = shutdown.wait() => {
                    let goodbye = self.say_goodbye(&mut connection, &mut told);
                    return timeout(GOODBYE, goodbye).await.unwrap_or(Ok(()));
                }
            }
        }
    }

    /// Looks into what another node says.
    fn hear(&mut self, payload: &[u8]) {
        match (hint(payload), presence(payload)) {
            (Some((account, RECORD)), _) => self.ears.standings.look(account),
            (Some((account, _)), _) => self.ears.accounts.look(account),
            (None, Some(Presence::Here(node))) => self.others.hear(node, Instant::now()),
            (None, Some(Presence::Leaves(node))) => self.others.leaves(node),
            (None, Some(Presence::Back) | None) => {}
        }
    }

    /// Polls while other nodes may be unable to send notices: they are reconnecting (not
    /// `settled`), or missed. Records are changed by commands, which connect to the bus for that,
    /// and fail visibly if they cannot: missed nodes do not matter for them, and one round of
    /// polling after this node has connected (`for_long`) finds earlier changes.
    fn look_round(&mut self, settled: bool, for_long: bool) {
        let missed = self.others.misses(Instant::now());
        if missed && !self.polls {
            tracing::info!("a node no longer responds on the bus; polling the store for its changes");
        }
        self.poll(missed || !settled);
        if for_long {
            // Where polling is cheap it continues: a command may not know of the bus.
            self.ears.standings.set_bus_connected(self.ears.accounts.store().wants_packs());
        }
    }

    /// Polls the store for what others append, or does not.
    fn poll(&mut self, polls: bool) {
        self.polls = polls;
        self.ears.accounts.poll_often(polls);
    }

    /// Sends the remaining notices, and the notice that this node leaves.
    async fn say_goodbye(
        &self,
        connection: &mut Connection,
        told: &mut Receiver<(AccountId, Position)>,
    ) -> Result<()> {
        loop {
            match waiting_hints(told, Vec::new()) {
                Some(hints) if hints.is_empty() => break,
                Some(hints) => connection.publish(self.subject, &hints).await?,
                None => connection.say(self.subject, Presence::Back).await?,
            }
        }
        connection.say(self.subject, Presence::Leaves(self.me)).await?;
        connection.taken().await
    }
}

/// Appends of this node, at least one; `None` if there were too many to report.
async fn next_hints(told: &mut Receiver<(AccountId, Position)>) -> Option<Vec<(AccountId, Position)>> {
    match told.recv().await {
        Ok(hint) => waiting_hints(told, vec![hint]),
        Err(RecvError::Lagged(_)) => None,
        // The accounts are gone, and so is the server.
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

/// `hints`, and the other waiting notices; `None` if there were too many.
fn waiting_hints(
    told: &mut Receiver<(AccountId, Position)>,
    mut hints: Vec<(AccountId, Position)>,
) -> Option<Vec<(AccountId, Position)>> {
    while hints.len() < TOGETHER {
        match told.try_recv() {
            Ok(hint) => hints.push(hint),
            Err(TryRecvError::Lagged(_)) => return None,
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    Some(hints)
}
