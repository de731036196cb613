//! FUZZY (RFC 6203): approximate matches of each key, and their scores.
//!
//! - A string is a set of words in any order, compared folded and without diacritics. A word of the search
//!   matches a word of the text that is equal, begins with it, contains it, is its beginning, or differs by
//!   one or two typing errors (see [`closeness`]). Every word of the search must match. In the header of TEXT
//!   and in fields a word counts fully, in the body by four fifths. Text beyond the stored text is not
//!   searched.
//! - A day may differ by a week, a size by a tenth.
//! - OR takes the better of two scores, several keys their mean. Flags, numbers, NOT and all others match
//!   exactly (RFC 6203 §5).
//!
//! The score is from 1 to 100 (RFC 6203 §4); 0 is no match.

use sealpost_base::limits;
use sealpost_index::summary::Summary;
use sealpost_mime::{Text, fold};

use crate::criterion::{Days, TextPart};
use crate::evaluate::{KnownFields, RowFields};
use crate::query::{Bound, Key};

/// How many days a date may differ.
const DAYS: u64 = 7;
/// The fraction of the requested size by which a size may differ, as a divisor.
const SIZE_PART: u64 = 10;
/// Longer words, in bytes, are only searched for parts, not compared.
const WORD_BYTES: usize = 64;

/// A key to match approximately.
#[derive(Debug)]
pub(crate) enum Fuzzy {
    /// A key without approximate matches.
    Exact(Key),
    /// Words in a part of the text.
    Words(Words),
    /// INTERNALDATE, near these days.
    Received(Days),
    /// The Date field, near these days.
    Sent(Days),
    /// Larger than about this.
    Larger(u64),
    /// Smaller than about this.
    Smaller(u64),
    /// All of these.
    All(Vec<Fuzzy>),
    /// The best of these.
    Any(Vec<Fuzzy>),
}

/// Words to find.
#[derive(Debug)]
pub(crate) struct Words {
    part: TextPart,
    words: Vec<Word>,
    /// The pattern of the same string, for messages without stored text.
    exact: usize,
}

#[derive(Debug)]
struct Word {
    text: String,
    chars: Vec<char>,
}

impl Words {
    /// The words of a folded string; `None` if it has none.
    pub(crate) fn new(part: TextPart, folded: &str, exact: usize) -> Option<Self> {
        let mut words: Vec<Word> = Vec::new();
        fold::words(folded, |word| {
            if words.len() < limits::FUZZY_WORDS && !words.iter().any(|known| known.text == word) {
                words.push(Word { text: word.to_owned(), chars: word.chars().collect() });
            }
        });
        (!words.is_empty()).then_some(Words { part, words, exact })
    }

    fn score(&self, text: &Text) -> u8 {
        let mut best = Best::new(&self.words);
        match &self.part {
            TextPart::Field(name) => best.look_into_field(name, &text.headers),
            TextPart::Body => best.look(&text.body, 100),
            TextPart::Anywhere => {
                best.look(&text.headers, 100);
                best.look(&text.body, 80);
            }
        }
        best.score()
    }

    /// The score from the lines of a summary; `None` if the words may be elsewhere.
    fn score_in_summary(&self, summary: &Summary) -> Option<u8> {
        match &self.part {
            TextPart::Field(name) if Summary::has_field(name) && summary.headers_complete() => {
                let mut best = Best::new(&self.words);
                best.look_into_field(name, summary.headers());
                Some(best.score())
            }
            _ => None,
        }
    }
}

/// The best score of each word so far.
struct Best<'a> {
    words: &'a [Word],
    scores: Vec<u8>,
    chars: Vec<char>,
}

impl<'a> Best<'a> {
    fn new(words: &'a [Word]) -> Self {
        Best { words, scores: vec![0; words.len()], chars: Vec::new() }
    }

    /// Searches the values of a field.
    fn look_into_field(&mut self, name: &str, headers: &str) {
        for line in headers.split('\n') {
            if let Some(value) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) {
                self.look(value, 100);
            }
        }
    }

    /// Searches a text in which the maximum score is `most`.
    fn look(&mut self, text: &str, most: u8) {
        let Best { words, scores, chars } = self;
        fold::words(text, |found| {
            let mut split = false;
            for (word, score) in words.iter().zip(scores.iter_mut()).filter(|(_, score)| **score < most) {
                if !std::mem::replace(&mut split, true) {
                    chars.clear();
                    chars.extend(found.chars().take(WORD_BYTES));
                }
                let close = u16::from(closeness(word, found, chars)) * u16::from(most) / 100;
                *score = (*score).max(close as u8);
            }
        });
    }

    /// The mean, if all words were found.
    fn score(&self) -> u8 {
        if self.scores.contains(&0) { 0 } else { mean(&self.scores) }
    }
}

fn mean(scores: &[u8]) -> u8 {
    let sum: usize = scores.iter().map(|score| usize::from(*score)).sum();
    (sum / scores.len().max(1)) as u8
}

/// How close a word of the text (`found`, `chars`) is to a word of the search: 100 if equal, 0 if different.
fn closeness(word: &Word, found: &str, chars: &[char]) -> u8 {
    if found == word.text {
        return 100;
    }
    if let Some(more) = found.strip_prefix(&*word.text) {
        return 95 - more.len().min(30) as u8;
    }
    // At least three letters, or one character of a script without an alphabet.
    if word.text.len() >= 3 && found.len() > word.text.len() && found.contains(&*word.text) {
        return 60;
    }
    if found.len() > WORD_BYTES || word.text.len() > WORD_BYTES {
        return 0;
    }
    let len = word.chars.len();
    // "works" finds "work".
    if chars.len() >= 4 && chars.len() + 3 >= len && word.text.starts_with(found) {
        return 70;
    }
    let mistakes = match len {
        0..=2 => return 0,
        3..=6 => 1,
        _ => 2,
    };
    let alike = word.chars.first() == chars.first() || word.chars.last() == chars.last();
    if !alike {
        return 0;
    }
    match distance(&word.chars, chars, mistakes) {
        Some(distance) => (90 - 100 * distance / (len + 1)) as u8,
        None => 0,
    }
}

/// More than any distance.
const FAR: usize = usize::MAX / 2;

/// The edit distance: omitted, added, replaced or transposed letters; `None` if it exceeds `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut rows = [const { [0usize; WORD_BYTES + 1] }; 3];
    for (j, cell) in rows[1].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        // Rows: the one before the last, the last, the present one. Cells further from the diagonal have more
        // errors.
        let (from, to) = (i.saturating_sub(most).max(1), b.len().min(i + most));
        let before = if from == 1 { i } else { FAR };
        rows[2][from - 1] = before;
        if i > 1 && to == i + most {
            rows[1][to] = FAR;
        }
        let mut least = before;
        for j in from..=to {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut cell = (rows[1][j - 1] + same).min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cell = cell.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = cell;
            least = least.min(cell);
        }
        if least > most {
            return None;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|distance| *distance <= most)
}

impl Bound {
    /// The score of a message for the fuzzy key with that number; `None` if it depends on unknown fields.
    pub(crate) fn score(&self, number: usize, row: &RowFields, known: &KnownFields) -> Option<u8> {
        if let Some(score) = known.known_score(number) {
            return Some(score);
        }
        let score = self.fuzzily(&self.query.fuzzy[number], row, known)?;
        known.learn_score(number, score);
        Some(score)
    }

    fn fuzzily(&self, fuzzy: &Fuzzy, row: &RowFields, known: &KnownFields) -> Option<u8> {
        Some(match fuzzy {
            Fuzzy::Exact(key) => 100 * u8::from(self.key(key, row, known)?),
            Fuzzy::Words(words) => match (known.text(), known.summary()) {
                (Some(text), _) => words.score(text),
                (None, Some(summary)) => words.score_in_summary(summary)?,
                (None, None) => 100 * u8::from(known.found_in_message(words.exact)?),
            },
            Fuzzy::Received(days) => near(days.distance(row.received_day()), DAYS),
            Fuzzy::Sent(days) => known.sent()?.map_or(0, |day| near(days.distance(day), DAYS)),
            Fuzzy::Larger(size) => near(size.saturating_add(1).saturating_sub(row.size()), size / SIZE_PART),
            Fuzzy::Smaller(size) => {
                near(row.size().saturating_add(1).saturating_sub(*size), size / SIZE_PART)
            }
            Fuzzy::All(parts) => {
                let scores = parts.iter().map(|part| self.fuzzily(part, row, known));
                // A single known mismatch decides.
                let scores: Vec<Option<u8>> = scores.collect();
                if scores.contains(&Some(0)) {
                    0
                } else {
                    mean(&scores.into_iter().collect::<Option<Vec<u8>>>()?)
                }
            }
            Fuzzy::Any(parts) => {
                let scores = parts.iter().map(|part| self.fuzzily(part, row, known));
                scores.collect::<Option<Vec<u8>>>()?.into_iter().max().unwrap_or(0)
            }
        })
    }
}

/// 100 if nothing is missing, decreasing to 0 beyond `most`.
fn near(missing: u64, most: u64) -> u8 {
    match missing {
        0 => 100,
        _ if missing > most => 0,
        _ => 99 - (u128::from(missing) * 98 / u128::from(most.max(1))) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(part: TextPart, search: &str, headers: &str, body: &str) -> u8 {
        let words = Words::new(part, &fold(search), 0).unwrap();
        let headers = headers.lines().map(|line| fold(line) + "\n").collect();
        words.score(&Text { headers, body: fold(body), truncated: false })
    }

    fn body(search: &str, text: &str) -> u8 {
        score(TextPart::Body, search, "", text)
    }

    #[test]
    fn words_in_any_order_and_with_mistakes() {
        assert_eq!(body("break imap", "IMAP must not break"), 100);
        assert!(body("Helo", "hello") > 0 && body("Helo", "help") > 0);
        assert!(body("recieve", "receive") > 60, "letters exchanged");
        assert!(body("meeting", "Meetings") > body("meeting", "meting"));
        assert!(body("works", "work") > 0);
        assert_eq!(body("Grüße", "grusse"), 0);
        assert_eq!(body("resume", "résumé"), 100);
        assert_eq!(body("日本", "これは日本語です"), 60);
        assert_eq!(body("cat", "dog"), 0);
        assert_eq!(body("cat dog", "cat"), 0, "all words");
        assert_eq!(body("ab", "ac"), 0, "too short for mistakes");
        assert!(body("a", "abc") > 0);
    }

    #[test]
    fn where_a_word_is_found_counts() {
        let field = |name: &str, text: &str| score(TextPart::Field("subject".into()), name, text, "x");
        assert_eq!(field("x", "from: x\nsubject: y\n"), 0);
        assert_eq!(field("y", "from: x\nsubject: y\n"), 100);
        assert_eq!(score(TextPart::Anywhere, "x", "subject: x\n", ""), 100);
        assert_eq!(score(TextPart::Anywhere, "x", "", "x"), 80);
    }

    #[test]
    fn distances() {
        let d = |a: &str, b: &str, most| {
            distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>(), most)
        };
        assert_eq!(d("kitten", "sitting", 3), Some(3));
        assert_eq!(d("kitten", "sitting", 2), None);
        assert_eq!(d("ab", "ba", 1), Some(1));
        assert_eq!(d("", "", 0), Some(0));
        assert_eq!(d("abc", "", 3), Some(3));
        let long = "x".repeat(WORD_BYTES);
        assert_eq!(d(&long, &long, 1), Some(0));
    }

    #[test]
    fn scores_are_from_1_to_100_and_fall() {
        let scores: Vec<u8> = (0..=8).map(|missing| near(missing, 7)).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b));
        assert_eq!((scores[0], scores[7], scores[8]), (100, 1, 0));
        assert_eq!((near(1, 0), near(u64::MAX, u64::MAX)), (0, 1));
    }

    #[test]
    fn more_words_than_are_looked_for() {
        let many: String = (0..limits::FUZZY_WORDS + 5).map(|i| format!("w{i:04} ")).collect();
        let words = Words::new(TextPart::Body, &many, 0).unwrap();
        assert_eq!(words.words.len(), limits::FUZZY_WORDS);
        assert!(Words::new(TextPart::Body, " .- ", 0).is_none());
        let hostile = format!("{} {}", "x".repeat(100_000), "xy".repeat(50));
        assert_eq!(body("yyyyyyyyyy", &hostile), 0);
        assert_eq!(body(&"q".repeat(1000), &hostile), 0);
    }

    /// The same by the complete table.
    fn distance_by_definition(a: &[char], b: &[char]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = if i == 0 || j == 0 {
                    i + j
                } else {
                    let same = usize::from(a[i - 1] != b[j - 1]);
                    let near = (table[i - 1][j - 1] + same).min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                    let exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if exchanged { near.min(table[i - 2][j - 2] + 1) } else { near }
                };
            }
        }
        table[a.len()][b.len()]
    }

    proptest::proptest! {
        #[test]
        fn distances_near_the_diagonal_are_distances(
            a in proptest::collection::vec(proptest::char::range('a', 'c'), 1..12),
            b in proptest::collection::vec(proptest::char::range('a', 'c'), 1..12),
            most in 1usize..4,
        ) {
            let whole = distance_by_definition(&a, &b);
            proptest::prop_assert_eq!(distance(&a, &b, most), Some(whole).filter(|distance| *distance <= most));
        }
    }
}
