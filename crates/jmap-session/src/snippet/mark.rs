//! Marks matches in a text as HTML (RFC 8621 §5): the text escaped, matches in `<mark>`.

use std::ops::Range;

use sealpost_mime::fold::TracedText;

/// The maximum size of a preview, in bytes (RFC 8621 §5).
const PREVIEW_BYTES: usize = 255;
/// Bytes of HTML in a preview before its first match.
const BEFORE_BYTES: usize = 80;
/// The window in which a long text is searched, in bytes, and its overlap with the next one, so that matches
/// may cross the border.
const STEP_BYTES: usize = 8 * 1024;
const CROSSING_BYTES: usize = 1024;

const OPEN: &str = "<mark>";
const CLOSE: &str = "</mark>";

/// The whole text; `None` without a match.
pub(super) fn marked(text: &str, terms: &[String]) -> Option<String> {
    let matches = matches(text, terms);
    if matches.is_empty() { None } else { Some(html(text, 0, &matches, usize::MAX)) }
}

/// The part of a text around its first match; `None` without one.
pub(super) fn preview(text: &str, terms: &[String]) -> Option<String> {
    let mut start = 0;
    while start < text.len() {
        let next = text.ceil_char_boundary((start + STEP_BYTES).min(text.len()));
        let end = text.ceil_char_boundary((next + CROSSING_BYTES).min(text.len()));
        let found = matches(&text[start..end], terms);
        if let Some(first) = found.first() {
            let begin = begin_before(text, start + first.start);
            // Further matches, relative to the window.
            let end = text.ceil_char_boundary((begin + 2 * CROSSING_BYTES).min(text.len()));
            let part = &text[begin..end];
            let shown = matches(part, terms);
            return Some(html(part, 0, &shown, PREVIEW_BYTES));
        }
        start = next;
    }
    None
}

/// The matches of all terms; overlapping ones are merged.
fn matches(text: &str, terms: &[String]) -> Vec<Range<usize>> {
    let traced = TracedText::new(text);
    let mut found: Vec<Range<usize>> = terms.iter().flat_map(|term| traced.find_all(term)).collect();
    found.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in found {
        match joined.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}

/// Where a preview begins: a few words before the match.
fn begin_before(text: &str, at: usize) -> usize {
    let (mut begin, mut bytes, mut word) = (at, 0, None);
    for (index, c) in text[..at].char_indices().rev() {
        bytes += escaped(c).map_or(c.len_utf8(), str::len);
        if bytes > BEFORE_BYTES {
            // Not inside a word, if there is a space.
            return word.unwrap_or(begin);
        }
        if c.is_whitespace() {
            word = Some(begin);
        }
        begin = index;
    }
    begin
}

/// The HTML escape of a character.
fn escaped(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    }
}

/// The text from `begin` as HTML, at most `most` bytes. Runs of white space become single spaces.
fn html(text: &str, begin: usize, matches: &[Range<usize>], most: usize) -> String {
    let mut out = String::new();
    let mut left = matches.iter().peekable();
    let mut is_open = false;
    for (at, c) in text[begin..].char_indices().map(|(at, c)| (begin + at, c)) {
        while let Some(range) = left.peek() {
            if is_open && at >= range.end {
                out.push_str(CLOSE);
                (is_open, _) = (false, left.next());
            } else if !is_open && at >= range.start && at < range.end {
                // Leave space for one character and the closing tag.
                if out.len().saturating_add(OPEN.len() + CLOSE.len() + 8) > most {
                    return out;
                }
                out.push_str(OPEN);
                is_open = true;
            } else {
                break;
            }
        }
        let piece = match c {
            c if c.is_whitespace() => {
                if out.is_empty() || out.ends_with(' ') {
                    continue;
                }
                " "
            }
            c => escaped(c).unwrap_or(&text[at..at + c.len_utf8()]),
        };
        let end = if is_open { CLOSE.len() } else { 0 };
        if out.len().saturating_add(piece.len() + end) > most {
            break;
        }
        out.push_str(piece);
    }
    out.truncate(out.trim_end().len());
    if is_open {
        out.push_str(CLOSE);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(terms: &[&str]) -> Vec<String> {
        terms.iter().map(|term| sealpost_mime::fold(term)).collect()
    }

    #[test]
    fn matches_are_marked_and_all_else_is_escaped() {
        let marked = |text: &str, wanted: &[&str]| marked(text, &terms(wanted));
        assert_eq!(
            marked("a <b> & C", &["b", "c"]).unwrap(),
            "a &lt;<mark>b</mark>&gt; &amp; <mark>C</mark>"
        );
        assert_eq!(marked("<b>", &["<b>"]).unwrap(), "<mark>&lt;b&gt;</mark>");
        assert_eq!(marked("abcd", &["abc", "bcd"]).unwrap(), "<mark>abcd</mark>");
        assert_eq!(marked("two\r\n words", &["two words"]).unwrap(), "<mark>two words</mark>");
        assert_eq!(marked("abc", &["x"]), None);
        assert_eq!(marked("abc", &[]), None);
    }

    #[test]
    fn a_preview_begins_some_words_before_the_match() {
        let text = format!("{} the needle {}", "hay ".repeat(100), "straw ".repeat(100));
        let preview = preview(&text, &terms(&["needle"])).unwrap();
        assert!(
            preview.starts_with("hay hay ") && preview.contains(" the <mark>needle</mark> straw"),
            "{preview}"
        );
        assert!(preview.len() <= PREVIEW_BYTES && preview.len() > 200, "{}", preview.len());
    }

    #[test]
    fn matches_are_found_at_any_place() {
        for at in [0, 1, STEP_BYTES - 3, STEP_BYTES, 3 * STEP_BYTES - 2] {
            let text = format!("{}né e\u{301}dle", "&".repeat(at));
            let found = preview(&text, &terms(&["né édle"])).unwrap();
            assert!(found.ends_with("<mark>né e\u{301}dle</mark>"), "{at}: {found}");
        }
    }

    proptest::proptest! {
        #[test]
        fn previews_are_bounded_and_have_a_mark(
            text in "[a-c&<> \n\u{e9}\u{10000}]{0,400}", wanted in "[a-c&<é]{1,3}",
        ) {
            let terms = terms(&[&wanted]);
            let whole = marked(&text, &terms);
            let preview = preview(&text, &terms);
            proptest::prop_assert_eq!(whole.is_some(), preview.is_some());
            for shown in preview.iter().chain(&whole) {
                proptest::prop_assert!(shown.contains(OPEN));
                proptest::prop_assert_eq!(shown.matches(OPEN).count(), shown.matches(CLOSE).count());
                let plain = shown.replace(OPEN, "").replace(CLOSE, "");
                proptest::prop_assert!(!plain.contains(['<', '>']));
            }
            proptest::prop_assert!(preview.is_none_or(|preview| preview.len() <= PREVIEW_BYTES));
        }
    }
}
