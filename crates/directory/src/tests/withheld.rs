//! Objects that a bucket lists and never gives out, beside a record.

use sealpost_testkit::fake_s3::{BUCKET, ConditionalPut, FakeS3, Fault};
use sealpost_vault::{Addressing, Credentials, RetryPolicy, S3};

use super::*;

pub(super) async fn bucket(server: &FakeS3) -> Store {
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

/// The attack: an object at the next version that is encrypted with a key of the attacker's, or
/// missing for all requests but listings.
#[tokio::test]
async fn a_record_works_beside_an_object_the_store_withholds() {
    for status in [400, 403, 404] {
        let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
        let world = Fixture { store: bucket(&server).await, ..Fixture::new() };
        let (directory, me) = (world.directory(), name("me@x"));
        let (record, root) = directory.create(&me, new("one")).await.unwrap();
        let planted = format!("{}/{:016x}", directory.path_of(&me), record.version + 2);
        world.store.put_new(&planted, Sealed::marker()).await.unwrap();
        server.plan(move |request| match request.method == "GET" && request.key.ends_with(&planted) {
            true => Fault::Refused(status),
            false => Fault::None,
        });
        assert!(directory.get(&me).await.unwrap().slots == record.slots, "{status}");
        // The next version is written behind it.
        directory.set_password(&me, &root, secret("two")).await.unwrap();
        assert_eq!(kind(world.directory().unlock(&me, secret("one"))).await, Kind::Denied);
        world.directory().unlock(&me, secret("two")).await.unwrap();
        // A bucket that refuses everything has lost nothing.
        server.plan(move |request| match request.method == "GET" && !request.key.is_empty() {
            true => Fault::Refused(status),
            false => Fault::None,
        });
        assert_eq!(world.directory().get(&me).await.err().unwrap().kind(), Kind::Retry, "{status}");
    }
}
