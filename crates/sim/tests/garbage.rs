//! What interrupted deliveries leave is removed when it is old by the store's clock, whatever the nodes' clocks say.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sealpost_account::{Delivery, Flags, NewMessage};
use sealpost_base::{Kind, Random, SeededRandom, Timestamp, Uid};
use sealpost_sim::Plan;
use sealpost_sim::bucket::Bucket;
use sealpost_sim::node::Node;
use sealpost_sim::world::ID;
use sealpost_vault::{AccountKeys, Backend, RootKey};
use tokio::time::{Instant, sleep};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(start_paused = true)]
async fn objects_that_no_event_refers_to_are_collected_after_the_grace_period() {
    let bucket = Bucket::new(Plan::new(1), 1);
    bucket.calm();
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
    let root = RootKey::generate(&*random);
    let public = AccountKeys::derive(&root, ID).public();
    // A clock that is ahead by a year.
    let skew = 365 * DAY.as_secs() as i64;
    let node = Node::start(&bucket, Backend::default(), Instant::now(), skew, random);
    let message = || async {
        let mut ingest = node.accounts.ingest(ID).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
        ingest.finish().await.unwrap()
    };
    let objects = || async { node.store.list(&format!("acct/{ID}/msg"), None).count().await };
    message().await;
    node.accounts.deliver(ID, &public, message().await, Delivery::default()).await.unwrap();
    let account = node.open(ID, &root).await.unwrap();
    assert_eq!(account.collect_garbage().await.unwrap().orphans, 0);
    assert_eq!(objects().await, 2);
    sleep(8 * DAY).await;
    // It is the store that says how late it is.
    node.accounts.deliver(ID, &public, message().await, Delivery::default()).await.unwrap();
    assert_eq!(account.collect_garbage().await.unwrap().orphans, 1);
    assert_eq!(objects().await, 2);
}

/// A node stands still between storing a message and the entry that refers to it, for longer than others leave such objects alone.
#[tokio::test(start_paused = true)]
async fn what_may_have_been_collected_meanwhile_is_not_acknowledged() {
    let bucket = Bucket::new(Plan::new(1), 1);
    bucket.calm();
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
    let root = RootKey::generate(&*random);
    let public = AccountKeys::derive(&root, ID).public();
    let nodes: Vec<_> =
        (0..2).map(|_| Node::start(&bucket, Backend::default(), Instant::now(), 0, random.clone())).collect();
    let message = async |node: &Node| {
        let mut ingest = node.accounts.ingest(ID).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
        ingest.finish().await.unwrap()
    };
    let (slept, awake) = (&nodes[0], &nodes[1]);
    let (delivered, appended) = (message(slept).await, message(slept).await);
    let account = slept.open(ID, &root).await.unwrap();
    slept.pause();
    sleep(8 * DAY).await;
    let other = awake.open(ID, &root).await.unwrap();
    awake.accounts.deliver(ID, &public, message(awake).await, Delivery::default()).await.unwrap();
    assert_eq!(other.collect_garbage().await.unwrap().orphans, 2);
    slept.resume();
    let told = slept.accounts.deliver(ID, &public, delivered, Delivery::default()).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Retry);
    let inbox = account.state().inbox().id();
    let flags = Flags::default().into();
    let new = NewMessage { stored: appended, flags, received: Timestamp(0) };
    assert_eq!(account.append(inbox, vec![new.clone()]).await.unwrap_err().kind(), Kind::Retry);
    other.refresh().await.unwrap();
    let told = account.replace((inbox, Uid::MIN), inbox, new, |_| Ok(())).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Retry);
    other.refresh().await.unwrap();
    assert_eq!(other.state().message_count(), 1, "nothing refers to them");
}

/// The node that collects stands still while it does, at any moment, and mail comes meanwhile.
#[tokio::test(start_paused = true)]
async fn who_slept_while_it_collected_removes_nothing_that_came_meanwhile() {
    let slow = Duration::from_millis(100);
    let quiet = Plan { fail: 0, wrong: 0, lose_reply: 0, repeat: 0, stick: 0, delay: slow, ..Plan::new(1) };
    for moment in 10..13 {
        let bucket = Bucket::new(quiet.clone(), moment);
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(moment));
        let root = RootKey::generate(&*random);
        let public = AccountKeys::derive(&root, ID).public();
        let backend = Backend { appends: quiet.appends };
        let nodes: Vec<_> =
            (0..2).map(|_| Node::start(&bucket, backend, Instant::now(), 0, random.clone())).collect();
        let (slept, awake) = (&nodes[0], &nodes[1]);
        let deliver = async || {
            let mut ingest = awake.accounts.ingest(ID).await.unwrap();
            ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
            let stored = ingest.finish().await.unwrap();
            awake.accounts.deliver(ID, &public, stored, Delivery::default()).await.unwrap();
        };
        deliver().await;
        let account = slept.open(ID, &root).await.unwrap();
        let collecting = tokio::spawn(async move { account.collect_garbage().await });
        sleep(slow * moment as u32 / 10).await;
        slept.pause();
        deliver().await;
        sleep(8 * DAY).await;
        deliver().await;
        slept.resume();
        assert_eq!(collecting.await.unwrap().unwrap().orphans, 0, "after {moment}");
        let account = awake.open(ID, &root).await.unwrap();
        account.refresh().await.unwrap();
        let messages: Vec<_> = account.state().messages().map(|(_, message)| message).collect();
        assert_eq!(messages.len(), 3);
        for message in &messages {
            account.structure(message).await.unwrap();
        }
    }
}

/// An account may have more objects than are remembered at a time.
#[tokio::test(start_paused = true)]
async fn many_objects_are_looked_at_a_few_at_a_time() {
    const DELIVERED: usize = 40;
    const ORPHANS: usize = 30;
    let bucket = Bucket::new(Plan::new(1), 1);
    bucket.calm();
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
    let root = RootKey::generate(&*random);
    let public = AccountKeys::derive(&root, ID).public();
    let node = Node::start(&bucket, Backend::default(), Instant::now(), 0, random);
    let message = || async {
        let mut ingest = node.accounts.ingest(ID).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\n").await.unwrap();
        ingest.finish().await.unwrap()
    };
    for nth in 0..DELIVERED {
        if nth < ORPHANS {
            message().await;
        }
        node.accounts.deliver(ID, &public, message().await, Delivery::default()).await.unwrap();
    }
    sleep(8 * DAY).await;
    node.accounts.deliver(ID, &public, message().await, Delivery::default()).await.unwrap();
    let account = node.open(ID, &root).await.unwrap();
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
