//! The fuzz target for matches in texts.

use sealpost_mime::fold::{TracedText, fold};

/// Looks for the first line of the input in the rest.
pub fn fuzz_mime_traced(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (wanted, text) = text.split_once('\n').unwrap_or(("a", &text));
    let wanted = fold(wanted);
    let mut end = 0;
    for found in TracedText::new(text).find_all(&wanted) {
        assert!(found.start >= end && found.start < found.end);
        end = found.end;
        // Whole characters.
        assert!(!text[found].is_empty());
    }
}
