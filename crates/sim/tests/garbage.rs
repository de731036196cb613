//! Leftovers of interrupted deliveries are removed when they are old by the store's clock, whatever
//! the nodes' clocks say; and a removal during a read is no damage.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use sealpost_account::{Delivery, Flags, NewMessage, Stored, Unplaced};
use sealpost_base::{Kind, Random, SeededRandom, Timestamp, Uid};
use sealpost_sim::Plan;
use sealpost_sim::bucket::Bucket;
use sealpost_sim::node::Node;
use sealpost_sim::world::ID;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, AppendMode, Backend, PublicKey, RootKey};
use tokio::time::{Instant, sleep};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The fixture of these tests: nodes on one bucket, and an account.
struct Fixture {
    bucket: Bucket,
    random: Arc<dyn Random>,
    root: RootKey,
    public: PublicKey,
}

impl Fixture {
    /// With a bucket that is slow and wrong in the ways of `plan`.
    fn new(plan: Plan, seed: u64) -> Self {
        let bucket = Bucket::new(plan, seed);
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
        let root = RootKey::generate(&*random);
        let public = AccountKeys::derive(&root, ID).public();
        Self { bucket, random, root, public }
    }

    /// With a bucket where nothing fails and nothing takes time.
    fn calm() -> Self {
        let world = Self::new(Plan::new(1), 1);
        world.bucket.calm();
        world
    }

    /// Starts a node whose clock is ahead by `skew`, in seconds.
    fn node(&self, backend: Backend, skew: i64) -> Node {
        Node::start(&self.bucket, backend, LogKey::for_tests(), Instant::now(), skew, self.random.clone())
    }

    /// Delivers a message at `node`.
    async fn deliver(&self, node: &Node) {
        node.accounts.deliver(ID, &self.public, message(node).await, Delivery::default()).await.unwrap();
    }
}

/// Stores a message at `node` that nothing refers to yet.
async fn message(node: &Node) -> Stored {
    let mut ingest = node.accounts.ingest(ID).await.unwrap();
    ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
    ingest.finish().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn unreferenced_objects_are_collected_after_the_grace_period() {
    let world = Fixture::calm();
    // A clock that is ahead by a year.
    let node = world.node(Backend::default(), 365 * DAY.as_secs() as i64);
    let objects = || async { node.store.list(&format!("acct/{ID}/msg"), None).count().await };
    message(&node).await;
    world.deliver(&node).await;
    let account = node.open(ID, &world.root).await.unwrap();
    assert_eq!(account.collect_garbage().await.unwrap().orphans, 0);
    assert_eq!(objects().await, 2);
    sleep(8 * DAY).await;
    // It is the store that says how late it is.
    world.deliver(&node).await;
    assert_eq!(account.collect_garbage().await.unwrap().orphans, 1);
    assert_eq!(objects().await, 2);
}

/// A node stands still between storing a message and the entry that refers to it, for longer than
/// others leave such objects alone.
#[tokio::test(start_paused = true)]
async fn possibly_collected_objects_are_not_acknowledged() {
    let world = Fixture::calm();
    let (slept, awake) = (world.node(Backend::default(), 0), world.node(Backend::default(), 0));
    let (delivered, appended) = (message(&slept).await, message(&slept).await);
    let account = slept.open(ID, &world.root).await.unwrap();
    slept.pause();
    sleep(8 * DAY).await;
    let other = awake.open(ID, &world.root).await.unwrap();
    world.deliver(&awake).await;
    assert_eq!(other.collect_garbage().await.unwrap().orphans, 2);
    slept.resume();
    let told = slept.accounts.deliver(ID, &world.public, delivered, Delivery::default()).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Retry);
    let inbox = account.state().inbox().id();
    let flags = Flags::default().into();
    let new = NewMessage { stored: appended, flags, received: Timestamp(0) };
    assert_eq!(account.append(inbox, vec![new.clone()]).await.unwrap_err().kind(), Kind::Retry);
    other.refresh().await.unwrap();
    let mut replacement = Unplaced::of(account.clone());
    replacement.push(new);
    let told = account.replace((inbox, Uid::MIN), inbox, replacement, |_| Ok(())).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Retry);
    other.refresh().await.unwrap();
    assert_eq!(other.state().message_count(), 1, "nothing refers to them");
}

/// The node that collects stands still while it does, at any moment, and mail comes meanwhile.
#[tokio::test(start_paused = true)]
async fn a_paused_collector_removes_no_newer_objects() {
    let slow = Duration::from_millis(100);
    let quiet = Plan { fail: 0, wrong: 0, lose_reply: 0, repeat: 0, stick: 0, delay: slow, ..Plan::new(1) };
    for moment in 10..13 {
        let world = Fixture::new(quiet.clone(), moment);
        let backend = Backend { append_mode: quiet.append_mode };
        let (slept, awake) = (world.node(backend, 0), world.node(backend, 0));
        world.deliver(&awake).await;
        let account = slept.open(ID, &world.root).await.unwrap();
        let collecting = tokio::spawn(async move { account.collect_garbage().await });
        sleep(slow * moment as u32 / 10).await;
        slept.pause();
        world.deliver(&awake).await;
        sleep(8 * DAY).await;
        world.deliver(&awake).await;
        slept.resume();
        assert_eq!(collecting.await.unwrap().unwrap().orphans, 0, "after {moment}");
        let account = awake.open(ID, &world.root).await.unwrap();
        account.refresh().await.unwrap();
        let messages: Vec<_> = account.state().messages().map(|(_, message)| message).collect();
        assert_eq!(messages.len(), 3);
        for message in &messages {
            account.structure(message).await.unwrap();
        }
    }
}

/// The error log.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<u8>>>);

impl Errors {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A node stands still while it loads an account, at any moment, and the checkpoint that it reads
/// is removed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_removed_during_a_read_is_no_damage() {
    let slow = Duration::from_millis(100);
    let errors = Errors::default();
    let logged = errors.clone();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::ERROR);
    let _log = tracing::subscriber::set_default(log.with_writer(move || logged.clone()).finish());
    for (moment, append_mode) in
        (0..30).flat_map(|n| [(n, AppendMode::Conditional), (n, AppendMode::Siblings)])
    {
        let quiet = Plan {
            append_mode,
            fail: 0,
            wrong: 0,
            lose_reply: 0,
            repeat: 0,
            stick: 0,
            delay: slow,
            ..Plan::new(1)
        };
        let world = Fixture::new(quiet, moment);
        let (slept, awake) = (world.node(Backend { append_mode }, 0), world.node(Backend { append_mode }, 0));
        let checkpoint = async || {
            world.deliver(&awake).await;
            let account = awake.open(ID, &world.root).await.unwrap();
            account.refresh().await.unwrap();
            account.checkpoint().await.unwrap();
        };
        checkpoint().await;
        let (loading, root) = (slept.clone(), world.root.clone());
        let loading = tokio::spawn(async move { loading.open(ID, &root).await });
        sleep(slow * moment as u32 / 2).await;
        slept.pause();
        for _ in 0..3 {
            checkpoint().await;
        }
        slept.resume();
        let account = loading.await.unwrap().unwrap();
        assert!(!account.is_damaged(), "after {moment}, {append_mode:?}");
        account.refresh().await.unwrap();
        assert_eq!(account.state().message_count(), 4, "after {moment}, {append_mode:?}");
        assert_eq!(errors.text(), "", "after {moment}, {append_mode:?}");
    }
}

/// An account may have more objects than are held in memory at a time.
#[tokio::test(start_paused = true)]
async fn many_objects_are_looked_at_a_few_at_a_time() {
    const DELIVERED: usize = 40;
    const ORPHANS: usize = 30;
    let world = Fixture::calm();
    let node = world.node(Backend::default(), 0);
    for nth in 0..DELIVERED {
        if nth < ORPHANS {
            message(&node).await;
        }
        world.deliver(&node).await;
    }
    sleep(8 * DAY).await;
    world.deliver(&node).await;
    let account = node.open(ID, &world.root).await.unwrap();
    let first = account.collect_garbage_by(8).await.unwrap().orphans;
    assert!((2..=ORPHANS).contains(&first), "{first}");
    let mut removed = first;
    while removed < ORPHANS {
        let more = account.collect_garbage_by(8).await.unwrap().orphans;
        assert!(more > 0, "{removed} are removed");
        removed += more;
    }
    assert_eq!(account.collect_garbage_by(1).await.unwrap().orphans, 0);
    let left: Vec<_> = node.store.list(&format!("acct/{ID}/msg"), None).collect().await;
    assert_eq!(left.len(), DELIVERED + 1);
}
