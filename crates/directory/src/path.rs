//! Names as parts of object paths.
//!
//! Letters, digits, `.`, `_`, `-` and `@` stand for themselves; every other byte of the UTF-8 is
//! `=` and two upper-case hex digits (as in quoted-printable). `%` is not used as the escape,
//! because stores and the tools around them like to encode or decode it once more. A name never
//! yields `.`, `..` or anything with `/`: it contains an `@`.

use std::fmt::Write;

use sealpost_base::AccountId;

/// `name` as one path segment.
pub(super) fn encode(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'@' => segment.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(segment, "={byte:02X}")),
        }
    }
    segment
}

/// Where the lists of vacation replies of an account are.
pub(super) fn vacation_replies(account: AccountId) -> String {
    format!("vacations/{account}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_have_the_documented_form() {
        assert_eq!(encode("me@localhost"), "me@localhost");
        assert_eq!(encode("a/../b+c@x"), "a=2F..=2Fb=2Bc@x");
        assert_eq!(encode("grün@x"), "gr=C3=BCn@x");
    }

    /// What another program that reads the store would do.
    fn decode(segment: &str) -> String {
        let mut pieces = segment.split('=');
        let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
        for piece in pieces {
            bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
            bytes.extend_from_slice(&piece.as_bytes()[2..]);
        }
        String::from_utf8(bytes).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn names_and_paths_are_one_to_one(name in "\\PC{0,20}@\\PC{0,20}") {
            let segment = encode(&name);
            prop_assert!(!segment.contains('/') && segment != "." && segment != "..");
            prop_assert_eq!(decode(&segment), name);
        }
    }
}
