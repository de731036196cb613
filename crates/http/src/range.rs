//! Parts of a representation: the `Range` and `If-Range` fields (RFC 9110 §13.1.5, §14).
//!
//! The server sends one range of bytes. A request for several ranges gets the whole representation, which
//! §14.2 allows: many overlapping ranges of one file are a known attack.

use std::ops::Range;

use http::{HeaderMap, header};

/// The requested part of a representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    Whole,
    /// A range of bytes: never empty, never beyond the end.
    Part(Range<u64>),
    /// Only bytes beyond the end.
    Unsatisfiable,
}

/// The part that these request fields ask for. The representation has `length` bytes; `etag` is its strong
/// entity tag with quotes.
pub fn wanted(headers: &HeaderMap, length: u64, etag: &str) -> Wanted {
    let mut fields = headers.get_all(header::RANGE).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return Wanted::Whole };
    // §13.1.5: the range is void if the representation has changed. Dates are no strong validators here.
    let same = headers.get(header::IF_RANGE).is_none_or(|tag| tag.as_bytes() == etag.as_bytes());
    match field.to_str() {
        Ok(field) if same => parse(field, length),
        _ => Wanted::Whole,
    }
}

/// §14.1.1 and §14.2: an unintelligible field is ignored.
fn parse(field: &str, length: u64) -> Wanted {
    let Some((unit, range)) = field.split_once('=') else { return Wanted::Whole };
    let Some((first, last)) = range.trim().split_once('-') else { return Wanted::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Whole;
    }
    let (first, last) = (number(first), number(last));
    match (first, last) {
        // A suffix of the representation.
        (Some(None), Some(Some(suffix))) => match suffix.min(length) {
            0 => Wanted::Unsatisfiable,
            suffix => Wanted::Part(length - suffix..length),
        },
        (Some(Some(first)), Some(last)) => match last {
            Some(last) if last < first => Wanted::Whole,
            _ if first >= length => Wanted::Unsatisfiable,
            last => Wanted::Part(first..last.map_or(length, |last| last.saturating_add(1).min(length))),
        },
        _ => Wanted::Whole,
    }
}

/// A number or nothing; the outer `None` for anything else. A number that is too large saturates.
fn number(text: &str) -> Option<Option<u64>> {
    match text.as_bytes() {
        [] => Some(None),
        digits if digits.iter().all(u8::is_ascii_digit) => Some(Some(text.parse().unwrap_or(u64::MAX))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &[(header::HeaderName, &str)], length: u64) -> Wanted {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.clone(), value.parse().unwrap());
        }
        wanted(&headers, length, "\"v1\"")
    }

    #[test]
    fn known_ranges() {
        for (field, expected) in [
            ("bytes=0-499", Wanted::Part(0..500)),
            ("bytes=500-999", Wanted::Part(500..1000)),
            ("bytes=-500", Wanted::Part(500..1000)),
            ("bytes=900-", Wanted::Part(900..1000)),
            ("Bytes=0-0", Wanted::Part(0..1)),
            ("bytes=0-99999999999999999999999", Wanted::Part(0..1000)),
            ("bytes=-99999999999999999999999", Wanted::Part(0..1000)),
            ("bytes=1000-", Wanted::Unsatisfiable),
            ("bytes=99999999999999999999999-", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=1--2", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("bytes", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(told(&[(header::RANGE, field)], 1000), expected, "{field}");
        }
        assert_eq!(told(&[], 1000), Wanted::Whole);
        assert_eq!(told(&[(header::RANGE, "bytes=0-")], 0), Wanted::Unsatisfiable);
        let twice = [(header::RANGE, "bytes=0-1"), (header::RANGE, "bytes=0-1")];
        assert_eq!(told(&twice, 1000), Wanted::Whole);
    }

    #[test]
    fn a_range_of_another_version_is_not_served() {
        let with = |tag| told(&[(header::RANGE, "bytes=0-1"), (header::IF_RANGE, tag)], 9);
        assert_eq!(with("\"v1\""), Wanted::Part(0..2));
        for other in ["\"v2\"", "W/\"v1\"", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(with(other), Wanted::Whole, "{other}");
        }
    }
}
