//! What every store has to keep, one suite for all: memory, the local store, a server that speaks
//! S3, and, if the environment names one, a real one (`make stores`):
//!
//!     SEALPOST_TEST_STORE=s3://bucket/prefix SEALPOST_TEST_ENDPOINT=http://127.0.0.1:3900 SEALPOST_TEST_REGION=garage
//!     AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…  cargo test -p sealpost-vault contract -- --nocapture

use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use futures::{StreamExt, TryStreamExt};
use sealpost_base::{Kind, Random, SystemClock, SystemRandom};
use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3};

use crate::probe;
use crate::remote::fake::s3;
use crate::remote::{Addressing, Azure, Credentials, Gcs, RetryPolicy, S3};
use crate::store::Transfer;
use crate::{AppendMode, Put, Sealed, Store};

/// More than one page of S3's listings.
const MANY: usize = 1050;

fn sealed(bytes: impl Into<Vec<u8>>) -> Sealed {
    Sealed::new(bytes.into())
}

async fn paths(store: &Store, prefix: &str, after: Option<&str>) -> Vec<String> {
    store.list(prefix, after).map_ok(|object| object.path).try_collect().await.unwrap()
}

/// All of the contract, below a prefix of its own.
async fn keep_the_contract(store: Store) {
    let below = format!("contract/{:016x}", SystemRandom.next_u64());
    objects_are_created_once_and_removed(&store, &format!("{below}/one")).await;
    objects_are_created_together(&store, &format!("{below}/together")).await;
    listings_are_sorted_and_whole(&store, &format!("{below}/list")).await;
    names_are_kept(&store, &format!("{below}/names")).await;
    parts_appear_together(&store, &format!("{below}/parts")).await;
    of_many_writers_one_creates(&store, &format!("{below}/race")).await;
    objects_go_from_store_to_store(&store, &format!("{below}/transfer")).await;
    let left = paths(&store, &below, None).await;
    try_join_all(left.iter().map(|path| store.delete(path))).await.unwrap();
    assert_eq!(paths(&store, &below, None).await, Vec::<String>::new());
}

async fn objects_are_created_once_and_removed(store: &Store, below: &str) {
    let path = format!("{below}/object");
    assert_eq!(store.read(&path).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(store.size(&path).await.unwrap_err().kind(), Kind::NotFound);
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 249) as u8).collect();
    assert_eq!(store.put_new(&path, sealed(bytes.clone())).await.unwrap(), Put::Created);
    if store.append_mode() == AppendMode::Conditional {
        assert_eq!(store.put_new(&path, sealed("other")).await.unwrap(), Put::Exists);
    }
    assert_eq!(store.read(&path).await.unwrap()[..], bytes);
    assert_eq!(store.size(&path).await.unwrap(), 100_000);
    for range in [0..1, 0..100_000, 65_535..65_537, 99_999..100_000, 5..5] {
        let expected = &bytes[range.start as usize..range.end as usize];
        assert_eq!(store.read_range(&path, range).await.unwrap()[..], *expected);
    }
    for range in [99_999..100_001, 100_000..100_001, 200_000..200_001] {
        assert_eq!(
            store.read_range(&path, range.clone()).await.unwrap_err().kind(),
            Kind::Corrupt,
            "{range:?}"
        );
    }
    let both = vec![(path.clone(), 1..3), (format!("{below}/none"), 0..1), (path.clone(), 7..9)];
    let read = store.read_ranges(both).await;
    assert_eq!(read[0].as_ref().unwrap()[..], bytes[1..3]);
    assert_eq!(read[1].as_ref().unwrap_err().kind(), Kind::NotFound);
    assert_eq!(read[2].as_ref().unwrap()[..], bytes[7..9]);
    store.delete(&path).await.unwrap();
    store.delete(&path).await.unwrap();
    assert_eq!(store.read(&path).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(paths(store, below, None).await, Vec::<String>::new());
    assert_eq!(store.put_new(&path, sealed("again")).await.unwrap(), Put::Created);
    assert_eq!(store.read(&path).await.unwrap()[..], *b"again");
}

async fn objects_are_created_together(store: &Store, below: &str) {
    let object = |n: u32| (format!("{below}/{n:03}"), sealed(n.to_be_bytes()));
    let before = store.stats();
    let some: Vec<_> = (0..100).map(object).collect();
    assert_eq!(store.put_all_new(&some).await.unwrap(), Put::Created);
    assert_eq!(store.stats().objects - before.objects, 100);
    assert_eq!(store.stats().bytes - before.bytes, 400);
    if store.append_mode() == AppendMode::Conditional {
        let (there, not) = ((format!("{below}/050"), sealed("other")), object(100));
        assert_eq!(store.put_all_new(&[there, not]).await.unwrap(), Put::Exists);
        assert_eq!(store.read(&object(100).0).await.unwrap()[..], 100u32.to_be_bytes());
    }
    for (path, object) in &some {
        assert_eq!(store.read(path).await.unwrap()[..], *object.as_ref());
    }
}

async fn listings_are_sorted_and_whole(store: &Store, below: &str) {
    let name = |n: usize| format!("{below}/a/{n:04x}");
    let puts = (0..MANY).map(|n| {
        let (store, path) = (store.clone(), name(n));
        async move { store.put_new(&path, sealed([1])).await }
    });
    for put in futures::stream::iter(puts).buffer_unordered(16).try_collect::<Vec<_>>().await.unwrap() {
        assert_eq!(put, Put::Created);
    }
    for beside in ["a.b", "ab/x", "A/x", "b/x"] {
        store.put_new(&format!("{below}/{beside}"), sealed([1, 2])).await.unwrap();
    }
    let expected: Vec<_> = (0..MANY).map(name).collect();
    assert_eq!(paths(store, &format!("{below}/a"), None).await, expected, "whole segments");
    assert_eq!(paths(store, &format!("{below}/a"), Some(&name(MANY - 3))).await, expected[MANY - 2..]);
    assert_eq!(
        paths(store, &format!("{below}/a"), Some(&format!("{below}/a/03ff1"))).await,
        expected[1024..]
    );
    assert_eq!(store.last(&format!("{below}/a")).await.unwrap().unwrap().0, name(MANY - 1));
    assert_eq!(store.last(&format!("{below}/none")).await.unwrap(), None);
    let all = paths(store, below, None).await;
    assert!(all.is_sorted() && all.len() == MANY + 4);
    store.delete_in_order(expected).await.unwrap();
    assert_eq!(paths(store, below, None).await.len(), 4);
}

async fn names_are_kept(store: &Store, below: &str) {
    let names = ["me=2Btag@gr=C3=BCn.example", "@example.org", "a_b-c.d", "0123456789abcdef"];
    for name in names {
        let path = format!("{below}/{name}/0000000000000001");
        store.put_new(&path, sealed(name)).await.unwrap();
        assert_eq!(store.read(&path).await.unwrap()[..], *name.as_bytes());
        assert_eq!(paths(store, &format!("{below}/{name}"), None).await, [path]);
    }
}

async fn parts_appear_together(store: &Store, below: &str) {
    let path = format!("{below}/large");
    let part: Vec<u8> = (0..store.part_bytes().max(5 << 20)).map(|n| (n % 253) as u8).collect();
    let mut upload = store.upload(&path).await.unwrap();
    upload.part(sealed(part.clone())).await.unwrap();
    upload.part(sealed(part.clone())).await.unwrap();
    upload.part(sealed("end")).await.unwrap();
    assert_eq!(store.size(&path).await.unwrap_err().kind(), Kind::NotFound, "not before it is complete");
    upload.complete().await.unwrap();
    let size = 2 * part.len() as u64 + 3;
    assert_eq!(store.size(&path).await.unwrap(), size);
    assert_eq!(store.read_range(&path, size - 4..size).await.unwrap()[1..], *b"end");
    let middle = part.len() as u64;
    let across = store.read_range(&path, middle - 2..middle + 2).await.unwrap();
    assert_eq!(across[..], [&part[part.len() - 2..], &part[..2]].concat());
    let mut dropped = store.upload(&format!("{below}/dropped")).await.unwrap();
    dropped.part(sealed(part)).await.unwrap();
    drop(dropped);
    assert_eq!(store.size(&format!("{below}/dropped")).await.unwrap_err().kind(), Kind::NotFound);
}

async fn of_many_writers_one_creates(store: &Store, below: &str) {
    if store.append_mode() == AppendMode::Siblings {
        return;
    }
    for round in 0..5 {
        let path = format!("{below}/{round}");
        let puts = (0..10u8).map(|n| store.put_new(&path, sealed([n; 50])));
        let puts = join_all(puts).await;
        let created: Vec<_> = (0..10).filter(|&n| matches!(puts[n], Ok(Put::Created))).collect();
        assert_eq!(created.len(), 1, "{puts:?}");
        assert_eq!(store.read(&path).await.unwrap()[..], [created[0] as u8; 50]);
    }
}

async fn objects_go_from_store_to_store(store: &Store, below: &str) {
    let memory = Store::memory();
    let large = vec![9; 6 << 20];
    for (name, bytes) in [("small", vec![1; 10]), ("large", large)] {
        let (path, size) = (format!("{below}/{name}"), bytes.len() as u64);
        memory.put_new(&path, sealed(bytes.clone())).await.unwrap();
        assert_eq!(memory.transfer(&path, size, store).await.unwrap(), Transfer::Copied);
        assert_eq!(memory.transfer(&path, size, store).await.unwrap(), Transfer::Same);
        assert_eq!(store.read(&path).await.unwrap()[..], bytes);
        let back = Store::memory();
        assert_eq!(store.transfer(&path, size, &back).await.unwrap(), Transfer::Copied);
        assert_eq!(back.read(&path).await.unwrap()[..], bytes);
        let other = Store::memory();
        other.put_new(&path, sealed("other")).await.unwrap();
        assert_eq!(store.transfer(&path, size, &other).await.unwrap(), Transfer::Differs);
        assert_eq!(other.read(&path).await.unwrap()[..], *b"other", "nothing is replaced");
    }
    assert_eq!(store.transfer(&format!("{below}/none"), 1, &memory).await.unwrap(), Transfer::Missing);
}

#[tokio::test]
async fn a_store_in_memory_keeps_the_contract() {
    keep_the_contract(Store::memory()).await;
}

#[tokio::test]
async fn a_local_store_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    keep_the_contract(Store::local(dir.path()).await.unwrap()).await;
}

#[tokio::test]
async fn the_fake_s3_server_keeps_the_contract() {
    for manners in [ConditionalPut::Keeps, ConditionalPut::Ignores, ConditionalPut::Refuses] {
        let server = FakeS3::start(manners, 1000).await;
        let opened = Store::s3(&s3(&server, "p"), RetryPolicy::default(), Arc::new(SystemRandom)).await;
        keep_the_contract(opened.unwrap()).await;
    }
}

/// Runs against the store that the environment names, and says what it is; without one it does nothing.
#[tokio::test]
async fn a_real_store_keeps_the_contract() {
    let variable = |name: &str| std::env::var_os(name).and_then(|value| value.into_string().ok());
    let Some(url) = variable("SEALPOST_TEST_STORE") else { return };
    let store = named(&url, variable).await;
    let found = probe::probe(&store, &SystemClock::new(), &SystemRandom).await.unwrap();
    keep_the_contract(store.clone()).await;
    let (requests, retries) = (store.metrics().requests.read(), store.metrics().retries.read());
    assert!(found.lists_what_was_written && found.reads_ranges && found.uploads_in_parts, "{found:?}");
    // For `make stores`.
    let line = format!("{found:?}, {requests} requests, {retries} of them repeated");
    std::fs::write(std::env::temp_dir().join("sealpost-contract.txt"), line).unwrap();
}

/// The bucket at `url`, reached as `variable` says.
async fn named(url: &str, variable: impl Fn(&str) -> Option<String>) -> Store {
    let (retry_policy, random) = (RetryPolicy::default(), Arc::new(SystemRandom));
    let endpoint = variable("SEALPOST_TEST_ENDPOINT");
    if let Ok((bucket, prefix)) = Gcs::parse_url(url) {
        let key =
            std::fs::read_to_string(variable("GOOGLE_APPLICATION_CREDENTIALS").unwrap()).unwrap().into();
        return Store::gcs(&Gcs { bucket, prefix, key }, retry_policy, random).await.unwrap();
    }
    if let Ok((container, prefix)) = Azure::parse_url(url) {
        let account = variable("AZURE_STORAGE_ACCOUNT_NAME").unwrap();
        let key = variable("AZURE_STORAGE_ACCOUNT_KEY").unwrap().into();
        let azure = Azure { container, prefix, endpoint, account, key };
        return Store::azure(&azure, retry_policy, random).await.unwrap();
    }
    let (bucket, prefix) = S3::parse_url(url).unwrap();
    let s3 = S3 {
        bucket,
        prefix,
        endpoint,
        region: variable("SEALPOST_TEST_REGION").unwrap_or_else(|| "us-east-1".into()),
        addressing: Addressing::Auto,
        credentials: Credentials {
            key_id: variable("AWS_ACCESS_KEY_ID").unwrap(),
            secret: variable("AWS_SECRET_ACCESS_KEY").unwrap().into(),
            session_token: None,
        },
    };
    Store::s3(&s3, retry_policy, random).await.unwrap()
}
