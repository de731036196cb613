use std::io::Cursor;

use proptest::prelude::*;
use sealpost_base::Timestamp;

use super::*;
use crate::lines::LineEnds;
use crate::{Meta, Source};

fn read(file: &[u8], variant: Option<Variant>) -> Vec<(Meta, Vec<u8>)> {
    let options = Options { variant, keep_status: false };
    let mut reader = MboxReader::new(Cursor::new(file), "test", options).unwrap();
    let mut messages = Vec::new();
    while let Some(meta) = reader.next_message().unwrap() {
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            assert!(!chunk.is_empty());
            bytes.extend_from_slice(chunk);
        }
        messages.push((meta, bytes));
    }
    messages
}

fn bodies(file: &[u8], variant: Option<Variant>) -> Vec<String> {
    read(file, variant).into_iter().map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect()
}

#[test]
fn mboxrd_mboxo_and_lf() {
    let file = b"From a@b Thu Jan  1 00:00:10 1970\nSubject: x\nStatus: RO\nX-Status: A\n\n>From me\n>>From you\n\nFrom here on\n\n\
                 From MAILER-DAEMON Thu Jan  1 00:00:20 1970\nA: b\n\nlast\n\n";
    let messages = read(file, Some(Variant::Rd));
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].0.received, Some(Timestamp(10_000)));
    assert_eq!(messages[0].0.sender.as_deref(), Some("a@b"));
    assert_eq!(messages[0].0.flags, ["\\Answered", "\\Seen"]);
    assert_eq!(messages[0].1, b"Subject: x\r\n\r\nFrom me\r\n>From you\r\n\r\nFrom here on\r\n");
    assert_eq!(messages[1].0.sender, None);
    assert_eq!(messages[1].1, b"A: b\r\n\r\nlast\r\n");
    let as_o = bodies(file, Some(Variant::O));
    assert!(as_o[0].contains("\r\nFrom me\r\n>>From you\r\n"));
    assert_eq!(bodies(file, None), bodies(file, Some(Variant::Rd)));
}

#[test]
fn crlf_files_are_taken_exactly() {
    let file = b"From a Thu Jan  1 00:00:10 1970\r\nA: b\r\n\r\nbare\nlf\r\n\r\nFrom a Thu Jan  1 00:00:10 1970\r\nC: d\r\n";
    assert_eq!(bodies(file, None), ["A: b\r\n\r\nbare\nlf\r\n", "C: d\r\n"]);
}

#[test]
fn lengths_are_believed_only_if_they_hold() {
    let body = "one\n\nFrom a@b Thu Jan  1 00:00:10 1970\nX: y\n>From z\n";
    let message = |length: usize| {
        format!("From a@b Thu Jan  1 00:00:10 1970\nContent-Length: {length}\nA: b\n\n{body}\n")
    };
    let good = message(body.len()).repeat(2);
    let expected = format!("A: b\n\n{body}").replace('\n', "\r\n");
    assert_eq!(bodies(good.as_bytes(), None), [expected.clone(), expected]);
    assert_eq!(
        MboxReader::new(Cursor::new(good.as_bytes()), "x", Options::default()).unwrap().variant(),
        Variant::Cl2
    );
    // A wrong length: the next separator decides, and the field stays, since it says nothing about the file.
    for length in [0, 1, body.len() - 1, body.len() + 7, usize::MAX] {
        let found = bodies(message(length).as_bytes(), Some(Variant::Cl2));
        assert_eq!(found.len(), 2, "{length}");
        assert!(found[0].starts_with("Content-Length"), "{found:?}");
    }
    let quoted = "From a Thu Jan  1 00:00:10 1970\nContent-Length: 9\n\n>From me\n\n".repeat(2);
    assert_eq!(bodies(quoted.as_bytes(), None), ["\r\nFrom me\r\n"; 2]);
}

#[test]
fn odd_files() {
    assert!(read(b"", None).is_empty());
    assert!(read(b"\n\r\n\n", None).is_empty());
    assert!(MboxReader::new(Cursor::new(b"hello\n"), "x", Options::default()).is_err());
    assert_eq!(bodies(b"From a Thu Jan  1 00:00:10 1970\n", None), [""]);
    assert_eq!(bodies(b"From a Thu Jan  1 00:00:10 1970\n\n", None), [""]);
    assert_eq!(bodies(b"From a Thu Jan  1 00:00:10 1970", None), [""]);
    let pine = b"From MAILER-DAEMON Thu Jan  1 00:00:10 1970\nSubject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\nX-IMAP: 1 2\n\nx\n";
    assert!(read(pine, None)[0].0.internal);
}

#[test]
fn endless_lines_and_headers_pass_through() {
    for (filler, variant) in
        [(b'x', Variant::Rd), (b'>', Variant::Rd), (b'>', Variant::O), (b'\n', Variant::Rd)]
    {
        let mut message = b"A: b\n\n".to_vec();
        message.resize(message.len() + 1_000_000, filler);
        message.extend_from_slice(b"\nend\n");
        let mut file = b"From a Thu Jan  1 00:00:10 1970\n".to_vec();
        file.extend_from_slice(&message);
        let found = read(&file, Some(variant));
        assert_eq!(found.len(), 1);
        // Only a last empty line belongs to the file; this message has none.
        let text: Vec<u8> = found[0].1.iter().copied().filter(|b| *b != b'\r').collect();
        assert!(text == message, "{} {}", text.len(), message.len());
    }
    let header = format!("From a Thu Jan  1 00:00:10 1970\n{}\n\nbody\n", "X: y\n".repeat(50_000).trim_end());
    let found = bodies(header.as_bytes(), None);
    assert_eq!(found[0].len(), 50_000 * 6 + 2 + 6);
}

fn text() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("From "),
        Just(">"),
        Just("\r\n"),
        Just("\r\n\r\n"),
        Just("F"),
        Just("a: b"),
        Just("x"),
        Just(" "),
        Just("From a@b Thu Jan  1 00:00:10 1970\r\n"),
    ];
    proptest::collection::vec(token, 0..20).prop_map(|tokens| tokens.concat() + "\r\n")
}

fn pieces(message: &str, size: usize) -> impl Iterator<Item = &[u8]> {
    message.as_bytes().chunks(size)
}

proptest! {
    #[test]
    fn what_is_written_is_read(messages in proptest::collection::vec((text(), 0i64..4_000_000_000, 0usize..4), 0..4),
                               size in 1usize..9, exact in any::<bool>(), flagged in any::<bool>()) {
        let line_ends = if exact { LineEnds::Exact } else { LineEnds::Lf };
        let sets = [vec![], vec!["\\Seen".to_owned()], vec!["$Junk".to_owned(), "\\Draft".to_owned()], vec!["\\Flagged".to_owned()]];
        let mut writer = MboxWriter::new(Vec::new(), line_ends);
        for (message, seconds, flags) in &messages {
            let flags = flagged.then_some(sets[*flags].as_slice());
            writer.begin(&Envelope { sender: "a@b.c", received: Timestamp::from_seconds(*seconds), flags }).unwrap();
            pieces(message, size).for_each(|piece| writer.write(piece).unwrap());
            writer.end().unwrap();
        }
        let file = writer.finish().unwrap();
        let found = read(&file, Some(Variant::Rd));
        prop_assert_eq!(found.len(), messages.len());
        for ((meta, bytes), (message, seconds, flags)) in found.iter().zip(&messages) {
            prop_assert_eq!(String::from_utf8_lossy(bytes), message.as_str());
            prop_assert_eq!(meta.received, Some(Timestamp::from_seconds(*seconds)));
            if flagged && !message.starts_with(' ') {
                prop_assert_eq!(&meta.flags, &sets[*flags]);
            }
        }
        prop_assert_eq!(read(&file, None), found, "auto-detection agrees");
    }

    #[test]
    fn any_bytes_are_read_to_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..300), variant in 0usize..5) {
        let variant = [None, Some(Variant::O), Some(Variant::Rd), Some(Variant::Cl), Some(Variant::Cl2)][variant];
        let mut file = b"From a Thu Jan  1 00:00:10 1970\nContent-Length: 20\n\n".to_vec();
        file.extend_from_slice(&bytes);
        prop_assert!(!read(&file, variant).is_empty());
    }

    #[test]
    fn hostile_text_is_read_to_the_end(text in text(), variant in 0usize..5) {
        let variant = [None, Some(Variant::O), Some(Variant::Rd), Some(Variant::Cl), Some(Variant::Cl2)][variant];
        let file = format!("From a Thu Jan  1 00:00:10 1970\nContent-Length: 20\n\n{text}");
        prop_assert!(!read(file.as_bytes(), variant).is_empty());
    }
}
