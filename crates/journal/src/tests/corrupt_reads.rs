//! One response of the store has a flipped bit: the log loses nothing, and no process continues with a
//! different state.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use sealpost_base::{AccountId, Position, SeededRandom};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, AppendMode, Backend, RootKey, Store};

use crate::{Append, Content, EntryName, Journal, Read, Replay, Seal, Step, Tail};

const ACCOUNT: AccountId = AccountId([7; 16]);
const TEXTS: [&str; 3] = ["one", "two", "three"];

struct Fixture {
    objects: Arc<InMemory>,
    faulty: Faulty,
    append_mode: AppendMode,
    keys: AccountKeys,
    random: Arc<SeededRandom>,
}

impl Fixture {
    fn new(append_mode: AppendMode) -> Self {
        let random = Arc::new(SeededRandom::new(1));
        let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
        let objects = Arc::new(InMemory::new());
        let faulty = Faulty::new(objects.clone(), Plan::default(), 1);
        Fixture { objects, faulty, append_mode, keys, random }
    }

    /// A node without any knowledge of the others.
    fn node(&self) -> Journal {
        let store = Store::with(Arc::new(self.faulty.clone()), Backend { append_mode: self.append_mode });
        Journal::new(store, ACCOUNT, &LogKey::for_tests(), self.random.clone())
    }

    async fn add(&self, journal: &Journal, after: &Tail, text: &str) -> Tail {
        let to = self.keys.public();
        match journal.append(after, Seal::Delivery(&to), text.as_bytes()).await.unwrap() {
            Append::Done(tail) => tail,
            other => panic!("{text}: {other:?}"),
        }
    }

    async fn fill(&self, journal: &Journal) -> Tail {
        let mut tail = Tail::EMPTY;
        for text in TEXTS {
            tail = self.add(journal, &tail, text).await;
        }
        tail
    }

    async fn read(&self, journal: &Journal) -> Vec<String> {
        let places = journal.places_after(&Tail::EMPTY).await.unwrap().unwrap();
        let mut entries = pin!(journal.entries(&self.keys, Tail::EMPTY, &places));
        let (mut out, mut replay) = (Vec::new(), Replay::after(Tail::EMPTY));
        while let Some(read) = entries.next().await {
            let Read::Entry(entry) = read.unwrap() else {
                out.push("no entry".to_owned());
                continue;
            };
            let counts = replay.next(&entry) == Step::Counts;
            out.push(match entry.content {
                Content::Plain(_, text) if counts => String::from_utf8_lossy(&text).into_owned(),
                _ => "not chained".to_owned(),
            });
        }
        out
    }

    async fn object(&self, path: &str) -> bytes::Bytes {
        self.objects.get(&Path::parse(path).unwrap()).await.unwrap().bytes().await.unwrap()
    }
}

#[tokio::test]
async fn rewriting_the_end_leaves_it_unchanged() {
    let w = Fixture::new(AppendMode::Siblings);
    let node = w.node();
    let end = w.fill(&node).await;
    let path =
        node.path(&EntryName { position: end.position, ballot: end.ballot.unwrap(), ..last(&node).await });
    let before = w.object(&path).await;
    // Readers, a delivery by another node, which begins a ballot of its own, and a reader of that.
    for part in [&path[..], "/log/"] {
        w.faulty.mislead(part);
        assert_eq!(w.read(&w.node()).await, TEXTS);
        assert!(w.faulty.has_misled());
        assert_eq!(w.object(&path).await, before);
    }
    let (other, to) = (w.node(), w.keys.public());
    w.faulty.mislead("/log/");
    let lost = other.append(&Tail::EMPTY, Seal::Delivery(&to), b"four").await.unwrap();
    assert_eq!((lost, w.faulty.has_misled()), (Append::Lost, true));
    let tail = other.tail(Tail::EMPTY).await.unwrap();
    w.add(&other, &tail, "four").await;
    assert_eq!(w.read(&w.node()).await, ["one", "two", "three", "four"]);
}

async fn last(journal: &Journal) -> EntryName {
    *journal.listed_after(&Tail::EMPTY).await.unwrap().last().unwrap()
}

#[tokio::test]
async fn an_entry_that_does_not_open_is_read_once_more() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        for text in 1..=TEXTS.len() {
            let w = Fixture::new(append_mode);
            w.fill(&w.node()).await;
            w.faulty.mislead(&format!("/log/{text:016x}"));
            assert_eq!(w.read(&w.node()).await, TEXTS, "{append_mode:?} {text}");
            assert!(w.faulty.has_misled());
        }
    }
}

/// A listing of a growing directory may include an entry without its predecessor.
#[tokio::test]
async fn an_entry_that_a_listing_left_out_is_not_missing() {
    let w = Fixture::new(AppendMode::Conditional);
    let node = w.node();
    w.fill(&node).await;
    let mut places = node.places_after(&Tail::EMPTY).await.unwrap().unwrap();
    places.remove(1);
    let entries = node.entries(&w.keys, Tail::EMPTY, &places);
    let entries: Vec<_> = entries.map(|entry| entry.unwrap()).collect().await;
    assert_eq!(entries.len(), TEXTS.len());
    let mut replay = Replay::after(Tail::EMPTY);
    for (entry, text) in entries.iter().zip(TEXTS) {
        let Read::Entry(entry) = entry else { panic!("an entry") };
        assert_eq!(replay.next(entry), Step::Counts);
        assert!(matches!(&entry.content, Content::Plain(_, said) if **said == *text.as_bytes()), "{text}");
    }
}

#[tokio::test]
async fn the_hash_of_the_end_matches_the_stored_entry() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let w = Fixture::new(append_mode);
        let end = w.fill(&w.node()).await;
        let other = w.node();
        w.faulty.mislead("/log/");
        let tail = other.tail(Tail::EMPTY).await.unwrap();
        assert!(w.faulty.has_misled());
        assert_eq!((tail.position, tail.hash), (end.position, end.hash), "{append_mode:?}");
        w.add(&other, &tail, "four").await;
        assert_eq!(w.read(&w.node()).await, ["one", "two", "three", "four"], "{append_mode:?}");
    }
}

#[tokio::test]
async fn checkpoints_are_reread_and_rewritten_unchanged() {
    let w = Fixture::new(AppendMode::Siblings);
    let node = w.node();
    let mut tail = Tail::EMPTY;
    for text in TEXTS {
        tail = w.add(&node, &tail, text).await;
        let names = ["head".to_owned()];
        node.write_checkpoint(&w.keys, tail, names, |_| text.as_bytes().to_vec()).await.unwrap();
    }
    w.faulty.mislead("/manifest/");
    let newest = node.checkpoint(&w.keys, Position(3)).await.unwrap();
    assert!(w.faulty.has_misled());
    w.faulty.mislead("/snap/");
    assert_eq!(&node.chunk(&w.keys, Position(3), &newest.chunks[0]).await.unwrap()[..], b"three");
    assert!(w.faulty.has_misled());
    w.faulty.mislead("/manifest/");
    node.trim().await.unwrap();
    assert!(w.faulty.has_misled());
    for position in [2, 3] {
        node.checkpoint(&w.keys, Position(position)).await.unwrap();
    }
}
