//! Where queued mail goes, and what senders hear of it.

use std::time::Duration;

use sealpost_queue::envelope::Notify;
use sealpost_server::sending::tls_sessions::{self, PolicyKind};

use crate::world::{Answer, World};

#[tokio::test]
async fn mail_between_accounts_arrives_once_for_each_account() {
    let world = World::new().await;
    let node = world.start().await;
    let mail = world.mail(&["you@localhost", "both@localhost", "you+tag@localhost"]);
    node.sending.queue().accept(mail).await.unwrap();
    node.drained().await;
    for name in ["me", "you"] {
        let inbox = node.inbox(&world, name).await;
        let [message] = &inbox[..] else { panic!("{name} has {} messages", inbox.len()) };
        assert!(
            message.starts_with("Return-Path: <me@localhost>\r\nReceived: by localhost\r\nFrom:"),
            "{message}"
        );
        assert_eq!(message.matches("Received:").count(), 1);
    }
    assert_eq!(node.sending.metrics().local.read(), 1);
    node.stop().await;
}

#[tokio::test]
async fn mail_for_elsewhere_reaches_its_server() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@there.example", "you@localhost"])).await.unwrap();
    node.drained().await;
    let messages = peer.messages();
    let [message] = &messages[..] else { panic!("{} messages", messages.len()) };
    assert!(message.contains("<jane@there.example>") && !message.contains("you@localhost>"), "{message}");
    assert!(message.contains("Subject: Hello\r\n\r\nText.\r\n"));
    assert_eq!(node.inbox(&world, "you").await.len(), 1);
    let in_the_clear = node.sending.metrics().tls().find(|(mode, _)| *mode == "none");
    assert_eq!(in_the_clear, Some(("none", 1)));
    node.stop().await;
    // What a TLS report of that day needs is on disk.
    let days = tls_sessions::days(world.data.path()).unwrap();
    let [day] = days[..] else { panic!("{days:?}") };
    let sessions = tls_sessions::read(world.data.path(), day).unwrap();
    let (policy, counts) = sessions.policies.first_key_value().unwrap();
    assert_eq!((policy.domain.as_str(), policy.kind), ("there.example", PolicyKind::NotFound));
    let failures: Vec<_> = counts.failures.iter().map(|(failure, n)| (failure.result.as_str(), *n)).collect();
    assert_eq!((counts.successes, &failures[..]), (0, &[("starttls-not-supported", 1)][..]));
}

#[tokio::test]
async fn refusals_come_back_to_the_inbox_of_the_sender() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    world.peers.put("192.0.2.1", Answer::RefuseRecipients);
    let node = world.start().await;
    node.sending.queue().accept(world.mail(&["jane@there.example"])).await.unwrap();
    node.sending.queue().accept(world.mail(&["nobody@localhost"])).await.unwrap();
    node.drained().await;
    let inbox = node.inbox(&world, "me").await;
    assert_eq!(inbox.len(), 2);
    for (to, status) in [("jane@there.example", "5.1.1"), ("nobody@localhost", "5.1.1")] {
        let report = inbox.iter().find(|report| report.contains(to)).unwrap();
        assert!(report.starts_with("Return-Path: <>\r\n"), "{report}");
        assert!(
            report.contains("Action: failed") && report.contains(&format!("Status: {status}")),
            "{report}"
        );
    }
    node.stop().await;
}

#[tokio::test]
async fn delivery_into_an_account_is_reported_on_request() {
    let world = World::new().await;
    let node = world.start().await;
    let mut mail = world.mail(&["you@localhost"]);
    mail.recipients[0].notify = Some(Notify::SUCCESS);
    node.sending.queue().accept(mail).await.unwrap();
    node.drained().await;
    let inbox = node.inbox(&world, "me").await;
    assert!(inbox[0].contains("Action: delivered"), "{}", inbox[0]);
    node.stop().await;
}

#[tokio::test]
async fn a_full_mailbox_delays_its_mail_and_no_other() {
    let world = World::new().await;
    let node = world.start().await;
    let name = &world.owners["you"].0.name;
    let full = |record: &mut sealpost_directory::AccountRecord| {
        record.quota = Some(2000);
        Ok(())
    };
    node.ctx.directory.update(name, full).await.unwrap();
    let mut large = world.mail(&["you@localhost"]);
    large.facts.size = 1930;
    let sealpost_queue::envelope::Body::Inline(text) = &mut large.body else { panic!("not inline") };
    text.extend(std::iter::repeat_n(*b"x\r\n", 620).flatten());
    node.sending.queue().accept(large).await.unwrap();
    node.drained().await;
    node.sending.queue().accept(world.mail(&["you@localhost", "me@localhost"])).await.unwrap();
    node.deferred(1).await;
    assert_eq!(node.inbox(&world, "me").await.len(), 1);
    assert!(node.last_failure().contains("452 4.2.2"), "{}", node.last_failure());
    let roomy = |record: &mut sealpost_directory::AccountRecord| {
        record.quota = None;
        Ok(())
    };
    node.ctx.directory.update(name, roomy).await.unwrap();
    world.clock.advance(Duration::from_secs(3600));
    node.drained().await;
    assert_eq!(node.inbox(&world, "you").await.len(), 2);
    assert_eq!(node.inbox(&world, "me").await.len(), 1, "nobody gets it twice");
    node.stop().await;
}

#[tokio::test]
async fn an_8_bit_message_is_encoded_for_7_bit_servers() {
    let world = World::new().await;
    world.mail_server("there.example", "192.0.2.1");
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = world.start().await;
    let mut mail = world.mail(&["jane@there.example"]);
    let text = "From: me@localhost\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nGrüße\r\n";
    mail.body = sealpost_queue::envelope::Body::Inline(text.into());
    mail.facts.eight_bit = true;
    node.sending.queue().accept(mail).await.unwrap();
    node.drained().await;
    let messages = peer.messages();
    assert!(messages[0].contains("Gr=C3=BC=C3=9Fe\r\n"), "{}", messages[0]);
    assert!(messages[0].is_ascii());
    node.stop().await;
}
