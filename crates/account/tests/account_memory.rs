//! Memory of loaded accounts: idle ones are unloaded for others, and too large ones are refused.

use std::sync::Arc;
use std::time::Duration;

use sealpost_account::event::Event;
use sealpost_account::{
    Account, AccountState, Accounts, Delivery, FlagAction, Flags, NewMessage, Options, Pressure, Stored,
    SystemFlags,
};
use sealpost_base::{AccountId, FakeClock, Kind, MemoryDivision, SeededRandom, Timestamp};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, RootKey, Store};
use tokio::time::sleep;

struct Fixture {
    accounts: Accounts,
    root: RootKey,
}

const fn id(n: u8) -> AccountId {
    AccountId([n; 16])
}

impl Fixture {
    fn new(store: Store, room: usize) -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let memory = MemoryDivision { accounts: room, ..MemoryDivision::default() };
        let root = RootKey::generate(&SeededRandom::new(7));
        let options = Options { memory, ..Options::default() };
        Fixture { accounts: Accounts::with(store, LogKey::for_tests(), clock, random, options), root }
    }

    async fn open(&self, n: u8) -> Arc<Account> {
        self.accounts.open(id(n), &self.root).await.unwrap()
    }

    async fn deliver(&self, n: u8, messages: usize) {
        let public = AccountKeys::derive(&self.root, id(n)).public();
        for _ in 0..messages {
            let stored = self.store(n).await;
            self.accounts.deliver(id(n), &public, stored, Delivery::default()).await.unwrap();
        }
    }

    async fn store(&self, n: u8) -> Stored {
        let mut ingest = self.accounts.ingest(id(n)).await.unwrap();
        ingest.write(b"Subject: x\r\n\r\ny\r\n").await.unwrap();
        ingest.finish().await.unwrap()
    }
}

/// A round of maintenance holds an account until it is done.
async fn settled(account: &Arc<Account>) {
    while Arc::strong_count(account) > 2 {
        tokio::task::yield_now().await;
    }
}

/// What an empty account takes.
async fn weight() -> usize {
    Fixture::new(Store::memory(), 1 << 20).open(1).await.weight()
}

#[tokio::test]
async fn the_least_recently_used_idle_account_is_unloaded() {
    let each = weight().await;
    let world = Fixture::new(Store::memory(), 4 * each + 8192);
    let first = world.open(1).await;
    settled(&first).await;
    for n in 2..40 {
        settled(&world.open(n).await).await;
        let (room, used) = world.accounts.account_memory();
        assert!(used <= room, "{used} of {room} after {n}");
    }
    assert!(world.accounts.peek(id(1)).is_some(), "in use");
    assert!(world.accounts.peek(id(39)).is_some() && world.accounts.peek(id(2)).is_none());
    assert!(Arc::ptr_eq(&first, &world.open(1).await));
}

#[tokio::test]
async fn with_many_loaded_those_stay_that_are_used_or_large() {
    const AMPLE: usize = 1 << 20;
    let each = weight().await;
    let world = Fixture::new(Store::memory(), 4 * AMPLE);
    let first = world.open(1).await;
    world.deliver(2, 3000).await;
    let large = world.open(2).await;
    let weight_of_large = large.weight();
    assert!(weight_of_large > 64 << 10);
    drop(large);
    for n in 3..=255 {
        settled(&world.open(n).await).await;
        let (_, used) = world.accounts.account_memory();
        assert!(used <= AMPLE + 2 * each + weight_of_large, "{used} after {n}");
    }
    assert!(250 * each > AMPLE);
    let is_loaded = |n| world.accounts.peek(id(n)).is_some();
    assert!(is_loaded(1), "in use");
    assert!(is_loaded(2), "it takes a while to load it");
    assert!(is_loaded(255) && is_loaded(250) && !is_loaded(3));
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_load_waits_for_memory_up_to_a_timeout() {
    let each = weight().await;
    let world = Arc::new(Fixture::new(Store::memory(), 2 * each + each / 2));
    let held = [world.open(1).await, world.open(2).await];
    settled(&held[0]).await;
    settled(&held[1]).await;
    let error = world.accounts.open(id(3), &world.root).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Retry, "{error}");

    let [one, two] = held;
    let waiting = tokio::spawn({
        let world = world.clone();
        async move { world.open(3).await.id() }
    });
    while world.accounts.memory_pressure() < Pressure::Short {
        tokio::task::yield_now().await;
    }
    // A session that only waits for its client learns that the memory is needed.
    one.wanted().await;
    drop(one);
    assert_eq!(waiting.await.unwrap(), id(3));
    assert!(world.accounts.peek(id(1)).is_none());
    drop(two);
}

/// Sessions that are never all between two commands at once.
#[tokio::test(start_paused = true)]
async fn accounts_that_are_always_in_use_take_turns() {
    let each = weight().await;
    let world = Arc::new(Fixture::new(Store::memory(), 2 * each + each / 2));
    let mut sessions = Vec::new();
    for n in 1..=4 {
        for session in 0..2 {
            let world = world.clone();
            sessions.push(tokio::spawn(async move {
                sleep(Duration::from_millis(30 * session)).await;
                let mut account = world.open(n).await;
                for _command in 0..400 {
                    sleep(Duration::from_millis(60)).await;
                    if account.is_leaving() {
                        let ticket = account.ticket();
                        drop(account);
                        account = world.accounts.reopen_in_turn(&ticket).await.unwrap();
                    }
                }
            }));
        }
    }
    for session in sessions {
        session.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_user_of_an_account_does_not_block_others() {
    let each = weight().await;
    let world = Arc::new(Fixture::new(Store::memory(), each + each / 2));
    let (held, ticket) = (world.open(1).await, world.open(1).await.ticket());
    let waiting = tokio::spawn({
        let world = world.clone();
        async move { world.accounts.open(id(2), &world.root).await.err().map(|error| error.kind()) }
    });
    held.wanted().await;
    let other = world.accounts.reopen_in_turn(&ticket).await.unwrap();
    assert!(Arc::ptr_eq(&held, &other));
    assert_eq!(waiting.await.unwrap(), Some(Kind::Retry));
}

#[tokio::test]
async fn a_too_large_account_is_refused_and_still_gets_mail() {
    let each = weight().await;
    let store = Store::memory();
    let large = Fixture::new(store.clone(), 64 << 20);
    large.deliver(1, 300).await;
    let account = large.open(1).await;
    account.checkpoint().await.unwrap();
    assert!(account.weight() > each + 300 * 40, "{}", account.weight());

    let small = Fixture::new(store, each + 300 * 20);
    let error = small.accounts.open(id(1), &small.root).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Limit, "{error}");
    let (_, used) = small.accounts.account_memory();
    assert_eq!(used, 0);
    small.deliver(1, 1).await;
    drop(small.open(2).await);
    account.refresh().await.unwrap();
    assert_eq!(account.state().inbox().len(), 301);
}

#[tokio::test]
async fn an_account_cannot_grow_too_large_to_load() {
    const ROOM: usize = 1 << 17;
    let store = Store::memory();
    let world = Fixture::new(store.clone(), ROOM);
    world.deliver(1, 1).await;
    let account = world.open(1).await;
    let copy = |state: &AccountState| {
        let (from, uids) = (state.inbox().id(), state.inbox().uids());
        Ok((vec![Event::Copied { from, uids, to: from }], ()))
    };
    let refused = loop {
        match account.commit(copy).await {
            Ok(_) => assert!(account.weight() <= ROOM),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), Kind::Limit, "{refused}");
    // Whatever their flags become, they fit: each placement has a set of its own, as far as there
    // are sets.
    let placed = account.state().inbox().len();
    assert!(placed > ROOM / 40, "{placed}");
    let mut refused = None;
    for bit in 0..16 {
        let stored = account.commit(|state| {
            let uids = state.inbox().uids().iter().filter(|uid| uid.get() >> bit & 1 == 1).collect();
            let flags = Flags { system: SystemFlags::NONE, keywords: vec![format!("k{bit}")] };
            let (mailbox, action) = (state.inbox().id(), FlagAction::Add);
            Ok((vec![Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }], ()))
        });
        refused = refused.or(stored.await.err());
        assert!(account.weight() <= ROOM, "{} with {bit}", account.weight());
    }
    assert_eq!(refused.map(|error| error.kind()), Some(Kind::Limit));
    // Mail comes all the same, and the account can be loaded then.
    world.deliver(1, 3).await;
    assert_eq!(Fixture::new(store, ROOM).open(1).await.state().inbox().len(), placed + 3);
    // What makes it smaller is done.
    let expunge = |state: &AccountState| {
        let (mailbox, uids) = (state.inbox().id(), state.inbox().uids());
        Ok((vec![Event::Expunged { mailbox, uids }], ()))
    };
    account.commit(expunge).await.unwrap();
    account.checkpoint().await.unwrap();
    settled(&account).await;
    drop(account);
    assert!(world.open(1).await.state().inbox().is_empty());
}

/// Concurrent appends share one log entry: one that is too large fails alone.
#[tokio::test]
async fn one_append_that_is_too_large_refuses_no_other() {
    // Few fit, and a hundred do not.
    let world = Fixture::new(Store::memory(), (weight().await + 3000) * 8 / 7);
    let account = world.open(1).await;
    let inbox = account.state().inbox().id();
    let new = |stored| NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
    let small = vec![new(world.store(1).await)];
    let large = vec![small[0].clone(); 100];
    let before = account.state().position();
    let (one, refused, other) = tokio::join!(
        account.append(inbox, small.clone()),
        account.append(inbox, large),
        account.append(inbox, small.clone()),
    );
    assert_eq!(account.state().position().0, before.0 + 1, "one log entry");
    assert_eq!(refused.unwrap_err().kind(), Kind::Limit);
    assert_eq!((one.unwrap().1.len(), other.unwrap().1.len()), (1, 1));
    assert_eq!(account.state().inbox().len(), 2);
}

#[tokio::test]
async fn growth_of_an_account_is_charged() {
    let world = Fixture::new(Store::memory(), 1 << 20);
    let account = world.open(1).await;
    let before = account.weight();
    world.deliver(1, 100).await;
    account.catch_up().await.unwrap();
    assert!(account.weight() >= before + 100 * 40, "{} after {before}", account.weight());
    assert_eq!(world.accounts.account_memory().1, account.weight());
}

#[tokio::test]
async fn a_ticket_hears_and_opens_again() {
    let world = Fixture::new(Store::memory(), 1 << 20);
    let ticket = world.open(1).await.ticket();
    assert!(!ticket.log_watcher().has_changed());
    world.deliver(1, 1).await;
    ticket.log_watcher().changed().await;
    let account = world.accounts.reopen(&ticket).await.unwrap();
    assert_eq!(account.state().inbox().len(), 1);
    assert!(!account.ticket().log_watcher().has_changed());
}

/// A process is notified of the accounts to which another one appended, and reads no other log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_notify_of_entries_of_other_processes() {
    let dir = tempfile::tempdir().unwrap();
    let here = Fixture::new(Store::local(dir.path()).await.unwrap(), 64 << 20);
    let there = Fixture::new(Store::local(dir.path()).await.unwrap(), 64 << 20);
    let mut tickets = Vec::new();
    for n in 1..=5 {
        here.deliver(n, 1).await;
        tickets.push(here.open(n).await.ticket());
    }
    for (n, ticket) in (1..).zip(&tickets) {
        there.deliver(n, 1).await;
        tokio::time::timeout(Duration::from_secs(60), ticket.log_watcher().changed()).await.unwrap();
    }
    for ticket in &tickets {
        let account = here.accounts.reopen(ticket).await.unwrap();
        assert_eq!(account.state().inbox().len(), 2);
    }
}
