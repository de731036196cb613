//! Large structures: as much memory is drawn as they take, for as long as their client takes to read them.

use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{MemoryDivision, Permit};
use sealpost_session::Settings;
use sealpost_vault::Store;

use crate::imap_world::TestServer;

/// The memory for work, in bytes.
const WORK: usize = 64 * 1024 * 1024;
const PARTS: usize = 900;

async fn world() -> TestServer {
    let memory = MemoryDivision { work: WORK, ..MemoryDivision::default() };
    let world = TestServer::new(Settings { memory, ..Settings::default() }).await;
    let long = "d".repeat(300);
    let part = format!("--b\r\nContent-Description: {long}\r\n\r\nx\r\n");
    let message = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\n", part.repeat(PARTS));
    for _ in 0..3 {
        world.deliver(None, message.as_bytes()).await;
        world.deliver(None, b"Subject: small\r\n\r\n").await;
    }
    world
}

#[tokio::test]
async fn a_structure_that_is_not_read_is_counted() {
    let mut world = world().await;
    let budget = world.ctx.budget.clone();
    let mut slow = world.login().await;
    slow.ok("SELECT INBOX").await;
    slow.send(b"1 FETCH 1 BODYSTRUCTURE\r\n").await;
    slow.bytes(1000).await;
    assert!(budget.in_use() >= PARTS * 300, "{} are drawn", budget.in_use());
    drop(slow);
    while budget.in_use() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn structures_wait_for_memory_and_come_in_order() {
    let mut world = world().await;
    let budget = world.ctx.budget.clone();
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let expected = client.ok("FETCH 1:* (BODYSTRUCTURE ENVELOPE)").await;
    assert!(expected.len() == 7 && expected[4].len() > PARTS * 300);
    // Some is free, and not enough for one that is large.
    let mut held: Vec<Permit> = Vec::new();
    for piece in [1 << 20, 1 << 12] {
        held.extend(std::iter::from_fn(|| budget.try_acquire(piece)));
    }
    held.remove(0);
    held.extend(budget.try_acquire((1 << 20) - (160 << 10)));
    // Small ones are had at once.
    assert!(client.ok("FETCH 2 ENVELOPE").await[0].starts_with("* 2 FETCH"));
    client.send(b"x FETCH 1:* (BODYSTRUCTURE ENVELOPE)\r\n").await;
    while budget.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(held);
    assert_eq!(client.answer().await, expected);
}

/// Parts of many messages are found by segments and read together, and are what each message has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_found_by_segments_are_those_of_the_messages() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::local(dir.path()).await.unwrap();
    let mut world = TestServer::over(store.clone(), Settings::default(), None).await;
    let parts = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nX-A: 1\r\n\r\none\r\n\
                 --b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\ntwo\r\n--b--\r\n";
    let encoded = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n\
                   U3ViamVjdDogeA0KDQp0ZXh0DQo=\r\n";
    let large = format!("Subject: large\r\n\r\n{}", "0123456789abcde\r\n".repeat(8000));
    let kinds = [parts, "no header", "\r\n", encoded, &large, "Subject: x\r\n\r\nNUL \0 in text\r\n"];
    let messages = 300;
    for n in 0..messages {
        // The large one is there a few times.
        let kind = if n % 75 == 4 { 4 } else { [0, 1, 2, 3, 5][n % 5] };
        world.deliver(None, format!("X-Number: {n}\r\n{}", kinds[kind]).as_bytes()).await;
    }
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let items = [
        "(BODY.PEEK[TEXT] BODY.PEEK[TEXT]<2.5>)",
        "(BODY.PEEK[1] BODY.PEEK[2.HEADER] BODY.PEEK[1.MIME] BODY.PEEK[3])",
        "(BODY.PEEK[1.1] BODY.PEEK[2.TEXT] BODY.PEEK[])",
        "(ENVELOPE BODYSTRUCTURE BODY.PEEK[HEADER] BODY.PEEK[2])",
        "(BINARY.PEEK[1] BINARY.SIZE[1])",
    ];
    // Of a few messages at a time everything is read from the messages.
    let mut expected = Vec::new();
    for items in items {
        let mut lines = Vec::new();
        for first in (1..=messages).step_by(10) {
            let mut some = client.ok(&format!("FETCH {first}:{} {items}", first + 9)).await;
            some.pop();
            lines.extend(some);
        }
        expected.push(lines);
    }
    client.ok("FETCH 1:* (ENVELOPE)").await;
    let is_made = async || {
        let listed: Vec<_> = store.list("acct", None).try_collect().await.unwrap();
        listed.iter().any(|object| object.path.contains("/idx/structure/"))
    };
    let made = async {
        while !is_made().await {
            client.ok("NOOP").await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), made).await.expect("a segment is made");
    for (items, expected) in items.iter().zip(&expected) {
        for _ in 0..2 {
            let mut found = client.ok(&format!("FETCH 1:* {items}")).await;
            found.pop();
            assert!(&found == expected, "{items}");
        }
    }
}
