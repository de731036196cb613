//! Large messages and headers, loops, and clients that vanish.

use std::time::Duration;

use sealpost_base::limits;
use sealpost_queue::envelope::Body;
use sealpost_session::Settings;
use sealpost_session::net::Stream;
use sealpost_smtp_session::Service;
use sealpost_submission::outbox::SendingLimits;
use tokio::io::AsyncWriteExt;

use crate::submission_world::{Dialog, TestServer};

const HELLO: (&str, &str) = ("EHLO client.example", "250 ");
const LOGIN: (&str, &str) = ("AUTH PLAIN AG1lQGxvY2FsaG9zdABzZWNyZXQ=", "235 2.7.0");
const FROM: (&str, &str) = ("MAIL FROM:<me@localhost>", "250 ");
const TO: (&str, &str) = ("RCPT TO:<jane@elsewhere.example>", "250 ");

async fn world() -> TestServer {
    TestServer::new(Settings::default(), SendingLimits::default()).await
}

/// A client that has logged in.
async fn logged_in(world: &mut TestServer) -> Stream {
    let mut stream = world.connect_to(Service::Submission);
    Dialog::new(&mut stream).expect(&[HELLO, LOGIN]).await;
    stream
}

/// Sends a message of whole lines; the reply.
async fn send(stream: &mut Stream, message: &str) -> String {
    Dialog::new(stream).go_on(&[FROM, TO, ("DATA", "354 ")]).await;
    stream.write_all(message.as_bytes()).await.unwrap();
    Dialog::new(stream).ask(".").await
}

#[tokio::test]
async fn trusted_clients_submit_without_a_login() {
    let mut settings = Settings::default();
    settings.sending.trusted_clients = vec!["192.0.2.0/28".parse().unwrap()];
    let limits = SendingLimits { hour: 1, ..SendingLimits::default() };
    let mut world = TestServer::new(settings, limits).await;
    let mut stranger = world.connect_from("192.0.2.16");
    Dialog::new(&mut stranger).expect(&[HELLO, ("MAIL FROM:<any@other.example>", "530 5.7.0")]).await;
    let mut printer = world.connect_from("192.0.2.15");
    let mut dialog = Dialog::new(&mut printer);
    dialog.expect(&[HELLO, ("MAIL FROM:<any@other.example>", "250 "), TO]).await;
    dialog
        .go_on(&[("RCPT TO:<joe@elsewhere.example>", "250 "), ("RCPT TO:<no@localhost>", "550 5.1.1")])
        .await;
    dialog.go_on(&[("DATA", "354 "), ("From: any@other.example\r\n\r\nhello\r\n.", "250 ")]).await;
    let (mail, bytes) = world.mail("Q0").await;
    assert_eq!((mail.account, mail.from.as_str(), mail.recipients.len()), (None, "any@other.example", 2));
    assert!(bytes.starts_with(b"Received: by localhost with ESMTP\r\n"), "nobody logged in");
}

fn lines(bytes: usize) -> String {
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\r\n".repeat(bytes / 64)
}

#[tokio::test]
async fn messages_of_every_size_are_queued_whole() {
    let mut world = world().await;
    let mut stream = logged_in(&mut world).await;
    let header = "From: me@localhost\r\nMessage-ID: <1@x>\r\nDate: x\r\n\r\n";
    let sizes = [0, 64, limits::SMTP_HEAD_BYTES, 60_000, limits::QUEUE_INLINE_BYTES, 70_000, 1_000_000];
    for (n, size) in sizes.into_iter().enumerate() {
        let message = format!("{header}{}", lines(size));
        assert_eq!(send(&mut stream, &message).await, format!("250 2.0.0 Message queued as Q{n:x}"));
        let (mail, bytes) = world.mail(&format!("Q{n:x}")).await;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("Received: by localhost") && text.ends_with(&message), "{size} bytes");
        assert_eq!(mail.facts.size, text.len() as u64);
        assert_eq!(matches!(mail.body, Body::Object(_)), size >= limits::QUEUE_INLINE_BYTES, "{size} bytes");
        assert_eq!(mail.message_id.as_deref(), Some("<1@x>"));
    }
    assert_eq!(world.ctx.budget.in_use(), 0);
    let metrics = world.outbox.metrics();
    assert_eq!((metrics.accepted.read(), metrics.recipients.read()), (7, 7));
}

#[tokio::test]
async fn headers_up_to_the_limit_are_taken() {
    let mut world = world().await;
    let mut stream = logged_in(&mut world).await;
    let field = format!("X-Long: {}\r\n", "x".repeat(54));
    let header = |fields: usize| format!("From: me@localhost\r\n{}", field.repeat(fields));
    let fits = limits::SUBMISSION_HEADER_BYTES / field.len() - 1;
    // Larger than a log entry can hold beside a body: it is stored with the body.
    for (n, fields) in [10, 600, 1100, fits].into_iter().enumerate() {
        let message = format!("{}\r\nbody\r\n", header(fields));
        assert_eq!(send(&mut stream, &message).await, format!("250 2.0.0 Message queued as Q{n:x}"));
        let (mail, bytes) = world.mail(&format!("Q{n:x}")).await;
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("X-Long: ").count(), fields);
        assert!(text.ends_with("\r\n\r\nbody\r\n"));
        assert_eq!(mail.facts.size, text.len() as u64);
    }
    let reply = send(&mut stream, &format!("{}\r\nbody\r\n", header(fits + 2))).await;
    assert_eq!(
        reply,
        format!("552 5.3.4 The header exceeds the limit of {} bytes", limits::SUBMISSION_HEADER_BYTES)
    );
    assert_eq!((world.queued(), world.ctx.budget.in_use()), (4, 0));
}

#[tokio::test]
async fn a_message_that_loops_is_refused() {
    let mut world = world().await;
    let mut stream = logged_in(&mut world).await;
    let message = |hops: usize| format!("{}From: me@localhost\r\n\r\n", "Received: by x; y\r\n".repeat(hops));
    assert!(send(&mut stream, &message(limits::RECEIVED_FIELDS - 1)).await.starts_with("250 "));
    assert_eq!(world.mail("Q0").await.0.facts.received as usize, limits::RECEIVED_FIELDS);
    assert!(send(&mut stream, &message(limits::RECEIVED_FIELDS)).await.starts_with("554 5.4.6"));
    assert_eq!(world.queued(), 1);
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing() {
    let mut world = world().await;
    for size in [100, 20_000, 500_000] {
        let mut stream = logged_in(&mut world).await;
        Dialog::new(&mut stream).go_on(&[FROM, TO, ("DATA", "354 ")]).await;
        let message = format!("From: me@localhost\r\n\r\n{}", lines(size));
        stream.write_all(message.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
        // The same in chunks, without the last one.
        let mut stream = logged_in(&mut world).await;
        Dialog::new(&mut stream).go_on(&[FROM, TO]).await;
        let chunk = format!("BDAT {}\r\n{message}", message.len());
        stream.write_all(chunk.as_bytes()).await.unwrap();
        assert!(Dialog::new(&mut stream).reply().await.starts_with("250 "));
        drop(stream);
    }
    world.all_ended().await;
    assert_eq!(world.queued(), 0);
    // A piece may be on its way to the store still.
    let released = async {
        while world.ctx.budget.in_use() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), released).await.expect("memory is given back");
    let left = world.ctx.store.names_below("queue").await.unwrap();
    for node in left {
        let bodies = world.ctx.store.names_below(&format!("queue/{node}/body")).await.unwrap();
        assert!(bodies.is_empty(), "{bodies:?}");
    }
}

#[tokio::test]
async fn limits_hold_for_messages_that_come_at_once() {
    let limits = SendingLimits { hour: 5, ..SendingLimits::default() };
    let mut world = TestServer::new(Settings::default(), limits).await;
    let mut streams = Vec::new();
    for _ in 0..12 {
        let mut stream = logged_in(&mut world).await;
        Dialog::new(&mut stream).go_on(&[FROM, TO, ("DATA", "354 ")]).await;
        stream.write_all(b"From: me@localhost\r\n").await.unwrap();
        streams.push(stream);
    }
    let ends = streams.iter_mut().map(|stream| async move { Dialog::new(stream).ask(".").await });
    let replies = futures::future::join_all(ends).await;
    let accepted = replies.iter().filter(|reply| reply.starts_with("250 ")).count();
    let limited = replies.iter().filter(|reply| reply.starts_with("450 4.7.1 You have reached")).count();
    assert_eq!((accepted + limited, world.queued()), (12, accepted), "{replies:?}");
    // One that is queued just now may count twice for a moment, never less than once.
    assert!((1..=5).contains(&accepted), "{accepted} of 5 were accepted");
    assert_eq!(world.outbox.metrics().limited.read(), limited as u64);
    let mut stream = logged_in(&mut world).await;
    for _ in accepted..5 {
        assert!(send(&mut stream, "From: me@localhost\r\n").await.starts_with("250 "));
    }
    Dialog::new(&mut stream).go_on(&[FROM, (TO.0, "450 4.7.1")]).await;
}

/// A client that holds memory that others wait for has to use it.
#[tokio::test]
async fn a_client_that_holds_memory_and_dawdles_is_cut_off() {
    let mut world = world().await;
    let mut stream = logged_in(&mut world).await;
    Dialog::new(&mut stream).go_on(&[FROM, TO, ("DATA", "354 ")]).await;
    stream.write_all(format!("From: me@localhost\r\n\r\n{}", lines(20_000)).as_bytes()).await.unwrap();
    // The check of its password has drawn memory, too.
    let drawn = async {
        while world.ctx.budget.in_use() != limits::SUBMISSION_MEMORY_BYTES {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), drawn).await.expect("the message draws memory");
    let budget = world.ctx.budget.clone();
    let mut others: Vec<_> = std::iter::from_fn(|| budget.try_acquire(64 * 1024)).collect();
    let waiting = tokio::spawn(async move { budget.acquire(1024 * 1024).await });
    tokio::time::pause();
    let clock = world.clock.clone();
    let time_passes = tokio::spawn(async move {
        loop {
            clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let reply = Dialog::new(&mut stream).reply().await;
    assert!(reply.starts_with("421 4.4.2 The message arrives too slowly"), "{reply}");
    time_passes.abort();
    others.clear();
    drop(waiting.await.unwrap());
    world.all_ended().await;
    assert_eq!((world.queued(), world.ctx.budget.in_use()), (0, 0));
}
