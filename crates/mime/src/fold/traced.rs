//! A text as it is folded for searching, with where each character came from: to show a match in
//! the text itself.

use std::ops::Range;

use memchr::memmem::Finder;
use unicode_normalization::char::is_combining_mark;

use super::fold;

/// A folded text that leads back to the text.
pub struct TracedText {
    folded: String,
    /// Where each character begins, with the marks on it: in the folded text, and in the text.
    places: Vec<(u32, u32)>,
    /// Bytes of the text.
    length: usize,
}

impl TracedText {
    /// Folds a text of at most 4 GiB; takes nine bytes for one of ASCII.
    pub fn new(text: &str) -> Self {
        let mut traced = TracedText { folded: String::new(), places: Vec::new(), length: text.len() };
        let mut chars = text.char_indices().peekable();
        while let Some((start, first)) = chars.next() {
            traced.places.push((traced.folded.len() as u32, start as u32));
            if first.is_whitespace() {
                while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
                traced.folded.push(' ');
                continue;
            }
            let mut end = start + first.len_utf8();
            while let Some((at, mark)) = chars.next_if(|(_, c)| is_combining_mark(*c)) {
                end = at + mark.len_utf8();
            }
            match first.is_ascii() && end == start + 1 {
                true => traced.folded.push(first.to_ascii_lowercase()),
                false => traced.folded.push_str(&fold(&text[start..end])),
            }
        }
        traced
    }

    /// Where the text has this folded string: whole characters, none of which is in two matches.
    pub fn find_all(&self, folded: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        if folded.is_empty() {
            return found;
        }
        for at in Finder::new(folded).find_iter(self.folded.as_bytes()) {
            let range = self.text_at(at).start..self.text_at(at + folded.len() - 1).end;
            if found.last().is_none_or(|last| last.end <= range.start) {
                found.push(range);
            }
        }
        found
    }

    /// The character of the text of which a byte of the folded text is.
    fn text_at(&self, folded: usize) -> Range<usize> {
        let next = self.places.partition_point(|(start, _)| *start as usize <= folded);
        let start = next.checked_sub(1).map_or(0, |at| self.places[at].1 as usize);
        start..self.places.get(next).map_or(self.length, |(_, start)| *start as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(text: &'t str, wanted: &str) -> Vec<&'t str> {
        TracedText::new(text).find_all(&fold(wanted)).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn matches_are_shown_as_they_were_written() {
        assert_eq!(found("Straße, STRASSE", "stra"), ["Stra", "STRA"]);
        assert_eq!(found("Cafe\u{301} und café", "CAFÉ"), ["Cafe\u{301}", "café"]);
        assert_eq!(found("two\r\n  words, two words", "two words"), ["two\r\n  words", "two words"]);
        assert_eq!(found("aaaa", "aa"), ["aa", "aa"]);
        assert_eq!(found("ﬁne ﬁ", "f"), ["ﬁ", "ﬁ"], "whole characters");
        assert_eq!(found("abc", "x"), [""; 0]);
        assert_eq!(found("abc", ""), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn matches_are_characters_and_do_not_overlap(text in "[aAé\u{301}ßﬁ \n]{0,20}", wanted in "[aéfs ]{1,3}") {
            let mut end = 0;
            for range in TracedText::new(&text).find_all(&fold(&wanted)) {
                proptest::prop_assert!(range.start >= end && range.end > range.start);
                proptest::prop_assert!(fold(&text[range.clone()]).contains(fold(&wanted).trim()));
                end = range.end;
            }
        }
    }
}
