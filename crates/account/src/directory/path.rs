//! Names as parts of object paths.
//!
//! Letters, digits, `.`, `_`, `-` and `@` stand for themselves; every other byte of the UTF-8 is `=` and two
//! upper-case hex digits (as in quoted-printable). `%` is not used as the escape, because stores and the tools
//! around them like to encode or decode it once more. A name never yields `.`, `..` or anything with `/`: it
//! contains an `@`.

use std::fmt::Write;

use sealpost_base::{Error, Result};

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

/// The name that `segment` stands for.
///
/// # Errors
/// `Corrupt` if `encode` cannot have made it.
pub(super) fn decode(segment: &str) -> Result<String> {
    let bad = || Error::corrupt(format!("{segment:?} is not the path of a name"));
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'=' {
            let digits = rest.get(..2).and_then(|d| std::str::from_utf8(d).ok()).ok_or_else(bad)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    let name = String::from_utf8(bytes).map_err(|_| bad())?;
    if encode(&name) == segment { Ok(name) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_paths_look_like() {
        assert_eq!(encode("me@localhost"), "me@localhost");
        assert_eq!(encode("a/../b+c@x"), "a=2F..=2Fb=2Bc@x");
        assert_eq!(encode("grün@x"), "gr=C3=BCn@x");
        for bad in ["A@x", "=2f@x", "=", "=G0", "=FF@x", "a/b"] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn round_trip(name in "\\PC{0,20}@\\PC{0,20}") {
            let segment = encode(&name);
            prop_assert!(!segment.contains('/') && segment != "." && segment != "..");
            prop_assert_eq!(decode(&segment).unwrap(), name);
        }
    }
}
