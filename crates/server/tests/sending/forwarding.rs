//! Mail for aliases that lead to other servers, from accounts and from elsewhere, and its reports.

use std::time::Duration;

use sealpost_directory::AliasName;
use sealpost_queue::envelope::{Notify, Source};
use sealpost_smtp::types::{Host, LocalPart, Mailbox, ReversePath};
use sealpost_submission::forwarder::Onward;

use crate::world::{Answer, Node, World};

/// With the alias `away`, which leads to a server, and `mixed`, which leads to `you` as well.
async fn start(world: &World) -> Node {
    world.mail_server("there.example", "192.0.2.1");
    world.mail_server("origin.example", "192.0.2.2");
    let node = world.start().await;
    for (alias, targets) in [
        ("away@localhost", &["jane@there.example"][..]),
        ("mixed@localhost", &["you@localhost", "away@localhost", "joe@there.example"]),
    ] {
        let targets: Vec<_> = targets.iter().map(|target| (*target).to_owned()).collect();
        let targets = node.ctx.directory.targets(&targets).await.unwrap();
        node.ctx.directory.set_alias(&AliasName::parse(alias).unwrap(), targets).await.unwrap();
    }
    node
}

#[tokio::test]
async fn mail_of_accounts_is_forwarded_after_delivery() {
    let world = World::new().await;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = start(&world).await;
    node.sending.queue().accept(world.mail(&["mixed@localhost", "away@localhost"])).await.unwrap();
    node.drained().await;
    let messages = peer.messages();
    let [message] = &messages[..] else { panic!("{} messages", messages.len()) };
    for expected in [
        "MAIL FROM:<me@localhost>",
        "RCPT TO:<jane@there.example>",
        "RCPT TO:<joe@there.example>",
        "X-Sealpost-Forwarded: ",
        "Received: by localhost\r\nFrom: me@localhost\r\nSubject: Hello\r\n\r\nText.\r\n",
    ] {
        assert_eq!(
            message.matches(expected).count(),
            if expected.starts_with("X-") { 2 } else { 1 },
            "{expected}: {message}"
        );
    }
    assert_eq!(node.inbox(&world, "you").await.len(), 1);
    assert_eq!(node.sending.outbox().forwarder().metrics().accepted.read(), 1);
    node.stop().await;
}

#[tokio::test]
async fn a_report_of_forwarded_mail_reaches_its_sender() {
    let world = World::new().await;
    world.peers.put("192.0.2.1", Answer::RefuseRecipients);
    let origin = world.peers.put("192.0.2.2", Answer::Take);
    let node = start(&world).await;
    let sender =
        Mailbox { local: LocalPart::new("Sender").unwrap(), host: Host::domain("origin.example").unwrap() };
    let outside = node.ctx.directory.resolve("away@localhost").await.unwrap().outside;
    let onward = Onward::plain(ReversePath::Mailbox(sender), outside);
    let mut forwarding = node.sending.outbox().forwarder().begin(onward).await;
    forwarding.write(b"Received: by localhost\nSubject: Hello\n\nText.").await.unwrap();
    let id = forwarding.finish().await.unwrap();
    assert_eq!(node.sending.queue().read(id).await.unwrap().source, Source::Forward);
    node.drained().await;
    let messages = origin.messages();
    let [report] = &messages[..] else { panic!("{} messages", messages.len()) };
    assert!(
        report.contains("MAIL FROM:<>") && report.contains("RCPT TO:<Sender@origin.example>"),
        "{report}"
    );
    assert!(report.contains("Action: failed") && report.contains("jane@there.example"), "{report}");
    node.stop().await;
}

/// RFC 3461 §5.2.7.2: an alias for one address hands the wish for reports on.
#[tokio::test]
async fn success_is_reported_once() {
    let world = World::new().await;
    world.peers.put("192.0.2.1", Answer::Take);
    let node = start(&world).await;
    for (to, action) in [("away@localhost", "relayed"), ("mixed@localhost", "expanded")] {
        let before = node.inbox(&world, "me").await.len();
        let mut mail = world.mail(&[to]);
        mail.recipients[0].notify = Some(Notify::SUCCESS);
        node.sending.queue().accept(mail).await.unwrap();
        node.drained().await;
        let inbox = node.inbox(&world, "me").await;
        assert_eq!(inbox.len(), before + 1, "{to}");
        assert!(inbox[before].contains(&format!("Action: {action}")), "{to}: {}", inbox[before]);
    }
    node.stop().await;
}

#[tokio::test]
async fn mail_beyond_the_limit_of_an_alias_waits() {
    let mut world = World::new().await;
    world.settings.sending.forwards_per_hour = 2;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = start(&world).await;
    for n in 1..=2 {
        node.sending.queue().accept(world.mail(&["away@localhost"])).await.unwrap();
        node.drained().await;
        assert_eq!(peer.messages().len(), n);
    }
    // The copy here waits with the address there.
    node.sending.queue().accept(world.mail(&["mixed@localhost"])).await.unwrap();
    node.deferred(1).await;
    assert!(node.last_failure().contains("450 4.7.1"), "{}", node.last_failure());
    assert_eq!(node.inbox(&world, "you").await.len(), 0);
    world.clock.advance(Duration::from_secs(3600));
    node.drained().await;
    assert_eq!((peer.messages().len(), node.inbox(&world, "you").await.len()), (3, 1));
    node.stop().await;
}

#[tokio::test]
async fn an_alias_of_several_addresses_is_reported_as_expanded() {
    let world = World::new().await;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = start(&world).await;
    // RFC 3461 §5.2.8: in reports on success are those who asked for them.
    let mut mail = world.mail(&["mixed@localhost", "away@localhost", "both@localhost", "you@localhost"]);
    mail.recipients[0].notify = Some(Notify::SUCCESS.and(Notify::FAILURE));
    mail.recipients[0].orcpt = Some("rfc822;list@elsewhere.example".to_owned());
    mail.recipients[2].notify = Some(Notify::SUCCESS);
    node.sending.queue().accept(mail).await.unwrap();
    node.drained().await;
    peer.got(1).await;
    let reports: Vec<String> = node
        .inbox(&world, "me")
        .await
        .into_iter()
        .filter(|message| message.contains("\r\nAction: "))
        .collect();
    let of = |action: &str| -> Vec<&String> {
        let line = format!("\r\nAction: {action}\r\n");
        reports.iter().filter(|report| report.contains(&line)).collect()
    };
    let [expanded] = of("expanded")[..] else { panic!("{reports:?}") };
    assert_eq!(expanded.matches("\r\nFinal-Recipient: ").count(), 1, "{expanded}");
    for line in [
        "Original-Recipient: rfc822; list@elsewhere.example",
        "Final-Recipient: rfc822; mixed@localhost",
        "Status: 2.0.0",
    ] {
        assert!(expanded.contains(&format!("\r\n{line}\r\n")), "{line}: {expanded}");
    }
    // An alias of accounts alone: the mail is where it was to go.
    let [delivered] = of("delivered")[..] else { panic!("{reports:?}") };
    assert!(delivered.contains("Final-Recipient: rfc822; both@localhost"), "{delivered}");
    assert_eq!(reports.len(), 2, "{reports:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_server_without_dsn_is_reported_as_relayed() {
    let world = World::new().await;
    let peer = world.peers.put("192.0.2.1", Answer::Take);
    let node = start(&world).await;
    let mut mail = world.mail(&["jane@there.example", "joe@there.example"]);
    mail.recipients[0].notify = Some(Notify::SUCCESS);
    mail.envid = Some("QQ314159".to_owned());
    node.sending.queue().accept(mail).await.unwrap();
    node.drained().await;
    peer.got(1).await;
    let inbox = node.inbox(&world, "me").await;
    let [report] = &inbox[..] else { panic!("{inbox:?}") };
    for line in
        ["Action: relayed", "Final-Recipient: rfc822; jane@there.example", "Original-Envelope-Id: QQ314159"]
    {
        assert!(report.contains(&format!("\r\n{line}\r\n")), "{line}: {report}");
    }
    assert!(!report.contains("joe@there.example"), "{report}");
    node.stop().await;
}
