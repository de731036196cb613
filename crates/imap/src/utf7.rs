//! Modified UTF-7, the encoding of mailbox names on the wire (RFC 3501 §5.1.3), both ways.
//!
//! Strict: [`decode`] accepts exactly the output of [`encode`], so that a mailbox has one name.
//! [`name`] also takes bytes that are not modified UTF-7: UTF-8 is taken as it is, anything else is
//! refused.

use crate::types::{InvalidMailbox, Mailbox};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";

/// The modified UTF-7 form of `name`.
pub fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut shifted: Vec<u8> = Vec::new();
    for c in name.chars() {
        if !matches!(c, ' '..='~') {
            let mut units = [0; 2];
            shifted.extend(c.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()));
            continue;
        }
        flush(&mut shifted, &mut out);
        out.push(c);
        if c == '&' {
            out.push('-');
        }
    }
    flush(&mut shifted, &mut out);
    out
}

/// The text behind a modified UTF-7 form; `None` if [`encode`] would write it otherwise.
pub fn decode(encoded: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(encoded.len());
    let mut rest = encoded;
    let mut after_shift = false;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'&' {
            if !matches!(byte, b' '..=b'~') {
                return None;
            }
            out.push(char::from(*byte));
            after_shift = false;
            continue;
        }
        let end = rest.iter().position(|&b| b == b'-')?;
        if end == 0 {
            out.push('&');
            after_shift = false;
        } else {
            // Two runs side by side would have been one: `&U,BTFw-&ZeVnLIqe-` is a superfluous shift.
            if after_shift {
                return None;
            }
            decode_shifted(&rest[..end], &mut out)?;
            after_shift = true;
        }
        rest = &rest[end + 1..];
    }
    Some(out)
}

/// A mailbox name from the bytes on the wire.
///
/// With `utf8` (after ENABLE) they are UTF-8 and nothing else. Without it they are modified UTF-7;
/// bytes above 127, which have no place there but are sent by real clients, are taken as UTF-8, `&`
/// standing for itself.
pub fn name(wire: &[u8], utf8: bool) -> Result<Mailbox, InvalidMailbox> {
    Mailbox::new(&text(wire, utf8)?)
}

/// As [`name`], for text that need not be a name: patterns.
pub(crate) fn text(wire: &[u8], utf8: bool) -> Result<String, InvalidMailbox> {
    if utf8 || !wire.is_ascii() {
        return std::str::from_utf8(wire).map(str::to_owned).map_err(|_| InvalidMailbox::Encoding);
    }
    if wire.iter().any(u8::is_ascii_control) {
        return Err(InvalidMailbox::Control);
    }
    decode(wire).ok_or(InvalidMailbox::Encoding)
}

fn flush(shifted: &mut Vec<u8>, out: &mut String) {
    if shifted.is_empty() {
        return;
    }
    out.push('&');
    for chunk in shifted.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for i in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize]));
        }
    }
    out.push('-');
    shifted.clear();
}

fn decode_shifted(encoded: &[u8], out: &mut String) -> Option<()> {
    let mut units: Vec<u16> = Vec::with_capacity(encoded.len() * 6 / 16);
    let (mut bits, mut count) = (0u32, 0);
    for &byte in encoded {
        let value = ALPHABET.iter().position(|&b| b == byte)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 16 {
            count -= 16;
            units.push((bits >> count) as u16);
            bits &= (1 << count) - 1;
        }
    }
    // The bits left over are padding: less than one sextet, and zero.
    if count >= 6 || bits != 0 {
        return None;
    }
    for c in char::decode_utf16(units) {
        let c = c.ok()?;
        if matches!(c, ' '..='~') {
            return None;
        }
        out.push(c);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_answers() {
        for (text, wire) in [
            ("", ""),
            ("INBOX", "INBOX"),
            ("A & B", "A &- B"),
            ("Entwürfe", "Entw&APw-rfe"),
            ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            ("☺", "&Jjo-"),
            ("😀", "&2D3eAA-"),
            ("&&", "&-&-"),
            ("é&é", "&AOk-&-&AOk-"),
        ] {
            assert_eq!(encode(text), wire);
            assert_eq!(decode(wire.as_bytes()).as_deref(), Some(text), "{wire}");
        }
    }

    #[test]
    fn forms_that_encode_does_not_write_are_refused() {
        for wire in [
            "&",          // never ends
            "A&B",        // never ends
            "&A-",        // half a unit
            "&AGE-",      // an `a`, which stands for itself
            "&AOk-&AOk-", // superfluous shift
            "&AOl-",      // padding not zero
            "&AOkA-",     // superfluous padding
            "&2D0-",      // half a surrogate pair
            "&AO/-",      // `/` is not in the alphabet
            "\u{7f}",
            "tab\t",
        ] {
            assert_eq!(decode(wire.as_bytes()), None, "{wire}");
        }
        assert_eq!(name(b"A&B", false), Err(InvalidMailbox::Encoding));
        assert_eq!(name(b"\xff", false), Err(InvalidMailbox::Encoding));
        assert_eq!(name(b"a\tb", false), Err(InvalidMailbox::Control));
        assert_eq!(name("Entwürfe & mehr".as_bytes(), false).unwrap().as_str(), "Entwürfe & mehr");
        assert_eq!(name(b"A&B", true).unwrap().as_str(), "A&B");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn round_trip(text in "\\PC{0,24}") {
            prop_assert_eq!(decode(encode(&text).as_bytes()), Some(text));
        }

        #[test]
        fn one_form_only(wire in "[&A-C,+a /-]{0,12}") {
            if let Some(text) = decode(wire.as_bytes()) {
                prop_assert_eq!(encode(&text), wire);
            }
        }
    }
}
