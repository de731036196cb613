//! Vacation responses to mail that arrives over SMTP and LMTP, and to mail between accounts.

use std::sync::Arc;
use std::time::Duration;

use sealpost_directory::AccountName;
use sealpost_queue::envelope::{Body, Mail, Source};
use sealpost_session::net::Stream;
use sealpost_smtp_session::{Service, SmtpShared, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{Answer, Node, TIMEOUT, World};

const JOE: &str = "joe@there.example";

/// Switches the response of an account on.
async fn enable(node: &Node, name: &str) {
    let name = AccountName::parse(&format!("{name}@localhost")).unwrap();
    let vacations = node.sending.outbox().vacation().vacations();
    let changed = vacations.change(&name, |before| {
        let mut settings = before.settings.clone();
        (settings.is_enabled, settings.text) = (true, Some(format!("{name} is away.")));
        Ok(settings)
    });
    changed.await.unwrap();
}

/// A client delivers one message; what the server says.
async fn deliver(node: &Node, service: Service, from: &str, to: &[&str], header: &str) -> String {
    let shared = Arc::new(SmtpShared::new(node.ctx.clone(), Some(node.sending.outbox().clone())));
    let (server, mut client) = Stream::pair().unwrap();
    tokio::spawn(serve(server, shared, service));
    let hello = if service == Service::Lmtp { "LHLO" } else { "EHLO" };
    let rcpts: String = to.iter().map(|to| format!("RCPT TO:<{to}>\r\n")).collect();
    let session = format!(
        "{hello} there.example\r\nMAIL FROM:<{from}>\r\n{rcpts}DATA\r\n{header}\r\nText.\r\n.\r\nQUIT\r\n"
    );
    client.write_all(session.as_bytes()).await.unwrap();
    let mut replies = String::new();
    tokio::time::timeout(TIMEOUT, client.read_to_string(&mut replies)).await.unwrap().unwrap();
    assert!(replies.contains("\r\n221 "), "{replies}");
    replies
}

fn mail(world: &World, from: &str, to: &str) -> Mail {
    let text = format!("From: {from}\r\nTo: {to}\r\nSubject: Hello\r\n\r\nText.\r\n");
    Mail { from: from.to_owned(), body: Body::Inline(text.into_bytes()), ..world.mail(&[to]) }
}

/// Waits until so many replies are sent.
async fn sent(node: &Node, replies: u64) {
    let sent = async {
        while node.sending.outbox().vacation().metrics().sent.read() < replies {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, sent).await.expect("no reply was sent");
    node.drained().await;
}

#[tokio::test]
async fn mail_over_smtp_is_answered_once() {
    let world = World::new().await;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    world.mail_server("there.example", "192.0.2.1");
    let node = world.start().await;
    enable(&node, "you").await;
    let header =
        "From: other@x.example\r\nTo: You <you@localhost>\r\nSubject: Hello\r\nMessage-ID: <7@x>\r\n";
    for _ in 0..3 {
        let replies = deliver(&node, Service::Smtp, JOE, &["you@localhost", "me@localhost"], header).await;
        assert!(replies.contains("\r\n250 2.6.0 "), "{replies}");
    }
    sent(&node, 1).await;
    let messages = peer.messages();
    let [message] = &messages[..] else { panic!("{} messages", messages.len()) };
    for part in [
        "MAIL FROM:<>",
        "RCPT TO:<joe@there.example>",
        "From: You <you@localhost>\r\n",
        "Subject: Auto: Hello\r\n",
        "In-Reply-To: <7@x>\r\n",
        "Auto-Submitted: auto-replied\r\n",
        "you@localhost is away.\r\n",
    ] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert_eq!((node.inbox(&world, "you").await.len(), node.inbox(&world, "me").await.len()), (3, 3));
    node.stop().await;
}

#[tokio::test]
async fn each_account_of_an_lmtp_delivery_answers_for_itself() {
    let world = World::new().await;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    world.mail_server("there.example", "192.0.2.1");
    let node = world.start().await;
    enable(&node, "you").await;
    enable(&node, "me").await;
    let header = "To: me@localhost\r\nCc: you@localhost\r\n";
    deliver(&node, Service::Lmtp, JOE, &["you@localhost", "me@localhost", "both@localhost"], header).await;
    sent(&node, 2).await;
    let messages = peer.messages();
    for name in ["me", "you"] {
        let from = format!("From: {name}@localhost\r\n");
        assert_eq!(messages.iter().filter(|message| message.contains(&from)).count(), 1, "{messages:?}");
    }
    // The list that both are on is not theirs, nor is a hidden recipient addressed.
    for header in
        ["To: both@localhost\r\n", "To: someone@x.example\r\n", "To: me@localhost\r\nList-Id: <a.b>\r\n"]
    {
        deliver(&node, Service::Lmtp, "jane@there.example", &["both@localhost"], header).await;
    }
    deliver(&node, Service::Lmtp, "ann@there.example", &["me@localhost"], header).await;
    sent(&node, 3).await;
    assert_eq!(peer.messages().len(), 3);
    node.stop().await;
}

#[tokio::test]
async fn two_accounts_on_vacation_answer_each_other_once() {
    let world = World::new().await;
    let node = world.start().await;
    enable(&node, "you").await;
    enable(&node, "me").await;
    let queue = node.sending.queue().clone();
    for (from, to) in [("me@localhost", "you@localhost"), ("you@localhost", "me@localhost")] {
        queue.accept(mail(&world, from, to)).await.unwrap();
        node.drained().await;
    }
    sent(&node, 2).await;
    for (name, other) in [("me", "you"), ("you", "me")] {
        let inbox = node.inbox(&world, name).await;
        assert_eq!(inbox.len(), 2, "{inbox:?}");
        let reply = inbox.iter().find(|text| text.contains("auto-replied")).unwrap();
        assert!(reply.starts_with("Return-Path: <>\r\n"), "{reply}");
        assert!(reply.contains(&format!("From: {other}@localhost\r\n")), "{reply}");
    }
    node.stop().await;
    // After a restart the senders have still had theirs.
    let node = world.start().await;
    node.sending.queue().accept(mail(&world, "me@localhost", "you@localhost")).await.unwrap();
    node.drained().await;
    node.sending.queue().accept(mail(&world, "me+tag@localhost", "you@localhost")).await.unwrap();
    node.drained().await;
    sent(&node, 1).await;
    let inbox = node.inbox(&world, "me").await;
    assert_eq!(inbox.iter().filter(|text| text.contains("auto-replied")).count(), 2, "{inbox:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_reply_is_no_submission_of_the_user() {
    let mut world = World::new().await;
    world.settings.sending.recipients_per_hour = 0;
    let peer = world.peers.put_waiting("192.0.2.1");
    world.mail_server("there.example", "192.0.2.1");
    let node = world.start().await;
    enable(&node, "you").await;
    deliver(&node, Service::Smtp, JOE, &["you@localhost"], "To: you@localhost\r\n").await;
    peer.got(1).await;
    let mail = {
        let state = node.sending.queue().state();
        state.rows().from(sealpost_queue::MailId(0)).next().map(|(id, _)| id)
    };
    let mail = node.sending.queue().read(mail.unwrap()).await.unwrap();
    assert_eq!((mail.source, mail.account), (Source::Vacation, Some(world.owners["you"].0.id)));
    let now = sealpost_base::Clock::now(&*world.clock);
    assert!(node.sending.queue().state().sent(world.owners["you"].0.id, now).is_empty());
    peer.answer_one();
    node.drained().await;
    node.stop().await;
}
