//! A store that fails: the client gets a temporary error, and no acknowledged mail is lost or
//! doubled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use sealpost_session::Settings;
use sealpost_smtp::client::Protocol;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Store;

use crate::mailer::Mailer;
use crate::smtp_world::TestServer;

const ALL: [&str; 3] = ["me@localhost", "you@localhost", "them@localhost"];

async fn world(plan: Plan, seed: u64) -> (TestServer, Faulty) {
    let faulty = Faulty::new(Arc::new(InMemory::new()), plan, seed);
    faulty.calm(true);
    let world = TestServer::over(Store::over(Arc::new(faulty.clone())), Settings::default()).await;
    (world, faulty)
}

#[tokio::test]
async fn a_store_that_is_down_means_later() {
    let (mut world, faulty) = world(Plan { fail: 1000, ..Plan::default() }, 1).await;
    let stream = world.connect_as(Protocol::Smtp);
    let mut mailer = Mailer::greet(stream, Protocol::Smtp).await;
    // While recipients are looked up.
    faulty.calm(false);
    assert_eq!(mailer.envelope(&["me@localhost", "nobody@localhost"]).await, [451, 451]);
    assert_eq!(mailer.ask("RSET").await, 250);
    // When the message is stored: small and large, for one and for all.
    for recipient in ["me@localhost", "all@localhost"] {
        for size in [100, 100_000, 7_000_000] {
            faulty.calm(true);
            assert_eq!(mailer.envelope(&[recipient]).await, [250]);
            faulty.calm(false);
            assert_eq!(mailer.send(&vec![b'x'; size], 1).await, [451], "{size} bytes for {recipient}");
        }
    }
    let stream = world.connect_as(Protocol::Lmtp);
    let mut lmtp = Mailer::greet(stream, Protocol::Lmtp).await;
    faulty.calm(true);
    assert_eq!(lmtp.envelope(&ALL).await, [250; 3]);
    faulty.calm(false);
    assert_eq!(lmtp.send(b"x", 3).await, [451; 3]);
    // It recovers with the store, in the same session.
    faulty.calm(true);
    assert_eq!(world.ctx.budget.in_use(), 0);
    for name in ALL {
        assert!(world.inbox(name).await.unwrap().is_empty());
    }
    assert_eq!(mailer.envelope(&["me@localhost"]).await, [250]);
    assert_eq!(mailer.send(b"x", 1).await, [250]);
    assert_eq!(world.inbox("me@localhost").await.unwrap().len(), 1);
}

/// Messages are numbered; what was acknowledged is there exactly once, what was not at most once.
#[tokio::test]
async fn acknowledged_messages_are_delivered_exactly_once() {
    let plan = Plan { fail: 60, lose_reply: 60, delay: 100, delay_max: Duration::from_micros(50), late: 0 };
    for seed in 0..4 {
        let (mut world, faulty) = world(plan, seed).await;
        faulty.calm(false);
        let mut acknowledged: HashMap<(&str, usize), bool> = HashMap::new();
        for protocol in [Protocol::Smtp, Protocol::Lmtp] {
            let stream = world.connect_as(protocol);
            let mut mailer = Mailer::greet(stream, protocol).await;
            for i in 0..40 {
                let number = if protocol == Protocol::Lmtp { 1000 + i } else { i };
                let wanted = &ALL[..1 + i % 3];
                let codes = mailer.envelope(wanted).await;
                let known: Vec<_> = wanted.iter().zip(codes).filter(|(_, code)| *code == 250).collect();
                if known.is_empty() {
                    assert_eq!(mailer.ask("RSET").await, 250);
                    continue;
                }
                let text = format!("Subject: {number}\r\n\r\n{}", "x".repeat(i * 3000));
                let replies = if protocol == Protocol::Lmtp { known.len() } else { 1 };
                let codes = mailer.send(text.as_bytes(), replies).await;
                for (n, (name, _)) in known.into_iter().enumerate() {
                    let code = codes[n.min(codes.len() - 1)];
                    assert!(matches!(code, 250 | 451), "{code}");
                    acknowledged.insert((*name, number), code == 250);
                }
            }
        }
        faulty.calm(true);
        let mut found: HashMap<(&str, usize), usize> = HashMap::new();
        for name in ALL {
            for message in world.inbox(name).await.unwrap() {
                let text = String::from_utf8_lossy(&message);
                let number = text.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap();
                *found.entry((name, number.parse().unwrap())).or_default() += 1;
            }
        }
        assert!(faulty.faults() > 20, "{}", faulty.faults());
        let kept = acknowledged.values().filter(|&&ok| ok).count();
        assert!(kept > 20 && kept < acknowledged.len(), "some and not all of them: {kept}");
        for (message, ok) in acknowledged {
            let times = found.remove(&message).unwrap_or(0);
            assert!(times == 1 || (times == 0 && !ok), "{message:?} is there {times} times (seed {seed})");
        }
        assert!(found.is_empty());
    }
}
