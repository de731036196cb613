//! NUL in messages: stored as it comes, and never in a plain literal (RFC 3501 §9, CHAR8).

use std::time::Duration;

use bytes::BytesMut;
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// Long enough that it is sent in several pieces, with NUL at the ends of chunks, and a header that
/// is read twice.
fn message() -> Vec<u8> {
    let mut message = b"Subject: a\0b\r\nX-Long: ".to_vec();
    message.extend(b"x\0".repeat(40_000));
    message.extend_from_slice(
        b"\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
          --b\r\nContent-Type: text/plain\r\nX-Part: \0\r\n\r\ntext \0\0 \x80 text\r\n\
          --b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\0ner\r\n\r\n",
    );
    while message.len() < 400_000 {
        message.extend_from_slice(b"one line of it with \0 inside\r\n");
    }
    message.extend_from_slice(b"--b--\r\n\0");
    message
}

fn as_text(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| if *byte == 0 { 0x80 } else { *byte }).collect()
}

/// The bytes of the one literal in the answer to FETCH, after what announces it.
async fn fetched(client: &mut Client, item: &str) -> (String, Vec<u8>) {
    client.send(format!("x UID FETCH 1 {item}\r\n").as_bytes()).await;
    let response = client.response().await;
    let (head, rest) = split(&response);
    assert!(client.line().await.starts_with("x OK"), "{item}");
    let bytes = rest.strip_suffix(b")").unwrap().to_vec();
    (String::from_utf8_lossy(head).into_owned(), bytes)
}

fn split(response: &[u8]) -> (&[u8], &[u8]) {
    let end = response.windows(3).position(|window| window == b"}\r\n").unwrap();
    (&response[..=end], &response[end + 3..])
}

async fn appended(world: &mut TestServer) -> Client {
    let mut client = world.login().await;
    let message = message();
    client.send(format!("x APPEND INBOX {{{}+}}\r\n", message.len()).as_bytes()).await;
    client.send(&message).await;
    client.send(b"\r\n").await;
    assert!(client.answer().await.last().unwrap().starts_with("x OK"));
    client
}

const ITEMS: [&str; 17] = [
    "BODY.PEEK[]",
    "BODY.PEEK[]<5.9>",
    "BODY.PEEK[]<65530.20>",
    "BODY.PEEK[]<131000.200000>",
    "BODY.PEEK[HEADER]",
    "BODY.PEEK[HEADER.FIELDS (SUBJECT)]",
    "BODY.PEEK[HEADER.FIELDS (SUBJECT X-Long)]",
    "BODY.PEEK[HEADER.FIELDS.NOT (X-Long)]<0.20>",
    "BODY.PEEK[TEXT]",
    "BODY.PEEK[1]",
    "BODY.PEEK[1.MIME]",
    "BODY.PEEK[2]",
    "BODY.PEEK[2.HEADER]",
    "BODY.PEEK[2.TEXT]<100000.40>",
    "RFC822",
    "RFC822.HEADER",
    "RFC822.TEXT",
];

#[tokio::test]
async fn no_literal_has_a_nul_and_sizes_stay() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = appended(&mut world).await;
    let raw = message();
    for rev2 in [false, true] {
        if rev2 {
            client = world.login().await;
            client.ok("ENABLE IMAP4rev2").await;
        }
        client.ok("EXAMINE INBOX").await;
        for item in ITEMS {
            let (head, bytes) = fetched(&mut client, item).await;
            assert!(head.ends_with(&format!(" {{{}}}", bytes.len())), "{head}");
            assert!(bytes.contains(&0x80) && !bytes.contains(&0), "{item}");
        }
        assert_eq!(fetched(&mut client, "BODY.PEEK[]").await.1, as_text(&raw));
        assert_eq!(fetched(&mut client, "BODY.PEEK[]<65530.20>").await.1, as_text(&raw[65_530..65_550]));
        let size = client.ok("UID FETCH 1 RFC822.SIZE").await;
        assert!(size[0].contains(&format!("RFC822.SIZE {}", raw.len())), "{size:?}");
        for item in ["ENVELOPE", "BODYSTRUCTURE", "PREVIEW"] {
            let lines = client.ok(&format!("UID FETCH 1 {item}")).await;
            assert!(!lines.concat().contains('\0'), "{lines:?}");
        }
    }
}

/// RFC 3516 §4.3: a literal8 may have it.
#[tokio::test]
async fn a_literal8_has_the_bytes_as_they_are() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = appended(&mut world).await;
    client.ok("EXAMINE INBOX").await;
    let raw = message();
    let (head, bytes) = fetched(&mut client, "BINARY.PEEK[]").await;
    assert!(head.ends_with(&format!(" ~{{{}}}", raw.len())) && bytes == raw, "{head}");
    let (head, bytes) = fetched(&mut client, "BINARY.PEEK[1]").await;
    assert!(head.ends_with(" ~{14}"), "{head}");
    assert_eq!(bytes, b"text \0\0 \x80 text");
}

#[tokio::test]
async fn a_client_that_enables_it_gets_nul_in_literals() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = appended(&mut world).await;
    assert_eq!(client.ok("ENABLE x-sealpost-nul").await[0], "* ENABLED X-SEALPOST-NUL");
    client.ok("EXAMINE INBOX").await;
    assert_eq!(fetched(&mut client, "BODY.PEEK[]").await.1, message());
    assert_eq!(fetched(&mut client, "RFC822.HEADER").await.1[..12], *b"Subject: a\0b");
    client.ok("UNAUTHENTICATE").await;
    client.send(b"x LOGIN me@localhost secret\r\n").await;
    client.answer().await;
    client.ok("EXAMINE INBOX").await;
    assert_eq!(fetched(&mut client, "BODY.PEEK[]").await.1, as_text(&message()), "it is another session's");
}

#[tokio::test]
async fn urlfetch_has_none_either() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = appended(&mut world).await;
    let rump = "imap://me@localhost/INBOX/;uid=1/;section=1;urlauth=user+me@localhost";
    let lines = client.ok(&format!("GENURLAUTH \"{rump}\" INTERNAL")).await;
    let url = lines[0].strip_prefix("* GENURLAUTH ").unwrap();
    client.send(format!("x URLFETCH {url}\r\n").as_bytes()).await;
    let response = client.response().await;
    assert_eq!(split(&response).1, b"text \x80\x80 \x80 text");
    client.answer().await;
}

/// Not over a compressed connection, nor by a NOTIFY that fetches.
#[tokio::test]
async fn unsolicited_responses_have_no_nul() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.login().await;
    client.compress().await;
    client.ok("SELECT INBOX").await;
    client.ok("NOTIFY SET (selected (MessageNew (BODY.PEEK[]) MessageExpunge))").await;
    world.deliver(None, b"Subject: a\0b\r\n\r\n\0\0\r\n").await;
    let mut seen = BytesMut::new();
    while !seen.windows(2).any(|window| window == b"\x80\x80") {
        let more = client.read_into(&mut seen, Duration::from_secs(20)).await;
        assert!(more.is_some_and(|more| more > 0), "{:?}", String::from_utf8_lossy(&seen));
    }
    assert!(!seen.contains(&0));
}
