//! [`Matcher`]: the patterns of a LIST, made ready to be held against thousands of names.
//!
//! A name is read once, byte by byte, and for each pattern a bit for every count of literal
//! characters that may have been matched so far says where it can stand: no backtracking, and at
//! worst a name's bytes times the patterns' bytes / 64. All levels above a name are answered by the
//! same pass.

use sealpost_base::limits;

use super::ListPattern;
use crate::types::mailbox::{HIERARCHY_DELIMITER, Mailbox};

const DELIMITER: u8 = HIERARCHY_DELIMITER as u8;

/// Patterns under a reference name.
#[derive(Debug, Clone)]
pub struct Matcher {
    patterns: Vec<Compiled>,
}

/// Which of a name and the levels above it match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Matched {
    whole: bool,
    levels: u64,
}

#[derive(Debug, Clone)]
struct Compiled {
    /// Words of 64 bits that the literal characters, and one place after the last, take.
    words: usize,
    literals: usize,
    /// For each byte 1 + the row of `masks` that it has; 0: it is not in the pattern.
    rows: Box<[u8; 256]>,
    /// Rows of `words`: the places of a byte.
    masks: Vec<u64>,
    /// Places at which a `*` stands.
    any: Vec<u64>,
    /// Places at which a `%` stands.
    level: Vec<u64>,
    /// Where in the pattern the name can be.
    at: Vec<u64>,
}

impl Matched {
    /// Whether the name matches.
    pub fn whole(self) -> bool {
        self.whole
    }

    /// Whether the name made of its first `levels` levels matches, which are not all of them.
    pub fn superior(self, levels: usize) -> bool {
        levels > 0 && levels <= 64 && self.levels >> (levels - 1) & 1 == 1
    }
}

impl Matcher {
    /// The patterns as LIST interprets them under `reference` (RFC 3501 §6.3.8): one that begins
    /// with the delimiter stands alone. `None` if they are longer, together, than
    /// [`limits::IMAP_LIST_PATTERN_BYTES`].
    pub fn new(reference: &Mailbox, patterns: &[ListPattern]) -> Option<Self> {
        let reference = |pattern: &ListPattern| match pattern.as_str().starts_with(HIERARCHY_DELIMITER) {
            true => "",
            false => reference.as_str(),
        };
        let bytes: usize = patterns.iter().map(|p| reference(p).len() + p.as_str().len()).sum();
        if bytes > limits::IMAP_LIST_PATTERN_BYTES {
            return None;
        }
        let compiled = patterns.iter().map(|p| Compiled::new(reference(p).bytes().chain(p.as_str().bytes())));
        Some(Matcher { patterns: compiled.collect() })
    }

    /// One pattern that stands alone.
    pub(super) fn of(pattern: &ListPattern) -> Self {
        Matcher { patterns: vec![Compiled::new(pattern.as_str().bytes())] }
    }

    /// Steps to match one byte of a name against all patterns.
    pub fn cost(&self) -> usize {
        self.patterns.iter().map(|p| p.words).sum()
    }

    /// Whether `name`, and which levels above it, match one of the patterns. A first level INBOX
    /// matches in any case.
    pub fn matches(&mut self, name: &str) -> Matched {
        let first = name.split(HIERARCHY_DELIMITER).next().unwrap_or(name);
        let folded = if first.eq_ignore_ascii_case(Mailbox::INBOX) { first.len() } else { 0 };
        let mut matched = Matched::default();
        for pattern in &mut self.patterns {
            pattern.run(name.as_bytes(), folded, &mut matched);
        }
        matched
    }
}

impl Compiled {
    fn new(bytes: impl Iterator<Item = u8> + Clone) -> Self {
        let literals = bytes.clone().filter(|b| !matches!(b, b'*' | b'%')).count();
        let words = literals / 64 + 1;
        let mut compiled = Compiled {
            words,
            literals,
            rows: Box::new([0; 256]),
            masks: Vec::new(),
            any: vec![0; words],
            level: vec![0; words],
            at: vec![0; words],
        };
        let mut place = 0;
        for byte in bytes {
            let (word, bit) = (place / 64, 1u64 << (place % 64));
            match byte {
                b'*' => compiled.any[word] |= bit,
                b'%' => compiled.level[word] |= bit,
                literal => {
                    let row = compiled.row(literal);
                    compiled.masks[row + word] |= bit;
                    place += 1;
                }
            }
        }
        compiled
    }

    /// Where the row of a byte begins, made if it has none. UTF-8 has fewer than 255 different bytes.
    fn row(&mut self, byte: u8) -> usize {
        let row = &mut self.rows[usize::from(byte)];
        if *row == 0 {
            *row = (self.masks.len() / self.words + 1) as u8;
            self.masks.resize(self.masks.len() + self.words, 0);
        }
        (usize::from(*row) - 1) * self.words
    }

    fn mask(&self, byte: u8, word: usize) -> u64 {
        match self.rows[usize::from(byte)] {
            0 => 0,
            row => self.masks[(usize::from(row) - 1) * self.words + word],
        }
    }

    fn accepts(&self) -> bool {
        self.at[self.literals / 64] >> (self.literals % 64) & 1 == 1
    }

    fn run(&mut self, name: &[u8], folded: usize, matched: &mut Matched) {
        self.at.fill(0);
        self.at[0] = 1;
        let mut levels = 0u32;
        for (i, &byte) in name.iter().enumerate() {
            if byte == DELIMITER {
                if levels < 64 && self.accepts() {
                    matched.levels |= 1 << levels;
                }
                levels += 1;
            }
            if !self.step(byte, i < folded) {
                return;
            }
        }
        matched.whole |= self.accepts();
    }

    /// Reads one byte of a name; whether it can still match.
    fn step(&mut self, byte: u8, fold: bool) -> bool {
        let (mut carry, mut alive) = (0, 0);
        for word in 0..self.words {
            let at = self.at[word];
            let here = if at == 0 {
                0
            } else if fold {
                self.mask(byte.to_ascii_lowercase(), word) | self.mask(byte.to_ascii_uppercase(), word)
            } else {
                self.mask(byte, word)
            };
            let moved = at & here;
            let within = if byte == DELIMITER { 0 } else { self.level[word] };
            let next = moved << 1 | carry | at & (self.any[word] | within);
            carry = moved >> 63;
            alive |= next;
            self.at[word] = next;
        }
        alive != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matched(reference: &str, patterns: &[&str], name: &str) -> Matched {
        let patterns: Vec<_> = patterns.iter().map(|p| ListPattern::new(p).unwrap()).collect();
        Matcher::new(&Mailbox::new(reference).unwrap(), &patterns).unwrap().matches(name)
    }

    #[test]
    fn names_and_the_levels_above_them() {
        let all = matched("", &["*"], "a/b/c");
        assert!(all.whole() && all.superior(1) && all.superior(2) && !all.superior(3) && !all.superior(0));
        let first = matched("", &["%"], "a/b/c");
        assert!(!first.whole() && first.superior(1) && !first.superior(2));
        let both = matched("a/", &["%", "/x", "b/c"], "a/b/c");
        assert!(both.whole() && !both.superior(1) && both.superior(2));
        assert!(matched("a", &["/b"], "/b").whole() && !matched("a", &["/b"], "a/b").whole());
        assert!(matched("in", &["Box/%"], "INBOX/x").whole());
        assert!(!matched("", &[""], "a").whole());
    }

    #[test]
    fn long_patterns_are_refused_and_the_longest_ones_match() {
        let pattern = |n: usize| ListPattern::new(&"a".repeat(n)).unwrap();
        let most = limits::IMAP_LIST_PATTERN_BYTES / 1000;
        let reference = Mailbox::new("").unwrap();
        let mut matcher = Matcher::new(&reference, &vec![pattern(1000); most]).unwrap();
        assert!(matcher.matches(&"a".repeat(1000)).whole() && !matcher.matches(&"a".repeat(999)).whole());
        assert!(Matcher::new(&reference, &vec![pattern(1000); most + 1]).is_none());
        assert!(
            Matcher::new(&Mailbox::new(&"b".repeat(1000)).unwrap(), &vec![pattern(1000); most]).is_none()
        );
    }

    /// As the RFC says it.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', rest @ ..] => (0..=name.len()).any(|n| naive(rest, &name[n..])),
            [b'%', rest @ ..] => {
                let end = name.iter().position(|b| *b == DELIMITER).unwrap_or(name.len());
                (0..=end).any(|n| naive(rest, &name[n..]))
            }
            [literal, rest @ ..] => name.first() == Some(literal) && naive(rest, &name[1..]),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn a_matcher_agrees_with_the_definition(
            patterns in proptest::collection::vec("[ab/*%]{0,7}", 1..3),
            name in "[ab/]{0,9}",
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let got = matched("", &patterns, &name);
            let expected = |name: &str| patterns.iter().any(|p| naive(p.as_bytes(), name.as_bytes()));
            prop_assert_eq!(got.whole(), expected(&name));
            for (level, (at, _)) in name.match_indices('/').enumerate() {
                prop_assert_eq!(got.superior(level + 1), expected(&name[..at]));
            }
        }
    }
}
