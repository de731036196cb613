//! Against a server that speaks S3 and fails as each test prescribes.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use futures::future::{join_all, try_join_all};
use sealpost_base::{AccountId, Budget, Kind, ObjectId, Random, SeededRandom, SystemClock, limits};
use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3, Fault, Request};

use super::{Refusal, RetryPolicy, S3};
use crate::message::{MessageKey, MessageWriter};
use crate::probe::{Conditions, probe};
use crate::remote::fake::s3;
use crate::store::is_too_large;
use crate::{AppendMode, Put, Sealed, Store};

const RETRY_POLICY: RetryPolicy =
    RetryPolicy { requests: 8, timeout: Duration::from_millis(500), pause: Duration::from_millis(1) };

async fn start() -> (FakeS3, Store) {
    let server = FakeS3::start(ConditionalPut::Keeps, 3).await;
    let store = open(&server, RETRY_POLICY).await;
    server.seen();
    (server, store)
}

async fn open(server: &FakeS3, retry_policy: RetryPolicy) -> Store {
    Store::s3(&s3(server, "a/prefix"), retry_policy, Arc::new(SeededRandom::new(7))).await.unwrap()
}

fn sealed(bytes: &[u8]) -> Sealed {
    Sealed::new(bytes.to_vec())
}

fn is_put(request: &Request) -> bool {
    request.method == "PUT"
}

async fn paths(store: &Store, prefix: &str, after: Option<&str>) -> Vec<String> {
    store.list(prefix, after).map_ok(|object| object.path).try_collect().await.unwrap()
}

#[tokio::test]
async fn objects_come_and_go_below_the_prefix() {
    let (server, store) = start().await;
    assert_eq!(store.append_mode(), AppendMode::Conditional);
    for n in 0..8 {
        assert_eq!(store.put_new(&format!("x/{n}"), sealed(&[n; 10])).await.unwrap(), Put::Created);
    }
    assert_eq!(store.put_new("x/3", sealed(b"other")).await.unwrap(), Put::Exists);
    assert_eq!(server.keys().len(), 8);
    assert!(server.keys().iter().all(|key| key.starts_with("a/prefix/x/")));
    assert_eq!(store.read("x/3").await.unwrap()[..], [3; 10]);
    assert_eq!(store.read_range("x/3", 2..5).await.unwrap()[..], [3; 3]);
    assert_eq!(store.read_range("x/3", 5..11).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(store.read_range("x/3", 11..12).await.unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(store.read("x/9").await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(store.size("x/3").await.unwrap(), 10);
    assert_eq!(paths(&store, "x", None).await, (0..8).map(|n| format!("x/{n}")).collect::<Vec<_>>());
    assert_eq!(paths(&store, "x", Some("x/5")).await, ["x/6", "x/7"]);
    assert_eq!(store.last("x").await.unwrap().unwrap().0, "x/7");
    store.delete_in_order(vec!["x/0".into(), "x/1".into(), "x/nothing".into()]).await.unwrap();
    assert_eq!(paths(&store, "x", None).await.len(), 6);
}

#[tokio::test]
async fn a_write_with_a_lost_reply_is_recognised() {
    let late = Fault::AnsweredLate(Duration::from_millis(700));
    for fault in [Fault::ReplyLost, Fault::DoneBut(500), Fault::DoneBut(503), late] {
        let (server, store) = start().await;
        server.once(fault, is_put);
        assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap(), Put::Created, "{fault:?}");
        assert_eq!(server.seen().iter().filter(|r| is_put(r)).count(), 2);
        // And from then on it is there like any other.
        assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap(), Put::Exists);
    }
}

/// A proxy reports success for a request that it did not pass on.
#[tokio::test]
async fn a_write_with_a_wrong_etag_is_repeated() {
    for append_mode in [ConditionalPut::Keeps, ConditionalPut::Refuses] {
        let server = FakeS3::start(append_mode, 3).await;
        let store = open(&server, RETRY_POLICY).await;
        server.once(Fault::AckWithoutWrite, is_put);
        assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap(), Put::Created, "{append_mode:?}");
        assert_eq!(store.read("x").await.unwrap()[..], *b"mine");
        assert_eq!(server.object("a/prefix/x").unwrap()[..], *b"mine");
    }
}

#[tokio::test]
async fn anothers_object_is_not_taken_for_ones_own() {
    for fault in [Fault::Dropped, Fault::Refused(503), Fault::Refused(409)] {
        let (server, store) = start().await;
        store.put_new("x", sealed(b"others")).await.unwrap();
        server.once(fault, is_put);
        assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap(), Put::Exists, "{fault:?}");
        assert_eq!(store.read("x").await.unwrap()[..], *b"others");
    }
}

#[tokio::test]
async fn a_conflict_with_a_failed_write_is_no_object() {
    let (server, store) = start().await;
    server.once(Fault::Refused(409), is_put);
    assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap(), Put::Created);
    // One that never ends says nothing about whose object is there.
    server.plan(|r| if is_put(r) { Fault::Refused(409) } else { Fault::None });
    assert_eq!(store.put_new("y", sealed(b"mine")).await.unwrap_err().kind(), Kind::Retry);
}

#[tokio::test]
async fn an_outcome_that_cannot_be_determined_is_reported_as_unknown() {
    let (server, store) = start().await;
    // The write gets through, and from then on nothing does.
    let mut begun = false;
    server.plan(move |_| match std::mem::replace(&mut begun, true) {
        false => Fault::ReplyLost,
        true => Fault::Refused(500),
    });
    assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap_err().kind(), Kind::Retry);
    server.plan(|_| Fault::None);
    // As the contract says: the same write again, and reading it.
    assert_eq!(store.put_new("x", sealed(b"mine")).await.unwrap(), Put::Exists);
    assert_eq!(store.read("x").await.unwrap()[..], *b"mine");
}

#[tokio::test]
async fn a_store_that_is_down_gives_retry_and_recovers() {
    let (server, store) = start().await;
    store.put_new("x", sealed(b"before")).await.unwrap();
    server.plan(|_| Fault::Dropped);
    server.seen();
    assert_eq!(store.put_new("y", sealed(b"during")).await.unwrap_err().kind(), Kind::Retry);
    assert_eq!(store.read("x").await.unwrap_err().kind(), Kind::Retry);
    assert_eq!(store.delete("x").await.unwrap_err().kind(), Kind::Retry);
    let listed = store.list("x", None).try_collect::<Vec<_>>().await;
    assert_eq!(listed.unwrap_err().kind(), Kind::Retry);
    assert!(server.seen().len() <= 4 * 5 * 2, "attempts are bounded");
    server.plan(|_| Fault::None);
    assert_eq!(store.read("x").await.unwrap()[..], *b"before");
    assert_eq!(store.put_new("y", sealed(b"after")).await.unwrap(), Put::Created);
}

#[tokio::test]
async fn refused_requests_are_not_repeated() {
    let (server, store) = start().await;
    server.plan(|_| Fault::Refused(403));
    assert_eq!(store.read("x").await.unwrap_err().kind(), Kind::Retry);
    // The check whether only this object is withheld happens once.
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn answers_that_break_off_are_asked_for_again() {
    let (server, store) = start().await;
    store.put_new("x", sealed(&[7; 100_000])).await.unwrap();
    server.once(Fault::CutShort, |r| r.method == "GET");
    assert_eq!(store.read("x").await.unwrap()[..], [7; 100_000]);
    server.once(Fault::CutShort, |r| r.method == "GET");
    assert_eq!(store.read_range("x", 1..50_001).await.unwrap()[..], [7; 50_000]);
    server.once(Fault::Late(Duration::from_secs(3)), |r| r.method == "GET");
    assert_eq!(store.read("x").await.unwrap().len(), 100_000);
    assert!(store.metrics().retries.read() >= 3);
}

#[tokio::test]
async fn replies_without_a_length_are_reported() {
    let (server, store) = start().await;
    store.put_new("x", sealed(b"text")).await.unwrap();
    server.plan(|r| if r.method == "GET" { Fault::NoContentLength } else { Fault::None });
    let error = store.read("x").await.unwrap_err();
    assert_eq!((error.kind(), Refusal::of(&error)), (Kind::Retry, Some(Refusal::NoLength)));
}

#[tokio::test]
async fn a_listing_is_counted_as_the_requests_that_it_makes() {
    let (server, store) = start().await;
    for objects in 0..3 {
        let before = store.metrics().requests.read();
        assert_eq!(paths(&store, "x", None).await.len(), objects);
        assert_eq!(store.metrics().requests.read() - before, server.seen().len() as u64, "{objects} objects");
        store.put_new(&format!("x/{objects}"), sealed(b"x")).await.unwrap();
        server.seen();
    }
}

#[tokio::test]
async fn an_interrupted_listing_continues() {
    let (server, store) = start().await;
    for n in 0..10 {
        store.put_new(&format!("x/{n}"), sealed(&[n])).await.unwrap();
    }
    let mut count = 0;
    server.plan(move |_| {
        count += 1;
        match count % 3 {
            1 => Fault::None,
            2 => Fault::Refused(500),
            _ => Fault::CutShort,
        }
    });
    assert_eq!(paths(&store, "x", None).await, (0..10).map(|n| format!("x/{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn requests_under_way_are_bounded() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    let store = open(&server, RetryPolicy { requests: 5, ..RETRY_POLICY }).await;
    server.plan(|_| Fault::Late(Duration::from_millis(5)));
    let puts = (0..100).map(|n| {
        let store = store.clone();
        async move {
            let path = format!("x/{n:03}");
            store.put_new(&path, sealed(b"bytes")).await?;
            store.read(&path).await
        }
    });
    try_join_all(puts).await.unwrap();
    let reads = store.read_ranges((0..100).map(|n| (format!("x/{n:03}"), 0..3)).collect()).await;
    assert!(reads.iter().all(|read| read.as_ref().is_ok_and(|bytes| bytes[..] == *b"byt")));
    assert_eq!(server.most_under_way(), 5);
}

#[tokio::test]
async fn an_acknowledged_large_object_exists_despite_failures() {
    let faults = [Fault::None, Fault::ReplyLost, Fault::DoneBut(500), Fault::Refused(503), Fault::Dropped];
    for (n, fault) in faults.into_iter().enumerate() {
        for which in ["uploads", "partNumber", "uploadId"] {
            let (server, store) = start().await;
            let method = if which == "partNumber" { "PUT" } else { "POST" };
            server.once(fault, move |r| r.method == method && r.query.contains_key(which));
            let mut upload = store.upload("large").await.unwrap();
            let first = vec![n as u8; store.part_bytes()];
            upload.part(sealed(&first)).await.unwrap();
            upload.part(sealed(b"the end")).await.unwrap();
            upload.complete().await.unwrap();
            let found = store.read("large").await.unwrap();
            assert_eq!(found.len(), first.len() + 7, "{fault:?} {which}");
            assert_eq!(found[first.len()..], *b"the end");
        }
    }
}

#[tokio::test]
async fn an_upload_part_acquires_its_whole_memory() {
    let (_server, store) = start().await;
    let random = SeededRandom::new(4);
    let (account, object) = (AccountId::random(&random), ObjectId::random(&random));
    let key = MessageKey::generate(&random);
    // A request of which is two megabytes at most.
    let budget = Budget::new(16 * 1024 * 1024);
    let mut writer = MessageWriter::new(&store, account, object, &key, &budget).await.unwrap();
    let mut noise = vec![0; store.part_bytes() - 1024 * 1024];
    random.fill(&mut noise);
    writer.write(&noise).await.unwrap();
    assert!(budget.in_use() >= store.part_bytes(), "{} are drawn", budget.in_use());
    drop(writer);
    while budget.in_use() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_upload_that_fails_leaves_nothing() {
    let (server, store) = start().await;
    server.plan(|r| match r.query.contains_key("partNumber") {
        true => Fault::Refused(500),
        false => Fault::None,
    });
    let mut upload = store.upload("large").await.unwrap();
    assert_eq!(upload.part(sealed(b"part")).await.unwrap_err().kind(), Kind::Retry);
    assert_eq!(upload.complete().await.unwrap_err().kind(), Kind::Retry);
    assert_eq!(store.size("large").await.unwrap_err().kind(), Kind::NotFound);
    // Nor is it an absence of anything if the upload is gone.
    server.plan(|r| match r.query.contains_key("partNumber") {
        true => Fault::Refused(404),
        false => Fault::None,
    });
    let mut gone = store.upload("large").await.unwrap();
    assert_eq!(gone.part(sealed(b"part")).await.unwrap_err().kind(), Kind::Retry);
    drop(gone);
    // What was dropped is aborted by a task of its own.
    while server.uploads() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_probe_classifies_conditional_writes() {
    let expected = [
        (ConditionalPut::Keeps, Conditions::Kept),
        (ConditionalPut::Ignores, Conditions::Ignored),
        (ConditionalPut::Refuses, Conditions::Refused),
        (ConditionalPut::Races, Conditions::Raced),
    ];
    for (manners, conditions) in expected {
        let server = FakeS3::start(manners, 1000).await;
        let store = open(&server, RETRY_POLICY).await;
        assert_eq!(store.append_mode(), conditions.append_mode(), "{manners:?}");
        let asked = store.metrics().requests.read();
        assert!(asked <= 24, "{asked} requests at the start: {manners:?}");
        let found = probe(&store, &SystemClock::new(), &SeededRandom::new(1)).await.unwrap();
        if manners != ConditionalPut::Refuses {
            // A store that knows that much does not ask again.
            assert_eq!(found.conditions, conditions);
        }
        assert!(found.lists_what_was_written && found.forgets_what_was_removed);
        assert!(found.reads_ranges && found.uploads_in_parts);
        assert_eq!(server.keys(), Vec::<String>::new(), "nothing is left");
        store.put_new("x", sealed(b"it can be written")).await.unwrap();
    }
}

/// Reads, listings, uploads: whichever is refused, no object of the probe stays.
#[tokio::test]
async fn a_failed_probe_removes_its_objects() {
    type Fails = (&'static str, fn(&Request) -> bool);
    let fails: [Fails; 4] = [
        ("read", |request| request.method == "GET" && !request.key.is_empty()),
        ("list", |request| request.query.contains_key("prefix")),
        ("a part", |request| request.query.contains_key("partNumber")),
        ("the end of an upload", |request| {
            request.method == "POST" && request.query.contains_key("uploadId")
        }),
    ];
    for (what, fails) in fails {
        let (server, store) = start().await;
        server.plan(move |request| if fails(request) { Fault::Refused(403) } else { Fault::None });
        let failed = probe(&store, &SystemClock::new(), &SeededRandom::new(1)).await;
        assert!(failed.is_err(), "{what}");
        assert_eq!((server.keys(), server.uploads()), (Vec::new(), 0), "{what}");
    }
}

#[tokio::test]
async fn of_many_writers_one_creates() {
    let (_server, store) = start().await;
    let objects: Vec<_> = (0..40u8).map(|n| sealed(&[n; 20])).collect();
    let puts = join_all(objects.iter().map(|object| store.put_new("x", object.clone()))).await;
    assert_eq!(puts.iter().filter(|put| matches!(put, Ok(Put::Created))).count(), 1);
}

#[test]
fn urls() {
    let good =
        [("s3://mail", ("mail", "")), ("s3://mail/", ("mail", "")), ("s3://m_L.1/a/b/", ("m_L.1", "a/b"))];
    for (url, (bucket, prefix)) in good {
        assert_eq!(S3::parse_url(url).unwrap(), (bucket.to_owned(), prefix.to_owned()), "{url}");
    }
    for url in
        ["http://mail", "s3://", "s3:///x", "s3://ab", "s3://ma il", "s3://mail/a//b", "s3://.ab/c", "mail"]
    {
        assert_eq!(S3::parse_url(url).unwrap_err().kind(), Kind::Invalid, "{url}");
    }
}

#[tokio::test]
async fn a_file_in_place_of_the_cache_disables_it() {
    let (server, store) = start().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = store.cached(file.path(), 64 << 20, Arc::new(SystemClock::new())).await.unwrap();
    store.put_new("acct/a/msg/x", sealed(b"x")).await.unwrap();
    server.seen();
    for _ in 0..2 {
        assert_eq!(store.read("acct/a/msg/x").await.unwrap()[..], *b"x");
    }
    assert_eq!(server.seen().len(), 2, "each is asked of the bucket");
}

#[tokio::test]
async fn cached_objects_are_not_requested_again() {
    let (server, store) = start().await;
    let large: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    store.put_new("acct/a/msg/large", sealed(&large)).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    drop(store);
    let reopened = async || {
        let store = open(&server, RETRY_POLICY).await;
        let store = store.cached(dir.path(), 64 << 20, Arc::new(SystemClock::new())).await.unwrap();
        server.seen();
        store
    };
    let store = reopened().await;
    store.put_new("acct/a/msg/small", sealed(b"written here")).await.unwrap();
    store.put_new("acct/a/log/0", sealed(b"an entry")).await.unwrap();
    for path in ["acct/a/msg/small", "acct/a/log/0"] {
        store.read(path).await.unwrap();
    }
    let seen: Vec<_> = server.seen().into_iter().filter(|r| r.method == "GET").map(|r| r.key).collect();
    assert_eq!(seen, ["a/prefix/acct/a/log/0"], "what is written is kept; of the log the store is asked");
    for round in 0..3 {
        for range in [70_000..140_000, 80_000..90_000, 131_072..190_000] {
            let (start, end) = (range.start as usize, range.end as usize);
            assert_eq!(store.read_range("acct/a/msg/large", range).await.unwrap()[..], large[start..end]);
        }
        assert_eq!(server.seen().len(), if round == 0 { 1 } else { 0 }, "round {round}");
    }
    let beyond = store.read_range("acct/a/msg/large", 299_000..300_001).await;
    assert_eq!(beyond.unwrap_err().kind(), Kind::Corrupt);
    drop(store);
    // The writing thread may still be active; then one more block is requested.
    let store = reopened().await;
    assert_eq!(store.read_range("acct/a/msg/large", 290_000..300_000).await.unwrap()[..], large[290_000..]);
    assert_eq!(store.read("acct/a/msg/small").await.unwrap()[..], *b"written here");
    store.delete("acct/a/msg/small").await.unwrap();
    store.put_new("acct/a/msg/last", sealed(b"x")).await.unwrap();
}

/// A reader of a bucket with versioning finds every removed record.
#[tokio::test]
async fn a_bucket_that_keeps_versions_is_detected_at_the_start() {
    let (server, store) = start().await;
    assert!(!store.keeps_removed());
    server.keep_versions();
    for manners in [ConditionalPut::Keeps, ConditionalPut::Ignores] {
        server.behave(manners);
        let store = open(&server, RETRY_POLICY).await;
        assert!(store.keeps_removed());
    }
    let random = SeededRandom::new(3);
    assert!(probe(&store, &SystemClock::new(), &random).await.unwrap().keeps_removed);
}

/// An attacker with write access to the bucket can put anything there, also objects larger than any
/// read.
#[tokio::test]
async fn an_object_too_large_for_its_path_is_corrupt() {
    let server = FakeS3::start(ConditionalPut::Keeps, 3).await;
    // The server hashes what it gives out, and takes long over so much.
    let patient = RetryPolicy { timeout: Duration::from_secs(60), ..RETRY_POLICY };
    let store = open(&server, patient).await;
    let path = "server/key/ffffffffffffffff";
    store.put_new("server/key/0000000000000001", sealed(b"ours")).await.unwrap();
    for bytes in [limits::STORE_ANSWER_BYTES + 1, limits::RECORD_BYTES + 1] {
        server.plant(&format!("a/prefix/{path}"), vec![7; bytes]);
        server.seen();
        for read in [store.read(path).await, store.read_confirmed(path).await] {
            let e = read.unwrap_err();
            assert!(e.kind() == Kind::Corrupt && is_too_large(&e), "{e:?}");
            assert!(e.to_string().contains(path), "{e}");
        }
        // One, and two that have to say the same: it does not pass.
        assert_eq!(server.seen().len(), 3);
        assert_eq!(store.last("server/key").await.unwrap_err().kind(), Kind::Corrupt);
        let listed: Vec<_> = store.list("server", None).try_collect().await.unwrap();
        assert_eq!(listed.iter().map(|object| object.is_too_large()).collect::<Vec<_>>(), [false, true]);
        // It is in the way of a write like any other, also of one that had to be repeated.
        server.once(Fault::Refused(503), is_put);
        assert_eq!(store.put_new(path, sealed(b"ours")).await.unwrap(), Put::Exists);
    }
    server.plant(&format!("a/prefix/{path}"), vec![7; limits::RECORD_BYTES]);
    assert_eq!(store.read(path).await.unwrap().len(), limits::RECORD_BYTES);
}
