mod corrupt_reads;

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use sealpost_base::{AccountId, FakeClock, Kind, Position, SeededRandom, Timestamp, limits};
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, AppendMode, Backend, RootKey, Store};

use super::*;

mod planted;
mod withheld;

const ACCOUNT: AccountId = AccountId([7; 16]);

struct Fixture {
    objects: Arc<InMemory>,
    store: Store,
    journal: Journal,
    keys: AccountKeys,
}

fn world() -> Fixture {
    world_of(AppendMode::Conditional)
}

fn world_of(append_mode: AppendMode) -> Fixture {
    let random = Arc::new(SeededRandom::new(1));
    let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
    let objects = Arc::new(InMemory::new());
    let store = Store::with(objects.clone(), Backend { append_mode });
    Fixture {
        objects,
        journal: Journal::new(store.clone(), ACCOUNT, &LogKey::for_tests(), random),
        store,
        keys,
    }
}

impl Fixture {
    /// The same store for a process without any knowledge of it.
    fn again(&self) -> Fixture {
        let keys = AccountKeys::derive(&RootKey::generate(&SeededRandom::new(1)), ACCOUNT);
        let (store, random) = (self.store.clone(), Arc::new(SeededRandom::new(2)));
        Fixture {
            objects: self.objects.clone(),
            journal: Journal::new(store.clone(), ACCOUNT, &LogKey::for_tests(), random),
            store,
            keys,
        }
    }

    async fn append(&self, after: &Tail, text: &str) -> Append {
        self.journal.append(after, Seal::Owner(&self.keys), text.as_bytes()).await.unwrap()
    }

    async fn fill(&self, from: Tail, texts: &[&str]) -> Tail {
        let mut tail = from;
        for text in texts {
            match self.append(&tail, text).await {
                Append::Done(next) => tail = next,
                other => panic!("{other:?}"),
            }
        }
        tail
    }

    async fn read(&self, known: Tail) -> Vec<String> {
        let places = self.journal.places_after(&known).await.unwrap().unwrap();
        let mut entries = pin!(self.journal.entries(&self.keys, known, &places));
        let (mut out, mut replay) = (Vec::new(), Replay::after(known));
        while let Some(read) = entries.next().await {
            let entry = match read.unwrap() {
                Read::Entry(entry) => entry,
                Read::Noise(_) => continue,
                Read::Damaged(_) => {
                    out.push("damaged".to_owned());
                    continue;
                }
                Read::Gone(_) => {
                    out.push("gone".to_owned());
                    continue;
                }
            };
            let mut step = replay.next(&entry);
            if step != Step::Counts
                && let Some(cover) = self.journal.cover_of(entry.position, &places).await.unwrap()
            {
                out.push("repaired".to_owned());
                replay.continue_by(cover);
                step = replay.next(&entry);
            }
            let broken = if step == Step::Counts { "" } else { "!" };
            out.push(match &entry.content {
                Content::Plain(_, text) => format!("{broken}{}", String::from_utf8_lossy(text)),
                Content::Renumbering(_) => format!("{broken}renumbered {}", entry.generation),
                Content::Sealed(_) => format!("{broken}sealed"),
            });
        }
        out
    }

    fn path(&self, position: u64) -> String {
        format!("acct/{ACCOUNT}/log/{position:016x}")
    }

    /// An object written by a user of the store, or a flipped bit.
    async fn plant(&self, position: u64, bytes: &[u8]) {
        let path = object_store::path::Path::parse(self.path(position)).unwrap();
        let payload = object_store::PutPayload::from(bytes.to_vec());
        self.objects.put(&path, payload).await.unwrap();
    }

    async fn object(&self, position: u64) -> Vec<u8> {
        self.store.read(&self.path(position)).await.unwrap().to_vec()
    }

    /// Appends at the end, like a delivery without prior knowledge.
    async fn deliver(&self, text: &str) {
        let public = self.keys.public();
        for _ in 0..4 {
            let tail = self.journal.tail(Tail::EMPTY).await.unwrap();
            let done = self.journal.append(&tail, Seal::Delivery(&public), text.as_bytes()).await.unwrap();
            if let Append::Done(_) = done {
                return;
            }
        }
        panic!("{text} was not delivered");
    }

    async fn checkpoint(&self, tail: Tail, chunks: &[(&str, &str)]) -> Checkpoint {
        let names = chunks.iter().map(|(name, _)| (*name).to_owned());
        let chunk = |name: &str| {
            let found = chunks.iter().find(|(n, _)| *n == name).unwrap();
            found.1.as_bytes().to_vec()
        };
        self.journal.write_checkpoint(&self.keys, tail, names, chunk).await.unwrap()
    }

    async fn paths(&self, prefix: &str) -> Vec<String> {
        let prefix = format!("acct/{ACCOUNT}/{prefix}");
        let listed: Vec<_> = self.store.list(&prefix, None).collect().await;
        listed.into_iter().map(|object| object.unwrap().path[prefix.len()..].to_owned()).collect()
    }
}

#[tokio::test]
async fn appended_entries_are_read_back_in_order() {
    let w = world();
    let tail = w.fill(Tail::EMPTY, &["one", "two"]).await;
    w.fill(tail, &["three"]).await;
    assert_eq!(w.read(Tail::EMPTY).await, ["one", "two", "three"]);
    assert_eq!(w.read(tail).await, ["three"]);
}

#[tokio::test(start_paused = true)]
async fn an_append_losing_to_an_unlisted_entry_ends() {
    let inner = Arc::new(InMemory::new());
    let plan = Plan { late: 1000, ..Plan::default() };
    let (sound, hiding) = (Store::over(inner.clone()), Store::over(Arc::new(Faulty::new(inner, plan, 1))));
    let w = world();
    let on = |store| Journal::new(store, ACCOUNT, &LogKey::for_tests(), Arc::new(SeededRandom::new(3)));
    let (writer, blind) = (on(sound), on(hiding));
    let seal = || Seal::Owner(&w.keys);
    assert!(matches!(writer.append(&Tail::EMPTY, seal(), b"one").await.unwrap(), Append::Done(_)));
    let (mut known, mut lost) = (Tail::EMPTY, 0);
    let error = loop {
        match blind.append(&known, seal(), b"two").await {
            Ok(Append::Lost) => known = blind.tail(known).await.unwrap(),
            Ok(other) => panic!("{other:?}"),
            Err(e) => break e,
        }
        lost += 1;
        assert!(lost < 100, "it retries for ever");
    };
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("/log/0000000000000001"), "{error}");
    // No entry is appended after it either, and a process that sees it continues.
    let end = writer.tail(Tail::EMPTY).await.unwrap();
    assert_eq!(end.position, Position(1));
    assert!(matches!(writer.append(&end, seal(), b"two").await.unwrap(), Append::Done(_)));
}

#[tokio::test]
async fn deliveries_need_only_the_public_key() {
    let w = world();
    let public = w.keys.public();
    let done = w.journal.append(&Tail::EMPTY, Seal::Delivery(&public), b"mail").await.unwrap();
    let Append::Done(tail) = done else { panic!("{done:?}") };
    w.fill(tail, &["owner"]).await;
    assert_eq!(w.read(Tail::EMPTY).await, ["mail", "owner"]);
}

#[tokio::test]
async fn one_of_two_concurrent_appends_loses_and_catches_up() {
    let w = world();
    let tail = w.fill(Tail::EMPTY, &["one"]).await;
    w.fill(tail, &["two"]).await;
    assert_eq!(w.append(&tail, "also two").await, Append::Lost);
    let end = w.journal.tail(tail).await.unwrap();
    w.fill(end, &["three"]).await;
    assert_eq!(w.read(Tail::EMPTY).await, ["one", "two", "three"]);
}

#[tokio::test]
async fn nothing_counts_behind_a_missing_entry() {
    let w = world();
    w.fill(Tail::EMPTY, &["one", "two", "three", "four"]).await;
    w.store.delete(&format!("acct/{ACCOUNT}/log/{:016x}", 2)).await.unwrap();
    assert_eq!(w.read(Tail::EMPTY).await, ["one", "!three", "!four"]);
}

#[tokio::test]
async fn an_entry_of_another_log_is_not_taken() {
    let (w, other) = (world(), world());
    let tail = w.fill(Tail::EMPTY, &["one"]).await;
    // The same keys and the same position, but a different previous entry.
    let foreign = other.fill(Tail::EMPTY, &["eins", "zwei"]).await;
    assert_ne!(foreign.hash, tail.hash);
    let wrong = Tail { hash: foreign.hash, ..tail };
    w.fill(wrong, &["two"]).await;
    assert_eq!(w.read(Tail::EMPTY).await, ["one", "!two"]);
}

#[tokio::test]
async fn a_checkpoint_is_read_back_and_written_twice_without_harm() {
    let w = world();
    let tail = w.fill(Tail::EMPTY, &["one"]).await;
    let chunks = [("head", "h"), ("rows", "r")];
    let first = w.checkpoint(tail, &chunks).await;
    assert_eq!(w.checkpoint(tail, &chunks).await, first);
    let read = w.journal.checkpoint(&w.keys, Position(1)).await.unwrap();
    assert_eq!(read, first);
    assert_eq!(&*w.journal.chunk(&w.keys, Position(1), &read.chunks[1]).await.unwrap(), b"r");
    let other = ChunkRef { name: "head".to_owned(), ..read.chunks[1].clone() };
    assert!(w.journal.chunk(&w.keys, Position(1), &other).await.is_err(), "another one's digest");
}

/// A copy of another store was interrupted: parts of its checkpoints may exist, or one without its log.
#[tokio::test]
async fn a_checkpoint_is_not_made_of_another_historys_parts() {
    let w = world();
    let one = w.fill(Tail::EMPTY, &["one"]).await;
    w.checkpoint(one, &[("head", "another history")]).await;
    w.store.delete(&w.journal.manifest_path(Position(1))).await.unwrap();
    let write = |tail: Tail, text: &'static str| {
        let names = ["head".to_owned()];
        w.journal.write_checkpoint(&w.keys, tail, names, move |_| text.as_bytes().to_vec())
    };
    assert_eq!(write(one, "h").await.unwrap_err().kind(), Kind::Conflict);
    let manifests = w.paths("manifest/").await.into_iter().filter(|name| !name.starts_with('m'));
    assert_eq!(manifests.count(), 0, "a witness alone is no manifest");
    let two = w.fill(one, &["two"]).await;
    write(two, "h").await.unwrap();
    // The chunks are the same, but their states are not.
    let elsewhere = Tail { hash: one.hash, ..two };
    assert_eq!(write(elsewhere, "h").await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(w.journal.checkpoint(&w.keys, Position(2)).await.unwrap().tail, two);
}

/// The last `lost` entries are missing from a log with entries up to the third, and a checkpoint of all of
/// it.
#[tokio::test]
async fn a_log_without_its_end_accepts_no_append() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        for lost in 1..=3 {
            let w = world_of(append_mode);
            let one = w.fill(Tail::EMPTY, &["one"]).await;
            let three = w.fill(one, &["two", "three"]).await;
            w.checkpoint(three, &[("head", "h")]).await;
            let begun = w.again();
            // Another writer may have continued; the process knows no more than that.
            assert_eq!(begun.append(&one, "also two").await, Append::Lost);
            let log = w.paths("log/").await;
            for entry in &log[3 - lost..] {
                w.store.delete(&format!("acct/{ACCOUNT}/log/{entry}")).await.unwrap();
            }
            let begun = w.again();
            // Such an append would be acknowledged, and readers that start from the checkpoint would never
            // read it.
            let end = begun.journal.tail(Tail::EMPTY).await.unwrap();
            assert_eq!(end.position.0, 3 - lost as u64);
            let public = w.keys.public();
            let refused = begun.journal.append(&end, Seal::Delivery(&public), b"mail").await.unwrap_err();
            assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
            let left = w.paths("log/").await;
            let behind = format!("{:016x}", end.position.next().0);
            assert!(left.iter().all(|entry| **entry < *behind), "nor is anything left there: {left:?}");
            // A process that knows the end from before continues.
            w.fill(three, &["four"]).await;
        }
    }
}

/// In earlier versions the objects of chunks have the chunks' names; now object names reveal nothing.
#[tokio::test]
async fn chunks_are_found_by_both_kinds_of_names() {
    let w = world();
    let tail = w.fill(Tail::EMPTY, &["x"]).await;
    let written = w.checkpoint(tail, &[("head", "h"), ("rows-00000001-00000000", "r")]).await;
    let read = w.journal.checkpoint(&w.keys, Position(1)).await.unwrap();
    assert_eq!(read, written);
    assert!(read.chunks.iter().all(|chunk| !chunk.file_name().contains(&chunk.name[..4])));
    let backend = w.journal.store.clone();
    for chunk in read.chunks {
        assert!(w.journal.chunk(&w.keys, Position(1), &chunk).await.is_ok());
        let before = ChunkRef { object: None, ..chunk.clone() };
        let missing = w.journal.chunk(&w.keys, Position(1), &before).await.unwrap_err();
        assert_eq!(missing.kind(), Kind::NotFound);
        let sealed = w.journal.seal_piece(
            &w.keys,
            Position(1),
            &chunk.name,
            if chunk.name == "head" { b"h" } else { b"r" },
        );
        backend.put_new(&w.journal.snap_path(Position(1), &chunk.name), sealed).await.unwrap();
        assert!(w.journal.chunk(&w.keys, Position(1), &before).await.is_ok());
        let bytes = minicbor::to_vec(&before).unwrap();
        #[derive(minicbor::Encode)]
        struct Before(#[n(0)] String, #[n(1)] sealpost_vault::Hash);
        assert_eq!(bytes, minicbor::to_vec(Before(chunk.name, chunk.digest)).unwrap(), "as it was written");
    }
}

#[tokio::test]
async fn trimming_keeps_entries_that_the_last_two_checkpoints_need() {
    let w = world();
    let mut tail = Tail::EMPTY;
    for head in ["h1", "h2", "h3"] {
        tail = w.fill(tail, &["x", "y"]).await;
        w.checkpoint(tail, &[("head", head)]).await;
    }
    assert_eq!(w.journal.checkpoints().await.unwrap(), [Position(6), Position(4), Position(2)]);
    w.journal.trim().await.unwrap();
    assert_eq!(w.paths("log").await, ["/0000000000000004", "/0000000000000005", "/0000000000000006"]);
    let head = |at| {
        let name = sealpost_vault::checkpoint::object_name(&w.keys, ACCOUNT, Position(at), "head");
        format!("/{at:016x}/{name}")
    };
    assert_eq!(w.paths("snap").await, [head(4), head(6)]);
    let manifests = w.paths("manifest").await;
    assert_eq!(manifests[..2], ["/0000000000000004", "/0000000000000006"]);
    assert_eq!(manifests.len(), 4, "and their witnesses: {manifests:?}");
}

#[tokio::test]
async fn trimming_stops_where_its_caller_says() {
    let w = world();
    let mut tail = Tail::EMPTY;
    for head in ["h1", "h2", "h3"] {
        tail = w.fill(tail, &["x", "y"]).await;
        w.checkpoint(tail, &[("head", head)]).await;
    }
    w.journal.trim_below(Position(2)).await.unwrap();
    assert_eq!(w.journal.checkpoints().await.unwrap(), [Position(6), Position(4), Position(2)]);
    assert_eq!(w.paths("log").await.len(), 5, "the entry before that position alone is gone");
    // The last two checkpoints still limit it.
    w.journal.trim_below(Position(6)).await.unwrap();
    assert_eq!(w.journal.checkpoints().await.unwrap(), [Position(6), Position(4)]);
    assert_eq!(w.paths("log").await.len(), 3);
}

#[tokio::test]
async fn stale_writer_detects_trim() {
    let w = world();
    let old = w.fill(Tail::EMPTY, &["one"]).await;
    let two = w.fill(old, &["two", "two and a half"]).await;
    w.checkpoint(two, &[("head", "h")]).await;
    let three = w.fill(two, &["three"]).await;
    w.checkpoint(three, &[("head", "h3")]).await;
    w.journal.trim().await.unwrap();

    assert!(!w.journal.reaches_back(&old).await.unwrap());
    assert_eq!(w.append(&old, "stale").await, Append::Trimmed);
    assert_eq!(
        w.paths("log").await,
        ["/0000000000000003", "/0000000000000004"],
        "nothing is left of the stale append"
    );
    assert_eq!(w.journal.tail(old).await.unwrap(), three);
    assert_eq!(w.journal.tail(Tail::EMPTY).await.unwrap(), three);
}

/// The clock of this writer was stopped too, so it does not check before it writes.
#[tokio::test]
async fn stale_writer_with_stopped_clock_gets_unknown_outcome() {
    let w = world();
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let sleeper =
        Journal::new(w.store.clone(), ACCOUNT, &LogKey::for_tests(), Arc::new(SeededRandom::new(2)))
            .timed(clock.clone());
    let appended = sleeper.append(&Tail::EMPTY, Seal::Owner(&w.keys), b"one").await.unwrap();
    let Append::Done(old) = appended else { panic!("{appended:?}") };
    let two = w.fill(old, &["two", "two and a half"]).await;
    w.checkpoint(two, &[("head", "h")]).await;
    let three = w.fill(two, &["three"]).await;
    w.checkpoint(three, &[("head", "h3")]).await;
    // A process has listed the entries, and pauses before it reads them.
    let places = w.journal.places_after(&old).await.unwrap().unwrap();
    w.journal.trim().await.unwrap();

    let error = sleeper.append(&old, Seal::Owner(&w.keys), b"stale").await.unwrap_err();
    assert_eq!(error.kind(), sealpost_base::Kind::Retry);
    // The stale entry chains and opens, and is not accepted.
    let read: Vec<_> = w.journal.entries(&w.keys, old, &places).collect().await;
    let Read::Entry(first) = read.into_iter().next().unwrap().unwrap() else { panic!("an entry") };
    assert_eq!(Replay::after(old).next(&first), Step::Counts);
    assert!(matches!(&first.content, Content::Plain(_, text) if &text[..] == b"stale"));
    assert!(!w.journal.reaches_back(&old).await.unwrap());
    for journal in [&sleeper, &w.journal] {
        assert_eq!(journal.tail(old).await.unwrap(), three);
        assert_eq!(journal.tail(Tail::EMPTY).await.unwrap(), three);
    }
    w.journal.trim().await.unwrap();
    assert_eq!(w.paths("log").await, ["/0000000000000003", "/0000000000000004"]);
    // It checks again once time advances.
    clock.advance(std::time::Duration::from_secs(3600));
    assert_eq!(sleeper.append(&old, Seal::Owner(&w.keys), b"stale").await.unwrap(), Append::Trimmed);
}

/// One write, and one check whether it counts.
#[tokio::test]
async fn an_entry_after_ones_own_takes_two_requests() {
    let random = Arc::new(SeededRandom::new(1));
    let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
    let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let journal = Journal::new(Store::over(Arc::new(calls.clone())), ACCOUNT, &LogKey::for_tests(), random)
        .timed(clock.clone());
    let mut tail = Tail::EMPTY;
    for requests in [3, 2, 2] {
        let before = calls.calls();
        let appended = journal.append(&tail, Seal::Owner(&keys), b"x").await.unwrap();
        let Append::Done(end) = appended else { panic!("{appended:?}") };
        assert_eq!(calls.calls() - before, requests);
        tail = end;
    }
}

/// A store that refuses to create an existing object, and returns it only a moment later.
#[tokio::test(start_paused = true)]
async fn an_entry_that_exists_but_returns_404_is_awaited() {
    let late = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let random = Arc::new(SeededRandom::new(1));
    let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
    let there = Journal::new(Store::over(Arc::new(late.clone())), ACCOUNT, &LogKey::for_tests(), random);
    let one = there.append(&Tail::EMPTY, Seal::Owner(&keys), b"one").await.unwrap();
    let Append::Done(one) = one else { panic!("{one:?}") };
    late.give_out_late(3);
    let lost = there.append(&Tail::EMPTY, Seal::Owner(&keys), b"uno").await.unwrap();
    assert_eq!(lost, Append::Lost);
    late.give_out_late(3);
    assert_eq!(there.tail(Tail::EMPTY).await.unwrap(), one);
    late.give_out_late(3);
    let places = there.places_after(&Tail::EMPTY).await.unwrap().unwrap();
    let read: Vec<_> = there.entries(&keys, Tail::EMPTY, &places).collect().await;
    let Read::Entry(first) = read[0].as_ref().unwrap() else { panic!("an entry") };
    assert!(matches!(&first.content, Content::Plain(_, text) if &text[..] == b"one"));
}

/// A store or its proxy lists an entry and returns 404 for it: no process continues as if the entry were
/// lost.
#[tokio::test(start_paused = true)]
async fn a_listed_entry_that_returns_404_is_not_missing() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let hiding = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let random = Arc::new(SeededRandom::new(1));
        let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
        let store = Store::with(Arc::new(hiding.clone()), Backend { append_mode });
        let there = Journal::new(store, ACCOUNT, &LogKey::for_tests(), random);
        let one = there.append(&Tail::EMPTY, Seal::Owner(&keys), b"one").await.unwrap();
        let Append::Done(one) = one else { panic!("{one:?}") };
        let places = there.places_after(&Tail::EMPTY).await.unwrap().unwrap();
        hiding.give_out_late(u64::MAX);
        let read: Vec<_> = there.entries(&keys, Tail::EMPTY, &places).collect().await;
        let failed = read[0].as_ref().err().map(sealpost_base::Error::kind);
        assert_eq!(failed, Some(Kind::Retry), "{append_mode:?}");
        assert_eq!(there.tail(Tail::EMPTY).await.unwrap_err().kind(), Kind::Retry, "{append_mode:?}");
        hiding.give_out_late(0);
        assert_eq!(there.tail(Tail::EMPTY).await.unwrap(), one);
    }
}

#[tokio::test(start_paused = true)]
async fn noise_at_the_next_position_costs_only_that_position() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let w = world_of(append_mode);
        w.fill(Tail::EMPTY, &["one", "two"]).await;
        w.plant(3, b"noise").await;
        let begun = w.again();
        begun.deliver("three").await;
        w.again().deliver("four").await;
        let read = w.again().read(Tail::EMPTY).await;
        let expected: &[&str] = match append_mode {
            AppendMode::Conditional => &["one", "two", "renumbered 1", "three", "four"],
            AppendMode::Siblings => &["one", "two", "three", "four"],
        };
        assert_eq!(read, expected, "{append_mode:?}");
        let survey = w.again().journal.survey(Position(1)).await.unwrap();
        assert_eq!(survey.unfit.len(), 1);
        assert!(!survey.unfit[0].is_damaged && survey.unfit[0].position == Position(3));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_appended_behind_a_far_position() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        for begin in [&[][..], &["one", "two"]] {
            let w = world_of(append_mode);
            w.fill(Tail::EMPTY, begin).await;
            for far in [0x8000_0000_0001, 0x0100_0000, u64::MAX, limits::LOG_GAP + 9] {
                w.plant(far, b"noise").await;
            }
            // An entry of the same log at a wrong position.
            if !begin.is_empty() && append_mode == AppendMode::Conditional {
                w.plant(1 << 40, &w.object(2).await).await;
            }
            w.again().deliver("three").await;
            w.again().deliver("four").await;
            let expected: Vec<_> = begin.iter().chain(&["three", "four"]).copied().collect();
            assert_eq!(w.again().read(Tail::EMPTY).await, expected, "{append_mode:?}");
            let survey = w.again().journal.survey(Position(1)).await.unwrap();
            assert!(survey.unfit.iter().all(|unfit| survey.is_far(unfit.position)), "{survey:?}");
        }
    }
}

/// Noise is removed while a stale writer believes that its position is the next one.
#[tokio::test(start_paused = true)]
async fn a_position_that_was_passed_over_is_never_used() {
    for knows_the_time in [false, true] {
        let w = world();
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
        let mut sleeper = w.again();
        if knows_the_time {
            // It appended a moment ago, and does not check before it writes.
            sleeper.journal = sleeper.journal.timed(clock.clone());
            sleeper.journal.reaches_back(&two).await.unwrap();
        }
        w.plant(3, b"noise").await;
        w.again().deliver("three").await;
        w.store.delete(&w.path(3)).await.unwrap();
        assert_eq!(sleeper.append(&two, "stale").await, Append::Lost);
        sleeper.deliver("four").await;
        let read = w.again().read(Tail::EMPTY).await;
        assert_eq!(read, ["one", "two", "renumbered 1", "three", "four"]);
        assert_eq!(w.paths("log").await.len(), 5, "nothing is left of the stale one");
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_positions_as_the_limit_says_are_passed_over() {
    let w = world();
    w.fill(Tail::EMPTY, &["one"]).await;
    for position in 2..limits::LOG_GAP + 1 {
        w.plant(position, b"noise").await;
    }
    w.again().deliver("two").await;
    assert_eq!(w.again().read(Tail::EMPTY).await, ["one", "renumbered 1", "two"]);

    let w = world();
    let one = w.fill(Tail::EMPTY, &["one"]).await;
    // One more, and the next entry would be further away than readers search.
    for position in 2..limits::LOG_GAP + 2 {
        w.plant(position, b"noise").await;
    }
    let public = w.keys.public();
    let refused = w.again().journal.append(&one, Seal::Delivery(&public), b"mail").await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(w.again().read(Tail::EMPTY).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_last_entry_blocks_appends_until_a_repair() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let w = world_of(append_mode);
        let two = w.fill(Tail::EMPTY, &["one", "two"]).await;
        w.fill(two, &["three"]).await;
        let log = w.paths("log/").await;
        let (position, path) = (log[2].clone(), format!("acct/{ACCOUNT}/log/{}", log[2]));
        let mut object = w.store.read(&path).await.unwrap().to_vec();
        let last = object.len() - 1;
        object[last] ^= 1;
        let location = object_store::path::Path::parse(&path).unwrap();
        w.objects.put(&location, object.into()).await.unwrap();
        let begun = w.again();
        let tail = begun.journal.tail(Tail::EMPTY).await.unwrap();
        assert_eq!(tail.position, Position(2), "{append_mode:?} {position}");
        let public = w.keys.public();
        let refused = begun.journal.append(&tail, Seal::Delivery(&public), b"mail").await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{append_mode:?}: {refused}");
        let repaired = w.again().journal.repair(false).await.unwrap().unwrap();
        assert_eq!(repaired.breaks, [Break::DamagedEnd(Position(3))]);
        w.again().deliver("four").await;
        let read: Vec<_> = w.again().read(Tail::EMPTY).await;
        let read: Vec<_> = read.iter().filter(|said| *said != "damaged").collect();
        assert_eq!(read, ["one", "two", "renumbered 1", "four"], "{append_mode:?}");
        assert_eq!(w.again().journal.repair(false).await.unwrap(), None, "{append_mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repair_continues_without_a_missing_entry() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let w = world_of(append_mode);
        w.fill(Tail::EMPTY, &["one", "two", "three", "four"]).await;
        let missing = w.paths("log/").await[1].clone();
        let missing = format!("acct/{ACCOUNT}/log/{missing}");
        let bytes = w.store.read(&missing).await.unwrap();
        w.store.delete(&missing).await.unwrap();
        assert_eq!(w.again().read(Tail::EMPTY).await, ["one", "!three", "!four"]);
        // Deliveries continue.
        w.again().deliver("five").await;
        let repaired = w.again().journal.repair(false).await.unwrap().unwrap();
        assert_eq!(repaired.breaks, [Break::Unchained(Position(3))], "{append_mode:?}");
        w.again().deliver("six").await;
        let expected = ["one", "repaired", "three", "four", "five", "renumbered 1", "six"];
        assert_eq!(w.again().read(Tail::EMPTY).await, expected, "{append_mode:?}");
        assert_eq!(w.again().journal.repair(false).await.unwrap(), None);
        // It reappears: a reader sees that others do not count it, and reports that.
        let location = object_store::path::Path::parse(&missing).unwrap();
        w.objects.put(&location, bytes.into()).await.unwrap();
        let read = w.again().read(Tail::EMPTY).await;
        assert!(read.contains(&"!renumbered 1".to_owned()), "{append_mode:?}: {read:?}");
        w.again().journal.repair(false).await.unwrap().unwrap();
        let read = w.again().read(Tail::EMPTY).await;
        assert!(
            read.contains(&"two".to_owned()) && !read.iter().any(|said| said.starts_with('!')),
            "{read:?}"
        );
    }
}

#[tokio::test]
async fn entries_under_another_server_key_are_neither_read_nor_followed() {
    let w = world();
    w.fill(Tail::EMPTY, &["one"]).await;
    let key = LogKey::of(&sealpost_vault::server_key::ServerKeys::generate(&SeededRandom::new(9)));
    let other = Journal::new(w.store.clone(), ACCOUNT, &key, Arc::new(SeededRandom::new(3)));
    let tail = other.tail(Tail::EMPTY).await.unwrap();
    assert_eq!(tail, Tail::EMPTY);
    let refused = other.append(&tail, Seal::Owner(&w.keys), b"two").await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Corrupt);
    assert_eq!(w.paths("log").await.len(), 1);
}
