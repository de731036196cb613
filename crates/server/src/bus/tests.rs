use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use sealpost_account::{Account, NewMessage};
use sealpost_base::{Budget, Clock, Kind, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, Directory, NewAccount, Secret};
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};

use super::connection::Address;
use super::*;

const ID: AccountId = AccountId([5; 16]);

/// As much of a NATS server as the tests need: every client gets the messages of all others.
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
    stream: impl connection::Stream,
    me: u64,
    published: broadcast::Sender<(u64, Vec<u8>)>,
) -> std::io::Result<()> {
    let mut heard = published.subscribe();
    let (input, mut output) = tokio::io::split(stream);
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

/// How a node reaches the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    There,
    /// Connections stay, and nothing comes of them.
    Still,
    Away,
}

/// The same bus without sockets, for tests whose time is made to pass: two nodes, each with a way
/// of its own to it.
struct Ways {
    reach: [watch::Sender<Reach>; 2],
    published: broadcast::Sender<(u64, Vec<u8>)>,
}

impl Ways {
    fn new() -> Arc<Self> {
        let reach = [watch::Sender::new(Reach::There), watch::Sender::new(Reach::There)];
        Arc::new(Ways { reach, published: broadcast::Sender::new(256) })
    }

    fn set(&self, reach: Reach) {
        for way in &self.reach {
            way.send_replace(reach);
        }
    }

    async fn open(&self, node: usize) -> Result<Connection> {
        let reach = self.reach[node].subscribe();
        if *reach.borrow() == Reach::Away {
            return Err(Error::retry("the bus is away"));
        }
        let (stream, other_end) = tokio::io::duplex(4096);
        tokio::spawn(serve_while(reach, serve(other_end, node as u64, self.published.clone())));
        let nowhere = Address { tls: false, host: "nowhere:4222".to_owned() };
        Connection::over(Box::new(stream), &Bus::default(), &nowhere).await
    }
}

async fn serve_while(mut reach: watch::Receiver<Reach>, serving: impl Future<Output = std::io::Result<()>>) {
    let mut serving = std::pin::pin!(serving);
    loop {
        let now = *reach.borrow_and_update();
        let goes_on = tokio::select! {
            _ = &mut serving, if now == Reach::There => false,
            changed = reach.changed(), if now != Reach::Away => changed.is_ok(),
            else => false,
        };
        if !goes_on {
            return;
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
    /// Of the bus alone.
    leaves: Shutdown,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.bus.abort();
    }
}

fn node(store: &Store, bus: Bus, seed: u64) -> Node {
    start(store, seed, |ears, random, leaves| tokio::spawn(run(bus, ears, random, leaves)))
}

/// Two connected nodes, whose bus has been there for so long that neither polls.
async fn settled(store: &Store, ways: &Arc<Ways>) -> [Node; 2] {
    let nodes = [0, 1].map(|me| on_way(store, ways, me));
    sleep(2 * SETTLE).await;
    nodes
}

/// The node whose way that is, begun now.
fn on_way(store: &Store, ways: &Arc<Ways>, me: usize) -> Node {
    let ways = ways.clone();
    start(store, 2 + me as u64, |ears, random, leaves| {
        tokio::spawn(async move { stay("s", me as u64, || ways.open(me), ears, random, leaves).await })
    })
}

/// A node that is on no bus.
fn alone(store: &Store) -> Node {
    start(store, 9, |_, _, _| tokio::spawn(async {}))
}

/// What a node is to the bus, for tests that have its connection in their hands.
fn itself(node: &Node) -> super::Node<'static> {
    super::Node {
        subject: "s",
        me: 0,
        random: Arc::new(SeededRandom::new(4)),
        others: Others::default(),
        polls: true,
        ears: Ears { accounts: node.accounts.clone(), standings: node.standings.clone() },
        shutdown: node.leaves.clone(),
    }
}

/// The next messages on the bus, as text.
async fn next_published(heard: &mut broadcast::Receiver<(u64, Vec<u8>)>, messages: usize) -> Vec<String> {
    let mut texts = Vec::new();
    while texts.len() < messages {
        let payload = timeout(Duration::from_secs(30), heard.recv()).await;
        let (_, payload) = payload.unwrap_or_else(|_| panic!("only {texts:?}")).unwrap();
        texts.push(String::from_utf8(payload).unwrap().trim_end().to_owned());
    }
    texts
}

fn start(
    store: &Store,
    seed: u64,
    bus: impl FnOnce(Ears, Arc<dyn Random>, Shutdown) -> tokio::task::JoinHandle<()>,
) -> Node {
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
    let clock: Arc<dyn Clock> = Arc::new(Runtimes(Instant::now()));
    let key = ServerKeys::generate(&SeededRandom::new(1));
    let log_key = LogKey::of(&key);
    let accounts =
        Accounts::new(store.clone(), log_key, clock.clone(), random.clone(), Budget::new(64 << 20));
    let directory = Directory::new(store.clone(), key, clock, random.clone());
    let standings = Standings::new(directory.clone());
    let ears = Ears { accounts: accounts.clone(), standings: standings.clone() };
    let leaves = Shutdown::new();
    let bus = bus(ears, random, leaves.clone());
    Node { accounts, directory, standings, bus, leaves }
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
    let watcher = here.log_watcher();
    let until_rung = async {
        loop {
            append(there, other).await;
            if timeout(Duration::from_millis(200), watcher.changed()).await.is_ok() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(30), until_rung).await.expect("a notification");
    here.catch_up().await.unwrap();
    assert!(!here.state().inbox().is_empty());
}

#[tokio::test]
async fn an_append_notifies_other_nodes_also_after_a_reconnect() {
    let (stand_in, store) = (StandIn::start().await, Store::memory());
    let nodes = [node(&store, stand_in.bus(), 2), node(&store, stand_in.bus(), 3)];
    let root = RootKey::generate(&SeededRandom::new(1));
    let there = nodes[1].accounts.open(ID, &root).await.unwrap();
    rings(&nodes[0], &there, &nodes[1]).await;
    stand_in.hang_up.send(()).unwrap();
    rings(&nodes[0], &there, &nodes[1]).await;
}

/// It accepts the login, and hangs up at the next message.
#[tokio::test(start_paused = true)]
async fn a_refusing_bus_is_retried_after_a_pause() {
    let (store, opened) = (Store::memory(), Arc::new(AtomicUsize::new(0)));
    let opens = opened.clone();
    let open = move || {
        opens.fetch_add(1, Ordering::SeqCst);
        async {
            let (stream, other_end) = tokio::io::duplex(4096);
            tokio::spawn(timeout(Duration::from_millis(500), serve(other_end, 1, broadcast::Sender::new(1))));
            let nowhere = Address { tls: false, host: "nowhere:4222".to_owned() };
            Connection::over(Box::new(stream), &Bus::default(), &nowhere).await
        }
    };
    let _node = start(&store, 2, |ears, random, leaves| {
        tokio::spawn(async move { stay("s", 0, open, ears, random, leaves).await })
    });
    sleep(Duration::from_secs(600)).await;
    // Twice as late each time, and then every half minute.
    let opened = opened.load(Ordering::SeqCst);
    assert!((15..45).contains(&opened), "{opened}");
}

#[tokio::test(start_paused = true)]
async fn without_a_bus_polling_rings_within_ten_seconds() {
    let store = Store::memory();
    let nowhere = Bus { url: "nats://127.0.0.1:1".to_owned(), ..Bus::default() };
    let nodes = [node(&store, nowhere.clone(), 2), node(&store, nowhere, 3)];
    let root = RootKey::generate(&SeededRandom::new(1));
    let (here, there) = (&nodes[0].accounts, nodes[1].accounts.open(ID, &root).await.unwrap());
    let here = here.open(ID, &root).await.unwrap();
    let watcher = here.log_watcher();
    append(&there, &nodes[1]).await;
    timeout(Duration::from_secs(10), watcher.changed()).await.expect("a notification");
}

async fn opened(nodes: &[Node; 2]) -> [Arc<Account>; 2] {
    let root = RootKey::generate(&SeededRandom::new(1));
    [nodes[0].accounts.open(ID, &root).await.unwrap(), nodes[1].accounts.open(ID, &root).await.unwrap()]
}

#[tokio::test(start_paused = true)]
async fn appends_before_a_late_reconnect_are_noticed_in_time() {
    let (ways, store) = (Ways::new(), Store::memory());
    let nodes = settled(&store, &ways).await;
    let [here, there] = opened(&nodes).await;
    ways.set(Reach::Away);
    sleep(Duration::from_secs(1)).await;
    ways.reach[0].send_replace(Reach::There);
    for _ in 0..2 {
        sleep(Duration::from_secs(5)).await;
        here.catch_up().await.unwrap();
        let watcher = here.log_watcher();
        append(&there, &nodes[1]).await;
        timeout(PROMISE, watcher.changed()).await.expect("a notification");
    }
}

#[tokio::test(start_paused = true)]
async fn appends_of_a_disconnected_node_are_noticed_in_time() {
    let (ways, store) = (Ways::new(), Store::memory());
    let nodes = settled(&store, &ways).await;
    let [here, there] = opened(&nodes).await;
    ways.reach[1].send_replace(Reach::Away);
    for _ in 0..3 {
        here.catch_up().await.unwrap();
        let watcher = here.log_watcher();
        append(&there, &nodes[1]).await;
        timeout(PROMISE, watcher.changed()).await.expect("a notification");
        sleep(SETTLE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_absent_after_a_reconnect_is_missed() {
    let (ways, store) = (Ways::new(), Store::memory());
    let nodes = settled(&store, &ways).await;
    let [here, there] = opened(&nodes).await;
    ways.set(Reach::Away);
    sleep(Duration::from_secs(1)).await;
    ways.reach[0].send_replace(Reach::There);
    sleep(2 * SETTLE).await;
    here.catch_up().await.unwrap();
    let watcher = here.log_watcher();
    append(&there, &nodes[1]).await;
    timeout(PROMISE, watcher.changed()).await.expect("a notification");
}

#[tokio::test(start_paused = true)]
async fn a_leaving_node_announces_all_and_is_not_missed() {
    let (ways, store) = (Ways::new(), Store::memory());
    let mut nodes = settled(&store, &ways).await;
    let [here, there] = opened(&nodes).await;
    let watcher = here.log_watcher();
    append(&there, &nodes[1]).await;
    nodes[1].leaves.begin();
    (&mut nodes[1].bus).await.unwrap();
    // Sooner than any node would poll.
    timeout(Duration::from_secs(1), watcher.changed()).await.expect("a notification");
    // Its appends now, which a server that has left does not make, show whether a node polls.
    here.catch_up().await.unwrap();
    let watcher = here.log_watcher();
    sleep(SETTLE).await;
    append(&there, &nodes[1]).await;
    sleep(SETTLE).await;
    assert!(!watcher.has_changed(), "nobody is missed");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_node_is_heard_and_no_longer_missed() {
    let (ways, store) = (Ways::new(), Store::memory());
    let mut nodes = settled(&store, &ways).await;
    let [here, there] = opened(&nodes).await;
    let watcher = here.log_watcher();
    nodes[1].bus.abort();
    (&mut nodes[1].bus).await.unwrap_err();
    // Reported to no node.
    append(&there, &nodes[1]).await;
    nodes[1] = on_way(&store, &ways, 1);
    timeout(PROMISE, watcher.changed()).await.expect("a notification");
    sleep(2 * SETTLE).await;
    assert!(!is_polled(&store, &here).await);
}

/// Whether a node polls for appends of one that is on no bus.
async fn is_polled(store: &Store, here: &Account) -> bool {
    let stranger = alone(store);
    let root = RootKey::generate(&SeededRandom::new(1));
    let there = stranger.accounts.open(ID, &root).await.unwrap();
    here.catch_up().await.unwrap();
    let watcher = here.log_watcher();
    append(&there, &stranger).await;
    timeout(SETTLE, watcher.changed()).await.is_ok()
}

#[tokio::test]
async fn a_node_with_a_directory_keeps_its_id() {
    let (stand_in, store) = (StandIn::start().await, Store::memory());
    let directory = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for seed in [2, 3] {
        let mut heard = stand_in.published.subscribe();
        let mut node = node(&store, Bus { node: Some(directory.path().to_owned()), ..stand_in.bus() }, seed);
        let said = next_published(&mut heard, 2).await;
        assert!(said[0] == "back" && said[1].starts_with("here "), "{said:?}");
        ids.push(said[1].clone());
        node.bus.abort();
        (&mut node.bus).await.unwrap_err();
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_receives_its_own_id_takes_another() {
    let (ways, store) = (Ways::new(), Store::memory());
    let node = alone(&store);
    let (mut itself, told) = (itself(&node), broadcast::Sender::new(1));
    let mut heard = ways.published.subscribe();
    let connection = ways.open(0).await.unwrap();
    let hears = async {
        assert_eq!(next_published(&mut heard, 2).await, ["back", "here 0000000000000000"]);
        let _ = ways.published.send((1, b"here 0000000000000000\r\n".to_vec()));
        let said = next_published(&mut heard, 3).await;
        assert_eq!(said[1], "leaves 0000000000000000");
        assert!(said[2].starts_with("here ") && said[2] != said[0], "{said:?}");
    };
    tokio::select! {
        ended = itself.talk(connection, told.subscribe()) => panic!("{ended:?}"),
        () = hears => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_leaving_node_sends_its_notices_and_reports_losses() {
    let (ways, store) = (Ways::new(), Store::memory());
    let node = alone(&store);
    let appended = broadcast::Sender::new(2);
    let mut told = appended.subscribe();
    for position in 1..4 {
        appended.send((ID, Position(position))).unwrap();
    }
    let mut heard = ways.published.subscribe();
    let mut connection = ways.open(0).await.unwrap();
    // However much this task has done before.
    while tokio::task::consume_budget().now_or_never().is_some() {}
    itself(&node).say_goodbye(&mut connection, &mut told).await.unwrap();
    let hints = [2, 3].map(|position| format!("{ID}{position:016x}"));
    let said = next_published(&mut heard, 4).await;
    assert_eq!(said, ["back", &hints[0], &hints[1], "leaves 0000000000000000"]);
}

#[tokio::test(start_paused = true)]
async fn notices_count_as_sent_after_the_last_pong() {
    let (stream, mut other_end) = tokio::io::duplex(4096);
    other_end.write_all(b"INFO {}\r\nPONG\r\n").await.unwrap();
    let nowhere = Address { tls: false, host: "nowhere:4222".to_owned() };
    let mut connection = Connection::over(Box::new(stream), &Bus::default(), &nowhere).await.unwrap();
    connection.ping().await.unwrap();
    other_end.write_all(b"+OK\r\nMSG x 1 1\r\nx\r\nPONG\r\n+OK\r\nPING\r\n").await.unwrap();
    let mut taken = std::pin::pin!(connection.taken());
    assert!(timeout(SETTLE, &mut taken).await.is_err(), "an earlier one was answered");
    other_end.write_all(b"PONG\r\n").await.unwrap();
    timeout(SETTLE, taken).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn missing_nodes_do_not_affect_records() {
    let (ways, store) = (Ways::new(), Store::memory().packing());
    let nodes = settled(&store, &ways).await;
    let [here, _] = opened(&nodes).await;
    let directory = &nodes[0].directory;
    let name = AccountName::parse("me@localhost").unwrap();
    let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
    let (record, _) = directory.create(&name, new).await.unwrap();
    let standing = nodes[0].standings.begin(&record, record.slots[0].id());
    ways.set(Reach::Away);
    sleep(Duration::from_secs(1)).await;
    ways.reach[0].send_replace(Reach::There);
    sleep(2 * SETTLE).await;
    assert!(is_polled(&store, &here).await, "the other is missed");
    directory.remove(&name).await.unwrap();
    sleep(2 * sealpost_auth::standing::PERIOD).await;
    assert!(standing.holds(), "nobody has told, and nobody has asked");
    timeout(sealpost_auth::standing::SELDOM, standing.lost()).await.expect("it is asked at last");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_too_many_notices_reports_its_return() {
    let (ways, store) = (Ways::new(), Store::memory());
    let node = alone(&store);
    let appended = broadcast::Sender::new(2);
    let told = appended.subscribe();
    for position in 1..4 {
        appended.send((ID, Position(position))).unwrap();
    }
    let mut heard = ways.published.subscribe();
    let connection = ways.open(0).await.unwrap();
    let mut said = tokio::select! {
        ended = async { itself(&node).talk(connection, told).await } => panic!("{ended:?}"),
        said = next_published(&mut heard, 5) => said,
    };
    said.sort();
    let hints = [2, 3].map(|position| format!("{ID}{position:016x}"));
    assert_eq!(said, [&hints[0], &hints[1], "back", "back", "here 0000000000000000"]);
}

#[tokio::test]
async fn overflowing_notices_are_noticed() {
    let hint = (ID, Position(1));
    for taken in [0, 1] {
        let appended = broadcast::Sender::new(2);
        let mut told = appended.subscribe();
        for _ in 0..taken {
            appended.send(hint).unwrap();
            assert_eq!(next_hints(&mut told).await, Some(vec![hint]));
        }
        for _ in 0..3 {
            appended.send(hint).unwrap();
        }
        assert_eq!(next_hints(&mut told).await, None, "some are lost: those who hear of it poll for a while");
        assert_eq!(next_hints(&mut told).await, Some(vec![hint; 2]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_stands_still_is_noticed_in_time() {
    let (ways, store) = (Ways::new(), Store::memory());
    let nodes = settled(&store, &ways).await;
    let [here, there] = opened(&nodes).await;
    for _ in 0..2 {
        here.catch_up().await.unwrap();
        let watcher = here.log_watcher();
        ways.set(Reach::Still);
        append(&there, &nodes[1]).await;
        timeout(PROMISE, watcher.changed()).await.expect("a notification");
    }
}

#[tokio::test]
async fn a_bus_notice_of_a_removed_account_ends_sessions() {
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
            notify_record_changed(&stand_in.bus(), record.id).await.unwrap();
            if timeout(Duration::from_millis(200), standing.lost()).await.is_ok() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), until_lost).await.expect("long before it would ask by itself");
}

#[tokio::test]
async fn nonsense_on_the_bus_notifies_no_session() {
    let (stand_in, store) = (StandIn::start().await, Store::memory());
    let node = node(&store, stand_in.bus(), 2);
    let root = RootKey::generate(&SeededRandom::new(1));
    let account = node.accounts.open(ID, &root).await.unwrap();
    let watcher = account.log_watcher();
    let mut told = stand_in.published.subscribe();
    let subscribed = async {
        // What this node publishes comes from a connection that has subscribed.
        append(&account, &node).await;
        while timeout(Duration::from_millis(100), told.recv()).await.is_err() {
            append(&account, &node).await;
        }
    };
    timeout(Duration::from_secs(30), subscribed).await.unwrap();
    drop(watcher);
    let watcher = account.log_watcher();
    let lie = format!("{ID}{:016x}", u64::MAX);
    let large = vec![b'x'; 1 << 16];
    for payload in [lie.as_bytes(), b"", b"nonsense", &large, lie.as_bytes()] {
        stand_in.published.send((u64::MAX, [payload, b"\r\n"].concat())).unwrap();
    }
    // The connection is still good behind all of it.
    let mut told = stand_in.published.subscribe();
    append(&account, &node).await;
    // Between what it says of itself.
    while !next_published(&mut told, 1).await[0].starts_with(&ID.to_string()) {}
    assert!(watcher.has_changed(), "for what was appended");
    assert!(!account.log_watcher().has_changed(), "for nothing else");
}

/// A command is no node: it says nothing of itself.
#[tokio::test]
async fn entries_of_a_command_are_announced() {
    let (stand_in, store) = (StandIn::start().await, Store::memory().packing());
    let command = alone(&store);
    let mut heard = stand_in.published.subscribe();
    let notifier = BusNotifier::begin(&stand_in.bus(), &command.accounts);
    let account = command.accounts.open(ID, &RootKey::generate(&SeededRandom::new(1))).await.unwrap();
    for end in [2, 5] {
        while account.state().position().0 < end {
            append(&account, &command).await;
        }
        if end == 5 {
            break;
        }
        // While it runs.
        while next_published(&mut heard, 1).await[0] != format!("{ID}{end:016x}") {}
    }
    notifier.end().await.unwrap();
    let mut told = Vec::new();
    while told.last() != Some(&format!("{ID}{:016x}", 5)) {
        told.extend(next_published(&mut heard, 1).await);
    }
    assert!(told.len() <= 3 && told.iter().all(|told| told.starts_with(&ID.to_string())), "{told:?}");
    let nobody = Bus { url: "nats://127.0.0.1:1".to_owned(), ..Bus::default() };
    let notifier = BusNotifier::begin(&nobody, &command.accounts);
    append(&account, &command).await;
    assert_eq!(notifier.end().await.unwrap_err().kind(), Kind::Retry);
}

#[test]
fn urls_are_read_strictly() {
    let read = |url: &str| {
        let found = addresses(url).map_err(|e| e.to_string());
        found.map(|found| found.into_iter().map(|one| (one.tls, one.host)).collect::<Vec<_>>())
    };
    let one = |tls, host: &str| Ok(vec![(tls, host.to_owned())]);
    assert_eq!(read("nats://a"), one(false, "a:4222"));
    assert_eq!(read("tls://a.b:1/"), one(true, "a.b:1"));
    assert_eq!(read("nats://[::1]"), one(false, "[::1]:4222"));
    assert_eq!(read("nats://[::1]:7"), one(false, "[::1]:7"));
    assert_eq!(read("tls://a, tls://b:7").unwrap(), [(true, "a:4222".to_owned()), (true, "b:7".to_owned())]);
    for bad in ["", "a", "http://a", "nats://", "nats://u:p@a", "nats://a/b", "nats://a:x y"] {
        assert!(read(bad).is_err(), "{bad}");
    }
    for bad in ["nats://a,tls://b", "nats://a,b", "nats://a,"] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

/// Of the servers of a cluster one is enough, whichever it is, and one that says nothing does not
/// keep from the next.
#[tokio::test]
async fn the_first_server_that_answers_is_used() {
    let stand_in = StandIn::start().await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = (mute.local_addr().unwrap(), mute);
    let url = format!("nats://127.0.0.1:1,nats://{},{}", mute.0, stand_in.url);
    let bus = Bus { url, ..Bus::default() };
    let mut heard = stand_in.published.subscribe();
    let mut connection = Connection::open(&bus, Duration::from_secs(3)).await.unwrap();
    connection.publish("s", &[(ID, Position(7))]).await.unwrap();
    connection.taken().await.unwrap();
    assert!(next_published(&mut heard, 1).await[0].starts_with(&ID.to_string()));
    let nobody = Bus { url: "nats://127.0.0.1:1,nats://127.0.0.1:2".to_owned(), ..Bus::default() };
    assert_eq!(Connection::open(&nobody, Duration::from_secs(3)).await.err().unwrap().kind(), Kind::Retry);
}
