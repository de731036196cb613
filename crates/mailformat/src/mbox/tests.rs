use std::io::Cursor;

use proptest::prelude::*;
use sealpost_base::Timestamp;

use super::*;
use crate::lines::LineEnds;
use crate::{Meta, Source};

fn read(file: &[u8], variant: Option<Variant>) -> Vec<(Meta, Vec<u8>)> {
    let options = Options { variant, ..Options::default() };
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

fn flags(meta: &Meta) -> &[String] {
    meta.flags.as_deref().unwrap()
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
    assert_eq!(flags(&messages[0].0), ["\\Answered", "\\Seen"]);
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
    assert_eq!(bodies(good.as_bytes(), None), [expected.clone(), expected.clone()]);
    // Each is checked separately: one without a length, at any place, does not affect the others.
    let without = "From a@b Thu Jan  1 00:00:10 1970\nC: d\n\n>From z\n\n";
    for at in 0..3 {
        let mut file = vec![message(body.len()), message(body.len())];
        file.insert(at, without.to_owned());
        let mut all = vec![expected.clone(), expected.clone()];
        all.insert(at, "C: d\r\n\r\nFrom z\r\n".to_owned());
        assert_eq!(bodies(file.concat().as_bytes(), None), all, "{at}");
    }
    // A wrong length: the next separator decides, and the field stays, since it does not describe
    // the file.
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
    assert_eq!(bodies(b"\xef\xbb\xbfFrom a Thu Jan  1 00:00:10 1970\nA: b\n", None), ["A: b\r\n"]);
    let pine = b"From MAILER-DAEMON Thu Jan  1 00:00:10 1970\nSubject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\nX-IMAP: 1 2\n\nx\n";
    assert!(read(pine, None)[0].0.internal);
    let strangers = [b"From a Thu Jan  1 00:00:10 1970\nA: b\n\nx\n\n", &pine[..]].concat();
    assert!(!read(&strangers, None)[1].0.internal, "only the first one is the mail program's");
}

/// Programs keep no notes in the middle of a header: the message keeps such a field, and gets no
/// flags from it.
#[test]
fn a_status_field_amid_a_header_is_ignored() {
    for own in [
        "X-Status: D\n",
        "Status: RO\nX-Status: AFDT\n",
        "X-Keywords: $Junk\nX-UID: 9\n",
        "x-status : D\n",
        "X-Mozilla-Status: 0009\n",
        "X-IMAPbase: 1 2\n",
        "X-IMAP: 1 2\nX-Not-Subject: x\nSubject: FOLDER INTERNAL DATA\n",
    ] {
        for (notes, flags) in [("", None), ("Status: RO\n", Some(vec!["\\Seen".to_owned()]))] {
            let message = format!("Received: x\n{own}A: b\n");
            let file = format!("From a Thu Jan  1 00:00:10 1970\n{message}{notes}\nx\n");
            let (meta, bytes) = read(file.as_bytes(), None).remove(0);
            assert_eq!((meta.flags, meta.internal), (flags, false), "{own} {notes}");
            assert_eq!(bodies(file.as_bytes(), None), [format!("{message}\nx\n").replace('\n', "\r\n")]);
            assert_eq!(bytes, bodies(file.as_bytes(), None)[0].as_bytes());
        }
    }
}

/// A message that is imported as deleted is lost at the next EXPUNGE: only Sealpost's own export is
/// trusted with it.
#[test]
fn only_sealpost_exports_mark_messages_deleted() {
    let meta = |header: &str| {
        let file = format!("From a Thu Jan  1 00:00:10 1970\n{header}\nx\n");
        read(file.as_bytes(), None).remove(0).0.flags.unwrap()
    };
    for (header, flags) in [
        ("A: b\nX-Status: D\n", &[][..]),
        ("A: b\nX-Status: FD\n", &["\\Flagged"]),
        ("A: b\nStatus: ROD\nX-Status: AD\nContent-Length: 2\nLines: 1\n", &["\\Answered", "\\Seen"]),
        ("X-Mozilla-Status: 0009\nA: b\n", &["\\Seen"]),
        ("X-Status: D\nA: b\n", &[]),
        ("Status: D\nX-Status: D\nA: b\n", &[]),
        ("Status: O\nX-Status: D\nA: b\n", &["\\Deleted"]),
        ("Status: RO\nX-Status: FD\nX-Keywords: x\n", &["\\Deleted", "\\Flagged", "\\Seen", "x"]),
        ("Status: O\nA: b\nX-Status: D\n", &[]),
        ("X-Keywords: x\nA: b\nStatus: RO\n", &["\\Seen", "x"]),
    ] {
        assert_eq!(meta(header), flags, "{header}");
    }
    let mut writer = MboxWriter::new(Vec::new(), LineEnds::Lf);
    let flags = ["\\Deleted".to_owned()];
    writer.begin(&Envelope { sender: "", received: Timestamp(0), flags: &flags }).unwrap();
    writer.write(b"A: b\r\nX-Status: F\r\n\r\nx\r\n").unwrap();
    writer.end().unwrap();
    let found = read(&writer.finish().unwrap(), None);
    assert_eq!(self::flags(&found[0].0), flags);
}

/// Files of other programs, with fields from the sender in the same message.
#[test]
fn flags_are_those_of_the_program_that_wrote_the_file() {
    for (what, header, flags, stays) in [
        (
            "mutt",
            "Status: RO\nX-Status: D\nA: b\nStatus: O\nX-Status: F\n",
            &["\\Flagged"][..],
            "Status: RO\nX-Status: D\nA: b\n",
        ),
        (
            "dovecot",
            "A: b\nX-UID: 7\nStatus: RO\nX-Keywords: work $Junk\n",
            &["$Junk", "\\Seen", "work"],
            "A: b\n",
        ),
        (
            "dovecot, a stranger's",
            "A: b\nX-Mozilla-Status: 0009\nStatus: O\n",
            &[],
            "A: b\nX-Mozilla-Status: 0009\n",
        ),
        (
            "thunderbird",
            "X-Account-Key: account1\nX-UIDL: 1\nX-Mozilla-Status: 0005\nX-Mozilla-Status2: 00000000\nX-Mozilla-Keys: work\nA: b\nX-Status: D\nX-Mozilla-Keys: evil\n",
            &["\\Flagged", "\\Seen", "work"],
            "X-Account-Key: account1\nX-UIDL: 1\nA: b\nX-Status: D\nX-Mozilla-Keys: evil\n",
        ),
        (
            "takeout",
            "X-GM-THRID: 1\nX-Gmail-Labels: Opened,Starred\nX-Status: D\nX-Gmail-Labels: Trash\n",
            &["\\Flagged", "\\Seen"],
            "X-GM-THRID: 1\nX-Gmail-Labels: Opened,Starred\nX-Status: D\nX-Gmail-Labels: Trash\n",
        ),
        (
            "takeout, not",
            "A: b\nX-Gmail-Labels: Trash\nStatus: R\n",
            &["\\Seen"],
            "A: b\nX-Gmail-Labels: Trash\n",
        ),
    ] {
        let file = format!("From a Thu Jan  1 00:00:10 1970\n{header}\nx\n");
        let found = read(file.as_bytes(), None);
        assert_eq!(self::flags(&found[0].0), flags, "{what}");
        assert_eq!(
            String::from_utf8_lossy(&found[0].1),
            format!("{stays}\nx\n").replace('\n', "\r\n"),
            "{what}"
        );
    }
    let delivered = read(b"From a Thu Jan  1 00:00:10 1970\nA: b\nX-UID: 7\n\nx\n", None);
    assert_eq!(
        (delivered[0].0.flags.as_ref(), delivered[0].0.labels.as_ref()),
        (None, None),
        "nothing is said"
    );
    let takeout = b"From a Thu Jan  1 00:00:10 1970\nX-Gmail-Labels: Opened\n\nx\n";
    let ignored = Options { ignore_labels: true, ..Options::default() };
    let mut reader = MboxReader::new(Cursor::new(takeout), "test", ignored).unwrap();
    let meta = reader.next_message().unwrap().unwrap();
    assert_eq!((meta.flags, meta.labels), (None, None));
}

#[test]
fn a_quoted_line_in_a_body_splits_no_message() {
    let from = "From a@example.org Mon Jan  1 10:00:00 2024\n";
    for (line, splits) in [
        (format!("{from}said that\n"), false),
        (format!("{from}http://example.org/\n"), false),
        (format!("{from}Subject: x\n"), true),
        (format!("{from}\nx\n"), true),
        ("From a@example.org\nSubject: x\n".to_owned(), true),
        ("From here on:\nall is well\n".to_owned(), false),
        ("From here on\nNote: all is well\n".to_owned(), false),
    ] {
        let file = format!("{from}A: b\n\nfirst\n\n{line}");
        assert_eq!(read(file.as_bytes(), None).len(), if splits { 2 } else { 1 }, "{line}");
    }
}

/// A message that begins with a continuation line keeps its flags, and they do not merge with it.
#[test]
fn a_message_beginning_with_a_blank_keeps_flags_and_bytes() {
    for message in [" folded\r\nA: b\r\n\r\nx\r\n", "\tx\r\n", "\r\nx\r\n", "no header\r\n"] {
        for line_ends in [LineEnds::Lf, LineEnds::Exact] {
            let mut writer = MboxWriter::new(Vec::new(), line_ends);
            let flags = ["$Junk".to_owned(), "\\Seen".to_owned()];
            for _ in 0..2 {
                writer.begin(&Envelope { sender: "", received: Timestamp(0), flags: &flags }).unwrap();
                writer.write(message.as_bytes()).unwrap();
                writer.end().unwrap();
            }
            let found = read(&writer.finish().unwrap(), None);
            let found: Vec<_> = found
                .iter()
                .map(|(meta, bytes)| (self::flags(meta), std::str::from_utf8(bytes).unwrap()))
                .collect();
            assert_eq!(found, [(&flags[..], message); 2]);
        }
    }
}

/// Whatever a message ends in, and whatever follows it.
#[test]
fn an_exact_export_gives_the_same_bytes_back() {
    let endings = [
        "", "\r\n", "\n", "\r", "\r\n\n", "\n\r", "\r\n\r\n", "\r\n\r", "\n\n", "\r\r\n", "\r\r", "F",
        "\nFrom ",
    ];
    let begins = ["", "A: b", "A: b\r\n\r\nx", "A: b\n\nx", "\r\n", " x", "Status: RO", "X-Sealpost-Own-"];
    let messages: Vec<String> =
        begins.iter().flat_map(|begin| endings.map(|end| format!("{begin}{end}"))).collect();
    for size in [1, 2, 1000] {
        let mut writer = MboxWriter::new(Vec::new(), LineEnds::Exact);
        for message in &messages {
            writer.begin(&Envelope { sender: "", received: Timestamp(0), flags: &[] }).unwrap();
            pieces(message, size).for_each(|piece| writer.write(piece).unwrap());
            writer.end().unwrap();
        }
        let file = writer.finish().unwrap();
        assert_eq!(bodies(&file, None), messages);
    }
    // Another program has changed all line ends of an export to CRLF: then they show nothing.
    let file = b"From a Thu Jan  1 00:00:10 1970\r\nStatus: O\r\nA: b\r\n\r\nx\r\n\r\n";
    assert_eq!(bodies(file, None), ["A: b\r\n\r\nx\r\n"]);
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
        Just("Status: RO\r\n"),
        Just("X-Status: D\r\n"),
        Just("x-mozilla-status: 0009\r\n"),
        Just("Content-Length: 2\r\n"),
        Just("X-Sealpost-Own-"),
        Just("X-Gmail-Labels: Trash\r\n"),
        Just("X-IMAP: 1 2\r\nSubject: FOLDER INTERNAL DATA\r\n"),
        Just("\r"),
    ];
    // A bare LF is one only in exact files, and so not here; a CR may stand anywhere, if no LF
    // follows by chance.
    let text = proptest::collection::vec(token, 0..20).prop_map(|tokens| tokens.concat() + "\r\n");
    text.prop_map(|text| text.replace("\r\r\n", "\r\n"))
}

fn pieces(message: &str, size: usize) -> impl Iterator<Item = &[u8]> {
    message.as_bytes().chunks(size)
}

proptest! {
    #[test]
    fn written_messages_are_read_back(messages in proptest::collection::vec((text(), 0i64..4_000_000_000, 0usize..4), 0..4),
                               size in 1usize..9, exact in any::<bool>()) {
        let line_ends = if exact { LineEnds::Exact } else { LineEnds::Lf };
        let sets = [vec![], vec!["\\Seen".to_owned()], vec!["$Junk".to_owned(), "\\Draft".to_owned()], vec!["\\Flagged".to_owned()]];
        let mut writer = MboxWriter::new(Vec::new(), line_ends);
        for (message, seconds, flags) in &messages {
            let flags = sets[*flags].as_slice();
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
            prop_assert_eq!(meta.flags.as_ref(), Some(&sets[*flags]));
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
