use std::sync::Arc;

use sealpost_account::directory::{AccountName, Directory, NewAccount, Secret};
use sealpost_account::{Account, NewMessage};
use sealpost_base::{Budget, Clock, SeededRandom, Timestamp};
use sealpost_vault::record::ServerKey;
use sealpost_vault::{RootKey, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use super::*;

const ID: AccountId = AccountId([5; 16]);

/// As much of a NATS server as is needed: everybody hears what everybody else publishes.
struct StandIn {
    url: String,
    /// Ends all connections.
    hang_up: broadcast::Sender<()>,
    published: broadcast::Sender<(u64, Vec<u8>)>,
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let (hang_up, published) = (broadcast::Sender::new(8), broadcast::Sender::new(256));
        let stand_in = StandIn { url, hang_up: hang_up.clone(), published: published.clone() };
        tokio::spawn(async move {
            for client in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (mut ends, published) = (hang_up.subscribe(), published.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = serve(stream, client, published) => {}
                        _ = ends.recv() => {}
                    }
                });
            }
        });
        stand_in
    }

    fn bus(&self) -> Bus {
        Bus { url: self.url.clone(), ..Bus::default() }
    }
}

async fn serve(
    stream: TcpStream,
    me: u64,
    published: broadcast::Sender<(u64, Vec<u8>)>,
) -> std::io::Result<()> {
    let mut heard = published.subscribe();
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    output.write_all(b"INFO {\"server_id\":\"stand-in\"}\r\n").await?;
    let mut line = Vec::new();
    let mut subscribed = false;
    loop {
        tokio::select! {
            read = input.read_until(b'\n', &mut line) => {
                if read? == 0 {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(&line).trim().to_owned();
                line.clear();
                if text == "PING" {
                    output.write_all(b"PONG\r\n").await?;
                } else if text.starts_with("SUB ") {
                    subscribed = true;
                } else if let Some(publish) = text.strip_prefix("PUB ") {
                    let bytes: usize = publish.rsplit(' ').next().unwrap().parse().unwrap();
                    let mut payload = vec![0; bytes + 2];
                    input.read_exact(&mut payload).await?;
                    let _ = published.send((me, payload));
                }
            }
            Ok((from, payload)) = heard.recv() => {
                if from != me && subscribed {
                    output.write_all(format!("MSG x 1 {}\r\n", payload.len() - 2).as_bytes()).await?;
                    output.write_all(&payload).await?;
                }
            }
        }
    }
}

/// The runtime's time, which a test can stop.
struct Runtimes(Instant);

impl Clock for Runtimes {
    fn now(&self) -> Timestamp {
        Timestamp(0).after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

struct Node {
    accounts: Accounts,
    directory: Directory,
    standings: Standings,
    bus: tokio::task::JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.bus.abort();
    }
}

fn node(store: &Store, bus: Bus, seed: u64) -> Node {
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
    let clock: Arc<dyn Clock> = Arc::new(Runtimes(Instant::now()));
    let accounts = Accounts::new(store.clone(), clock.clone(), random.clone(), Budget::new(64 << 20));
    let key = ServerKey::generate(&SeededRandom::new(1));
    let directory = Directory::new(store.clone(), key, clock, random.clone());
    let standings = Standings::new(directory.clone());
    let ears = Ears { accounts: accounts.clone(), standings: standings.clone() };
    let bus = tokio::spawn(run(bus, ears, random, Shutdown::new()));
    Node { accounts, directory, standings, bus }
}

async fn append(account: &Account, node: &Node) {
    let mut ingest = node.accounts.ingest(ID).await.unwrap();
    ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let inbox = account.state().inbox().id();
    let new = NewMessage { stored, flags: Default::default(), received: Timestamp(0) };
    account.append(inbox, vec![new]).await.unwrap();
}

/// Appends on one node until a bell on the other has rung: the first hints may come before it has subscribed.
async fn rings(one: &Node, there: &Account, other: &Node) {
    let here = one.accounts.open(ID, &RootKey::generate(&SeededRandom::new(1))).await.unwrap();
    let bell = here.bell();
    let until_rung = async {
        loop {
            append(there, other).await;
            if timeout(Duration::from_millis(200), bell.rung()).await.is_ok() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(30), until_rung).await.expect("the bell rings");
    here.catch_up().await.unwrap();
    assert!(!here.state().inbox().is_empty());
}

#[tokio::test]
async fn what_one_node_appends_rings_on_another_and_again_after_the_bus_was_away() {
    let (stand_in, store) = (StandIn::start().await, Store::memory());
    let nodes = [node(&store, stand_in.bus(), 2), node(&store, stand_in.bus(), 3)];
    let root = RootKey::generate(&SeededRandom::new(1));
    let there = nodes[1].accounts.open(ID, &root).await.unwrap();
    rings(&nodes[0], &there, &nodes[1]).await;
    stand_in.hang_up.send(()).unwrap();
    rings(&nodes[0], &there, &nodes[1]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_bus_polling_rings_within_ten_seconds() {
    let store = Store::memory();
    let nowhere = Bus { url: "nats://127.0.0.1:1".to_owned(), ..Bus::default() };
    let nodes = [node(&store, nowhere.clone(), 2), node(&store, nowhere, 3)];
    let root = RootKey::generate(&SeededRandom::new(1));
    let (here, there) = (&nodes[0].accounts, nodes[1].accounts.open(ID, &root).await.unwrap());
    let here = here.open(ID, &root).await.unwrap();
    let bell = here.bell();
    append(&there, &nodes[1]).await;
    timeout(Duration::from_secs(10), bell.rung()).await.expect("the bell rings");
}

#[tokio::test]
async fn a_session_ends_at_once_when_the_bus_tells_that_its_account_was_removed() {
    let (stand_in, store) = (StandIn::start().await, Store::memory());
    let node = node(&store, stand_in.bus(), 2);
    let name = AccountName::parse("me@localhost").unwrap();
    let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
    let (record, _) = node.directory.create(&name, new).await.unwrap();
    let standing = node.standings.begin(&record, record.slots[0].id());
    node.directory.remove(&name).await.unwrap();
    let until_lost = async {
        // The first may come before it has subscribed.
        loop {
            tell_of_record(&stand_in.bus(), record.id).await.unwrap();
            if timeout(Duration::from_millis(200), standing.lost()).await.is_ok() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), until_lost).await.expect("long before it would ask by itself");
}

#[tokio::test]
async fn nonsense_on_the_bus_shows_nobody_anything() {
    let (stand_in, store) = (StandIn::start().await, Store::memory());
    let node = node(&store, stand_in.bus(), 2);
    let root = RootKey::generate(&SeededRandom::new(1));
    let account = node.accounts.open(ID, &root).await.unwrap();
    let bell = account.bell();
    let mut told = stand_in.published.subscribe();
    let subscribed = async {
        // What this node publishes comes from a connection that has subscribed.
        append(&account, &node).await;
        while timeout(Duration::from_millis(100), told.recv()).await.is_err() {
            append(&account, &node).await;
        }
    };
    timeout(Duration::from_secs(30), subscribed).await.unwrap();
    drop(bell);
    let bell = account.bell();
    let lie = format!("{ID}{:016x}", u64::MAX);
    let large = vec![b'x'; 1 << 16];
    for payload in [lie.as_bytes(), b"", b"nonsense", &large, lie.as_bytes()] {
        stand_in.published.send((u64::MAX, [payload, b"\r\n"].concat())).unwrap();
    }
    // The connection is still good behind all of it.
    let mut told = stand_in.published.subscribe();
    append(&account, &node).await;
    let hint = timeout(Duration::from_secs(10), told.recv()).await.unwrap().unwrap();
    assert_eq!(hint.1.len(), 48 + 2);
    assert!(bell.has_rung(), "for what was appended");
    assert!(!account.bell().has_rung(), "for nothing else");
}

#[test]
fn urls_are_read_strictly() {
    assert_eq!(address("nats://a").unwrap(), (false, "a:4222".to_owned()));
    assert_eq!(address("tls://a.b:1/").unwrap(), (true, "a.b:1".to_owned()));
    assert_eq!(address("nats://[::1]").unwrap(), (false, "[::1]:4222".to_owned()));
    assert_eq!(address("nats://[::1]:7").unwrap(), (false, "[::1]:7".to_owned()));
    for bad in ["", "a", "http://a", "nats://", "nats://u:p@a", "nats://a/b", "nats://a:x y"] {
        assert!(address(bad).is_err(), "{bad}");
    }
}
