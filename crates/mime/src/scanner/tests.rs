use proptest::prelude::*;
use sealpost_base::limits;

use crate::decode::TransferDecoder;
use crate::encode::base64_text;
use crate::envelope::{Address, Envelope};
use crate::structure::{Part, PartKind, Structure};
use crate::text::{CappedText, NoText, Text};
use crate::{Disposition, Parameter, Scanner};

fn scan(message: &[u8]) -> (Structure, Text) {
    scan_pieces(&[message])
}

fn scan_pieces(pieces: &[&[u8]]) -> (Structure, Text) {
    let mut scanner = Scanner::new();
    pieces.iter().for_each(|piece| scanner.push(piece));
    let (structure, sink) = scanner.finish();
    (structure, sink.into_text())
}

/// The tree in short: `mixed(text/plain, rfc822[text/html])`.
fn shape(part: &Part) -> String {
    match &part.kind {
        PartKind::Leaf => format!("{}/{}", part.media_type, part.subtype),
        PartKind::Multipart(parts) => {
            format!("{}({})", part.subtype, parts.iter().map(shape).collect::<Vec<_>>().join(", "))
        }
        PartKind::Message(_, inside) => format!("{}[{}]", part.subtype, shape(inside)),
    }
}

fn slice<'a>(message: &'a [u8], range: &std::ops::Range<u64>) -> &'a str {
    std::str::from_utf8(&message[range.start as usize..range.end as usize]).unwrap()
}

/// The invariants of every structure, for any message.
fn check(message: &[u8], structure: &Structure) {
    assert_eq!(structure.size, message.len() as u64);
    assert_eq!(structure.lines, lines(message, &(0..structure.size)));
    assert_eq!((structure.root.header.start, structure.root.body.end), (0, structure.size));
    assert_eq!(structure.root.header.end, crate::header::end(message) as u64);
    assert_eq!(structure.root.body.start, structure.root.header.end);
    check_part(message, &structure.root);
    assert_eq!(&Structure::decode(&structure.encode()).unwrap(), structure);
}

/// The ranges of the part are ranges of `bytes`.
fn check_part(bytes: &[u8], part: &Part) {
    assert!(part.header.start <= part.header.end && part.header.end <= part.body.start);
    assert!(part.body.start <= part.body.end && part.body.end <= bytes.len() as u64);
    assert_eq!(part.lines, lines(bytes, &part.body), "{part:?}");
    let inside: Vec<&Part> = match &part.kind {
        PartKind::Leaf => {
            assert!(part.media_type != "multipart" && !part.is("message", "rfc822"));
            vec![]
        }
        PartKind::Multipart(parts) => parts.iter().collect(),
        PartKind::Message(_, inside) => vec![inside],
    };
    assert_eq!(inside.is_empty(), part.kind == PartKind::Leaf);
    if part.layer().is_some() {
        let decoded = decoded(part, bytes);
        assert_eq!((inside[0].header.start, inside[0].body.end), (0, decoded.len() as u64));
        return check_part(&decoded, inside[0]);
    }
    let mut last = part.body.start;
    for child in inside {
        assert!(child.header.start >= last && child.body.end <= part.body.end, "parts are in order");
        last = child.header.start;
        check_part(bytes, child);
    }
}

fn lines(bytes: &[u8], range: &std::ops::Range<u64>) -> u64 {
    bytes[range.start as usize..range.end as usize].iter().filter(|b| **b == b'\n').count() as u64
}

fn decoded(part: &Part, bytes: &[u8]) -> Vec<u8> {
    let mut decoder = TransferDecoder::new(part.transfer_encoding());
    let mut out = Vec::new();
    decoder.push(&bytes[part.body.start as usize..part.body.end as usize], &mut out);
    decoder.finish(&mut out);
    out
}

/// RFC 2046 §5.1.1, the example of a multipart with implicit and explicit types.
const RFC_2046: &str = "From: Nathaniel Borenstein <nsb@bellcore.com>\r\n\
To: Ned Freed <ned@innosoft.com>\r\n\
Date: Sun, 21 Mar 1993 23:56:48 -0800 (PST)\r\n\
Subject: Sample message\r\n\
MIME-Version: 1.0\r\n\
Content-type: multipart/mixed; boundary=\"simple boundary\"\r\n\
\r\n\
This is the preamble.  It is to be ignored, though it\r\n\
is a handy place for composition agents to include an\r\n\
explanatory note to non-MIME conformant readers.\r\n\
\r\n\
--simple boundary\r\n\
\r\n\
This is implicitly typed plain US-ASCII text.\r\n\
It does NOT end with a linebreak.\r\n\
--simple boundary\r\n\
Content-type: text/plain; charset=us-ascii\r\n\
\r\n\
This is explicitly typed plain US-ASCII text.\r\n\
It DOES end with a linebreak.\r\n\
\r\n\
--simple boundary--\r\n\
\r\n\
This is the epilogue.  It is also to be ignored.\r\n";

#[test]
fn rfc_2046_example() {
    let message = RFC_2046.as_bytes();
    let (structure, text) = scan(message);
    check(message, &structure);
    assert_eq!(shape(&structure.root), "mixed(text/plain, text/plain)");
    let first = structure.part(&[1]).unwrap();
    assert_eq!(slice(message, &first.header), "\r\n");
    assert_eq!(
        slice(message, &first.body),
        "This is implicitly typed plain US-ASCII text.\r\nIt does NOT end with a linebreak."
    );
    assert_eq!((first.lines, first.encoding.as_str()), (1, "7bit"));
    assert_eq!(first.params, [Parameter::new("charset", "us-ascii")]);
    let second = structure.part(&[2]).unwrap();
    assert!(slice(message, &second.body).ends_with("linebreak.\r\n"));
    assert_eq!(second.lines, 2);
    assert_eq!(structure.part(&[3]), None);
    assert_eq!(structure.part(&[0]), None);
    assert_eq!(structure.part(&[1, 1]), None);
    assert_eq!(structure.envelope.sent_date, Some(732_787_008));
    assert_eq!(structure.envelope.sent_zone, -480);
    assert!(text.headers.starts_with("from: nathaniel borenstein <nsb@bellcore.com>\nto: ned freed"));
    assert!(!text.body.contains("ignored"));
    assert!(text.body.starts_with(
        "this is implicitly typed plain us-ascii text. it does not end with a linebreak.\nthis"
    ));
    assert!(
        structure.preview.unwrap().starts_with("This is implicitly typed plain US-ASCII text. It does NOT")
    );
}

#[test]
fn part_numbers_of_rfc_3501() {
    // The message of RFC 3501 §6.4.5, with its numbers.
    let message = "Content-Type: multipart/mixed; boundary=A\n\n--A\n\nTEXT 1\n--A\nContent-Type: application/octet-stream\n\n2\n\
--A\nContent-Type: message/rfc822\n\nSubject: three\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\n3.1\n--B\n\
Content-Type: application/octet-stream\n\n3.2\n--B--\n\
--A\nContent-Type: multipart/mixed; boundary=C\n\n--C\nContent-Type: image/gif\n\n4.1\n--C\nContent-Type: message/rfc822\n\n\
Subject: four two\nContent-Type: multipart/mixed; boundary=D\n\n--D\n\n4.2.1\n--D\nContent-Type: multipart/alternative; boundary=E\n\n\
--E\n\n4.2.2.1\n--E\nContent-Type: text/richtext\n\n4.2.2.2\n--E--\n--D--\n--C--\n--A--\n"
        .as_bytes();
    let (structure, _) = scan(message);
    check(message, &structure);
    assert_eq!(
        shape(&structure.root),
        "mixed(text/plain, application/octet-stream, rfc822[mixed(text/plain, application/octet-stream)], \
         mixed(image/gif, rfc822[mixed(text/plain, alternative(text/plain, text/richtext))]))"
    );
    for (path, body) in [
        (&[1][..], "TEXT 1"),
        (&[2], "2"),
        (&[3, 1], "3.1"),
        (&[3, 2], "3.2"),
        (&[4, 1], "4.1"),
        (&[4, 2, 1], "4.2.1"),
        (&[4, 2, 2, 1], "4.2.2.1"),
        (&[4, 2, 2, 2], "4.2.2.2"),
    ] {
        assert_eq!(slice(message, &structure.part(path).unwrap().body), body, "{path:?}");
    }
    let (envelope, nested) = structure.part(&[3]).unwrap().message().unwrap();
    assert_eq!(envelope.subject.as_deref(), Some("three"));
    assert!(slice(message, &nested.header).starts_with("Subject: three\n"));
    assert!(slice(message, &nested.body).starts_with("--B\n"));
    let (envelope, _) = structure.part(&[4, 2]).unwrap().message().unwrap();
    assert_eq!(envelope.subject.as_deref(), Some("four two"));
}

#[test]
fn single_part_messages_are_their_own_part_one() {
    let message = b"Subject: x\r\n\r\nbody\r\n";
    let (structure, _) = scan(message);
    assert_eq!(structure.part(&[1]), Some(&structure.root));
    assert_eq!(structure.part(&[1, 1]), None);
    let nested = b"Content-Type: message/rfc822\n\nSubject: in\n\ntext\n";
    let (structure, text) = scan(nested);
    check(nested, &structure);
    assert_eq!(shape(&structure.root), "rfc822[text/plain]");
    assert_eq!(slice(nested, &structure.part(&[1]).unwrap().body), "Subject: in\n\ntext\n");
    assert_eq!(slice(nested, &structure.part(&[1, 1]).unwrap().body), "text\n");
    assert_eq!(structure.part(&[1, 1, 1]), None);
    assert_eq!(text.body, "subject: in\ntext \n");
}

#[test]
fn extension_data() {
    let message = b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: Image/PNG; Name=\"a b.png\"\n\
Content-ID: <id@x>\nContent-Description: A\n picture\nContent-Transfer-Encoding: BASE64\nContent-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==\n\
Content-Disposition: Inline; FileName*=utf-8''%e2%82%ac.png; size=4\nContent-Language: en, de (German)\n\
Content-Location: http://x/\n y\nContent-Type: text/plain\n\niVBO\n--b--";
    let (structure, _) = scan(message);
    check(message, &structure);
    let part = structure.part(&[1]).unwrap();
    assert!(part.is("image", "png"));
    assert_eq!(part.params, [Parameter::new("name", "a b.png")]);
    assert_eq!(part.content_id.as_deref(), Some("<id@x>"));
    assert_eq!(part.description.as_deref(), Some("A picture"));
    assert_eq!(part.encoding, "base64");
    assert_eq!(part.md5.as_deref(), Some("Q2hlY2sgSW50ZWdyaXR5IQ=="));
    let params = vec![Parameter::new("filename*", "utf-8''%e2%82%ac.png"), Parameter::new("size", "4")];
    assert_eq!(part.disposition, Some(Disposition { kind: "inline".into(), params }));
    assert_eq!(part.filename().as_deref(), Some("€.png"));
    assert_eq!(part.language, ["en", "de"]);
    assert_eq!(part.location.as_deref(), Some("http://x/y"));
}

#[test]
fn envelope_values() {
    let message = b"Subject: =?utf-8?q?caf=C3=A9?=\r\n  folded\r\nFrom: A <a@x>\r\nReply-To:\r\nTo: b@x\r\nTo: c@x\r\nCC: g: d@x;\r\n\
Message-ID: <m@x>\r\nIn-Reply-To: <r@x>\r\nReferences: <q@x>\r\n <r@x>\r\nSubject: second\r\nReceived: a\r\nReceived: b\r\n\r\n";
    let (structure, text) = scan(message);
    let e = &structure.envelope;
    assert_eq!(e.subject.as_deref(), Some("=?utf-8?q?caf=C3=A9?=  folded"));
    assert_eq!((e.sender.clone(), e.reply_to.clone()), (e.from.clone(), e.from.clone()));
    assert_eq!(e.to.len(), 2);
    assert_eq!(e.cc.len(), 3);
    assert_eq!((e.message_id.as_deref(), e.in_reply_to.as_deref()), (Some("<m@x>"), Some("<r@x>")));
    assert_eq!(e.references.as_deref(), Some("<q@x> <r@x>"));
    assert_eq!((e.date.as_deref(), e.sent_day()), (None, None));
    assert_eq!(structure.received_fields, 2);
    assert!(text.headers.starts_with("subject: cafe\u{301} folded\n"));
    let (structure, _) = scan(b"Date: Thu, 1 Jan 1970 23:30:00 -0100\n\n");
    assert_eq!((structure.envelope.sent_date, structure.envelope.sent_day()), (Some(88_200), Some(0)));
}

#[test]
fn broken_messages_have_a_defined_shape() {
    for (message, expect) in [
        ("", "text/plain"),
        ("\r\n", "text/plain"),
        ("Subject: header only", "text/plain"),
        ("Subject: header only\r\n", "text/plain"),
        ("no header at all\nreally\n", "text/plain"),
        ("Content-Type: nonsense\n\nx", "text/plain"),
        // No boundary parameter, and one that is too long.
        ("Content-Type: multipart/mixed\n\n--b\n\nx\n--b--\n", "text/plain"),
        ("Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nx\n----\n", "text/plain"),
        // Never opened, never closed, closed by the part around it.
        ("Content-Type: multipart/mixed; boundary=b\n\nx\n", "mixed(text/plain)"),
        ("Content-Type: multipart/mixed; boundary=b\n\n--b--\n", "mixed(text/plain)"),
        ("Content-Type: multipart/mixed; boundary=b", "mixed(text/plain)"),
        ("Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n", "mixed(text/plain)"),
        ("Content-Type: multipart/mixed; boundary=b\n\n--b", "mixed(text/plain)"),
        ("Content-Type: multipart/mixed; boundary=b\n\n--b\n--b\n--b--", "mixed(text/plain, text/plain)"),
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/alternative; boundary=c\n\n--c\n\nx\n--b\n\ny\n--b--\n--c\n\nz",
            "mixed(alternative(text/plain), text/plain)",
        ),
        // A header cut short by a boundary or the end, of a part that should hold a message or
        // parts.
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n--b--\n",
            "mixed(rfc822[text/plain])",
        ),
        ("Content-Type: message/rfc822", "rfc822[text/plain]"),
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\nSubject: x\n--b\n\nz\n--b--\n",
            "mixed(rfc822[text/plain], text/plain)",
        ),
        // RFC 2046 §5.1.5.
        (
            "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: x\n\ny\n--b\nContent-Type: text/plain\n\nz\n--b--\n",
            "digest(rfc822[text/plain], text/plain)",
        ),
        // Messages in a known encoding are decoded; a multipart is never encoded, whatever its
        // label.
        (
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogeA==\n",
            "rfc822[text/plain]",
        ),
        ("Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n", "rfc822[text/plain]"),
        (
            "Content-Type: message/global\nContent-Transfer-Encoding: quoted-printable\n\nContent-Type: text/html=0A=0Ax",
            "global[text/html]",
        ),
        (
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: x-uuencode\n\nSubject: x\n",
            "application/octet-stream",
        ),
        ("Content-Type: message/global\n\nSubject: x\n\ny", "global[text/plain]"),
        (
            "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n--b\n\nx\n--b--\n",
            "mixed(text/plain)",
        ),
        // Boundaries: white space after them, more after them (RFC 2046 §5.1.1), one being the
        // start of another.
        (
            "Content-Type: multipart/mixed; boundary=\"b \"\n\n--b \t\n\nx\n--b junk\n\ny\n--bother\n\nz\n--b-- \n--b\n\nno\n",
            "mixed(text/plain, text/plain, text/plain)",
        ),
        (
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=bb\n\n--bb\n\nx\n--bb--\n--b--\n",
            "mixed(mixed(text/plain))",
        ),
    ] {
        let (structure, _) = scan(message.as_bytes());
        check(message.as_bytes(), &structure);
        assert_eq!(shape(&structure.root), expect, "{message}");
    }
}

#[test]
fn text_is_decoded() {
    let body = |header: &str, body: &[u8]| {
        let message = [header.as_bytes(), b"\r\n\r\n", body].concat();
        let (structure, text) = scan(&message);
        (text.body.trim_end().to_owned(), structure.preview.unwrap())
    };
    let both = |s: &str| (s.to_owned(), s.to_owned());
    assert_eq!(body("Content-Transfer-Encoding: quoted-printable", b"gr=C3=BC=\r\nn").1, "grün");
    assert_eq!(body("Content-Type: text/plain; charset=iso-8859-1", b"gr\xfcn").1, "grün");
    assert_eq!(body("Content-Type: text/plain; charset=iso-2022-jp", b"\x1b$B$3$s\x1b(B"), both("こん"));
    assert_eq!(
        body(
            "Content-Type: text/plain; charset=gb18030\r\nContent-Transfer-Encoding: base64",
            b"xOO6\r\nww=="
        ),
        both("你好")
    );
    assert_eq!(
        body("Content-Type: text/html; charset=utf-8", b"<p>One &amp; <i>two</i></p><script>no</script>").1,
        "One & two"
    );
    assert_eq!(body("Content-Type: text/plain", b"a \0 b\r\n\tc").1, "a b c");
    assert_eq!(body("Content-Type: image/png", b"text?"), (String::new(), String::new()));
    assert_eq!(
        body("Content-Type: text/plain; charset=x-klingon", "grün \u{fffd}".as_bytes()).1,
        "grün \u{fffd}"
    );
    assert_eq!(
        body("Content-Type: text/plain\r\nContent-Disposition: attachment", b"x"),
        ("x".into(), String::new())
    );
}

#[test]
fn text_is_searched_as_it_is_read() {
    let body = |header: &str, body: &str| {
        let (structure, text) = scan(format!("{header}\r\n\r\n{body}").as_bytes());
        (text.body, structure.preview.unwrap())
    };
    let flowed = "Content-Type: text/plain; charset=utf-8; format=Flowed";
    assert_eq!(body(flowed, "> the quick \r\n> brown\r\n fox").0, "the quick brown fox\n");
    let delsp = format!("{flowed}; DelSp=yes");
    assert_eq!(body(&delsp, "Donaudampf \r\nschiff").1, "Donaudampfschiff");
    assert_eq!(body("Content-Type: text/plain", "Donaudampf \r\nschiff\r\n").0, "donaudampf schiff \n");
    let html = "Content-Type: text/html; charset=utf-8";
    let (text, preview) = body(
        html,
        "<title>News</title><p>click <a href='https://a.example/X'>here</a><br>now</p><p>or Donau&shy;dampf</p>",
    );
    assert_eq!(text, "click here now or donaudampf\nnews\nhttps://a.example/x\n");
    assert!(preview.starts_with("click here now or"));
    // A cap that is reached between text and link is reached there however the message is cut.
    let long = format!("{html}\n\n{}", "<a href=b>a</a> ".repeat(limits::TEXT_BYTES / 3));
    let (_, once) = scan(long.as_bytes());
    let mut scanner = Scanner::new();
    long.as_bytes().chunks(7777).for_each(|piece| scanner.push(piece));
    let cut = scanner.finish().1.into_text();
    assert!(once == cut && cut.truncated);
}

#[test]
fn html_meta_chooses_the_charset() {
    let preview = |kind: &str, body: &[u8]| {
        let message = [b"Content-Type: ", kind.as_bytes(), b"\r\n\r\n", body].concat();
        scan(&message).0.preview.unwrap()
    };
    let koi8 = b"<html><head><meta charset=koi8-r></head><p>\xd0\xd2\xc9\xd7\xc5\xd4</p>";
    assert_eq!(preview("text/html", koi8), "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}");
    assert_eq!(preview("text/html; charset=\"\"", koi8), "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}");
    assert_eq!(preview("text/html; charset=iso-8859-1", koi8), "\u{d0}\u{d2}\u{c9}\u{d7}\u{c5}\u{d4}");
    assert_eq!(preview("text/plain", b"\xef\xbb\xbfa"), "a");
}

/// RFC 2046 §5.2.1 forbids it, and programs do it.
#[test]
fn encoded_messages_have_a_structure_of_their_own() {
    let inner = "From: a@b.example\r\nSubject: =?utf-8?q?inn=C3=A9r?=\r\nReceived: x\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n\
        --i\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nPGI+ZGVlcDwvYj4gd29yZHM=\r\n--i--\r\n";
    let encoded = base64_text(inner.as_bytes());
    let message = format!(
        "Subject: outer\r\nContent-Type: multipart/mixed; boundary=o\r\n\r\n--o\r\nContent-Type: message/rfc822\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{encoded}\r\n--o\r\n\r\nlast\r\n--o--\r\n"
    );
    let (structure, text) = scan(message.as_bytes());
    check(message.as_bytes(), &structure);
    assert_eq!(shape(&structure.root), "mixed(rfc822[mixed(text/html)], text/plain)");
    let (part, layers) = structure.part_within(&[1]).unwrap();
    assert_eq!((part.encoding.as_str(), layers.len()), ("base64", 0));
    assert_eq!(part.message().unwrap().0.subject.as_deref(), Some("=?utf-8?q?inn=C3=A9r?="));
    let (leaf, layers) = structure.part_within(&[1, 1]).unwrap();
    assert_eq!(layers, [part.layer().unwrap()]);
    assert_eq!(slice(inner.as_bytes(), &leaf.body), "PGI+ZGVlcDwvYj4gd29yZHM=");
    assert_eq!(
        text.body,
        "from: a@b.example\nsubject: inne\u{301}r\nreceived: x\ncontent-type: multipart/mixed; boundary=i\ndeep words\nlast\n"
    );
    assert!(!text.headers.contains("inner") && structure.received_fields == 0);
    assert_eq!(structure.preview.as_deref(), Some("deep words"));
}

#[test]
fn encoded_messages_within_each_other_are_limited() {
    let mut message = b"Subject: innermost\r\n\r\ntext".to_vec();
    for _ in 0..=limits::MIME_ENCODED_DEPTH {
        let head = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n";
        message = format!("{head}{}", base64_text(&message)).into_bytes();
    }
    let (structure, text) = scan(&message);
    check(&message, &structure);
    assert!(structure.limited);
    let expected = "rfc822[".repeat(limits::MIME_ENCODED_DEPTH) + "application/octet-stream";
    assert!(shape(&structure.root).starts_with(&expected), "{}", shape(&structure.root));
    assert!(!text.body.contains("innermost"));
    let layers = structure.part_within(&[1; 10]).map(|(_, layers)| layers.len());
    assert_eq!(layers, None);
    assert!(structure.part(&[1; limits::MIME_ENCODED_DEPTH + 1]).is_some());
}

#[test]
fn encoded_messages_free_outer_header_buffers() {
    let long = format!("X: {}\r\n", "x".repeat(limits::HEADER_FIELD_BYTES));
    let head = format!("{long}Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n");
    let mut scanner = Scanner::with_sink(NoText);
    scanner.push(head.as_bytes());
    scanner.push(base64_text(long.as_bytes()).as_bytes());
    assert!(scanner.walk.line.capacity() + scanner.walk.field.capacity() < limits::HEADER_FIELD_BYTES);
}

#[test]
fn previews_are_short_and_collapsed() {
    let (structure, _) = scan(format!("\n{}", "Wörd \r\n\t".repeat(1000)).as_bytes());
    let preview = structure.preview.unwrap();
    assert!(preview.starts_with("Wörd Wörd ") && preview.chars().count() == 199, "{preview}");
    let (structure, _) = scan(format!("\n{}", "é".repeat(1000)).as_bytes());
    assert_eq!(structure.preview.unwrap().chars().count(), limits::PREVIEW_CHARS);
    let (structure, _) = scan(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\n \n--b\nContent-Type: text/html\n\n<b>second</b>\n--b\n\nthird\n--b--");
    assert_eq!(structure.preview.unwrap(), "second");
}

#[test]
fn depth_is_limited() {
    let mut message = String::new();
    for n in 0..limits::MIME_DEPTH + 5 {
        message.push_str(&format!("Content-Type: multipart/mixed; boundary=b{n}.\n\n--b{n}.\n"));
    }
    let (structure, _) = scan(message.as_bytes());
    check(message.as_bytes(), &structure);
    assert!(structure.limited);
    let path = vec![1; limits::MIME_DEPTH];
    assert!(structure.part(&path).unwrap().is("application", "octet-stream"));
    let nested = "Content-Type: message/rfc822\n\n".repeat(limits::MIME_DEPTH + 5);
    let (structure, _) = scan(nested.as_bytes());
    check(nested.as_bytes(), &structure);
    assert!(structure.limited);
    let allowed = "Content-Type: message/rfc822\n\n".repeat(limits::MIME_DEPTH);
    assert!(!scan(allowed.as_bytes()).0.limited);
}

#[test]
fn parts_are_limited() {
    let many = |n: usize| {
        format!("Content-Type: multipart/mixed; boundary=b\n\n{}--b--\nafter", "--b\n\nx\n".repeat(n))
    };
    let fits = many(limits::MIME_PARTS - 1);
    let (structure, _) = scan(fits.as_bytes());
    assert!(!structure.limited);
    let over = many(limits::MIME_PARTS + 10);
    let (structure, _) = scan(over.as_bytes());
    check(over.as_bytes(), &structure);
    assert!(structure.limited);
    let parts = structure.root.children().unwrap();
    assert_eq!(parts.len(), limits::MIME_PARTS - 1);
    assert!(slice(over.as_bytes(), &parts.last().unwrap().body).starts_with("x\n--b\n\nx\n--b"));
}

#[test]
fn header_fields_are_limited() {
    let long = format!("Subject: {}\r\nX: y\r\n\r\nbody", "a".repeat(2 * limits::HEADER_FIELD_BYTES));
    let (structure, _) = scan(long.as_bytes());
    check(long.as_bytes(), &structure);
    assert!(structure.limited);
    assert!(structure.envelope.subject.unwrap().len() <= limits::HEADER_FIELD_BYTES);
    assert_eq!(slice(long.as_bytes(), &structure.root.body), "body");
    let folded = format!("Subject: x{}\r\n\r\n", "\r\n more".repeat(limits::HEADER_FIELD_BYTES));
    assert!(scan(folded.as_bytes()).0.limited);
}

#[test]
fn addresses_are_found_as_the_envelope_has_them() {
    let headers = |field: &str| scan(format!("{field}\r\n\r\n").as_bytes()).1.headers;
    assert_eq!(
        headers("From: <me (home)@ (of) example.org>, you@example.org"),
        "from: <me (home)@ (of) example.org>, you@example.org\nfrom: me@example.org\n"
    );
    assert_eq!(headers("To: \"a b\"@example.org"), "to: \"a b\"@example.org\nto: a b@example.org\n");
    assert_eq!(headers("Cc: Me <me@example.org>"), "cc: me <me@example.org>\n");
    assert_eq!(headers("Subject: me @ home"), "subject: me @ home\n");
}

#[test]
fn structure_is_limited() {
    let part = format!(
        "--b\nContent-Description: {}\nContent-Type: a/b{}\n\nx\n",
        "d".repeat(60_000),
        "; p=v".repeat(99)
    );
    let message = format!("Content-Type: multipart/mixed; boundary=b\n\n{}--b--\n", part.repeat(900));
    let (structure, _) = scan(message.as_bytes());
    assert!(structure.limited);
    assert!(structure.encode().len() < 2 * limits::STRUCTURE_BYTES);
}

#[test]
fn without_a_sink_structure_is_the_same() {
    let mut scanner = Scanner::with_sink(NoText);
    scanner.push(RFC_2046.as_bytes());
    assert_eq!(scanner.finish().0, scan(RFC_2046.as_bytes()).0);
    let mut scanner = Scanner::with_sink(CappedText::new(10));
    scanner.push(RFC_2046.as_bytes());
    let (structure, sink) = scanner.finish();
    assert_eq!(structure, scan(RFC_2046.as_bytes()).0);
    assert_eq!(sink.into_text(), Text { headers: "from: nath".into(), body: String::new(), truncated: true });
}

#[test]
fn memory_does_not_grow_with_the_message() {
    let mixed = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\n";
    for (start, piece) in [
        ("", "x"),
        ("Subject: ", "x"),
        ("Subject: x\n", " folded\n"),
        ("", "a: b\n"),
        (mixed, "--b\n\nx\n"),
        (mixed, "--bx"),
        (mixed, "--"),
        ("Content-Type: text/html\n\n", "<a b='&amp;"),
        ("\n", "=?utf-8?q?x"),
    ] {
        let mut scanner = Scanner::new();
        scanner.push(start.as_bytes());
        let piece = piece.repeat(4096);
        for _ in 0..200 {
            scanner.push(piece.as_bytes());
            assert!(scanner.walk.line.capacity() <= 2 * limits::HEADER_FIELD_BYTES);
            assert!(scanner.walk.field.capacity() <= 2 * limits::HEADER_FIELD_BYTES);
            assert!(
                scanner.walk.frames.len() <= 2 * limits::MIME_DEPTH + 2
                    && scanner.shared.parts <= limits::MIME_PARTS
            );
        }
        let (structure, sink) = scanner.finish();
        assert!(structure.encode().len() < 2 * limits::STRUCTURE_BYTES);
        assert!(sink.into_text().encode().len() <= limits::TEXT_BYTES + 6);
    }
}

/// Heap bytes of a part with all its contents: allocators add 32 bytes at most to small pieces.
fn heap_bytes(part: &Part) -> usize {
    const PIECE: usize = 32;
    let string = |s: &String| s.capacity() + PIECE;
    let strings = |all: &[&Option<String>]| all.iter().copied().flatten().map(string).sum::<usize>();
    let params = |params: &Vec<Parameter>| {
        let each = params.iter().map(|p| string(&p.name) + string(&p.value));
        params.capacity() * size_of::<Parameter>() + PIECE + each.sum::<usize>()
    };
    let addresses = |list: &Vec<Address>| {
        let each = list.iter().map(|a| strings(&[&a.name, &a.adl, &a.mailbox, &a.host]));
        list.capacity() * size_of::<Address>() + each.sum::<usize>()
    };
    let envelope = |e: &Envelope| {
        let lists = [&e.from, &e.sender, &e.reply_to, &e.to, &e.cc, &e.bcc];
        strings(&[&e.date, &e.subject, &e.in_reply_to, &e.message_id, &e.references])
            + lists.into_iter().map(addresses).sum::<usize>()
    };
    let inside = match &part.kind {
        PartKind::Leaf => 0,
        PartKind::Multipart(parts) => {
            let spare = (parts.capacity() - parts.len()) * size_of::<Part>();
            spare + PIECE + parts.iter().map(heap_bytes).sum::<usize>()
        }
        PartKind::Message(head, part) => {
            size_of::<Envelope>() + 2 * PIECE + envelope(head) + heap_bytes(part)
        }
    };
    let texts = strings(&[&part.content_id, &part.description, &part.md5, &part.location]);
    let kinds = string(&part.media_type) + string(&part.subtype) + string(&part.encoding);
    let language: usize = part.language.iter().map(|tag| string(tag) + size_of::<String>()).sum();
    let disposition = part.disposition.as_ref().map_or(0, |d| string(&d.kind) + params(&d.params));
    size_of::<Part>() + texts + kinds + language + disposition + params(&part.params) + inside
}

#[test]
fn a_structure_takes_no_more_than_is_drawn_for_it() {
    let mixed = "Content-Type: multipart/mixed; boundary=b\n\n--b\n";
    let blank = format!("Content-Description: x\n{}", format!(" {}\n", " ".repeat(60)).repeat(1000));
    let many = |what: &str| format!("{mixed}{}", format!("{what}\n\nx\n--b\n").repeat(2000));
    let addresses = "a@b,".repeat(1000);
    for message in [
        many(""),
        many("Content-Type: message/rfc822\n\nSubject: x"),
        many(&format!("Content-Type: message/rfc822\n\nFrom: {addresses}\nTo: {addresses}")),
        many(&format!("Content-Type: x/y{}", "; a=b".repeat(100))),
        many(&format!("Content-Disposition: x{}", "; a=b".repeat(100))),
        many(&format!("Content-Language: {}", "a,".repeat(100))),
        many(&format!("{}Content-Type: text/plain", blank)).chars().take(8 << 20).collect(),
        (0..2000).map(|n| format!("Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n")).collect(),
    ] {
        let mut scanner = Scanner::with_sink(NoText);
        scanner.push(message.as_bytes());
        let (structure, _) = scanner.finish();
        let envelope = Part::default();
        let whole = Part {
            kind: PartKind::Message(Box::new(structure.envelope), Box::new(structure.root)),
            ..envelope
        };
        let most = limits::STRUCTURE_BYTES + limits::MIME_PARTS * limits::MIME_PART_BYTES;
        let bytes = heap_bytes(&whole);
        assert!(bytes <= most, "{bytes} bytes of {most}: {}", &message[..message.len().min(200)]);
    }
}

/// Lines that are difficult for a scanner, for random combinations.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let fixed: &[&[u8]] = &[
        b"",
        b"\r",
        b" ",
        b"-",
        b"--",
        b"--b",
        b"--b--",
        b"--b ",
        b"--bc",
        b"--c",
        b"--c--",
        b"--d--",
        b"x--b",
        b"- -b",
        b"\t--b",
        b"Content-Type: multipart/mixed; boundary=b",
        b"Content-Type: multipart/digest;\r\n boundary=c",
        b"Content-Type: multipart/alternative; boundary=\"d\"",
        b"Content-Type: message/rfc822",
        b"Content-Type: text/html",
        b"Content-Type: text/plain; charset=gb18030",
        b"Content-Transfer-Encoding: base64",
        b"Content-Transfer-Encoding: quoted-printable",
        b"Content-Type: text/plain; format=flowed; delsp=yes",
        b"Content-Type: text/html; charset=iso-2022-jp",
        b"<meta charset=utf-16><title>a &am",
        b"<a href='x&am",
        b"\x1b$BEl\x1b(B\x1b$B",
        b"> flowed ",
        b"LS1iDQpDb250ZW50LVR5cGU6IHRleHQvaHRtbA0K",
        b"Subject: =?utf-8?q?=C3?=",
        b" =?utf-8?q?=A9?=",
        b"From: a <b@c>, d: e@f;",
        b"Content-Disposition: attachment; filename*0*=utf-8''%c3; filename*1*=%a9",
        b"Date: 1 Jan 2020 00:00 +0100",
        b"aGVsbG8=",
        b"gr=C3=\r\n=BCn",
        b"<b>text &am",
        b"p;</b><!-- --",
        b"\xc4\xe3\xba",
        b"\xff\0\xfe",
    ];
    prop_oneof![
        8 => proptest::sample::select(fixed.to_vec()).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (500usize..530).prop_map(|n| [b"--b".as_slice(), &vec![b' '; n]].concat()),
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![5 => Just(&b"\r\n"[..]), 2 => Just(&b"\n"[..]), 1 => Just(&b"\r"[..]), 1 => Just(&b""[..])];
    proptest::collection::vec((line(), end), 0..40)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.to_vec()].concat()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn cuts_do_not_matter(message in message(), cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12)) {
        let whole = scan(&message);
        check(&message, &whole.0);
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(message.len() + 1)).collect();
        cuts.extend([0, message.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &message[w[0]..w[1]]).collect();
        prop_assert_eq!(&scan_pieces(&pieces), &whole);
        let single: Vec<&[u8]> = message.chunks(1).collect();
        prop_assert_eq!(&scan_pieces(&single), &whole);
    }

    #[test]
    fn stored_structures_that_are_damaged_do_not_panic(message in message(), at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut stored = scan(&message).0.encode();
        let at = at.index(stored.len());
        stored[at] = byte;
        let _ = Structure::decode(&stored);
        let _ = Structure::decode(&stored[..at]);
    }
}
