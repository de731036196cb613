//! Character references (HTML standard §13.2.5.72): numbers, and all names of §13.5.
//!
//! The table of names is made by `crates/mime/tables/make.py`.

use std::borrow::Cow;

use crate::decode::charset::windows_1252;

/// `name code points`, sorted by name; `!` at the end: the semicolon may be missing.
const TABLE: &str = include_str!("../../../tables/entities.txt");
/// Bytes of the longest name.
pub(super) const NAME_BYTES: usize = 31;
/// Bytes of the longest name that needs no semicolon.
const OLD_NAME_BYTES: usize = 6;

/// The meaning of a name: one character or two.
pub(super) type Signs = (char, Option<char>);

/// `text`, the value of an attribute, with its character references decoded; unknown ones stay.
pub fn decode_references(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        match reference(rest) {
            Some((length, (first, second))) => {
                out.push(first);
                out.extend(second);
                rest = &rest[length..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The reference at the beginning of `text` after its `&`, and how many bytes it has.
fn reference(text: &str) -> Option<(usize, Signs)> {
    if let Some(number) = text.strip_prefix('#') {
        let (hex, digits) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (true, digits),
            None => (false, number),
        };
        let mut value = Number::new(hex);
        let mut length = 0;
        while let Some(more) = digits[length..].chars().next().and_then(|c| value.with(c)) {
            (value, length) = (more, length + 1);
        }
        let end = text.len() - digits.len() + length;
        let semicolon = usize::from(text[end..].starts_with(';'));
        return (length > 0).then(|| (end + semicolon, (value.sign(), None)));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let name = &text[..end];
    if text[end..].starts_with(';')
        && let Some(signs) = with_semicolon(name)
    {
        return Some((end + 1, signs));
    }
    let (length, signs) = without_semicolon(name)?;
    // `?a=b&copy=c` has no references in it, and neither has `&copying` here.
    let follows = text[length..].chars().next();
    (!follows.is_some_and(|c| c == '=' || c.is_ascii_alphanumeric())).then_some((length, signs))
}

/// The meaning of `name` if a semicolon follows it.
pub(super) fn with_semicolon(name: &str) -> Option<Signs> {
    entry(name).map(|(signs, _)| signs)
}

/// The longest beginning of `name` that has a meaning without a semicolon, its length, and the
/// meaning.
pub(super) fn without_semicolon(name: &str) -> Option<(usize, Signs)> {
    let most = name.len().min(OLD_NAME_BYTES);
    (2..=most).rev().find_map(|length| {
        let (signs, old) = entry(name.get(..length)?)?;
        old.then_some((length, signs))
    })
}

/// The line of that name: its meaning, and whether the semicolon may be missing.
fn entry(name: &str) -> Option<(Signs, bool)> {
    let (mut from, mut to) = (0, TABLE.len());
    while from < to {
        let middle = from + (to - from) / 2;
        let start = TABLE[from..middle].rfind('\n').map_or(from, |at| from + at + 1);
        let end = TABLE[middle..to].find('\n').map_or(to, |at| middle + at);
        let (found, rest) = TABLE[start..end].split_once(' ')?;
        match name.cmp(found) {
            std::cmp::Ordering::Less => to = start,
            std::cmp::Ordering::Greater => from = end + 1,
            std::cmp::Ordering::Equal => return parsed(rest),
        }
    }
    None
}

fn parsed(rest: &str) -> Option<(Signs, bool)> {
    let (points, old) = match rest.strip_suffix(" !") {
        Some(points) => (points, true),
        None => (rest, false),
    };
    let mut signs = points.split(' ').map(|hex| u32::from_str_radix(hex, 16).ok().and_then(char::from_u32));
    Some(((signs.next()??, signs.next().flatten()), old))
}

/// The number of a numeric reference while its digits are read, of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    hex: bool,
    value: u32,
}

impl Number {
    pub(super) fn new(hex: bool) -> Self {
        Number { hex, value: 0 }
    }

    /// With the next digit; `None` if `c` is none.
    pub(super) fn with(self, c: char) -> Option<Self> {
        let radix = if self.hex { 16 } else { 10 };
        let value = self.value.saturating_mul(radix).saturating_add(c.to_digit(radix)?);
        Some(Number { value, ..self })
    }

    /// The character (HTML standard §13.2.5.80): numbers of the C1 range mean windows-1252, and
    /// invalid ones U+FFFD.
    pub(super) fn sign(self) -> char {
        match self.value {
            0 => char::REPLACEMENT_CHARACTER,
            code @ 0x80..=0x9f => windows_1252(code as u8),
            code => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_sorted() {
        let names: Vec<&str> = TABLE.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert!(names.is_sorted() && names.len() == 2125);
        assert_eq!(names.iter().map(|name| name.len()).max(), Some(NAME_BYTES));
        let old: Vec<&str> = names.iter().copied().filter(|name| entry(name).unwrap().1).collect();
        assert_eq!((old.len(), old.iter().map(|name| name.len()).max()), (106, Some(OLD_NAME_BYTES)));
        for name in names {
            assert!(with_semicolon(name).is_some(), "{name}");
        }
        for none in ["", "A", "AElih", "zzzzz", "Aaaaaaaaaa", "zwnjj"] {
            assert!(with_semicolon(none).is_none(), "{none}");
        }
        assert_eq!(with_semicolon("lstrok"), Some(('ł', None)));
        assert_eq!(with_semicolon("acE"), Some(('\u{223e}', Some('\u{333}'))));
    }

    #[test]
    fn attributes_keep_text_that_is_no_reference() {
        for (value, text) in [
            ("a &lt; b &amp c &x; &", "a < b & c &x; &"),
            ("?a=b&copy=c&lang=en&copying&copy;&copy", "?a=b&copy=c&lang=en&copying©©"),
            (
                "&#8364;&#x20AC &#128;&#xD800;&#99999999999;&#0;&#;&#x;&#xg",
                "€€ €\u{fffd}\u{fffd}\u{fffd}&#;&#x;&#xg",
            ),
            ("&notin;&notit;&zcaron;&zcaron", "∉&notit;ž&zcaron"),
            ("ä&", "ä&"),
        ] {
            assert_eq!(decode_references(value), text);
        }
    }
}
