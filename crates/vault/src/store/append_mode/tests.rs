use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Kind, Result, SeededRandom};
use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3, Fault};

use super::*;
use crate::remote::RetryPolicy;
use crate::remote::fake::s3;

const RETRY_POLICY: RetryPolicy =
    RetryPolicy { requests: 8, timeout: Duration::from_millis(500), pause: Duration::from_millis(1) };

/// As a server opens it.
async fn open(server: &FakeS3, seed: u64) -> Result<Store> {
    found(server, seed).await.pin_append_mode().await
}

/// With nothing but what it does.
async fn found(server: &FakeS3, seed: u64) -> Store {
    Store::s3(&s3(server, "p"), RETRY_POLICY, Arc::new(SeededRandom::new(seed))).await.unwrap()
}

#[tokio::test]
async fn the_first_server_decides() {
    for (manners, append_mode) in [
        (ConditionalPut::Keeps, AppendMode::Conditional),
        (ConditionalPut::Ignores, AppendMode::Siblings),
        (ConditionalPut::Refuses, AppendMode::Siblings),
    ] {
        let server = FakeS3::start(manners, 1000).await;
        for seed in 1..4 {
            assert_eq!(open(&server, seed).await.unwrap().append_mode(), append_mode);
            assert_eq!(found(&server, 9).await.mode_markers().await.unwrap(), [append_mode]);
        }
    }
}

#[tokio::test]
async fn a_bucket_of_another_format_is_left_alone() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    let store = open(&server, 1).await.unwrap();
    let mark = format!("{FORMATS}/{FORMAT}");
    store.size(&mark).await.unwrap();
    store.put_new(&format!("{FORMATS}/{}", FORMAT + 1), Sealed::marker()).await.unwrap();
    let refused = open(&server, 2).await.err().unwrap();
    assert!(refused.to_string().contains("or a later one"), "{refused}");
    for format in [FORMAT, FORMAT + 1] {
        store.delete(&format!("{FORMATS}/{format}")).await.unwrap();
    }
    let refused = open(&server, 3).await.err().unwrap();
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(refused.to_string().contains("sealpost export"), "before there were formats: {refused}");
}

#[tokio::test]
async fn who_cannot_do_what_others_rely_on_does_not_begin() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    open(&server, 1).await.unwrap();
    for manners in [ConditionalPut::Ignores, ConditionalPut::Refuses, ConditionalPut::Races] {
        server.behave(manners);
        let refused = open(&server, 2).await.err().unwrap();
        assert_eq!(refused.kind(), Kind::Invalid, "{manners:?}");
        assert!(refused.to_string().contains("--reset-append-mode"), "{refused}");
    }
    // The others go on.
    server.behave(ConditionalPut::Keeps);
    assert_eq!(open(&server, 3).await.unwrap().append_mode(), AppendMode::Conditional);
}

#[tokio::test]
async fn who_could_do_more_does_as_the_others() {
    let server = FakeS3::start(ConditionalPut::Ignores, 1000).await;
    open(&server, 1).await.unwrap();
    server.behave(ConditionalPut::Keeps);
    assert_eq!(open(&server, 2).await.unwrap().append_mode(), AppendMode::Siblings);
    // Until somebody settles it.
    found(&server, 3).await.reset_append_mode().await.unwrap();
    assert_eq!(open(&server, 4).await.unwrap().append_mode(), AppendMode::Conditional);
    server.behave(ConditionalPut::Ignores);
    assert!(open(&server, 5).await.is_err());
    found(&server, 6).await.reset_append_mode().await.unwrap();
    assert_eq!(open(&server, 7).await.unwrap().append_mode(), AppendMode::Siblings);
}

/// Each has looked whether there are marks before the other left one, if all goes as planned.
#[tokio::test]
async fn two_that_come_first_at_once_do_not_go_on_differently() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    let one = found(&server, 1).await;
    server.behave(ConditionalPut::Ignores);
    let two = found(&server, 2).await;
    let late = Duration::from_millis(50);
    server.plan(move |request| match request.method == "PUT" && request.key.contains(MODE_MARKERS) {
        true => Fault::Late(late),
        false => Fault::None,
    });
    let went_on = tokio::join!(one.pin_append_mode(), two.pin_append_mode());
    if let (Ok(one), Ok(two)) = &went_on {
        assert_eq!(one.append_mode(), two.append_mode());
    }
}

#[tokio::test]
async fn where_the_first_did_not_agree_nobody_begins_until_it_is_settled() {
    let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
    found(&server, 1).await.put_new(&format!("{FORMATS}/{FORMAT}"), Sealed::marker()).await.unwrap();
    for mark in AppendMode::ALL {
        found(&server, 1).await.put_new(&mark.mark(), Sealed::marker()).await.unwrap();
    }
    for (manners, append_mode) in
        [(ConditionalPut::Keeps, AppendMode::Conditional), (ConditionalPut::Ignores, AppendMode::Siblings)]
    {
        server.behave(manners);
        assert_eq!(open(&server, 3).await.err().unwrap().kind(), Kind::Invalid);
        found(&server, 4).await.reset_append_mode().await.unwrap();
        assert_eq!(open(&server, 5).await.unwrap().append_mode(), append_mode);
        for mark in AppendMode::ALL {
            found(&server, 6).await.put_new(&mark.mark(), Sealed::marker()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_store_on_this_machine_has_no_marks() {
    let store = Store::memory().pin_append_mode().await.unwrap();
    store.reset_append_mode().await.unwrap();
    assert!(store.mode_markers().await.unwrap().is_empty());
}
