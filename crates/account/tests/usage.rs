//! How much an account holds, as it is counted without its key.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use sealpost_account::share::Link;
use sealpost_account::{Account, Accounts, Flags, NewMessage, usage};
use sealpost_base::{AccountId, Budget, FakeClock, Random, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, AccountRecord, Directory, NewAccount, Secret, Usage};
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};

struct Fixture {
    key: ServerKeys,
    clock: Arc<FakeClock>,
    random: Arc<SeededRandom>,
    accounts: Accounts,
    directory: Directory,
    record: AccountRecord,
    account: Arc<Account>,
}

impl Fixture {
    async fn new() -> Self {
        let random = Arc::new(SeededRandom::new(3));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let (store, key) = (Store::memory(), ServerKeys::generate(&*random));
        let shared: Arc<dyn Random> = random.clone();
        let accounts =
            Accounts::new(store.clone(), LogKey::of(&key), clock.clone(), shared, Budget::new(64 << 20));
        let directory = Directory::new(store, key.clone(), clock.clone(), random.clone());
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        let (record, root) =
            directory.create(&AccountName::parse("me@localhost").unwrap(), new).await.unwrap();
        let account = accounts.open(record.id, &root).await.unwrap();
        Fixture { key, clock, random, accounts, directory, record, account }
    }

    async fn known(&self) -> (u64, u64) {
        let known = usage::known(&self.directory, self.record.id).await.unwrap();
        assert_eq!((known.mailboxes, known.annotations), (6, 0));
        (known.messages, known.storage)
    }

    async fn settled(&self) -> (u64, u64) {
        let record = usage::settle(&self.directory, self.record.id).await.unwrap();
        assert!(record.complete);
        assert_eq!(self.directory.usage_record(self.record.id).await.unwrap(), Some(record));
        (record.usage.messages, record.usage.storage)
    }

    async fn share(&self) -> Arc<Account> {
        let (share, root) = (AccountId::random(&*self.random), RootKey::generate(&*self.random));
        let public = sealpost_vault::AccountKeys::derive(&root, share).public();
        self.directory.record_share(self.record.id, share, public).await.unwrap();
        let link = Link { share, root, owner: None };
        self.accounts.open(link.share, &link.root).await.unwrap()
    }
}

async fn append(account: &Account, bytes: usize) -> sealpost_account::Message {
    let mut ingest = account.ingest().await.unwrap();
    ingest.write(&vec![b'x'; bytes]).await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let inbox = account.state().inbox().id();
    let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
    let uid = account.append(inbox, vec![new]).await.unwrap().1[0];
    let state = account.state();
    state.message(state.inbox().row(uid).unwrap().message).unwrap()
}

/// The store's clock ticks in milliseconds.
async fn tick() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test]
async fn usage_is_the_record_plus_later_entries() {
    let world = Fixture::new().await;
    assert_eq!(world.known().await, (0, 0));
    append(&world.account, 1000).await;
    append(&world.account, 300_000).await;
    assert_eq!(world.known().await, (2, 301_000));
    assert_eq!(world.directory.usage_record(world.record.id).await.unwrap(), None, "asking writes nothing");
    assert_eq!(world.settled().await, (2, 301_000));
    assert_eq!(world.settled().await, (2, 301_000), "nothing is counted twice");
    tick().await;
    append(&world.account, 10).await;
    assert_eq!(world.known().await, (3, 301_010));

    // What a session saw takes the place of what was counted.
    let seen = Usage { mailboxes: 6, ..Usage::of_messages(1, 10) };
    world.directory.record_usage(world.record.id, seen).await.unwrap();
    tick().await;
    append(&world.account, 0).await;
    assert_eq!(world.settled().await, (2, 10));
}

#[tokio::test]
async fn messages_in_shared_mailboxes_count() {
    let world = Fixture::new().await;
    let share = world.share().await;
    append(&share, 77).await;
    append(&world.account, 11).await;
    assert_eq!(world.settled().await, (2, 88));
    tick().await;
    append(&share, 12).await;
    assert_eq!(world.known().await, (3, 100));
}

#[tokio::test]
async fn an_evicted_body_counts_once() {
    let world = Fixture::new().await;
    let message = append(&world.account, 5000).await;
    let other = append(&world.account, 500).await;
    assert_eq!(world.settled().await, (2, 5500));
    tick().await;
    world.account.evict_bodies(vec![message], |_, _| true).await.unwrap();
    assert_eq!(world.known().await, (2, 5500));
    // Of a store that has no record it is as large as its message was.
    world.account.evict_bodies(vec![other], |_, _| true).await.unwrap();
    let store = world.accounts.store();
    for path in store
        .list(&format!("usage/{}", world.record.id), None)
        .map_ok(|o| o.path)
        .try_collect::<Vec<_>>()
        .await
        .unwrap()
    {
        store.delete(&path).await.unwrap();
    }
    let again = Directory::new(store.clone(), world.key.clone(), world.clock.clone(), world.random.clone());
    let counted = usage::settle(&again, world.record.id).await.unwrap();
    assert_eq!((counted.usage.messages, counted.usage.storage), (2, 5500));
}

/// Objects that were copied have the time of that.
#[tokio::test]
async fn a_store_that_was_copied_is_not_counted_twice() {
    let world = Fixture::new().await;
    append(&world.account, 1000).await;
    append(&world.account, 1000).await;
    world.settled().await;
    tick().await;
    let (from, backend) = (world.accounts.store(), Arc::new(InMemory::new()));
    let mut paths: Vec<String> = from.list("", None).map_ok(|o| o.path).try_collect().await.unwrap();
    // Messages after their numbers.
    paths.sort_by_key(|path| path.starts_with("acct/"));
    for path in paths {
        if path.starts_with("acct/") {
            tick().await;
        }
        let object = from.read(&path).await.unwrap();
        backend.put(&Path::from(path), object.into()).await.unwrap();
    }
    let there =
        Directory::new(Store::over(backend), world.key.clone(), world.clock.clone(), world.random.clone());
    let known = usage::known(&there, world.record.id).await.unwrap();
    assert_eq!((known.messages, known.storage), (2, 2000));
}

/// An attacker with write access to the store removes the usage record, and plants what the node
/// would count.
#[tokio::test]
async fn planted_objects_count_for_nothing() {
    let world = Fixture::new().await;
    append(&world.account, 5000).await;
    assert_eq!(world.settled().await, (1, 5000));
    let store = world.accounts.store();
    let id = world.record.id;
    let list = |prefix: String| store.list(&prefix, None).map_ok(|o| o.path).try_collect::<Vec<_>>();
    let real = list(format!("acct/{id}/msg")).await.unwrap().remove(0);
    // A copy of a real one: its footer is bound to its path.
    let copy = format!("acct/{id}/msg/{:032x}", 7);
    store.put_again(&real, &copy).await.unwrap();
    let noise = format!("acct/{id}/msg/{:032x}", 8);
    store.put_new(&noise, sealpost_vault::Sealed::marker()).await.unwrap();
    for path in list(format!("usage/{id}")).await.unwrap() {
        store.delete(&path).await.unwrap();
    }
    let again = Directory::new(store.clone(), world.key.clone(), world.clock.clone(), world.random.clone());
    let counted = usage::settle(&again, id).await.unwrap();
    assert_eq!((counted.usage.messages, counted.usage.storage), (1, 5000));
}

/// The attack: a writer of the bucket removes the last usage records, so that an earlier one, which
/// is authentic, counts, of a time when the account was fuller, or emptier.
#[tokio::test]
async fn an_earlier_usage_record_does_not_count() {
    let world = Fixture::new().await;
    let (id, backend) = (world.record.id, Arc::new(InMemory::new()));
    let store = Store::over(backend.clone());
    let directory =
        &Directory::new(store.clone(), world.key.clone(), world.clock.clone(), world.random.clone());
    let full = Usage { mailboxes: 6, ..Usage::of_messages(900, 9_000_000) };
    directory.record_usage(id, full).await.unwrap();
    let path = |version: u64| format!("usage/{id}/{version:016x}");
    let earlier = store.read(&path(1)).await.unwrap();
    let seen = Usage { mailboxes: 6, ..Usage::of_messages(1, 1000) };
    for _ in 0..4 {
        directory.record_usage(id, seen).await.unwrap();
    }
    let paths = || async { store.names_below(&format!("usage/{id}")).await.unwrap() };
    let later: Vec<_> = paths().await.iter().map(|name| format!("usage/{id}/{name}")).collect();
    for path in &later {
        store.delete(path).await.unwrap();
    }
    backend.put(&Path::from(path(1)), earlier.into()).await.unwrap();
    assert_eq!(directory.usage_record(id).await.unwrap(), None, "it is older than one that was seen");
    // A node that was never there cannot know.
    let new_node = directory.clone().with_watermarks(Default::default());
    assert_eq!(new_node.usage_record(id).await.unwrap().unwrap().usage, full);
    // The existing messages are counted, and the record is written behind all that were read.
    let record = usage::settle(directory, id).await.unwrap();
    assert_eq!((record.usage.messages, record.usage.mailboxes), (0, 6));
    assert_eq!((record.version, new_node.usage_record(id).await.unwrap()), (6, Some(record)));
    let more = directory.add_usage(id, Usage::of_messages(1, 5)).await.unwrap();
    assert_eq!((more.version, more.usage.storage), (7, 5));
}
