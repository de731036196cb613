//! Large messages and many: partials against the bytes that were stored, searches beyond the stored text.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use sealpost_session::Settings;

use crate::imap_world::TestServer;

/// Lines of text with numbers, so that every place is different.
fn numbered(len: usize) -> Vec<u8> {
    let mut message = b"Subject: numbered\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n".to_vec();
    let mut n = 0;
    while message.len() < len {
        message.extend_from_slice(format!("line number {n} of a long message\r\n").as_bytes());
        n += 1;
    }
    message
}

#[tokio::test]
async fn partials_are_exact_wherever_they_begin_and_end() {
    let mut world = TestServer::new(Settings::default()).await;
    let message = numbered(300_000);
    world.deliver(None, &message).await;
    let mut client = world.login().await;
    client.ok("EXAMINE INBOX").await;
    let body = message.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let edges =
        [0, 1, 65_535, 65_536, 65_537, 131_072, 299_000, message.len() as u64 - 1, message.len() as u64];
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (
        prop_oneof![prop::sample::select(edges.to_vec()), 0..310_000u64],
        prop_oneof![prop::sample::select(vec![1u64, 65_536, 70_000]), 1..200_000u64],
        any::<bool>(),
    );
    for _ in 0..60 {
        let (start, count, text) = strategy.new_tree(&mut runner).unwrap().current();
        let (name, whole) = if text { ("TEXT", &message[body..]) } else { ("", &message[..]) };
        let lines = client.ok(&format!("FETCH 1 BODY[{name}]<{start}.{count}>")).await;
        let from = whole.len().min(start as usize);
        let expected = &whole[from..whole.len().min(from.saturating_add(count as usize))];
        let head = format!("* 1 FETCH (BODY[{name}]<{start}> {{{}}}\r\n", expected.len());
        let got = lines[0].strip_prefix(&head).unwrap_or_else(|| panic!("{head}: {}", &lines[0][..80]));
        assert!(got.as_bytes()[..got.len() - 1] == *expected, "<{start}.{count}>");
    }
}

#[tokio::test]
async fn fields_of_a_header_too_large_for_memory() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut message = Vec::new();
    for n in 0..5000 {
        message.extend_from_slice(format!("X-Field-{}: value number {n}\r\n", n % 10).as_bytes());
    }
    message.extend_from_slice(b"\r\nbody\r\n");
    world.deliver(None, &message).await;
    let mut client = world.login().await;
    client.ok("EXAMINE INBOX").await;
    let expected: String =
        (0..5000).filter(|n| n % 10 == 3).map(|n| format!("X-Field-3: value number {n}\r\n")).collect();
    let expected = format!("{expected}\r\n");
    let got = client.ok("FETCH 1 BODY[HEADER.FIELDS (X-Field-3)]").await;
    assert_eq!(got[0].split_once("}\r\n").unwrap().1, format!("{expected})"));
    let got = client.ok("FETCH 1 BODY[HEADER.FIELDS (X-Field-3)]<10000.40>").await;
    assert_eq!(got[0].split_once("}\r\n").unwrap().1, format!("{})", &expected[10_000..10_040]));
}

#[tokio::test]
async fn a_search_continues_beyond_the_stored_text() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut message = numbered(600_000);
    message.extend_from_slice("the needle is Größer than the haystack\r\n".as_bytes());
    world.deliver(None, &message).await;
    world.deliver(None, b"Subject: small\r\n\r\nnothing here\r\n").await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let found = |lines: Vec<String>| lines[0].clone();
    assert_eq!(found(client.ok("SEARCH BODY \"NEEDLE IS\"").await), "* SEARCH 1");
    assert_eq!(found(client.ok("SEARCH TEXT \"the haystack\"").await), "* SEARCH 1");
    assert_eq!(found(client.ok("SEARCH BODY \"line number 3 of\"").await), "* SEARCH 1");
    assert_eq!(found(client.ok("SEARCH BODY \"no such thing\"").await), "* SEARCH");
    assert_eq!(found(client.ok("SEARCH NOT BODY needle").await), "* SEARCH 2");
    assert_eq!(found(client.ok("SEARCH SUBJECT needle").await), "* SEARCH");
    assert_eq!(found(client.ok("SEARCH OR SUBJECT small BODY needle").await), "* SEARCH 1 2");
}

#[tokio::test]
async fn a_thousand_messages_are_one_entry_and_keep_their_order() {
    let mut world = TestServer::new(Settings::default()).await;
    let account = world.account().await;
    for n in 0..300 {
        world.deliver(None, format!("Subject: n{n}\r\n\r\n{n}\r\n").as_bytes()).await;
    }
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    client.ok("NOOP").await;
    let entries = |from: u64| account.state().position().0 - from;
    let before = account.state().position().0;
    client.ok("STORE 1:* +FLAGS.SILENT (\\Seen)").await;
    assert_eq!(entries(before), 1);
    client.ok("COPY 1:* Archive").await;
    assert_eq!(entries(before), 2);
    let lines = client.ok("FETCH 1:* (UID BODY.PEEK[TEXT] ENVELOPE)").await;
    assert_eq!(lines.len(), 301);
    for (n, line) in lines[..300].iter().enumerate() {
        assert!(line.starts_with(&format!("* {} FETCH (UID {} BODY[TEXT] {{", n + 1, n + 1)), "{line}");
        assert!(line.contains(&format!("}}\r\n{n}\r\n ENVELOPE (NIL \"n{n}\" ")), "{line}");
    }
    client.ok("MOVE 1:299 Trash").await;
    assert_eq!(entries(before), 3);
    client.ok("STORE 1 +FLAGS.SILENT (\\Seen)").await;
    assert_eq!(entries(before), 3, "a STORE that changes nothing writes nothing");
}
