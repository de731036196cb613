//! What a process takes while many search messages whose headers are as long as any are kept.
//!
//! One test in a process of its own, which measures the peak memory of the process.

#[path = "support/deflate_wire.rs"]
mod deflate_wire;
#[path = "support/imap_world.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod imap_world;
#[path = "support/peak.rs"]
mod peak;

use sealpost_base::MemoryDivision;
use sealpost_session::Settings;
use sealpost_vault::Store;

use imap_world::TestServer;
use peak::peak;

/// The budget that all of this has to be done in.
const BUDGET: usize = 24 * 1024 * 1024;
/// What the process may take beyond what it took when a password was checked, which is about the budget.
const GROWTH: usize = BUDGET / 2;
/// Messages, all of which are copies of one.
const MESSAGES: usize = 512;
/// Clients at once.
const CLIENTS: usize = 9;

/// With as much in its header as is kept of any for searching, nearly. Little of it is stored,
/// because it repeats itself.
fn mail() -> String {
    let name = "name ".repeat(80);
    let to: Vec<String> = (0..500).map(|n| format!("{name}{n} <a{n}@example.org>")).collect();
    format!("Subject: long\r\nTo: {}\r\n\r\n", to.join(",\r\n "))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn headers_of_any_length_are_looked_at_in_little_memory() {
    let memory = MemoryDivision { work: BUDGET, ..Default::default() };
    let mut world = TestServer::over(Store::memory(), Settings { memory, ..Settings::default() }, None).await;
    world.deliver(None, mail().as_bytes()).await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    for _ in 0..MESSAGES.ilog2() {
        client.ok("COPY 1:* INBOX").await;
        client.ok("NOOP").await;
    }
    let before = peak();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = world.login().await;
        client.ok("EXAMINE INBOX").await;
        client.send(b"x SEARCH FROM nobody\r\n").await;
        clients.push(client);
    }
    for client in &mut clients {
        let answer = client.answer().await;
        assert!(answer.last().unwrap().starts_with("x OK "), "{answer:?}");
    }
    let grown = peak() - before;
    assert!(grown < GROWTH, "{grown} bytes more than before, of {GROWTH}");
}
