//! One form for all canonically equivalent texts (Unicode §3.7, §3.11, §3.12), without invisible characters.
//!
//! Characters are decomposed, marks are put in canonical order, and Hangul is composed to syllables
//! again, which keeps Korean text small and its syllables whole: `가` is not found in `각`.
//! Characters with the property Default_Ignorable_Code_Point are dropped, as NFKC_Casefold drops
//! them (Unicode §3.13).
//!
//! Text is processed character by character; at most [`MARKS`] marks and one syllable are held
//! until the next character.
//! follows them.

use unicode_normalization::char::{
    canonical_combining_class, compose, decompose_canonical, decompose_compatible,
};

/// Marks on one letter that are ordered; the stream-safe format of UAX 15 §13 allows 30.
/// Longer runs are ordered in pieces of this size.
const MARKS: usize = 32;

/// Brings one text into canonical form.
#[derive(Debug, Default, Clone)]
pub(crate) struct Canonical {
    /// The start of a Hangul syllable that the next character may complete.
    syllable: Option<char>,
    /// Marks since the last letter, with their combining classes.
    marks: Vec<(u8, char)>,
}

impl Canonical {
    /// Takes the next character and emits complete ones.
    pub(crate) fn push(&mut self, c: char, mut emit: impl FnMut(char)) {
        match c {
            _ if c.is_ascii() => self.starter(c, &mut emit),
            // Composed and non-decomposable characters need no table.
            '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => self.starter(c, &mut emit),
            _ => decompose_canonical(c, |part| self.part(part, &mut emit)),
        }
    }

    /// Emits held characters.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(char)) {
        self.release(&mut emit);
    }

    fn part(&mut self, c: char, emit: &mut impl FnMut(char)) {
        if is_ignorable(c) {
            return;
        }
        match canonical_combining_class(c) {
            0 => self.starter(c, emit),
            class => {
                if let Some(syllable) = self.syllable.take() {
                    emit(syllable);
                }
                if self.marks.len() == MARKS {
                    self.release(emit);
                }
                self.marks.push((class, c));
            }
        }
    }

    fn starter(&mut self, c: char, emit: &mut impl FnMut(char)) {
        if let Some(whole) = self.syllable.and_then(|start| compose_hangul(start, c)) {
            self.syllable = Some(whole);
            return;
        }
        self.release(emit);
        if may_begin_syllable(c) { self.syllable = Some(c) } else { emit(c) }
    }

    fn release(&mut self, emit: &mut impl FnMut(char)) {
        if let Some(syllable) = self.syllable.take() {
            emit(syllable);
        }
        if !self.marks.is_empty() {
            // Stable: marks of one class stay in the order in which they were written (Unicode §3.11, D109).
            self.marks.sort_by_key(|(class, _)| *class);
            self.marks.drain(..).for_each(|(_, mark)| emit(mark));
        }
    }
}

/// The compatibility decomposition of a character in canonical form. Hangul syllables inside of it
/// are whole, as `가` in `㈎`; letters that stand alone stay alone: `ㅠ` is found in `ㅋㅠㅠ`.
pub(crate) fn compatible(c: char, mut emit: impl FnMut(char)) {
    let mut syllable: Option<char> = None;
    match c {
        '\u{ac00}'..='\u{d7a3}' => emit(c),
        _ => decompose_compatible(c, |part| match syllable.and_then(|start| compose_hangul(start, part)) {
            Some(whole) => syllable = Some(whole),
            None => {
                syllable.take().into_iter().for_each(&mut emit);
                if may_begin_syllable(part) { syllable = Some(part) } else { emit(part) }
            }
        }),
    }
    syllable.into_iter().for_each(emit);
}

/// Leading consonants, and syllables, some of which take a final consonant.
fn may_begin_syllable(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{1112}' | '\u{ac00}'..='\u{d7a3}')
}

/// `compose` would also combine other pairs.
fn compose_hangul(start: char, next: char) -> Option<char> {
    matches!(next, '\u{1161}'..='\u{1175}' | '\u{11a8}'..='\u{11c2}').then(|| compose(start, next))?
}

/// Default_Ignorable_Code_Point (Unicode 17, DerivedCoreProperties.txt).
pub fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use icu_properties::CodePointSetData;
    use icu_properties::props::DefaultIgnorableCodePoint;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    use super::*;

    fn canonical(text: &str) -> String {
        let mut out = String::new();
        let mut form = Canonical::default();
        text.chars().for_each(|c| form.push(c, |c| out.push(c)));
        form.finish(|c| out.push(c));
        out
    }

    #[test]
    fn ignorable_characters_equal_the_unicode_property() {
        let property = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            assert_eq!(is_ignorable(c), property.contains(c), "U+{:04X}", c as u32);
        }
    }

    #[test]
    fn decompositions_of_all_characters_are_equivalent() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = format!("x{c}y");
            let decomposed: String = text.nfd().collect();
            assert_eq!(canonical(&text), canonical(&decomposed), "U+{:04X}", c as u32);
            let composed: String = text.nfc().collect();
            assert_eq!(canonical(&text), canonical(&composed), "U+{:04X}", c as u32);
        }
    }

    #[test]
    fn hangul_is_composed_and_letters_stand_alone() {
        assert_eq!(canonical("\u{1112}\u{1161}\u{11ab}\u{ae00}"), "한글");
        assert_eq!(canonical("가\u{11a8}"), "각");
        assert_eq!(canonical("각\u{11a8}"), "각\u{11a8}");
        assert_eq!(canonical("\u{1100}\u{200b}\u{1161}"), "가");
        assert_eq!(canonical("\u{1100}\u{1100}\u{1161}\u{301}\u{11a8}"), "\u{1100}가\u{301}\u{11a8}");
        let compatible = |c| {
            let mut out = String::new();
            compatible(c, |c| out.push(c));
            out
        };
        assert_eq!(compatible('㈎'), "(가)");
        assert_eq!(compatible('㉾'), "우");
        assert_eq!(compatible('ㅠ'), "\u{1172}");
        assert_eq!(compatible('ﬁ'), "fi");
    }

    #[test]
    fn marks_are_put_in_order() {
        assert_eq!(canonical("e\u{302}\u{323}"), canonical("ệ"));
        assert_eq!(canonical("ê\u{323}"), canonical("ệ"));
        // Runs beyond the ordering limit lose no mark.
        let many = format!("e{}", "\u{302}\u{323}".repeat(MARKS));
        assert_eq!(canonical(&many).chars().count(), 1 + 2 * MARKS);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn equivalent_texts_have_one_form(text in proptest::collection::vec(prop_oneof![
            proptest::char::any(),
            proptest::char::range('\u{300}', '\u{36f}'),
            proptest::char::range('\u{1100}', '\u{11ff}'),
            proptest::char::range('\u{ac00}', '\u{ac40}'),
            proptest::char::range('\u{5b0}', '\u{5c7}'),
            proptest::sample::select(vec!['e', '\u{3b1}', '\u{345}', '\u{308}', '\u{a8}', '\u{1fb4}', '\u{fb2c}']),
        ], 0..12)) {
            let text: String = text.into_iter().filter(|c| !is_ignorable(*c)).collect();
            let nfd: String = text.nfd().collect();
            let nfc: String = text.nfc().collect();
            prop_assert_eq!(canonical(&nfd), canonical(&text));
            prop_assert_eq!(canonical(&nfc), canonical(&text));
            // It is NFD but for the syllables.
            prop_assert_eq!(canonical(&text).nfd().collect::<String>(), nfd);
        }
    }
}
