//! Large structures: as much memory is drawn as they take, for as long as their client takes to read them.

use sealpost_base::{MemoryDivision, Permit};
use sealpost_session::Settings;

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
    slow.octets(1000).await;
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
