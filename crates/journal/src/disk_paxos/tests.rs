mod contention;

use std::sync::Arc;

use futures::StreamExt;
use object_store::memory::InMemory;
use sealpost_base::{AccountId, Position, SeededRandom};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, AppendMode, Backend, RootKey, Store};

use super::*;
use crate::{Content, Journal, Read, Replay, Seal, Step};

const ACCOUNT: AccountId = AccountId([7; 16]);

struct Fixture {
    objects: Arc<InMemory>,
    keys: AccountKeys,
    random: Arc<SeededRandom>,
}

impl Fixture {
    fn new() -> Self {
        let random = Arc::new(SeededRandom::new(1));
        let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
        Fixture { objects: Arc::new(InMemory::new()), keys, random }
    }

    fn store(&self, append_mode: AppendMode) -> Store {
        Store::with(self.objects.clone(), Backend { append_mode })
    }

    /// A writer without any knowledge of the others.
    fn writer(&self, append_mode: AppendMode) -> Journal {
        Journal::new(self.store(append_mode), ACCOUNT, &LogKey::for_tests(), self.random.clone())
    }

    async fn append(&self, journal: &Journal, after: &Tail, text: &str) -> Append {
        journal.append(after, Seal::Owner(&self.keys), text.as_bytes()).await.unwrap()
    }

    async fn done(&self, journal: &Journal, after: &Tail, text: &str) -> Tail {
        match self.append(journal, after, text).await {
            Append::Done(tail) => tail,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Appends at the present end.
    async fn add(&self, journal: &Journal, text: &str) {
        loop {
            let tail = journal.tail(Tail::EMPTY).await.unwrap();
            if let Append::Done(_) = self.append(journal, &tail, text).await {
                return;
            }
        }
    }

    /// Reads the log as a new process does.
    async fn read(&self, append_mode: AppendMode) -> String {
        let journal = self.writer(append_mode);
        let places = journal.places_after(&Tail::EMPTY).await.unwrap().unwrap();
        let entries = journal.entries(&self.keys, Tail::EMPTY, &places);
        let mut replay = Replay::after(Tail::EMPTY);
        let texts = entries.map(|read| {
            let Read::Entry(entry) = read.unwrap() else { panic!("an entry") };
            assert_eq!(replay.next(&entry), Step::Counts, "{}", entry.position);
            match entry.content {
                Content::Plain(_, text) => String::from_utf8_lossy(&text).into_owned(),
                _ => "no text".to_owned(),
            }
        });
        texts.collect::<Vec<_>>().await.join(" ")
    }

    async fn begun(&self) -> Vec<String> {
        let folder = format!("acct/{ACCOUNT}/manifest");
        self.store(AppendMode::Siblings)
            .list(&folder, None)
            .map(|object| object.unwrap().path)
            .collect()
            .await
    }

    /// A writer that begins a ballot and then stops permanently.
    async fn begin_and_die(&self) {
        let chain = &self.writer(AppendMode::Siblings).chain;
        chain.begin(&Tail::EMPTY, None).await.unwrap();
    }
}

#[tokio::test]
async fn one_of_two_writers_gets_a_position() {
    let w = Fixture::new();
    let (one, two) = (w.writer(AppendMode::Siblings), w.writer(AppendMode::Siblings));
    let first = w.done(&one, &Tail::EMPTY, "a").await;
    assert_eq!(w.append(&two, &Tail::EMPTY, "b").await, Append::Lost);
    let second = w.done(&two, &first, "b").await;
    // The first writer has lost its ballot. Its entry is stored and does not count.
    assert_eq!(w.append(&one, &first, "c").await, Append::Lost);
    w.done(&one, &second, "c").await;
    assert_eq!(w.read(AppendMode::Siblings).await, "a b c");
}

#[tokio::test]
async fn a_sole_writer_writes_and_lists_once() {
    let w = Fixture::new();
    let one = w.writer(AppendMode::Siblings);
    let mut tail = w.done(&one, &Tail::EMPTY, "a").await;
    for _ in 0..3 {
        let before = one.store.stats().objects;
        tail = w.done(&one, &tail, "b").await;
        assert_eq!(one.store.stats().objects - before, 1);
    }
    assert_eq!(w.begun().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_dies_in_its_ballot_blocks_no_other() {
    let w = Fixture::new();
    let one = w.writer(AppendMode::Siblings);
    let tail = w.done(&one, &Tail::EMPTY, "a").await;
    w.begin_and_die().await;
    assert_eq!(w.read(AppendMode::Siblings).await, "a");
    w.begin_and_die().await;
    assert_eq!(one.tail(Tail::EMPTY).await.unwrap().hash, tail.hash);
    w.add(&one, "b").await;
    w.begin_and_die().await;
    // No process has read it since. Its append was acknowledged, so it counts.
    w.add(&w.writer(AppendMode::Siblings), "c").await;
    assert_eq!(w.read(AppendMode::Siblings).await, "a b c");
}

#[tokio::test(start_paused = true)]
async fn a_late_entry_counts_only_if_followed() {
    for seen in [true, false] {
        let w = Fixture::new();
        let (one, two) = (w.writer(AppendMode::Siblings), w.writer(AppendMode::Siblings));
        let first = w.done(&one, &Tail::EMPTY, "a").await;
        // The entry that `one` would write next if it were not paused.
        let lead = one.chain.cache.lead.lock().await.take().unwrap();
        let place = EntryName { position: Position(2), ballot: lead.ballot, parent: lead.ballot };
        let late = sealpost_vault::entry::seal_owner(
            &w.keys,
            &LogKey::for_tests(),
            &one.header(&first),
            b"late",
            &*w.random,
        );
        let (path, store) = (one.path(&place), w.store(AppendMode::Siblings));
        if seen {
            store.put_new(&path, late.clone()).await.unwrap();
        }
        let end = two.tail(Tail::EMPTY).await.unwrap();
        let end = w.done(&two, &end, "b").await;
        let said = one.chain.follow_up(lead, late, Some(&one.marks(Position(1)))).await.unwrap();
        assert_eq!(matches!(said, Append::Done(_)), seen, "{said:?}");
        assert_eq!(w.read(AppendMode::Siblings).await, if seen { "a late b" } else { "a b" });
        w.done(&one, &end, "c").await;
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_old_ballots_do_not_pile_up() {
    let w = Fixture::new();
    let (one, two) = (w.writer(AppendMode::Siblings), w.writer(AppendMode::Siblings));
    let mut tail = Tail::EMPTY;
    for n in 0..3 * limits::BALLOTS {
        let writer = if n % 2 == 0 { &one } else { &two };
        tail = writer.tail(tail).await.unwrap();
        tail = match w.append(writer, &tail, "x").await {
            Append::Done(tail) => tail,
            _ => tail,
        };
    }
    assert!(w.begun().await.len() <= limits::BALLOTS + 1);
}

#[tokio::test]
async fn a_log_continues_across_append_modes() {
    let w = Fixture::new();
    let mut tail = Tail::EMPTY;
    let mut expected = Vec::new();
    for (n, append_mode) in
        [AppendMode::Conditional, AppendMode::Siblings, AppendMode::Conditional, AppendMode::Siblings]
            .iter()
            .enumerate()
    {
        for k in 0..2 {
            let journal = w.writer(*append_mode);
            tail = journal.tail(Tail::EMPTY).await.unwrap();
            tail = w.done(&journal, &tail, &format!("{n}{k}")).await;
            expected.push(format!("{n}{k}"));
            assert_eq!(w.read(*append_mode).await, expected.join(" "));
        }
    }
    assert_eq!(tail.position, Position(8));
}
