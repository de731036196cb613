//! Known messages; cuts do not matter and nothing is lost.

use proptest::prelude::*;

use super::*;
use crate::decode::TransferDecoder;

fn through(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let (mut unbinary, mut out) = (Unbinary::new(), Vec::new());
    pieces.iter().for_each(|piece| unbinary.push(piece, &mut out));
    unbinary.finish(&mut out);
    (out, unbinary.has_nul())
}

fn check(input: &[u8], expected: &[u8], nul: bool) {
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    for pieces in [&[input][..], &bytes] {
        let (out, found) = through(pieces);
        assert_eq!((out.escape_ascii().to_string(), found), (expected.escape_ascii().to_string(), nul));
    }
}

#[test]
fn a_single_part() {
    check(
        b"Subject: x\r\nContent-Transfer-Encoding:\r\n  BINARY\r\nMIME-Version: 1.0\r\n\r\n\0\xe4\r\n\r\n",
        b"Subject: x\r\nContent-Transfer-Encoding: base64\r\nMIME-Version: 1.0\r\n\r\nAOQNCg0K",
        false,
    );
    check(b"Content-Transfer-Encoding: binary\r\n\r\n", b"Content-Transfer-Encoding: base64\r\n\r\n", false);
    check(b"Content-Transfer-Encoding: binary\n\na\r", b"Content-Transfer-Encoding: base64\n\nYQ0=", false);
    check(b"Content-Transfer-Encoding: binary", b"Content-Transfer-Encoding: base64", false);
    for plain in [&b"a: b\r\n\r\n--x\r\n-\r\n\r\r\n"[..], b"", b"\r\n", b"no header", b"a: b\r\n c\r\n\r\n\r"]
    {
        check(plain, plain, false);
    }
    check(b"a: b\r\n\r\nx\0y", b"a: b\r\n\r\nx\0y", true);
}

#[test]
fn parts_within_parts() {
    check(
        b"Content-Type: multipart/mixed; boundary=\"a b\"\r\nContent-Transfer-Encoding: binary\r\n\r\npre\r\n--a b\r\n\
          Content-Type: image/x\r\nContent-Transfer-Encoding: binary\r\n\r\n\0\x01\n\n--a b\r\n\
          Content-Type: message/rfc822\r\nContent-Transfer-Encoding: binary\r\n\r\n\
          Content-Transfer-Encoding: binary\r\n\r\nin\r\n\r\n--a b--\r\npost --a b\r\n",
        b"Content-Type: multipart/mixed; boundary=\"a b\"\r\nContent-Transfer-Encoding: 8bit\r\n\r\npre\r\n--a b\r\n\
          Content-Type: image/x\r\nContent-Transfer-Encoding: base64\r\n\r\nAAEK\n--a b\r\n\
          Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
          Content-Transfer-Encoding: base64\r\n\r\naW4NCg==\r\n--a b--\r\npost --a b\r\n",
        false,
    );
    // In a digest a part is a message by default, and a boundary may cut a header short.
    check(
        b"Content-Type: multipart/digest; boundary=a\n\n--a\n\nContent-Transfer-Encoding: binary\n\nxy\n--a\nA: b\n--a--\n",
        b"Content-Type: multipart/digest; boundary=a\n\n--a\n\nContent-Transfer-Encoding: base64\n\neHk=\n--a\nA: b\n--a--\n",
        false,
    );
}

#[test]
fn memory_does_not_grow_with_the_message() {
    let mut unbinary = Unbinary::new();
    let mut out = Vec::new();
    unbinary.push(b"Content-Transfer-Encoding: binary\r\n\r\n", &mut out);
    for n in 0..2000u32 {
        out.clear();
        unbinary.push(&[if n % 3 == 0 { b'-' } else { 0 }; 4096], &mut out);
        assert!(out.len() < 6000 && unbinary.line.len() <= LINE_BYTES);
    }
    let mut unbinary = Unbinary::new();
    for _ in 0..100 {
        out.clear();
        unbinary.push(&[b'x'; 4096], &mut out);
        assert!(unbinary.line.len() <= limits::HEADER_FIELD_BYTES + 4096);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn encoded_binary_decodes_to_the_same_bytes(body in prop::collection::vec(prop::sample::select(b"-a\r\n\0".to_vec()), 0..300)) {
        let head = b"Content-Transfer-Encoding: binary\r\n\r\n";
        let (out, nul) = through(&[head, &body]);
        let mut decoded = Vec::new();
        let mut decoder = TransferDecoder::new(Encoding::Base64);
        decoder.push(&out[head.len()..], &mut decoded);
        decoder.finish(&mut decoded);
        prop_assert_eq!(decoded, body);
        prop_assert!(!nul && out.split(|b| *b == b'\n').all(|line| line.len() <= 77));
    }

    #[test]
    fn cuts_do_not_matter(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "Content-Type: multipart/mixed; boundary=b\r\n", "Content-Transfer-Encoding: binary\r\n", "\r\n", "--b\r\n",
            "--b--\r\n", "--", "\r", "\n", "x", "Content-Type: message/rfc822\n", "\0",
        ]), 0..14),
        cuts in prop::collection::vec(1usize..9, 1..5),
    ) {
        let whole = pieces.concat().into_bytes();
        let (mut parts, mut rest, mut sizes) = (Vec::new(), &whole[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            parts.push(now);
            rest = later;
        }
        let (out, nul) = through(&[&whole]);
        prop_assert_eq!(through(&parts), (out.clone(), nul));
        prop_assert_eq!(nul, out.contains(&0));
        if !pieces.iter().any(|piece| piece.contains("binary")) {
            prop_assert_eq!(out, whole);
        }
    }
}
