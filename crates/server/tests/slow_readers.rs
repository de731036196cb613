//! Clients that ask for what is long and do not take it: what waits for them is little, or drawn
//! from the budget.
//!
//! One test in a process of its own, which measures the peak memory of the process.

#[path = "support/deflate_wire.rs"]
mod deflate_wire;
#[path = "support/imap_world.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod imap_world;
#[path = "support/peak.rs"]
mod peak;

use std::time::Duration;

use sealpost_base::{MemoryDivision, limits};
use sealpost_session::Settings;
use sealpost_vault::Store;

use imap_world::TestServer;
use peak::peak;

/// Clients that do not read.
const SLOW: usize = 60;
/// The budget.
const BUDGET: usize = 8 * 1024 * 1024;
/// What the process may take for them beyond what it took with all keywords there: half of the
/// names, for each.
const GROWTH: usize = SLOW * limits::KEYWORDS * limits::KEYWORD_BYTES / 2;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn output_for_slow_readers_is_small_or_charged() {
    let memory = MemoryDivision { work: BUDGET, ..Default::default() };
    let mut world = TestServer::over(Store::memory(), Settings { memory, ..Settings::default() }, None).await;
    let mut client = world.login().await;

    // RFC 3501 §7.2.6: FLAGS and PERMANENTFLAGS, half a megabyte together.
    let messages = limits::KEYWORDS / 200;
    for _ in 0..messages {
        client.ok("APPEND INBOX {1+}\r\nx").await;
    }
    client.ok("SELECT INBOX").await;
    for nth in 0..messages {
        let name = |n| format!("{:x<1$}", format!("k{}-", nth * 200 + n), limits::KEYWORD_BYTES);
        let names: Vec<String> = (0..200).map(name).collect();
        client.ok(&format!("STORE {} +FLAGS.SILENT ({})", nth + 1, names.join(" "))).await;
    }
    client.ok("UNSELECT").await;
    let before = peak();
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut client = world.login().await;
        client.send(b"x SELECT INBOX\r\n").await;
        assert_eq!(client.bytes(9).await, b"* FLAGS (");
        slow.push(client);
    }
    let grown = peak() - before;
    assert!(grown < GROWTH, "{grown} bytes more than before");
    let mut last = slow.pop().unwrap();
    let flags = last.line().await;
    assert_eq!(flags.matches(" k").count(), limits::KEYWORDS);
    assert!(flags.ends_with("x)"));
    drop((slow, last));

    // RFC 5464 §4.2: values of 64 KiB.
    let value = "y".repeat(limits::METADATA_VALUE_BYTES);
    for nth in 0..20 {
        client.ok(&format!("SETMETADATA \"\" (/private/v{nth:02} {{{}+}}\r\n{value})", value.len())).await;
    }
    let drawn = world.ctx.budget.in_use();
    client.send(b"x GETMETADATA (DEPTH infinity) \"\" (/private /private/v03)\r\n").await;
    assert_eq!(client.bytes(13).await, b"* METADATA \"\"");
    let waits = async {
        while world.ctx.budget.in_use() < drawn + value.len() {
            tokio::task::yield_now().await;
        }
    };
    let waits = tokio::time::timeout(Duration::from_secs(20), waits).await;
    assert!(waits.is_ok(), "memory is drawn for what waits");
    let mut got = 0;
    loop {
        let line = client.line().await;
        if line.starts_with("x ") {
            assert!(line.starts_with("x OK"), "{line}");
            break;
        }
        got += line.matches("/private/v").count();
    }
    assert_eq!(got, 20);
    assert!(world.ctx.budget.in_use() < drawn + value.len(), "and given back");
}
