//! `i;unicode-casemap` (RFC 5051): how SORT and THREAD compare strings (RFC 5255 §4.3, RFC 5256 §7).
//!
//! A string becomes "titlecased canonicalized UTF-8", and those bytes are compared: each character
//! is replaced by its simple titlecase and then by its decomposition, recursively. The results of a
//! decomposition are not titlecased any more. Before that the string is brought into canonical form
//! ([`crate::canonical`]): the RFC uses the property tables, in which Hangul has no decomposition,
//! and so would distinguish canonically equivalent strings, which Unicode forbids (§3.2, C6).
//! Substring searches use [`crate::fold`], which finds all that this finds and more.

use crate::canonical::{Canonical, compatible};

/// Appends to `out` the bytes by which `s` is compared, at most `most` of them, ending between two
/// characters.
pub fn key(s: &str, most: usize, out: &mut Vec<u8>) {
    let end = out.len().saturating_add(most);
    let mut full = false;
    let mut push = |c: char| {
        full |= out.len() + c.len_utf8() > end;
        if !full {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        full
    };
    // Most strings are ASCII, at least at their beginning.
    let ascii = s.bytes().take(most).take_while(u8::is_ascii).count();
    s[..ascii].chars().for_each(|c| {
        push(c.to_ascii_uppercase());
    });
    let mut canonical = Canonical::default();
    for c in s[ascii..].chars() {
        let mut done = false;
        canonical.push(c, |c| compatible(titlecase(c), |c| done |= push(c)));
        if done {
            return;
        }
    }
    canonical.finish(|c| {
        compatible(titlecase(c), |c| {
            push(c);
        });
    });
}

/// The simple titlecase mapping of UnicodeData.txt, field 14.
fn titlecase(c: char) -> char {
    match c {
        // Digraphs, whose first half alone is a capital.
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian has capitals, but not at the beginning of words.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => c,
        // Greek letters with iota subscript: their uppercase is two letters, their titlecase is one.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => offset(c, 8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => offset(c, 9),
        _ => {
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(one), None) => one,
                // No simple mapping: the letter stays.
                _ => c,
            }
        }
    }
}

fn offset(c: char, by: u32) -> char {
    char::from_u32(c as u32 + by).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use unicode_normalization::UnicodeNormalization;

    use super::*;
    use crate::fold;

    fn keyed(s: &str) -> String {
        let mut out = Vec::new();
        key(s, usize::MAX / 2, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn titlecased_and_decomposed() {
        assert_eq!(keyed("Hello, world_"), "HELLO, WORLD_");
        assert_eq!(keyed("é"), "E\u{301}");
        // RFC 5051 §2: all three are the same.
        for dz in ["\u{1c4}", "\u{1c5}", "\u{1c6}"] {
            assert_eq!(keyed(dz), "Dz\u{30c}");
        }
        assert_eq!(keyed("ς"), keyed("Σ"));
        assert_eq!(keyed("\u{1fb3}"), "\u{391}\u{399}");
        assert_eq!(keyed("\u{1f80}"), keyed("\u{1f88}"));
        assert_eq!(keyed("ß"), "ß");
        assert_eq!(keyed("ﬁ"), "fi");
        assert_eq!(keyed("한"), "한");
        assert_eq!(keyed("\u{1112}\u{1161}\u{11ab}"), "한");
        assert_eq!(keyed("pass\u{200b}word"), "PASSWORD");
        assert_eq!(keyed("\u{1f0}"), keyed("j\u{30c}"));
        assert_eq!(keyed("\u{10d0}"), "\u{10d0}");
        assert_eq!(keyed("\u{1c90}"), "\u{1c90}");
    }

    #[test]
    fn order_is_that_of_the_bytes() {
        let mut words = ["b", "É", "_", "a", "e", "Zebra", "z", "ä", "f"];
        words.sort_by_key(|word| keyed(word));
        assert_eq!(words, ["a", "ä", "b", "e", "É", "f", "z", "Zebra", "_"]);
    }

    #[test]
    fn keys_are_cut_between_characters() {
        let cut = |s: &str, most| {
            let mut out = b"x".to_vec();
            key(s, most, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(cut("abc", 2), "xAB");
        assert_eq!(cut("aéb", 2), "xAE");
        assert_eq!(cut("日本", 5), "x日");
        assert_eq!(cut("日b", 2), "x");
        assert_eq!(cut("abc", 0), "x");
    }

    #[test]
    fn equivalent_strings_are_equal() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let decomposed: String = c.nfd().collect();
            assert_eq!(keyed(&decomposed), keyed(&c.to_string()), "U+{:04X}", c as u32);
        }
    }

    /// Strings that the comparator treats as equal, SEARCH treats as equal (RFC 5255 §4.3): both
    /// work character by character, and folding a string gives the same result with or without this
    /// step before.
    #[test]
    fn folding_finds_all_that_is_equal() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| *c != '\r') {
            let s = c.to_string();
            assert_eq!(fold(&keyed(&s)), fold(&s), "U+{:04X}", c as u32);
        }
    }
}
