//! Forwarded mail that returns: reports to rewritten senders, and loops.

use std::time::Duration;

use sealpost_session::Settings;
use sealpost_smtp_session::Service;
use sealpost_submission::outbox::SendingLimits;

use crate::submission_world::{Dialog, TestServer};

async fn world() -> TestServer {
    let world = TestServer::new(Settings::default(), SendingLimits::default()).await;
    world.alias("away@localhost", &["joe@elsewhere.example"]).await;
    world
}

/// Delivers a message; the last reply.
async fn send(world: &mut TestServer, from: &str, to: &str, message: &str) -> String {
    let mut stream = world.connect_to(Service::Smtp);
    let mut client = Dialog::new(&mut stream);
    client.expect(&[("HELO client.example", "250 "), (&format!("MAIL FROM:<{from}>"), "250 ")]).await;
    let reply = client.ask(&format!("RCPT TO:<{to}>")).await;
    if !reply.starts_with("250 ") {
        return reply;
    }
    client.go_on(&[("DATA", "354 ")]).await;
    client.ask(&format!("{message}\r\n.")).await
}

/// The reverse-path of mail from a sender that was forwarded.
async fn forwarded(world: &mut TestServer, from: &str) -> String {
    let id = world.outbox.queue().state().next_id();
    let reply = send(world, from, "away@localhost", "Subject: x\r\n\r\nText.").await;
    assert!(reply.starts_with("250 "), "{reply}");
    world.mail(&id.to_string()).await.0.from.clone()
}

#[tokio::test]
async fn reports_go_back_to_the_original_sender() {
    let mut world = world().await;
    let first = forwarded(&mut world, "Jane.Doe@origin.example").await;
    assert!(first.starts_with("SRS0=") && first.ends_with("=origin.example=Jane.Doe@localhost"), "{first}");
    // Mail that another server has rewritten, and mail that comes through this one twice.
    let second = forwarded(&mut world, "SRS0=abcd=xy=origin.example=jane@other.example").await;
    assert!(second.starts_with("SRS1="), "{second}");
    for (sender, original) in [
        (&first, "Jane.Doe@origin.example"),
        (&first.to_uppercase(), "JANE.DOE@ORIGIN.EXAMPLE"),
        (&second, "SRS0=abcd=xy=origin.example=jane@other.example"),
    ] {
        let id = world.outbox.queue().state().next_id();
        let reply = send(&mut world, "", sender, "Subject: failed\r\n\r\nText.").await;
        assert!(reply.starts_with("250 "), "{reply}");
        let (mail, _) = world.mail(&id.to_string()).await;
        assert_eq!((mail.from.as_str(), mail.recipients.len()), ("", 1));
        assert_eq!(mail.recipients[0].address, original);
    }
}

#[tokio::test]
async fn addresses_that_look_rewritten_open_no_relay() {
    let mut world = world().await;
    let sender = forwarded(&mut world, "jane@origin.example").await;
    // Every address in the domain exists; an address that looks rewritten still does not.
    world.alias("@localhost", &["me@localhost"]).await;
    let queued = world.queued();
    let forged = |from: &str, to: &str| sender.replacen(from, to, 1);
    for (from, to, expected) in [
        ("", forged("origin.example", "victim.example"), "550 5.1.1"),
        ("", forged("jane", "john"), "550 5.1.1"),
        ("", "SRS0=aaaaaaaa=aa=victim.example=jane@localhost".to_owned(), "550 5.1.1"),
        ("", "SRS0=aaaa=aa@localhost".to_owned(), "550 5.1.1"),
        ("", "SRS1=aaaaaaaaaa=victim.example==a=b=c=d@localhost".to_owned(), "550 5.1.1"),
        ("", "srs0+aaaaaaaa=aa=victim.example=jane@localhost".to_owned(), "550 5.1.1"),
        ("", forged("@localhost", "@elsewhere.example"), "550 5.7.1"),
        // Only reports go back.
        ("spam@origin.example", sender.clone(), "550 5.7.1"),
        ("me@localhost", sender.clone(), "550 5.7.1"),
    ] {
        let reply = send(&mut world, from, &to, "").await;
        assert!(reply.starts_with(expected), "{from} -> {to}: {reply}");
    }
    world.clock.advance(Duration::from_secs(23 * 86_400));
    let reply = send(&mut world, "", &sender, "").await;
    assert!(reply.starts_with("550 5.1.1"), "three weeks later: {reply}");
    assert_eq!(world.queued(), queued);
    assert_eq!(world.inbox("me@localhost").await.len(), 0);
}

#[tokio::test]
async fn a_message_that_comes_back_to_its_alias_is_refused() {
    let mut world = world().await;
    world.alias("info@localhost", &["you@localhost", "ann@elsewhere.example"]).await;
    forwarded(&mut world, "jane@origin.example").await;
    let (_, message) = world.mail("Q0").await;
    let message = String::from_utf8(message).unwrap();
    let message = message.trim_end();
    let reply = send(&mut world, "jane@origin.example", "away@localhost", message).await;
    assert!(reply.starts_with("554 5.4.6"), "{reply}");
    assert_eq!(world.queued(), 1);
    // Other aliases have not seen it, and forged marks stop nothing.
    let reply = send(&mut world, "jane@origin.example", "info@localhost", message).await;
    assert!(reply.starts_with("250 "), "{reply}");
    let forged = "X-Sealpost-Forwarded: 00000000000000000000\r\n\r\nText.";
    let reply = send(&mut world, "jane@origin.example", "away@localhost", forged).await;
    assert!(reply.starts_with("250 "), "{reply}");
    assert_eq!((world.queued(), world.inbox("you@localhost").await.len()), (3, 1));
    // What is in the body is not in the header.
    let quoted = format!("Subject: x\r\n\r\n{message}");
    let reply = send(&mut world, "jane@origin.example", "away@localhost", &quoted).await;
    assert!(reply.starts_with("250 "), "{reply}");
}

#[tokio::test]
async fn a_large_message_is_forwarded_unchanged() {
    let mut world = world().await;
    world.alias("info@localhost", &["you@localhost", "ann@elsewhere.example"]).await;
    let body = "0123456789abcdef  \r\n".repeat(30_000);
    let message = format!("DKIM-Signature: v=1\r\nSubject:  two  spaces\r\n\r\n{body}end");
    let reply = send(&mut world, "jane@origin.example", "info@localhost", &message).await;
    assert!(reply.starts_with("250 "), "{reply}");
    let (mail, queued) = world.mail("Q0").await;
    let queued = String::from_utf8(queued).unwrap();
    assert_eq!(mail.facts.size, queued.len() as u64);
    assert!(queued.ends_with(&format!("{message}\r\n")) && !queued.contains("Return-Path"));
    let inbox = world.inbox("you@localhost").await;
    assert!(inbox[0].starts_with("Return-Path: <jane@origin.example>\r\n") && inbox[0].contains(&message));
}

/// A queue that another process has taken over: the client comes again, and nothing was delivered.
#[tokio::test]
async fn a_queue_that_stopped_means_later_for_everyone() {
    let mut world = world().await;
    world.alias("info@localhost", &["you@localhost", "ann@elsewhere.example"]).await;
    world.outbox.queue().close();
    for message in ["Text.".to_owned(), "0123456789abcdef\r\n".repeat(20_000)] {
        let reply = send(&mut world, "jane@origin.example", "info@localhost", &message).await;
        assert!(reply.starts_with("451 4.3.0"), "{reply}");
    }
    let reply = send(&mut world, "jane@origin.example", "you@localhost", "Text.").await;
    assert!(reply.starts_with("250 "), "other mail needs no queue: {reply}");
    assert_eq!((world.queued(), world.inbox("you@localhost").await.len()), (0, 1));
}

/// One transaction holds so many addresses; the next RCPT waits for another one.
#[tokio::test]
async fn a_transaction_leads_to_so_many_addresses() {
    let mut world = world().await;
    let per_alias = sealpost_base::limits::ALIAS_TARGETS;
    let aliases = sealpost_base::limits::SMTP_FORWARDS / per_alias;
    for n in 0..=aliases {
        let targets: Vec<_> = (0..per_alias).map(|m| format!("a{m}@x{n}.example")).collect();
        let targets: Vec<_> = targets.iter().map(String::as_str).collect();
        world.alias(&format!("wide{n}@localhost"), &targets).await;
    }
    let mut stream = world.connect_to(Service::Smtp);
    let mut client = Dialog::new(&mut stream);
    client.expect(&[("HELO client.example", "250 "), ("MAIL FROM:<>", "250 ")]).await;
    for n in 0..=aliases {
        let reply = client.ask(&format!("RCPT TO:<wide{n}@localhost>")).await;
        assert!(reply.starts_with(if n < aliases { "250 " } else { "452 4.5.3" }), "{n}: {reply}");
    }
    // An address that is there already needs nothing more.
    client.go_on(&[("RCPT TO:<wide0@localhost>", "250 "), ("DATA", "354 "), ("Text.\r\n.", "250 ")]).await;
    let mail = world.mail("Q0").await.0;
    assert_eq!(mail.recipients.len(), aliases * per_alias);
}

#[tokio::test]
async fn users_send_as_no_alias_that_leads_outside_too() {
    let mut world = world().await;
    world.alias("info@localhost", &["me@localhost", "ann@elsewhere.example"]).await;
    let mut stream = world.connect_to(Service::Submission);
    let mut client = Dialog::new(&mut stream);
    let login = ("AUTH PLAIN AG1lQGxvY2FsaG9zdABzZWNyZXQ=", "235 ");
    client
        .expect(&[("EHLO client.example", "250 "), login, ("MAIL FROM:<info@localhost>", "550 5.7.1")])
        .await;
    client.go_on(&[("MAIL FROM:<also@localhost>", "250 "), ("RCPT TO:<info@localhost>", "250 ")]).await;
}
