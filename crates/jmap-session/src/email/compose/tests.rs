//! Composed messages, and what the scanner reads back from them.

use proptest::prelude::*;
use sealpost_base::SeededRandom;
use sealpost_jmap::email::for_create;
use sealpost_mime::Scanner;
use sealpost_mime::decode::{Encoding, TransferDecoder};
use serde_json::{Value, json};

use super::*;

/// Composes the message of an Email object, with `<x>` for blob x.
fn compose(email: Value) -> String {
    let random = SeededRandom::new(1);
    let composer = Composer { random: &random, hostname: "mail.example", now: Timestamp(1_795_172_400_000) };
    let Value::Object(mut object) = email else { panic!("{email}") };
    object.insert("mailboxIds".to_owned(), json!({"F1": true}));
    let email = for_create(object).unwrap_or_else(|error| panic!("{error:?}"));
    let piece = |piece: Piece| match piece {
        Piece::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        Piece::Text(text, encoding) => encoding.encode(text).into_owned(),
        Piece::Blob(id, encoding) => format!("<{id} {encoding:?}>"),
    };
    composer.compose(&email).into_iter().map(piece).collect()
}

fn check(email: Value, expected: &str) {
    assert_eq!(compose(email), expected.replace('\n', "\r\n"));
}

#[test]
fn missing_header_fields_are_generated() {
    check(
        json!({"subject": "Hello"}),
        "Date: Fri, 20 Nov 2026 11:00:00 +0000\nMessage-ID: <c15c0289ec2d0a9167ec8e65a18debbe@mail.example>\n\
         Subject: Hello\nMIME-Version: 1.0\nContent-Type: text/plain; charset=us-ascii\n\n",
    );
}

#[test]
fn header_fields_are_written_in_all_forms() {
    let message = compose(json!({
        "sentAt": "2026-11-20T12:00:00+01:00",
        "messageId": ["one@x"],
        "references": ["a@x", "b@x"],
        "from": [{"name": "Jörg", "email": "joerg@x"}],
        "to": [{"name": "A, B", "email": "a@x"}, {"name": null, "email": "b@x"}],
        "cc": [],
        "header:X-Raw": " as it is\r\n folded",
        "header:X-Text:asText": "Grüße",
        "header:X-Groups:asGroupedAddresses": [
            {"name": "Friends", "addresses": [{"name": null, "email": "c@x"}, {"name": "D", "email": "d@x"}]},
            {"name": null, "addresses": [{"name": null, "email": "e@x"}]},
            {"name": "None", "addresses": []},
        ],
        "header:List-Post:asURLs": ["mailto:l@x", "https://x/l"],
        "header:X-Many:asText:all": ["1", "2"],
        "header:X-Ids:asMessageIds": ["i@x"],
        "header:X-Date:asDate": "2026-11-20T12:00:00Z",
        "header:X-None:asText": null,
    }));
    let (header, _) = message.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        header.replace("\r\n", "\n"),
        "Date: Fri, 20 Nov 2026 12:00:00 +0100\nFrom: =?utf-8?B?SsO2cmc=?= <joerg@x>\nTo: \"A, B\" <a@x>, b@x\n\
         Message-ID: <one@x>\nReferences: <a@x>\n <b@x>\n\
         List-Post: <mailto:l@x>, <https://x/l>\nX-Date: Fri, 20 Nov 2026 12:00:00 +0000\n\
         X-Groups: Friends: c@x, D <d@x>;, e@x, None: ;\nX-Ids: <i@x>\nX-Many: 1\nX-Many: 2\n\
         X-Raw: as it is\n folded\nX-Text: =?utf-8?B?R3LDvMOfZQ==?=\n\
         MIME-Version: 1.0\nContent-Type: text/plain; charset=us-ascii"
    );
}

#[test]
fn given_fields_are_not_made_again() {
    let message = compose(json!({
        "header:date:asDate": "2026-11-20T12:00:00Z",
        "header:message-id:asMessageIds": ["m@x"],
        "header:MIME-Version": " 1.0 (mine)",
    }));
    for name in ["date:", "message-id:", "mime-version:"] {
        assert_eq!(message.to_ascii_lowercase().matches(name).count(), 1, "{message}");
    }
    // A null value means no field.
    assert!(compose(json!({"header:Date:asDate": null})).contains("Date: Fri, 20 Nov 2026"));
}

#[test]
fn text_is_encoded_if_it_must_be() {
    let body = |text: &str| {
        let part = json!([{"partId": "1", "type": "text/plain"}]);
        let message = compose(json!({"textBody": part, "bodyValues": {"1": {"value": text}}}));
        let start = message.find("Content-Type").unwrap();
        message[start..].to_owned()
    };
    let ascii = "Content-Type: text/plain;\r\n charset=us-ascii\r\nContent-Transfer-Encoding: 7bit\r\n\r\n";
    assert_eq!(body("a\nb\r\nc"), format!("{ascii}a\r\nb\r\nc"));
    let quoted = "charset=us-ascii\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n";
    for text in ["From me\n", "a \n", "a\rb", "a\0", &"x".repeat(999)] {
        assert!(body(text).contains(quoted), "{text:?}");
    }
    assert!(body(&"x".repeat(998)).starts_with(ascii));
    let utf8 = body("ü");
    assert!(utf8.contains("charset=utf-8\r\n") && utf8.ends_with("\r\n\r\n=C3=BC"), "{utf8}");
}

#[test]
fn lists_become_the_usual_tree() {
    let message = compose(json!({
        "textBody": [{"partId": "t"}],
        "htmlBody": [{"partId": "h", "type": "text/html"}],
        "attachments": [
            {"blobId": "Bpicture", "type": "image/png", "cid": "p@x", "disposition": "inline"},
            {"blobId": "Bfile", "type": "application/pdf", "name": "Prüfung.pdf"},
            {"blobId": "Bmail", "type": "message/rfc822"},
        ],
        "bodyValues": {"t": {"value": "text"}, "h": {"value": "<p>html"}},
    }));
    let order = [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "Content-Disposition: inline",
        "Content-ID: <p@x>",
        "<Bpicture Base64>",
        "application/pdf;\r\n name*=utf-8''Pr%C3%BCfung.pdf",
        "Content-Transfer-Encoding: base64",
        "Content-Disposition: attachment;\r\n filename*=utf-8''Pr%C3%BCfung.pdf",
        "<Bfile Base64>",
        "message/rfc822\r\nContent-Transfer-Encoding: 8bit",
        "<Bmail Identity>",
    ];
    let mut at = 0;
    for part in order {
        let found = message[at..].find(part).unwrap_or_else(|| panic!("{part} not in {}", &message[at..]));
        at += found;
    }
}

#[test]
fn a_structure_is_written_as_it_is_given() {
    let message = compose(json!({
        "bodyStructure": {
            "type": "multipart/signed",
            "header:X-Root:asText": "root",
            "subParts": [
                {"partId": "1", "type": "text/plain", "language": ["de", "en"], "location": "http://x/"},
                {"blobId": "Bs", "header:Content-Type": " application/pgp-signature; x=y"},
            ],
        },
        "bodyValues": {"1": {"value": ""}},
    }));
    let mut scanner = Scanner::new();
    scanner.push(message.as_bytes());
    let (structure, _) = scanner.finish();
    let children = structure.root.children().unwrap();
    assert!(structure.root.is("multipart", "signed") && children.len() == 2);
    assert_eq!(children[0].language, ["de", "en"]);
    assert_eq!(children[0].location.as_deref(), Some("http://x/"));
    assert!(children[1].is("application", "pgp-signature"));
    assert_eq!(message.matches("X-Root: root").count(), 1);
    assert!(message.find("X-Root").unwrap() < message.find("\r\n\r\n").unwrap());
}

fn decoded(encoding: &str, body: &[u8]) -> String {
    let mut out = Vec::new();
    let mut decoder = TransferDecoder::new(Encoding::named(encoding));
    decoder.push(body, &mut out);
    decoder.finish(&mut out);
    String::from_utf8(out).unwrap()
}

proptest! {
    #[test]
    fn texts_and_subjects_are_read_back(
        text in "([ -~äß日\t]{0,60}[\n]?){0,6}|[a-z]{990,1010}",
        html in ".{0,80}",
        subject in "[!-~äß日]{1,40}( [!-~äß日]{1,40}){0,8}",
        name in "[!-~äß日]{1,30}( [!-~äß日]{1,30}){0,2}",
    ) {
        let message = compose(json!({
            "subject": subject,
            "from": [{"name": name, "email": "me@mail.example"}],
            "textBody": [{"partId": "t"}],
            "htmlBody": [{"partId": "h"}],
            "attachments": [{"partId": "t", "name": name}],
            "bodyValues": {"t": {"value": text}, "h": {"value": html}},
        }));
        prop_assert!(message.is_ascii());
        prop_assert!(message.split("\r\n").all(|line| line.len() <= 998 && !line.contains(['\r', '\n'])));
        let mut scanner = Scanner::new();
        scanner.push(message.as_bytes());
        let (structure, _) = scanner.finish();
        let word = sealpost_mime::header::word::decode;
        prop_assert_eq!(word(structure.envelope.subject.as_deref().unwrap()), subject);
        prop_assert_eq!(word(structure.envelope.from[0].name.as_deref().unwrap()), &name[..]);
        let parts = structure.root.children().unwrap();
        let bodies = parts[0].children().unwrap();
        for (part, wanted) in [(&bodies[0], &text), (&bodies[1], &html), (&parts[1], &text)] {
            let range = part.body.start as usize..part.body.end as usize;
            let read = decoded(&part.encoding, &message.as_bytes()[range]);
            prop_assert_eq!(read.replace("\r\n", "\n"), wanted.replace("\r\n", "\n"));
        }
        prop_assert_eq!(parts[1].filename(), Some(name));
    }

    #[test]
    fn base64_does_not_depend_on_pieces(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        step in 1usize..130,
    ) {
        let mut lines = Base64Lines::default();
        let mut out: String = bytes.chunks(step).map(|piece| lines.push(piece)).collect();
        out.push_str(&lines.finish());
        prop_assert_eq!(out, sealpost_mime::encode::base64(&bytes));
    }
}
