use proptest::prelude::*;

use super::Canonicalization::{Relaxed, Simple};
use super::*;

fn body(canonicalization: Canonicalization, pieces: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| out.extend_from_slice(bytes);
    let mut canonicalizer = BodyCanonicalizer::new(canonicalization);
    for piece in pieces {
        canonicalizer.push(piece, &mut sink);
    }
    canonicalizer.finish(&mut sink);
    out
}

fn field(canonicalization: Canonicalization, field: &str) -> String {
    let mut out = Vec::new();
    header_field(canonicalization, field.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

/// RFC 6376 §3.4.5.
#[test]
fn examples_of_the_rfc() {
    assert_eq!(field(Relaxed, "A: X\r\n"), "a:X");
    assert_eq!(field(Relaxed, "B : Y\t\r\n\tZ  \r\n"), "b:Y Z");
    assert_eq!(field(Simple, "A: X\r\n"), "A: X");
    assert_eq!(field(Simple, "B : Y\t\r\n\tZ  \r\n"), "B : Y\t\r\n\tZ  ");
    let text: &[u8] = b" C \r\nD \t E\r\n\r\n\r\n";
    assert_eq!(body(Relaxed, &[text]), b" C\r\nD E\r\n");
    assert_eq!(body(Simple, &[text]), b" C \r\nD \t E\r\n");
}

#[test]
fn ends_of_bodies() {
    for (text, simple, relaxed) in [
        ("", "\r\n", ""),
        ("\r\n", "\r\n", ""),
        ("\r\n\r\n", "\r\n", ""),
        (" \t\r\n", " \t\r\n", ""),
        ("a", "a\r\n", "a\r\n"),
        ("a \r\n \r\n", "a \r\n \r\n", "a\r\n"),
        ("a\r", "a\r\r\n", "a\r\r\n"),
        ("a\r\r\n", "a\r\r\n", "a\r\r\n"),
        ("a\n", "a\n\r\n", "a\n\r\n"),
        ("\r\n\r\na", "\r\n\r\na\r\n", "\r\n\r\na\r\n"),
        (" a", " a\r\n", " a\r\n"),
        ("a \rb", "a \rb\r\n", "a \rb\r\n"),
    ] {
        assert_eq!(String::from_utf8(body(Simple, &[text.as_bytes()])).unwrap(), simple, "{text:?}");
        assert_eq!(String::from_utf8(body(Relaxed, &[text.as_bytes()])).unwrap(), relaxed, "{text:?}");
    }
}

#[test]
fn empty_and_odd_fields() {
    assert_eq!(field(Relaxed, "X:\r\n"), "x:");
    assert_eq!(field(Relaxed, "X: \r\n \t\r\n"), "x:");
    assert_eq!(field(Relaxed, "no colon"), "no colon:");
    assert_eq!(field(Relaxed, "X:a\n b"), "x:a b");
    assert_eq!(field(Relaxed, "X: a:b"), "x:a:b");
}

/// The RFC's own words, on a whole body.
fn by_the_words(canonicalization: Canonicalization, text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
    if canonicalization == Relaxed {
        for line in &mut lines {
            let mut out = String::new();
            for c in line.chars() {
                match c {
                    ' ' | '\t' if out.ends_with(' ') => {}
                    ' ' | '\t' => out.push(' '),
                    _ => out.push(c),
                }
            }
            *line = out.strip_suffix(' ').map(str::to_owned).unwrap_or(out);
        }
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let mut out: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    if out.is_empty() && canonicalization == Simple {
        out.push_str("\r\n");
    }
    out.into_bytes()
}

proptest! {
    #[test]
    fn pieces_and_words_agree(text in "[ab \t\r\n]{0,40}|([ab]|\r\n|  |\t){0,40}", cut in 1_usize..7) {
        for canonicalization in [Simple, Relaxed] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(cut).collect();
            prop_assert_eq!(body(canonicalization, &pieces), by_the_words(canonicalization, text.as_bytes()));
        }
    }

    #[test]
    fn long_bodies_pass_whole(len in 4000_usize..9000, cut in 1_usize..5000) {
        let text = vec![b'x'; len];
        let pieces: Vec<&[u8]> = text.chunks(cut).collect();
        let mut expected = text.clone();
        expected.extend_from_slice(b"\r\n");
        prop_assert_eq!(body(Relaxed, &pieces), expected);
    }
}
