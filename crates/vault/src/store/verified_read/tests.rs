//! One wrong reply of a server, and the data that all nodes have afterwards.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Error, Kind, SeededRandom};
use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3, Fault, Request, Tags};
use sealpost_testkit::faulty::{Faulty, Plan};

use object_store::memory::InMemory;

use crate::remote::fake::s3;
use crate::store::{Transfer, Unreadable};
use crate::{RetryPolicy, Sealed, Store};

const RETRY_POLICY: RetryPolicy =
    RetryPolicy { requests: 8, timeout: Duration::from_millis(5000), pause: Duration::from_millis(1) };
const PATH: &str = "acct/a/log/1";
const WRONG: [Fault; 2] = [Fault::Flipped, Fault::Halved];

async fn world(tags: Tags) -> (FakeS3, Store) {
    let server = FakeS3::start(ConditionalPut::Ignores, 100).await;
    server.tag(tags);
    let store = Store::s3(&s3(&server, ""), RETRY_POLICY, Arc::new(SeededRandom::new(7))).await.unwrap();
    (server, store)
}

fn object(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 7 + n / 256) as u8).collect()
}

fn is_get(request: &Request) -> bool {
    request.method == "GET" && request.key == PATH
}

fn gets(server: &FakeS3) -> usize {
    server.seen().iter().filter(|request| is_get(request)).count()
}

#[tokio::test]
async fn a_reply_that_contradicts_its_etag_is_rejected() {
    for size in [1, 1000, 200_000] {
        let (server, store) = world(Tags::Md5).await;
        let bytes = object(size);
        store.put_new(PATH, Sealed::new(bytes.clone())).await.unwrap();
        server.seen();
        assert_eq!(store.read(PATH).await.unwrap()[..], bytes);
        assert_eq!(store.read_confirmed(PATH).await.unwrap()[..], bytes);
        assert_eq!(gets(&server), 2, "it costs no request");
        for wrong in WRONG {
            server.once(wrong, is_get);
            assert_eq!(store.read(PATH).await.unwrap()[..], bytes, "{wrong:?}");
            server.once(wrong, is_get);
            assert_eq!(store.read_confirmed(PATH).await.unwrap()[..], bytes, "{wrong:?}");
            assert_eq!(gets(&server), 4, "{wrong:?}");
        }
    }
}

#[tokio::test]
async fn without_etags_two_reads_must_agree() {
    let (server, store) = world(Tags::Random).await;
    let bytes = object(1000);
    store.put_new(PATH, Sealed::new(bytes.clone())).await.unwrap();
    server.seen();
    assert_eq!(store.read(PATH).await.unwrap()[..], bytes);
    assert_eq!(gets(&server), 1, "whoever can open it finds out");
    for wrong in WRONG {
        server.once(wrong, is_get);
        assert_eq!(store.read_confirmed(PATH).await.unwrap()[..], bytes, "{wrong:?}");
        assert_eq!(gets(&server), 3, "{wrong:?}");
        let open = |found: &bytes::Bytes| match found[..] == bytes {
            true => Ok(()),
            false => Err(Error::corrupt("it does not open")),
        };
        server.once(wrong, is_get);
        store.read_opened(PATH, open).await.unwrap();
        assert_eq!(gets(&server), 3, "{wrong:?}");
    }
    let mut answers = 0;
    server.plan(move |request| {
        answers += 1;
        if is_get(request) && answers % 2 == 0 { Fault::Halved } else { Fault::None }
    });
    assert_eq!(store.read_confirmed(PATH).await.unwrap_err().kind(), Kind::Retry);
}

#[tokio::test]
async fn put_again_rewrites_the_stored_bytes() {
    for tags in [Tags::Md5, Tags::Random] {
        for wrong in WRONG {
            let (server, store) = world(tags).await;
            let bytes = object(1000);
            store.put_new(PATH, Sealed::new(bytes.clone())).await.unwrap();
            server.once(wrong, is_get);
            assert_eq!(store.put_again(PATH, PATH).await.unwrap()[..], bytes, "{tags:?} {wrong:?}");
            assert_eq!(server.object(PATH).unwrap()[..], bytes, "{tags:?} {wrong:?}");
        }
    }
}

#[tokio::test]
async fn an_object_damaged_in_the_store_is_reported_as_corrupt() {
    let (server, store) = world(Tags::Md5).await;
    store.put_new(PATH, Sealed::new(object(1000))).await.unwrap();
    server.plan(|request| if is_get(request) { Fault::Flipped } else { Fault::None });
    let found = store.read_opened(PATH, |_| Err::<(), _>(Error::corrupt("it does not open"))).await;
    assert_eq!(found.unwrap_err().kind(), Kind::Corrupt);
}

/// A process that copies cannot open the objects.
#[tokio::test]
async fn a_copy_is_exact_despite_one_corrupt_answer() {
    const PATH: &str = "acct/a/msg/1";
    for size in [1000, 11_000_000] {
        let bytes = object(size);
        let [(from_faults, from), (to_faults, to)] = [1, 2].map(|seed| {
            let faulty = Faulty::new(Arc::new(InMemory::new()), Plan::default(), seed);
            (faulty.clone(), Store::over(Arc::new(faulty)))
        });
        from.put_new(PATH, Sealed::new(bytes.clone())).await.unwrap();
        for faults in [&from_faults, &to_faults] {
            faults.mislead(PATH);
            assert_eq!(from.transfer(PATH, size as u64, &to).await.unwrap(), Transfer::Copied, "{size}");
            assert!(faults.has_misled() && to.read(PATH).await.unwrap()[..] == bytes, "{size}");
            faults.mislead(PATH);
            assert_eq!(from.compare(PATH, size as u64, &to).await.unwrap(), Transfer::Same, "{size}");
            assert!(faults.has_misled());
            to.delete(PATH).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_corrupted_write_does_not_count_as_a_copy() {
    for size in [1000, 6_000_000] {
        let (server, to) = world(Tags::Random).await;
        let from = Store::memory();
        from.put_new(PATH, Sealed::new(object(size))).await.unwrap();
        server.plan(|request| if is_get(request) { Fault::Flipped } else { Fault::None });
        let copied = from.transfer(PATH, size as u64, &to).await;
        assert_eq!(copied.unwrap_err().kind(), Kind::Corrupt, "{size}");
        assert_eq!(server.object(PATH), None, "{size}");
    }
}

#[tokio::test]
async fn listed_missing_objects_are_unreadable_and_removed_ones_absent() {
    let (server, from) = world(Tags::Md5).await;
    let to = Store::memory();
    for (path, size) in [(PATH, 1000), ("acct/a/msg/ab", 6_000_000)] {
        from.put_new("acct/a/msg/aa", Sealed::new(object(10))).await.unwrap();
        from.put_new(path, Sealed::new(object(size))).await.unwrap();
        server.plan(move |request| match request.method == "GET" && request.key == path {
            true => Fault::Refused(404),
            false => Fault::None,
        });
        for expected in [Transfer::Unreadable(Unreadable::Damaged), Transfer::Missing] {
            assert_eq!(from.transfer(path, size as u64, &to).await.unwrap(), expected, "{path}");
            assert_eq!(from.compare(path, size as u64, &to).await.unwrap(), expected, "{path}");
            from.delete(path).await.unwrap();
        }
    }
}
