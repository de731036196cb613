//! The folding for search: text and search strings go through it, then a plain substring search
//! decides.
//!
//! Canonical form ([`crate::canonical`]), then for each character compatibility decomposition and
//! one letter for all that share a capital. So all canonically equivalent texts are equal, and so
//! are all texts that `i;unicode-casemap` (RFC 5051, [`crate::collate`]) treats as equal, and more.
//! Every run of white space is one space: a search finds words wherever lines end. Scripts without
//! spaces between words break their lines anywhere, so a line end between two of their characters
//! is dropped ([`Folder::of_lines`]). A text may be folded in pieces cut anywhere.

mod traced;

use unicode_normalization::char::is_combining_mark;

use crate::canonical::{Canonical, compatible};

pub use traced::TracedText;

/// Folds `s` for searching.
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
    canonical: Canonical,
    end: End,
}

/// The end of the folded text.
#[derive(Debug, Default, Clone)]
struct End {
    /// In white space.
    spaced: bool,
    /// Line ends may be dropped: they are in a text whose lines were cut to a width.
    joins: bool,
    /// Lines may be broken after the last character that is not white space. Only known where lines
    /// are joined.
    breaks: bool,
    /// White space after that character, held until the next one.
    gap: Gap,
}

/// White space that may become a space or be dropped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Gap {
    #[default]
    None,
    Space,
    /// With one line end, whose last character was a CR: an LF may complete it.
    Cr,
    /// With one line end.
    Line,
    /// With a blank line, or an indented one.
    Paragraph,
}

impl Gap {
    /// With one more character.
    fn with(self, c: char) -> Self {
        match (self, c) {
            (Gap::None | Gap::Space, '\r') => Gap::Cr,
            (Gap::None | Gap::Space | Gap::Cr, '\n') => Gap::Line,
            (Gap::None | Gap::Space, _) => Gap::Space,
            (Gap::Paragraph, _) | (_, '\r' | '\n' | '\u{3000}') => Gap::Paragraph,
            (Gap::Cr | Gap::Line, _) => Gap::Line,
        }
    }
}

impl End {
    /// Ends held white space before the next character, after which lines may be broken or not.
    fn close_gap(&mut self, breaks: bool, out: &mut String) {
        let is_nothing = breaks && matches!(self.gap, Gap::Cr | Gap::Line);
        if std::mem::take(&mut self.gap) != Gap::None && !is_nothing {
            out.push(' ');
            self.spaced = true;
        }
    }
}

impl Folder {
    /// For a text whose author's program may have broken lines at any width.
    pub fn of_lines() -> Self {
        Folder { end: End { joins: true, ..End::default() }, ..Folder::default() }
    }

    /// Appends the folded form of `s` to `out`, except characters that are held until the next
    /// ones.
    pub fn push(&mut self, s: &str, out: &mut String) {
        let mut rest = s;
        while let Some(first) = rest.as_bytes().first() {
            // No ASCII character combines with the one before it.
            if first.is_ascii() {
                self.canonical.finish(|c| emit(c, &mut self.end, out));
            }
            let (plain, more) = rest.split_at(plain_ascii(rest, self.end.spaced || self.end.breaks));
            if let Some(last) = plain.bytes().last() {
                self.end.close_gap(false, out);
                let start = out.len();
                out.push_str(plain);
                out[start..].make_ascii_lowercase();
                (self.end.spaced, self.end.breaks) = (last == b' ', false);
            }
            let mut chars = more.chars();
            if let Some(c) = chars.next() {
                self.canonical.push(c, |c| emit(c, &mut self.end, out));
            }
            rest = chars.as_str();
        }
    }

    /// Ends the text: appends held characters.
    pub fn finish(&mut self, out: &mut String) {
        self.canonical.finish(|c| emit(c, &mut self.end, out));
        self.end.close_gap(false, out);
        self.end = End { joins: self.end.joins, ..End::default() };
    }
}

/// The length of the ASCII prefix of `s` in which folding only changes case: with single spaces
/// between words.
fn plain_ascii(s: &str, mut spaced: bool) -> usize {
    let plain = |byte: u8| {
        let space = byte == b' ';
        let plain = (space && !spaced) || (byte.is_ascii() && !is_space(byte));
        spaced = space;
        plain
    };
    s.bytes().map(plain).position(|plain| !plain).unwrap_or(s.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0d)
}

/// The words of a folded text: runs of letters and digits, accents and the points of Hebrew and
/// Arabic left out.
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

/// Whether it is of a script without spaces between words, whose lines are broken between any two
/// characters: the classes ID, CJ and NS of UAX #14 and the punctuation that goes with them. Hangul
/// has spaces.
fn breaks_anywhere(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{2fdf}' | '\u{3001}'..='\u{30ff}' | '\u{3105}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}'
        | '\u{3220}'..='\u{325f}' | '\u{3280}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}' | '\u{ff01}'..='\u{ff9f}' | '\u{20000}'..='\u{323af}')
}

/// Whether two folded texts are equal, except for spaces between characters that [break
/// anywhere](Folder::of_lines): older versions had one where a line ended.
pub fn equal_but_for_lines(a: &str, b: &str) -> bool {
    without_gaps(a).eq(without_gaps(b))
}

/// Like [`equal_but_for_lines`], for texts that may have been cut at different places.
pub fn begin_alike_but_for_lines(a: &str, b: &str) -> bool {
    without_gaps(a).zip(without_gaps(b)).all(|(a, b)| a == b)
}

/// The characters of a folded text without spaces between two that break anywhere.
fn without_gaps(text: &str) -> impl Iterator<Item = char> + '_ {
    text.char_indices()
        .filter(|(at, c)| {
            let (before, after) = (text[..*at].chars().next_back(), text[at + c.len_utf8()..].chars().next());
            *c != ' ' || !(before.is_some_and(breaks_anywhere) && after.is_some_and(breaks_anywhere))
        })
        .map(|(_, c)| c)
}

/// Appends the folded form of one character in canonical form.
fn emit(c: char, end: &mut End, out: &mut String) {
    if end.breaks && c.is_whitespace() {
        end.gap = end.gap.with(c);
        return;
    }
    let breaks = end.joins && breaks_anywhere(c);
    end.close_gap(breaks, out);
    // CJK and Hangul have neither case nor a decomposition.
    if matches!(c, '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}') {
        out.push(c);
        (end.spaced, end.breaks) = (false, breaks);
        return;
    }
    compatible(c, |d| {
        if d.is_whitespace() {
            if !std::mem::replace(&mut end.spaced, true) {
                out.push(' ');
            }
            return;
        }
        end.spaced = false;
        if d.is_ascii() || (is_combining_mark(d) && d != IOTA_SUBSCRIPT) {
            out.push(d.to_ascii_lowercase());
            return;
        }
        // Letters that share a capital are one: final sigma with sigma, the dotless i with the i,
        // the iota subscript with the iota (RFC 5051 compares titlecase). `ß` has no capital of one
        // letter and stays.
        let mut upper = d.to_uppercase();
        match (upper.next(), upper.next()) {
            (Some(one), None) => out.extend(one.to_lowercase()),
            _ => out.extend(d.to_lowercase()),
        }
    });
    end.breaks = breaks && !end.spaced;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

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
        assert_eq!(fold("㈎"), fold("(가)"));
    }

    #[test]
    fn canonically_equivalent_texts_are_one() {
        for text in ["한국어 보고서", "Café", "Tiếng Việt", "ᾴ ΐ", "שָׁלוֹם", "हिन्दी क़", "Å ガギ 豈"]
        {
            let (nfc, nfd): (String, String) = (text.nfc().collect(), text.nfd().collect());
            assert_eq!(fold(&nfc), fold(&nfd), "{text}");
        }
        assert!(fold("α\u{345}\u{301}") == fold("ᾴ") && fold("ê\u{323}") == fold("ệ"));
        assert!(!fold("각").contains(&fold("가")), "another syllable");
        assert!(fold("ㅋㅠㅠ").contains(&fold("ㅠㅠ")));
    }

    #[test]
    fn invisible_characters_are_dropped() {
        for unseen in
            ["\u{ad}", "\u{200b}", "\u{200c}", "\u{2060}", "\u{feff}", "\u{200e}", "\u{fe0f}", "\u{34f}"]
        {
            assert_eq!(fold(&format!("pass{unseen}Word")), "password");
        }
        assert_eq!(fold("\u{ad}"), "");
        assert_eq!(fold("a \u{200b} b"), "a b");
        assert_ne!(fold("Donau-dampf"), fold("Donaudampf"));
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
    fn white_space_is_one_space() {
        assert_eq!(fold("a\r\nb\rc\n\r \u{a0}\u{3000}d\t"), "a b c d ");
        assert_eq!(fold("  a"), " a");
        assert_eq!(fold("a\u{2028}\u{85}\u{c}b"), "a b");
    }

    fn of_lines(text: &str) -> String {
        let (mut folder, mut out) = (Folder::of_lines(), String::new());
        folder.push(text, &mut out);
        folder.finish(&mut out);
        out
    }

    #[test]
    fn a_line_end_between_ideographs_separates_nothing() {
        for (text, folded) in [
            ("今日は東\r\n京で会議", "今日は東京で会議"),
            ("東 \n京\rと、\r\n大阪 ", "東京と、大阪 "),
            ("ガ\nｷ\nが", "ガキが"),
            ("東京 大阪\t神戸", "東京 大阪 神戸"),
            ("一\r\n\r\n二\n\n三\n　四\r\r五", "一 二 三 四 五"),
            ("東\nK京\nx\n京 \n東", "東 k京 x 京東"),
            ("한국\n어", "한국 어"),
            ("A\nb 東\n\u{301}京", "a b 東 \u{301}京"),
        ] {
            assert_eq!(of_lines(text), fold(folded), "{text:?}");
            assert!(equal_but_for_lines(&of_lines(text), &fold(text)), "{text:?}");
            assert_eq!(fold(text).contains("東 京"), text.contains("東 \n京") || text.contains("東\r\n京"));
        }
        assert!(!equal_but_for_lines("a b", "ab") && !equal_but_for_lines("東a", "東 a"));
    }

    proptest! {
        #[test]
        fn a_text_of_lines_may_be_cut_anywhere(
            pieces in proptest::collection::vec("[a東京が\u{3099} \r\n\u{3000}\u{301}한]{0,4}", 0..8),
        ) {
            let (mut folder, mut out) = (Folder::of_lines(), String::new());
            pieces.iter().for_each(|piece| folder.push(piece, &mut out));
            folder.finish(&mut out);
            prop_assert_eq!(&out, &of_lines(&pieces.concat()));
            prop_assert_eq!(fold(&out), out);
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
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn cuts_do_not_matter(
            pieces in proptest::collection::vec("[a-zÄéς \r\nＡ\u{302}\u{323}\u{1100}\u{1161}\u{11a8}가\u{ad}ㅋ\u{a0}]{0,6}", 0..6)
        ) {
            let mut out = String::new();
            let mut folder = Folder::default();
            for piece in &pieces {
                folder.push(piece, &mut out);
            }
            folder.finish(&mut out);
            prop_assert_eq!(out, fold(&pieces.concat()));
        }

        #[test]
        fn equivalent_texts_fold_to_one(text in "[\\PC\u{300}-\u{345}\u{1100}-\u{1112}\u{1161}-\u{1175}\u{11a8}-\u{11c2}α]{0,12}") {
            let (nfc, nfd): (String, String) = (text.nfc().collect(), text.nfd().collect());
            prop_assert_eq!(fold(&nfc), fold(&nfd));
            prop_assert_eq!(fold(&text), fold(&nfd));
        }
    }
}
