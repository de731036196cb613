//! A store that fails: the client gets a temporary error, and nothing is queued.

use std::sync::Arc;

use object_store::memory::InMemory;
use sealpost_session::Settings;
use sealpost_smtp_session::Service;
use sealpost_submission::outbox::SendingLimits;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Store;

use crate::submission_world::{Dialog, TestServer};

const LOGIN: (&str, &str) = ("AUTH PLAIN AG1lQGxvY2FsaG9zdABzZWNyZXQ=", "235 2.7.0");
const FROM: (&str, &str) = ("MAIL FROM:<me@localhost>", "250 ");
const TO: (&str, &str) = ("RCPT TO:<jane@elsewhere.example>", "250 ");

#[tokio::test]
async fn a_store_that_is_down_means_later() {
    let faulty = Faulty::new(Arc::new(InMemory::new()), Plan { fail: 1000, ..Plan::default() }, 1);
    faulty.calm(true);
    let store = Store::over(Arc::new(faulty.clone()));
    let mut world = TestServer::over(store, Settings::default(), SendingLimits::default()).await;
    let mut stream = world.connect_to(Service::Submission);
    let mut client = Dialog::new(&mut stream);
    client.expect(&[("EHLO client.example", "250 "), LOGIN]).await;
    // The queue tries for a minute. Passwords are checked in threads that no paused clock waits for.
    tokio::time::pause();
    // While the account is read.
    faulty.calm(false);
    client.go_on(&[(FROM.0, "451 4.3.0")]).await;
    faulty.calm(true);
    client.go_on(&[FROM]).await;
    // While a recipient is looked up.
    faulty.calm(false);
    client.go_on(&[("RCPT TO:<nobody@localhost>", "451 4.3.0")]).await;
    faulty.calm(true);
    client.go_on(&[TO]).await;
    // When the message is stored: in the log, and as an object.
    for size in [100, 200_000] {
        client.go_on(&[("DATA", "354 ")]).await;
        faulty.calm(false);
        let body = "0123456789abcdef\r\n".repeat(size / 18);
        let reply = client.ask(&format!("From: me@localhost\r\n\r\n{body}.")).await;
        assert!(reply.starts_with("451 4.3.0"), "{size} bytes: {reply}");
        faulty.calm(true);
        client.go_on(&[FROM, TO]).await;
    }
    assert_eq!(world.queued(), 0);
    // It recovers with the store, in the same session; what failed counts for no limit.
    client
        .go_on(&[("DATA", "354 "), ("From: me@localhost\r\n\r\ntext\r\n.", "250 2.0.0 Message queued as Q0")])
        .await;
    assert_eq!(world.queued(), 1);
}

/// A queue that another process has taken over takes nothing more.
#[tokio::test]
async fn a_queue_that_stopped_means_later() {
    let mut world = TestServer::new(Settings::default(), SendingLimits::default()).await;
    let mut stream = world.connect_to(Service::Submission);
    let mut client = Dialog::new(&mut stream);
    client.expect(&[("EHLO client.example", "250 "), LOGIN, FROM, TO, ("DATA", "354 ")]).await;
    world.outbox.queue().close();
    client.go_on(&[("From: me@localhost\r\n\r\ntext\r\n.", "451 4.3.0")]).await;
}
