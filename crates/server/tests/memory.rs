//! What a process takes while commands bring and take a great deal: as little as for little.
//!
//! One test in a process of its own, which measures the peak memory of the process: memory held
//! without a reservation is not overlooked.

#[path = "support/deflate_wire.rs"]
mod deflate_wire;
#[path = "support/imap_world.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod imap_world;
#[path = "support/peak.rs"]
mod peak;

use sealpost_account::{Flags, NewMessage};
use sealpost_base::MemoryDivision;
use sealpost_session::Settings;
use sealpost_vault::Store;

use imap_world::{Client, NOW, TestServer};
use peak::peak;

/// The budget that all of this has to be done in.
const BUDGET: usize = 16 * 1024 * 1024;
/// What the process may take beyond what it took at the start: the budget, and as much again for
/// what allocators keep, SQLite and the threads that all of it makes.
const GROWTH: usize = 4 * BUDGET;
/// Bytes of one message. The test moves fourteen times as much.
const LARGE: usize = 50 * 1024 * 1024;

/// Bytes of a message, without holding them.
async fn send_bytes(client: &mut Client, mut left: usize) {
    let line = [b"0123456789abcdef".repeat(4095).as_slice(), b"0123456789abcd\r\n"].concat();
    while left > 0 {
        let now = left.min(line.len());
        client.send(&line[..now]).await;
        left -= now;
    }
}

/// The byte of a part at that place: no two lines are the same.
fn byte(at: usize) -> u8 {
    ((at / 57) >> (at % 57 % 4 * 8)) as u8
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn large_messages_are_streamed_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::local(dir.path()).await.unwrap();
    let mut world = TestServer::over(
        store,
        Settings { memory: MemoryDivision { work: BUDGET, ..Default::default() }, ..Settings::default() },
        None,
    )
    .await;
    let mut client = world.login().await;
    client.ok("APPEND INBOX {1+}\r\nx").await;
    let before = peak();

    // RFC 3502: four messages of one command, 200 MiB.
    client.send(format!("x APPEND INBOX {{{LARGE}+}}\r\n").as_bytes()).await;
    send_bytes(&mut client, LARGE).await;
    for _ in 0..3 {
        client.send(format!(" (\\Seen) {{{LARGE}+}}\r\n").as_bytes()).await;
        send_bytes(&mut client, LARGE).await;
    }
    client.send(b"\r\n").await;
    let line = client.line().await;
    assert!(line.starts_with("x OK [APPENDUID ") && line.ends_with(" 2:5] APPEND completed"), "{line}");

    // RFC 4469: one message of four others, 200 MiB.
    let url = "URL /INBOX/;UID=2";
    let parts =
        format!("{url} {url}/;PARTIAL=5.1000000 URL /INBOX/;UID=3 URL /INBOX/;UID=4 URL /INBOX/;UID=5");
    client.ok(&format!("APPEND Archive CATENATE ({parts})")).await;
    let lines = client.ok("STATUS Archive (MESSAGES SIZE)").await;
    assert_eq!(lines[0], format!("* STATUS Archive (MESSAGES 1 SIZE {})", 4 * LARGE + 1_000_000));

    // RFC 3516: a part of which the encoding is undone, in slices and as a whole.
    let account = world.account().await;
    let lines = LARGE / 57;
    let mut ingest = account.ingest().await.unwrap();
    ingest.write(b"Content-Transfer-Encoding: base64\r\n\r\n").await.unwrap();
    for from in (0..lines).step_by(1000) {
        let content: Vec<u8> = (from * 57..(from + 1000).min(lines) * 57).map(byte).collect();
        ingest.write(sealpost_mime::encode::base64(&content).as_bytes()).await.unwrap();
    }
    let stored = ingest.finish().await.unwrap();
    let trash = account.state().mailbox_named("Trash").unwrap().id();
    let message = NewMessage { stored, flags: Flags::default().into(), received: NOW };
    account.append(trash, vec![message]).await.unwrap();
    client.ok("SELECT Trash").await;
    let size = lines * 57;
    assert_eq!(client.ok("FETCH 1 BINARY.SIZE[1]").await[0], format!("* 1 FETCH (BINARY.SIZE[1] {size})"));
    for start in [0, 1, size / 3, size / 2 + 7, size - 100] {
        client.send(format!("x FETCH 1 BINARY.PEEK[1]<{start}.100>\r\n").as_bytes()).await;
        assert_eq!(client.line().await, format!("* 1 FETCH (BINARY[1]<{start}> ~{{100}}"));
        let expected: Vec<u8> = (start..start + 100).map(byte).collect();
        assert_eq!(client.bytes(100).await, expected, "{start}");
        assert_eq!(client.line().await, ")");
        assert!(client.line().await.starts_with("x OK"));
    }
    client.send(b"x FETCH 1 BINARY.PEEK[1]\r\n").await;
    assert_eq!(client.line().await, format!("* 1 FETCH (BINARY[1] ~{{{size}}}"));
    for from in (0..size).step_by(57_000) {
        let piece = client.bytes(57_000.min(size - from)).await;
        assert!(piece.iter().zip(from..).all(|(found, at)| *found == byte(at)), "{from}");
    }
    assert_eq!(client.line().await, ")");
    assert!(client.line().await.starts_with("x OK"));

    let grown = peak() - before;
    assert!(grown < GROWTH, "{grown} bytes more than before");
}
