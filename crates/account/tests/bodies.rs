//! Messages with evicted bodies: what stays, the source of the rest, and what is removed with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use sealpost_account::bodies::BodyFetcher;
use sealpost_account::{Account, Accounts, Event, Flags, Message, NewMessage};
use sealpost_base::{AccountId, Budget, FakeClock, Kind, Random, Result, SeededRandom, Timestamp, UidSet};
use sealpost_vault::entry::LogKey;
use sealpost_vault::message::{self, Wanted};
use sealpost_vault::spool::{SpoolWriter, Spooled};
use sealpost_vault::{RootKey, Store};

const ID: AccountId = AccountId([3; 16]);

struct Fixture {
    backend: Arc<InMemory>,
    store: Store,
    clock: Arc<FakeClock>,
    accounts: Accounts,
    account: Arc<Account>,
}

impl Fixture {
    async fn new() -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let root = RootKey::generate(&*random);
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let backend = Arc::new(InMemory::new());
        let (store, random) = (Store::over(backend.clone()), random as Arc<dyn Random>);
        let accounts =
            Accounts::new(store.clone(), LogKey::for_tests(), clock.clone(), random, Budget::new(64 << 20));
        let account = accounts.open(ID, &root).await.unwrap();
        Fixture { backend, store, clock, accounts, account }
    }

    async fn append(&self, mail: &[u8]) -> Message {
        let mut ingest = self.account.ingest().await.unwrap();
        ingest.write(mail).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let inbox = self.account.state().inbox().id();
        let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
        let uid = self.account.append(inbox, vec![new]).await.unwrap().1[0];
        let state = self.account.state();
        state.message(state.inbox().row(uid).unwrap().message).unwrap()
    }

    async fn put_back(&self, path: &str, bytes: Bytes) {
        self.backend.put(&Path::from(path), bytes.into()).await.unwrap();
    }

    async fn objects(&self, below: &str) -> usize {
        self.store.list(&format!("acct/{ID}/{below}"), None).count().await
    }
}

fn mail(number: usize) -> Vec<u8> {
    let body = format!("Body {number}. ").repeat(2000);
    format!("Subject: number {number}\r\nFrom: a@example.org\r\n\r\n{body}\r\n").into_bytes()
}

/// Texts are kept for searching, without case.
fn has(text: &sealpost_mime::Text, number: usize) -> bool {
    text.body.to_lowercase().contains(&format!("body {number}."))
}

async fn read(account: &Account, message: &Message) -> Result<Vec<u8>> {
    Ok(account.reader(message).raw(0..u64::MAX).try_collect::<Vec<Bytes>>().await?.concat())
}

/// Has every mail by its number.
#[derive(Default)]
struct Everything(AtomicU32);

impl BodyFetcher for Everything {
    fn body(&self, account: Arc<Account>, wanted: Wanted) -> BoxFuture<'static, Result<Arc<Spooled>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let places = account.state().places_of(wanted.object);
            let number = places[0].1.get() as usize;
            let budget = Budget::new(8 << 20);
            let mut writer = SpoolWriter::new(&Store::memory(), &budget, &SeededRandom::new(1)).await?;
            writer.write(&mail(number)).await?;
            Ok(Arc::new(writer.finish().await?))
        })
    }
}

#[tokio::test]
async fn an_evicted_body_is_fetched_again_from_its_source() {
    let w = Fixture::new().await;
    let mut messages = Vec::new();
    for number in 1..=150 {
        messages.push(w.append(&mail(number)).await);
    }
    assert!(w.account.evicted().await.unwrap().is_empty());
    let wanted: Vec<Message> = messages[..100].to_vec();
    let mut told = (0, 0);
    let progress = |count, bytes| {
        told = (told.0 + count, told.1 + bytes);
        true
    };
    let done = w.account.evict_bodies(wanted, progress).await.unwrap();
    assert_eq!((done.objects.len(), done.bytes), told);
    assert_eq!((told.0, w.objects("msg").await, w.objects("thin").await), (100, 50, 100));
    let mut objects = done.objects.clone();
    objects.sort_unstable();
    assert_eq!(w.account.evicted().await.unwrap(), objects);
    for (number, message) in (1..).zip(&messages) {
        let structure = w.account.structure(message).await.unwrap();
        assert_eq!(structure.envelope.subject.as_deref(), Some(&*format!("number {number}")));
        assert!(has(&w.account.text(message).await.unwrap(), number));
    }
    let all: Vec<&Message> = messages.iter().collect();
    let mut texts = 0;
    w.account.texts(&all, |at, text| texts += usize::from(has(&text.unwrap(), at + 1))).await;
    assert_eq!(texts, 150);
    assert_eq!(read(&w.account, &messages[0]).await.unwrap_err().kind(), Kind::Offloaded);
    assert_eq!(read(&w.account, &messages[100]).await.unwrap(), mail(101));
    let server = Arc::new(Everything::default());
    w.accounts.set_bodies(server.clone());
    assert_eq!(read(&w.account, &messages[0]).await.unwrap(), mail(1));
    assert_eq!(read(&w.account, &messages[100]).await.unwrap(), mail(101));
    assert_eq!(server.0.load(Ordering::SeqCst), 1, "only what is not here is asked for");
    // A second time nothing is to be done.
    let again = w.account.evict_bodies(messages[..100].to_vec(), |_, _| true).await.unwrap();
    assert_eq!((again.objects.len(), again.damaged.len()), (0, 0));
}

#[tokio::test]
async fn an_interrupted_eviction_stops_between_two_batches() {
    let w = Fixture::new().await;
    let mut messages = Vec::new();
    for number in 1..=150 {
        messages.push(w.append(&mail(number)).await);
    }
    let done = w.account.evict_bodies(messages.clone(), |_, _| false).await.unwrap();
    assert_eq!((done.objects.len(), w.objects("thin").await), (64, 64));
    let done = w.account.evict_bodies(messages, |_, _| true).await.unwrap();
    assert_eq!((done.objects.len(), w.objects("msg").await, w.objects("thin").await), (86, 0, 150));
}

#[tokio::test]
async fn damaged_messages_stay_and_are_reported() {
    let w = Fixture::new().await;
    let (damaged, sound) = (w.append(&mail(1)).await, w.append(&mail(2)).await);
    let path = message::path(ID, damaged.object);
    w.store.delete(&path).await.unwrap();
    w.store.put_again(&message::path(ID, sound.object), &path).await.unwrap();
    let done = w.account.evict_bodies(vec![damaged.clone(), sound.clone()], |_, _| true).await.unwrap();
    assert_eq!((done.objects, done.damaged[0].0), (vec![sound.object], damaged.object));
    assert!(w.store.size(&path).await.is_ok());
}

#[tokio::test]
async fn a_message_is_whole_after_an_interrupted_eviction() {
    let w = Fixture::new().await;
    let message = w.append(&mail(1)).await;
    // A store that fails between the two steps: the stub is there, and the message object too.
    let whole = message::path(ID, message.object);
    let bytes = w.store.read(&whole).await.unwrap();
    w.account.evict_bodies(vec![message.clone()], |_, _| true).await.unwrap();
    w.put_back(&whole, bytes).await;
    assert!(w.account.evicted().await.unwrap().is_empty());
    assert_eq!(read(&w.account, &message).await.unwrap(), mail(1));
    let done = w.account.evict_bodies(vec![message.clone()], |_, _| true).await.unwrap();
    assert_eq!((done.objects, w.objects("msg").await), (vec![message.object], 0));
}

#[tokio::test]
async fn purging_a_message_removes_its_stub() {
    let w = Fixture::new().await;
    let messages = [w.append(&mail(1)).await, w.append(&mail(2)).await];
    w.account.evict_bodies(messages.to_vec(), |_, _| true).await.unwrap();
    let inbox = w.account.state().inbox().id();
    let first = w.account.state().inbox().uids().first().unwrap();
    let expunged = Event::Expunged { mailbox: inbox, uids: UidSet::range(first, first) };
    w.account.commit(|_| Ok((vec![expunged.clone()], ()))).await.unwrap();
    w.clock.advance(Duration::from_secs(8 * 24 * 3600));
    assert_eq!(w.account.collect_garbage().await.unwrap().purged, 1);
    assert_eq!((w.objects("msg").await, w.objects("thin").await), (0, 1));
    assert!(w.account.structure(&messages[1]).await.is_ok());
}
