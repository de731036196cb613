//! Writing headers and bodies: encoded-words (RFC 2047), parameters (RFC 2231), quoted-printable
//! and base64 (RFC 2045 §6).
//!
//! All output is 7-bit ASCII with lines of at most 76 characters where the grammar allows folding,
//! and [`crate::header`] and [`crate::decode`] restore the input.

use std::fmt::Write;

/// Longest line of an encoded body and of a folded header (RFC 2045 §6.7, RFC 2047 §2).
const LINE: usize = 76;
/// Bytes of text in one encoded-word, so that it stays below 75 characters in either encoding with
/// any charset name used here.
const WORD_BYTES: usize = 42;

/// Bytes of a word of plain text that is not folded inside: longer ones might pass the longest line
/// that there may be (RFC 5322 §2.1.1), and are encoded.
const WORD: usize = 512;

/// `name: value\r\n` for an unstructured field such as Subject: folded, and encoded where it is not
/// plain ASCII or has a word too long for a line.
pub fn unstructured(name: &str, text: &str) -> String {
    let is_short = text.split(' ').all(|word| word.len() <= WORD);
    if is_plain(text) && is_short && !text.contains("=?") {
        return folded(name, text.split(' '));
    }
    folded(name, encoded_words(text).iter().map(String::as_str))
}

/// `name: value\r\n` for a field whose value is a list: items are joined with commas and folded between them.
pub fn list(name: &str, items: &[String]) -> String {
    let last = items.len().saturating_sub(1);
    let pieces: Vec<String> = items
        .iter()
        .enumerate()
        .map(|(i, item)| if i < last { format!("{item},") } else { item.clone() })
        .collect();
    folded(name, pieces.iter().map(String::as_str))
}

/// A mailbox: `Name <address>`, the name plain, quoted or encoded; the address alone without a
/// name.
pub fn mailbox(name: &str, address: &str) -> String {
    if name.is_empty() { address.to_owned() } else { format!("{} <{address}>", phrase(name)) }
}

/// A phrase such as a display name: plain, quoted or encoded.
pub fn phrase(name: &str) -> String {
    let atom = |c: char| c.is_ascii_alphanumeric() || " !#$%&'*+-/=?^_`{|}~".contains(c);
    if !is_plain(name) || name.contains("=?") || name.len() > WORD {
        encoded_words(name).join("\r\n ")
    } else if name.chars().all(atom) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// `; name=value` for a parameter of a MIME field: a token, a quoted string, or RFC 2231 with
/// continuations, folded.
pub fn parameter(name: &str, value: &str) -> String {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`{|}~".contains(c);
    if !value.is_empty() && value.len() <= 60 && value.chars().all(token) {
        return format!(";\r\n {name}={value}");
    }
    if value.len() <= 60 && is_plain(value) {
        return format!(";\r\n {name}={}", quoted(value));
    }
    let mut percent = Vec::new();
    for c in value.chars() {
        let mut piece = String::new();
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => piece.push(char::from(byte)),
                _ => push_hex(&mut piece, '%', byte),
            }
        }
        percent.push(piece);
    }
    let mut out = String::new();
    let mut section = String::from("utf-8''");
    let mut number = 0;
    // RFC 2231 §4.1: one section as `name*=`, several as `name*0*=`, `name*1*=`.
    let single = percent.iter().map(String::len).sum::<usize>() <= 50;
    for piece in percent {
        if !single && section.len() + piece.len() > 50 {
            let _ = write!(out, ";\r\n {name}*{number}*={section}");
            number += 1;
            section.clear();
        }
        section.push_str(&piece);
    }
    let _ = if single {
        write!(out, ";\r\n {name}*={section}")
    } else {
        write!(out, ";\r\n {name}*{number}*={section}")
    };
    out
}

/// A quoted-string (RFC 5322 §3.2.4).
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// Printable ASCII and spaces only.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

/// Appends pieces to a field name, with one space or a fold between them.
fn folded<'a>(name: &str, pieces: impl Iterator<Item = &'a str>) -> String {
    let mut out = format!("{name}:");
    let mut length = out.len();
    let mut blank = true;
    for piece in pieces {
        // A line of white space alone would be obsolete folding, which some programs take for the
        // end of the header.
        if length + 1 + piece.len() > LINE && !blank {
            out.push_str("\r\n");
            length = 0;
            blank = true;
        }
        blank &= piece.is_empty();
        out.push(' ');
        out.push_str(piece);
        length += 1 + piece.len();
    }
    out.push_str("\r\n");
    out
}

/// `text` as encoded-words of at most 75 characters, none of which splits a character (RFC 2047
/// §5).
fn encoded_words(text: &str) -> Vec<String> {
    let plain = text.bytes().filter(|b| b.is_ascii_alphanumeric() || *b == b' ').count();
    let q = plain * 3 > text.len() * 2;
    let width =
        |c: char| if !q || c.is_ascii_alphanumeric() || c == ' ' { c.len_utf8() } else { 3 * c.len_utf8() };
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut size = 0;
        let end = rest
            .char_indices()
            .find(|(_, c)| {
                size += width(*c);
                size > WORD_BYTES
            })
            .map_or(rest.len(), |(at, _)| at);
        let (word, more) = rest.split_at(end);
        words.push(if q { q_word(word) } else { format!("=?utf-8?B?{}?=", base64_text(word.as_bytes())) });
        rest = more;
    }
    words
}

fn q_word(text: &str) -> String {
    let mut out = String::from("=?utf-8?Q?");
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('_'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            _ => push_hex(&mut out, '=', byte),
        }
    }
    out.push_str("?=");
    out
}

fn push_hex(out: &mut String, mark: char, byte: u8) {
    let _ = write!(out, "{mark}{byte:02X}");
}

/// Text as quoted-printable (RFC 2045 §6.7); line ends, LF or CRLF, become CRLF.
pub fn quoted_printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        // A CR at the end of the text is no line end.
        let is_ended = lines.peek().is_some();
        let line = if is_ended { line.strip_suffix('\r').unwrap_or(line) } else { line }.as_bytes();
        let mut length = 0;
        for (at, &byte) in line.iter().enumerate() {
            let last = at + 1 == line.len();
            // White space at the end of a line would be lost (§6.7 (3)); a `.` or `From ` at its
            // start is not safe in transit.
            let unsafe_start = length == 0 && (byte == b'.' || byte == b'F' || byte == b'-');
            let literal = matches!(byte, b'!'..=b'<' | b'>'..=b'~') && !unsafe_start
                || matches!(byte, b' ' | b'\t') && !last;
            let width = if literal { 1 } else { 3 };
            if length + width > LINE - 1 {
                out.push_str("=\r\n");
                length = 0;
            }
            if literal {
                out.push(char::from(byte));
            } else {
                push_hex(&mut out, '=', byte);
            }
            length += width;
        }
        if is_ended {
            out.push_str("\r\n");
        }
    }
    out
}

/// Bytes as base64 in lines of 76 characters, each with its CRLF (RFC 2045 §6.8).
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() / 57 * 78 + 80);
    for line in bytes.chunks(57) {
        out.push_str(&base64_text(line));
        out.push_str("\r\n");
    }
    out
}

/// Bytes as base64 without line ends, padded.
pub fn base64_text(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let value = group.iter().fold(0u32, |v, b| v << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for place in 0..4 {
            if place <= group.len() {
                out.push(char::from(ALPHABET[(value >> (18 - 6 * place)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Encoding, TransferDecoder};
    use crate::header::{address, params, unfold, word};
    use proptest::prelude::*;

    fn value(field: &str) -> String {
        unfold(field.split_once(':').unwrap().1.as_bytes())
    }

    fn check_lines(text: &str) {
        for line in text.split("\r\n") {
            assert!(line.len() <= LINE && line.is_ascii() && !line.contains(['\r', '\n']), "{line:?}");
        }
    }

    #[test]
    fn forms() {
        assert_eq!(unstructured("Subject", "plain words"), "Subject: plain words\r\n");
        assert_eq!(
            unstructured("Subject", "Grüße aus Köln am Rhein"),
            "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe_aus_K=C3=B6ln_am_Rhein?=\r\n".to_owned()
        );
        assert_eq!(unstructured("Subject", "日本"), "Subject: =?utf-8?B?5pel5pys?=\r\n");
        assert_eq!(mailbox("", "a@b"), "a@b");
        assert_eq!(mailbox("Joe Public", "a@b"), "Joe Public <a@b>");
        assert_eq!(mailbox("Joe \"Q.\" Public", "a@b"), "\"Joe \\\"Q.\\\" Public\" <a@b>");
        assert_eq!(list("To", &["a@b".into(), "c@d".into()]), "To: a@b, c@d\r\n");
        assert_eq!(phrase("Undisclosed: all"), "\"Undisclosed: all\"");
        let long = unstructured("Subject", &"x".repeat(2000));
        assert!(long.lines().all(|line| line.len() <= LINE), "{long}");
        assert_eq!(parameter("name", "a.txt"), ";\r\n name=a.txt");
        assert_eq!(parameter("name", "a b.txt"), ";\r\n name=\"a b.txt\"");
        assert_eq!(parameter("name", "é"), ";\r\n name*=utf-8''%C3%A9");
        assert_eq!(base64(b"hello"), "aGVsbG8=\r\n");
        assert_eq!(quoted_printable("a\r\nb\r"), "a\r\nb=0D");
        assert_eq!(quoted_printable("a=b \nFrom x\n.\n-- "), "a=3Db=20\r\n=46rom x\r\n=2E\r\n=2D-=20");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn headers_read_back(text in "[a-zA-Zé日😀=?_\" .,<>@-]{1,120}") {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assume!(!text.is_empty());
            let field = unstructured("Subject", &text);
            prop_assert_eq!(word::decode(&value(&field)), text.clone());
            let (found, _) = address::parse_list(&value(&list("To", &[mailbox(&text, "a@b.example"), "c@d".into()])));
            prop_assert_eq!(found.len(), 2);
            prop_assert_eq!(word::decode(found[0].name.as_deref().unwrap()), text.clone());
            prop_assert_eq!(found[0].host.as_deref(), Some("b.example"));
            let written = format!("a/b{}", parameter("name", &text));
            check_lines(&written);
            let (_, _, read) = params::content_type(&unfold(written.as_bytes())).unwrap();
            let name = params::decoded(&read, "name").unwrap();
            prop_assert!(name == text || text.contains("=?"), "{} {}", name, text);
        }

        #[test]
        fn bodies_read_back(text in "[a-z=é日 .\\-F\t]{0,200}(\n[a-z .]{0,90}){0,3}") {
            let decode = |encoding, body: &str| {
                let mut out = Vec::new();
                let mut decoder = TransferDecoder::new(encoding);
                decoder.push(body.as_bytes(), &mut out);
                decoder.finish(&mut out);
                String::from_utf8(out).unwrap()
            };
            let qp = quoted_printable(&text);
            check_lines(&qp);
            prop_assert_eq!(decode(Encoding::QuotedPrintable, &qp), text.replace('\n', "\r\n"));
            let b64 = base64(text.as_bytes());
            check_lines(&b64);
            prop_assert_eq!(decode(Encoding::Base64, &b64), text);
        }
    }
}
