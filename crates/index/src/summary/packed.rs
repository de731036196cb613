//! Strings one after the other in one string, each behind its length: how a summary holds its fields.
//!
//! Lengths are characters themselves, so that what is packed is a string too and is checked to be
//! one only once. A length below 2^15 is the character of that number; a longer one is two, the
//! first of them from U+8000 on. Surrogates are never needed, because the first one has at most
//! 0x57FF for its upper digits.

const DIGIT_BITS: u32 = 15;
const DIGIT: u32 = 1 << DIGIT_BITS;

/// Appends `value`.
pub(super) fn put(out: &mut String, value: &str) {
    put_number(out, value.len());
    out.push_str(value);
}

/// Appends a string that may be missing, which is not the same as an empty one.
pub(super) fn put_optional(out: &mut String, value: Option<&str>) {
    put_number(out, value.map_or(0, |value| value.len() + 1));
    out.push_str(value.unwrap_or_default());
}

fn put_number(out: &mut String, number: usize) {
    // The longest value there is has `limits::STRUCTURE_BYTES`, far below what two digits can say.
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let (high, low) = (number >> DIGIT_BITS, number % DIGIT);
    if high > 0 {
        out.extend(char::from_u32(DIGIT + high));
    }
    out.extend(char::from_u32(low));
}

/// Reads packed numbers. Invalid bytes end it early; nothing fails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed<'a>(pub(super) &'a str);

impl<'a> Packed<'a> {
    /// The next string.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let (length, rest) = number(self.0)?;
        self.cut(length, rest)
    }

    /// The next string, which may be missing: `Some(None)`.
    pub(super) fn take_optional(&mut self) -> Option<Option<&'a str>> {
        let (length, rest) = number(self.0)?;
        match length.checked_sub(1) {
            Some(length) => self.cut(length, rest).map(Some),
            None => {
                self.0 = rest;
                Some(None)
            }
        }
    }

    fn cut(&mut self, length: usize, rest: &'a str) -> Option<&'a str> {
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }
}

fn number(packed: &str) -> Option<(usize, &str)> {
    let mut chars = packed.chars();
    let first = u32::from(chars.next()?);
    let number = match first.checked_sub(DIGIT) {
        None => first,
        Some(high) => {
            let low = u32::from(chars.next()?);
            if low >= DIGIT || high >> (32 - DIGIT_BITS) != 0 {
                return None;
            }
            high << DIGIT_BITS | low
        }
    };
    Some((number as usize, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_texts_round_trip() {
        let long = "é".repeat(600_000);
        let mut out = String::new();
        put(&mut out, "a");
        put(&mut out, "");
        put_optional(&mut out, None);
        put_optional(&mut out, Some(""));
        put(&mut out, &long);
        put(&mut out, &long[..32_766]);
        put_optional(&mut out, Some(&long[..32_766]));
        put(&mut out, &long[..32_768]);
        let mut packed = Packed(&out);
        assert_eq!(packed.take(), Some("a"));
        assert_eq!(packed.take(), Some(""));
        assert_eq!(packed.take_optional(), Some(None));
        assert_eq!(packed.take_optional(), Some(Some("")));
        assert_eq!(packed.take(), Some(&long[..]));
        assert_eq!(packed.take(), Some(&long[..32_766]));
        assert_eq!(packed.take_optional(), Some(Some(&long[..32_766])));
        assert_eq!(packed.take(), Some(&long[..32_768]));
        assert!(packed.take().is_none());
    }

    #[test]
    fn unpackable_input_ends() {
        for bad in ["\u{5}ab", "\u{8001}", "\u{d7ff}\u{10ffff}", "\u{2}\u{e9}a\u{1}\u{e9}", "\u{10ffff}\u{1}"]
        {
            let mut packed = Packed(bad);
            while packed.take().is_some() {}
            let mut packed = Packed(bad);
            while packed.take_optional().is_some() {}
        }
    }
}
