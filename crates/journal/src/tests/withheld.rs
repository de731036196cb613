//! Objects that a bucket lists and never returns: the rest of the log is read, and an operator decides.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sealpost_base::{AccountId, Kind, SeededRandom};
use sealpost_testkit::fake_s3::{BUCKET, ConditionalPut, FakeS3, Fault};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, Addressing, Credentials, RetryPolicy, RootKey, S3, Sealed, Store};

use crate::{Append, Journal, Read, Seal, Tail};

const ACCOUNT: AccountId = AccountId([7; 16]);

async fn bucket(server: &FakeS3) -> Store {
    let s3 = S3 {
        bucket: BUCKET.into(),
        prefix: "p".into(),
        endpoint: Some(server.endpoint()),
        region: "test".into(),
        addressing: Addressing::Auto,
        credentials: Credentials {
            key_id: "id".into(),
            secret: "secret".to_owned().into(),
            session_token: None,
        },
    };
    let (timeout, pause) = (Duration::from_secs(5), Duration::from_millis(1));
    let policy = RetryPolicy { requests: 8, timeout, pause };
    let store = Store::s3(&s3, policy, Arc::new(SeededRandom::new(1))).await.unwrap();
    store.pin_append_mode(None).await.unwrap().0
}

#[tokio::test]
async fn a_repair_skips_an_object_the_store_withholds() {
    for status in [403, 404] {
        let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
        let (store, random) = (bucket(&server).await, Arc::new(SeededRandom::new(2)));
        let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
        let node = || Journal::new(store.clone(), ACCOUNT, &LogKey::for_tests(), random.clone());
        let there = node();
        let Append::Done(one) = there.append(&Tail::EMPTY, Seal::Owner(&keys), b"one").await.unwrap() else {
            panic!("appended")
        };
        let planted = format!("acct/{ACCOUNT}/log/{:016x}", 2);
        store.put_new(&planted, Sealed::marker()).await.unwrap();
        let hides = planted.clone();
        server.plan(move |request| match request.method == "GET" && request.key.ends_with(&hides) {
            true => Fault::Refused(status),
            false => Fault::None,
        });
        let there = node();
        let places = there.places_after(&Tail::EMPTY).await.unwrap().unwrap();
        let read: Vec<_> = there.entries(&keys, Tail::EMPTY, &places).collect().await;
        let kinds = read.iter().map(|read| match read.as_ref().unwrap() {
            Read::Entry(_) => "entry",
            Read::Damaged(_) => "damaged",
            _ => "other",
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["entry", "damaged"], "{status}");
        assert_eq!(there.tail(Tail::EMPTY).await.unwrap(), one);
        // It may have been an entry: nothing is appended behind it before an operator has decided.
        let refused = there.append(&one, Seal::Owner(&keys), b"two").await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{status}");
        node().repair(false).await.unwrap().unwrap();
        let (there, mut tail) = (node(), Tail::EMPTY);
        let done = loop {
            tail = there.tail(tail).await.unwrap();
            match there.append(&tail, Seal::Owner(&keys), b"two").await.unwrap() {
                Append::Lost => {}
                done => break done,
            }
        };
        assert!(matches!(done, Append::Done(tail) if tail.position.0 > 2), "{status}: {done:?}");
    }
}

/// In the folder of manifests it is noise: the log continues.
#[tokio::test]
async fn a_mark_that_is_never_given_out_is_noise() {
    for status in [403, 404] {
        let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
        let (store, random) = (bucket(&server).await, Arc::new(SeededRandom::new(2)));
        let keys = AccountKeys::derive(&RootKey::generate(&*random), ACCOUNT);
        let there = Journal::new(store.clone(), ACCOUNT, &LogKey::for_tests(), random.clone());
        let Append::Done(one) = there.append(&Tail::EMPTY, Seal::Owner(&keys), b"one").await.unwrap() else {
            panic!("appended")
        };
        for planted in ["0000000000000009", "s0000000000000002-0000000000000001"] {
            store.put_new(&format!("acct/{ACCOUNT}/manifest/{planted}"), Sealed::marker()).await.unwrap();
        }
        server.plan(move |request| match request.method == "GET" && request.key.contains("/manifest/") {
            true => Fault::Refused(status),
            false => Fault::None,
        });
        assert!(there.checkpoints().await.unwrap().is_empty(), "{status}");
        let two = there.append(&one, Seal::Owner(&keys), b"two").await.unwrap();
        assert!(matches!(two, Append::Done(tail) if tail.position.0 == 2), "{status}: {two:?}");
    }
}
