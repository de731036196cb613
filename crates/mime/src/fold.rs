//! The one folding for search: text and search strings go through it, then a plain substring search decides.
//!
//! Character by character: compatibility decomposition (NFKD) and one letter for all that share a capital, so that
//! whatever `i;unicode-casemap` (RFC 5051, [`crate::collate`]) takes for the same is the same, and more. Nothing looks at neighbours except CR LF, so a text may be folded in pieces cut anywhere. Combining
//! marks are kept and not reordered. Hangul syllables stay composed: their decomposition says nothing about case or
//! width and would triple the stored text.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Folds `s` for searching: compatibility decomposition, lower case, and line ends as `\n`.
pub fn fold(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut folder = Folder::default();
    folder.push(s, &mut out);
    folder.finish(&mut out);
    out
}

/// Folds a text that arrives in pieces; where it was cut does not change the result.
#[derive(Debug, Default, Clone)]
pub struct Folder {
    /// A CR was seen and the next character decides whether it was half of a CRLF.
    cr: bool,
}

impl Folder {
    /// Appends the folded form of `s` to `out`.
    pub fn push(&mut self, s: &str, out: &mut String) {
        let mut rest = s;
        if self.cr && !rest.is_empty() {
            self.cr = false;
            if !rest.starts_with('\n') {
                out.push('\n');
            }
        }
        while !rest.is_empty() {
            let plain = rest.bytes().position(|b| !b.is_ascii() || b == b'\r').unwrap_or(rest.len());
            let (ascii, more) = rest.split_at(plain);
            let start = out.len();
            out.push_str(ascii);
            out[start..].make_ascii_lowercase();
            let mut chars = more.chars();
            match chars.next() {
                None => return,
                Some('\r') => match chars.clone().next() {
                    None => self.cr = true,
                    Some('\n') => {}
                    Some(_) => out.push('\n'),
                },
                Some(c) => fold_char(c, out),
            }
            rest = chars.as_str();
        }
    }

    /// Ends the text: a CR that was waiting for its LF becomes a line end of its own.
    pub fn finish(&mut self, out: &mut String) {
        if std::mem::take(&mut self.cr) {
            out.push('\n');
        }
    }
}

/// Folds what the first version of this folded: it let a few letters stand that share a capital with others.
pub(crate) fn again(folded: String) -> String {
    let stands = |beginning: &[u8]| memchr::memmem::find(folded.as_bytes(), beginning).is_some();
    // U+0131, U+0345, and U+1C80 to U+1C88.
    if folded.is_ascii() || !(stands(b"\xc4\xb1") || stands(b"\xcd\x85") || stands(b"\xe1\xb2")) {
        return folded;
    }
    fold(&folded)
}

/// The words of a folded text: runs of letters and digits, accents and the points of Hebrew and Arabic left out.
pub fn words(folded: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    for c in folded.chars() {
        if is_accent(c) {
            continue;
        }
        if c.is_alphanumeric() || is_combining_mark(c) {
            word.push(c);
        } else if !word.is_empty() {
            each(&word);
            word.clear();
        }
    }
    if !word.is_empty() {
        each(&word);
    }
}

/// Marks that may be left out in writing. Vowel signs of Indic scripts and voicing marks of kana may not.
fn is_accent(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}'
        | '\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// The only combining mark that has a capital.
const IOTA_SUBSCRIPT: char = '\u{345}';

/// The folded form of one character that is not CR.
fn fold_char(c: char, out: &mut String) {
    // CJK, kana and Hangul have neither case nor, outside the compatibility blocks, a decomposition worth its bytes.
    if matches!(c, '\u{3041}'..='\u{3096}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}') {
        if matches!(c, '\u{3041}'..='\u{3096}') {
            decompose_compatible(c, |d| out.push(d));
        } else {
            out.push(c);
        }
        return;
    }
    decompose_compatible(c, |d| {
        if d.is_ascii() || (is_combining_mark(d) && d != IOTA_SUBSCRIPT) {
            out.push(d.to_ascii_lowercase());
            return;
        }
        // Letters that share a capital are one: final sigma with sigma, the dotless i with the i, the iota subscript with
        // the iota (RFC 5051 compares titlecase). `ß` has no capital of one letter and stays.
        let mut upper = d.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(one), None) => out.extend(one.to_lowercase()),
            _ => out.extend(d.to_lowercase()),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_width_and_compatibility_forms_are_one() {
        assert_eq!(fold("Hello, WORLD"), "hello, world");
        assert_eq!(fold("ＦＵＬＬ ﬁne"), "full fine");
        assert_eq!(fold("ΟΔΟΣ"), fold("οδος"));
        assert_eq!(fold("ÄÖÜ"), fold("äöü"));
        assert_eq!(fold("e\u{301}"), fold("é"));
        assert_eq!(fold("ПРИВЕТ"), "привет");
        assert_eq!(fold("한국어 日本語"), "한국어 日本語");
        assert_eq!(fold("ｶﾞ"), fold("ガ"));
    }

    #[test]
    fn words_are_letters_without_accents() {
        let words = |text: &str| {
            let mut found = Vec::new();
            words(&fold(text), |word| found.push(word.to_owned()));
            found
        };
        assert_eq!(words("Re: Résumé (2. Fassung), it's"), ["re", "resume", "2", "fassung", "it", "s"]);
        assert_eq!(words(" -- "), [""; 0]);
        assert_eq!(words("が हिन्दी"), ["か\u{3099}", "हिन्दी"]);
    }

    #[test]
    fn line_ends_become_lf() {
        assert_eq!(fold("a\r\nb\rc\n\r"), "a\nb\nc\n\n");
    }

    #[test]
    fn what_the_first_version_folded_is_folded_again() {
        assert_eq!(again("ılık \u{1c80} α\u{345}".to_owned()), "ilik в αι");
        assert_eq!(again("plain é".to_owned()), "plain é");
        // Nothing else that it let stand is changed now; `ς` it made `σ`.
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| *c != 'ς' && *c != '\r') {
            let mut parts = Vec::new();
            decompose_compatible(c, |d| parts.push(d));
            let stood = parts == [c] && (is_combining_mark(c) || c.to_lowercase().eq([c]));
            if stood && fold(&c.to_string()) != c.to_string() {
                assert_eq!(again(c.to_string()), fold(&c.to_string()), "U+{:04X}", c as u32);
            }
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let once = fold(&c.to_string());
            assert_eq!(fold(&once), once, "U+{:04X}", c as u32);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn cuts_do_not_matter(pieces in proptest::collection::vec("[a-zÄéς\r\nＡ]{0,6}", 0..6)) {
            let mut out = String::new();
            let mut folder = Folder::default();
            for piece in &pieces {
                folder.push(piece, &mut out);
            }
            folder.finish(&mut out);
            prop_assert_eq!(out, fold(&pieces.concat()));
        }
    }
}
