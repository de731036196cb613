//! What tells names with an account from others.

use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3};

use super::withheld::bucket;
use super::*;

/// A stranger who measures logins does not learn which names have an account.
#[tokio::test]
async fn logins_with_wrong_and_right_names_make_equal_requests() {
    for conditional in [ConditionalPut::Keeps, ConditionalPut::Ignores] {
        let server = FakeS3::start(conditional, 1000).await;
        let world = Fixture { store: bucket(&server).await, ..Fixture::new() };
        let directory = world.directory();
        directory.create(&name("me@x"), new("one")).await.unwrap();
        directory.create(&name("gone@x"), new("one")).await.unwrap();
        directory.remove(&name("gone@x")).await.unwrap();
        let requests = async |who: &str| {
            // Where writers agree by ballots a node makes certain, the first time, that others see the
            // record.
            let directory = world.directory();
            if conditional == ConditionalPut::Ignores {
                directory.find_to_log_in(&name(who)).await.unwrap();
            }
            server.seen();
            let found = directory.find_to_log_in(&name(who)).await.unwrap().is_some();
            let seen = server.seen().into_iter().map(|request| request.method);
            (found, seen.collect::<Vec<_>>())
        };
        let (found, right) = requests("me@x").await;
        assert!(found && !right.is_empty(), "{conditional:?}");
        for wrong in ["nobody@x", "gone@x"] {
            assert_eq!(requests(wrong).await, (false, right.clone()), "{conditional:?} {wrong}");
        }
    }
}
