//! Locates the bytes of a section in a message (RFC 3501 §6.4.5).

use std::ops::Range;

use sealpost_account::decoded::Span;
use sealpost_imap::types::{AString, Partial, Section, SectionText};
use sealpost_mime::header::HeaderFilter;
use sealpost_mime::{Outline, OutlinePart};

/// The place of a section.
#[derive(Debug, Clone)]
pub(crate) enum SectionBytes {
    /// The message has no such part.
    Nowhere,
    /// Bytes of the message.
    At(Span),
    /// Selected fields of a header in the message.
    Fields(Span, HeaderFilter),
}

/// Locates the section in a message with that outline.
pub(crate) fn locate(section: &Section, outline: &Outline) -> SectionBytes {
    match (span_of(section, outline), fields(&section.text)) {
        (None, _) => SectionBytes::Nowhere,
        (Some(span), Some(filter)) => SectionBytes::Fields(span, filter),
        (Some(span), None) => SectionBytes::At(span),
    }
}

/// The filter for the selected header fields of a section, if it has any.
pub(super) fn fields(text: &SectionText) -> Option<HeaderFilter> {
    match text {
        SectionText::HeaderFields(names) => Some(HeaderFilter::only(texts(names))),
        SectionText::HeaderFieldsNot(names) => Some(HeaderFilter::without(texts(names))),
        _ => None,
    }
}

/// The bytes that contain the section; `None` if the message has no such part.
pub(super) fn span_of(section: &Section, outline: &Outline) -> Option<Span> {
    let path: Vec<u32> = section.path.iter().map(|n| n.get()).collect();
    let (part, mut layers) = outline.part_within(&path)?;
    let whole = path.is_empty();
    // HEADER and TEXT of a part refer to the message in it; other parts have none.
    let message = if whole { Some(part) } else { part.message() };
    let of_message = !matches!(section.text, SectionText::Everything | SectionText::Mime);
    if of_message && !whole {
        layers.extend(part.layer());
    }
    let range = match &section.text {
        SectionText::Everything if whole => Some(0..outline.size()),
        SectionText::Everything => Some(part.body()),
        SectionText::Mime => Some(part.header()),
        SectionText::Text => message.map(OutlinePart::body),
        _ => message.map(OutlinePart::header),
    };
    Some(Span { layers, range: range? })
}

fn texts(names: &[AString]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    names.iter().map(|name| String::from_utf8_lossy(name.as_bytes()))
}

/// The part of `range` that a partial means; empty if it begins at or after the end (RFC 3501 §6.4.5).
pub(crate) fn cut(range: Range<u64>, partial: Option<Partial>) -> Range<u64> {
    let Some(partial) = partial else { return range };
    let start = range.start.saturating_add(partial.start).min(range.end);
    start..start.saturating_add(partial.count).min(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partials_end_with_the_section() {
        let part = |start, count| cut(100..110, Some(Partial { start, count }));
        assert_eq!(part(0, 4), 100..104);
        assert_eq!(part(8, 4), 108..110);
        assert!(part(10, 4).is_empty() && part(11, 4).is_empty() && part(u64::MAX, u64::MAX).is_empty());
        assert_eq!(part(0, u64::MAX), 100..110);
        assert_eq!(cut(5..9, None), 5..9);
    }
}
