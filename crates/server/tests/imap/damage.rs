//! What a damaged object costs: its own message, and nothing else.

use std::ops::Range;

use sealpost_session::Settings;
use sealpost_vault::Store;

use crate::imap_world::TestServer;

/// Ruins bytes of the file of the largest message; large messages are files of their own.
fn damage_largest(dir: &std::path::Path, at: impl Fn(usize) -> Range<usize>) {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else if entry.path().to_string_lossy().contains("/objects/") {
                files.push((entry.metadata().unwrap().len(), entry.path()));
            }
        }
    }
    files.sort();
    let (size, path) = files.pop().expect("a message in a file");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at(size as usize)].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&path, bytes).unwrap();
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut message = b"Subject: noise\r\n\r\n".to_vec();
    while message.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        message.push(33 + (state >> 24) as u8 % 90);
        if message.len().is_multiple_of(80) {
            message.extend_from_slice(b"\r\n");
        }
    }
    message
}

async fn world(dir: &std::path::Path) -> TestServer {
    let store = Store::local(dir).await.unwrap();
    let world = TestServer::over(store, Settings::default(), None).await;
    world.deliver(None, b"Subject: first\r\n\r\none\r\n").await;
    world.deliver(None, &noise(400_000)).await;
    world.deliver(None, b"Subject: third\r\n\r\nthree\r\n").await;
    world
}

#[tokio::test]
async fn a_damaged_message_is_reported_and_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = world(dir.path()).await;
    damage_largest(dir.path(), |_| 0..1000);
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let lines = client.command("FETCH 1:3 (UID BODY.PEEK[])").await;
    assert!(lines[0].ends_with("Subject: first\r\n\r\none\r\n)"), "{lines:?}");
    assert_eq!(lines[1], "* 2 FETCH (UID 2)");
    assert_eq!(lines[2], "* NO [CORRUPTION] message UID 2 is damaged");
    assert!(lines[3].contains("three"));
    assert_eq!(lines[4], "x NO [CORRUPTION] damaged messages, by UID: 2");
    // The other messages stay readable, and the session continues.
    client.ok("FETCH 1:3 ALL").await;
    let lines = client.ok("SEARCH SUBJECT noise").await;
    assert_eq!(lines[0], "* SEARCH 2");
}

#[tokio::test]
async fn damage_inside_a_message_keeps_its_rest_and_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = world(dir.path()).await;
    damage_largest(dir.path(), |size| size / 2..size / 2 + 1);
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let lines = client.command("FETCH 2:3 (BODY.PEEK[])").await;
    let expected = noise(400_000);
    let got = lines[0].strip_prefix(&format!("* 2 FETCH (BODY[] {{{}}}\r\n", expected.len())).unwrap();
    let got = got.strip_suffix(")").unwrap().as_bytes();
    assert_eq!(got.len(), expected.len());
    let different: Vec<_> = (0..got.len()).filter(|i| got[*i] != expected[*i]).collect();
    let (first, last) = (different[0], different[different.len() - 1]);
    assert!(first > 0 && last - first < 65_536, "{first}..{last}");
    assert!(different.iter().all(|i| got[*i] == b'?'));
    assert_eq!(lines[1], "* NO [CORRUPTION] message UID 2 is damaged");
    assert!(lines[2].contains("three"));
    assert!(lines[3].starts_with("x NO [CORRUPTION]"));
}

#[tokio::test]
async fn a_sort_order_without_a_damaged_message_is_not_cached() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = world(dir.path()).await;
    damage_largest(dir.path(), |size| 0..size);
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    for _ in 0..2 {
        let lines = client.ok("SORT (SUBJECT) UTF-8 ALL").await;
        let told = "* NO [CORRUPTION] message UID 2 is damaged and left out of the result";
        assert_eq!(lines[..2], [told, "* SORT 2 1 3"], "{lines:?}");
    }
}
