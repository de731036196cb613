//! Several processes append to one log all the time, on a store with slow requests: their throughput, by a
//! clock that advances only while tasks wait.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use sealpost_base::{AccountId, SeededRandom};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, AppendMode, Backend, RootKey, Store};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::leader_backoff::LATELY;
use crate::{Append, Journal, Seal, Tail};

const ACCOUNT: AccountId = AccountId([7; 16]);
/// The maximum of half the duration of a request.
const DELAY: Duration = Duration::from_millis(6);

/// The throughput.
#[derive(Debug)]
struct Done {
    entries: u32,
    requests: u64,
    took: Duration,
    /// The longest time that a session waited for one entry.
    longest: Duration,
}

impl Done {
    fn each(&self) -> Duration {
        self.took / self.entries
    }
}

/// A process: its journal, and its connection to the store.
fn process(objects: &Arc<InMemory>, seed: u64) -> (Journal, Faulty) {
    let plan = Plan { delay: 1000, delay_max: DELAY, ..Plan::default() };
    let faulty = Faulty::new(objects.clone(), plan, seed);
    let store = Store::with(Arc::new(faulty.clone()), Backend { append_mode: AppendMode::Siblings });
    (Journal::new(store, ACCOUNT, &LogKey::for_tests(), Arc::new(SeededRandom::new(seed))), faulty)
}

fn keys() -> AccountKeys {
    AccountKeys::derive(&RootKey::generate(&SeededRandom::new(1)), ACCOUNT)
}

/// Appends like an account; returns the duration.
async fn append(journal: &Journal, end: &Mutex<Tail>, keys: &AccountKeys) -> Duration {
    let began = Instant::now();
    let mut end = end.lock().await;
    loop {
        match journal.append(&end, Seal::Owner(keys), b"x").await {
            Ok(Append::Done(tail)) => {
                *end = tail;
                return began.elapsed();
            }
            _ => *end = journal.tail(*end).await.unwrap(),
        }
    }
}

/// Runs `nodes` processes with `sessions` each; each session appends `entries` in sequence.
async fn at_once(nodes: u64, sessions: u32, entries: u32, seed: u64) -> Done {
    let objects = Arc::new(InMemory::new());
    let began = Instant::now();
    let (mut work, mut stores) = (JoinSet::new(), Vec::new());
    for node in 0..nodes {
        let (journal, store) = process(&objects, seed * 100 + node);
        stores.push(store);
        let end = Arc::new(Mutex::new(Tail::EMPTY));
        for _ in 0..sessions {
            let (journal, end, keys) = (journal.clone(), end.clone(), keys());
            work.spawn(async move {
                let mut longest = Duration::ZERO;
                for _ in 0..entries {
                    longest = longest.max(append(&journal, &end, &keys).await);
                }
                longest
            });
        }
    }
    let longest = work.join_all().await.into_iter().max().unwrap();
    let requests = stores.iter().map(Faulty::calls).sum();
    Done { entries: nodes as u32 * sessions * entries, requests, took: began.elapsed(), longest }
}

#[tokio::test(start_paused = true)]
async fn processes_that_append_at_once_take_turns() {
    for nodes in [2, 3] {
        for seed in 1..4 {
            let (alone, done) = (at_once(1, 4, 60, seed).await, at_once(nodes, 4, 60, seed).await);
            // A lone writer takes two requests. If each process took over the ballot whenever possible, it
            // would be twelve.
            assert_eq!(alone.requests, 2 * u64::from(alone.entries) + 3, "{alone:?}");
            assert!(done.requests <= 3 * nodes * u64::from(done.entries), "{done:?}");
            assert!(done.each() < 2 * alone.each(), "{done:?}, {alone:?}");
            // No session starves.
            assert!(done.longest < Duration::from_secs(3), "{done:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_occasional_writer_does_not_back_off() {
    let objects = Arc::new(InMemory::new());
    let [(one, _), (two, _)] = [1, 2].map(|seed| process(&objects, seed));
    let (end_of_one, end_of_two, keys) = (Mutex::new(Tail::EMPTY), Mutex::new(Tail::EMPTY), keys());
    for _ in 0..10 {
        for (journal, end) in [(&one, &end_of_one), (&two, &end_of_two)] {
            let took = append(journal, end, &keys).await;
            // Sixteen requests and no pause.
            assert!(took < 16 * 2 * DELAY, "{took:?}");
            tokio::time::sleep(LATELY).await;
        }
    }
}
