//! The strings of one sort key, each distinct one once: a mailbox has far fewer senders and subjects than
//! messages. They are compared with each other once, and messages by the resulting ranks.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// The strings of some rows.
#[derive(Default)]
pub(crate) struct Strings {
    /// The number of each row's string.
    rows: Vec<u32>,
    ends: Vec<u32>,
    bytes: Vec<u8>,
    /// The first string of each hash. Another string with the same hash is stored at every occurrence, which
    /// does no harm.
    known: HashMap<u64, u32>,
    hasher: RandomState,
}

/// Overhead of a string besides its bytes.
const STRING_BYTES: usize = 24;

impl Strings {
    /// Adds the string of the next row. Returns how much more memory it takes.
    pub(crate) fn push(&mut self, string: &[u8]) -> usize {
        let hash = self.hasher.hash_one(string);
        if let Some(number) = self.known.get(&hash).copied().filter(|number| self.string(*number) == string) {
            self.rows.push(number);
            return 0;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u32);
        self.known.entry(hash).or_insert(number);
        self.rows.push(number);
        string.len() + STRING_BYTES
    }

    /// Keeps `most` bytes of each string. Returns how much memory they take now.
    pub(crate) fn shorten(&mut self, most: usize) -> usize {
        let (mut start, mut to) = (0, 0);
        for end in &mut self.ends {
            let kept = (*end as usize - start).min(most);
            self.bytes.copy_within(start..start + kept, to);
            (start, to) = (*end as usize, to + kept);
            *end = to as u32;
        }
        self.bytes.truncate(to);
        self.bytes.shrink_to_fit();
        self.known = (0..self.ends.len() as u32)
            .map(|number| (self.hasher.hash_one(self.string(number)), number))
            .collect();
        to + self.ends.len() * STRING_BYTES
    }

    /// The rank of each row's string; equal strings have the same rank.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<(u64, u32)> =
            (0..self.ends.len() as u32).map(|number| (beginning(self.string(number)), number)).collect();
        // The prefixes are adjacent in memory and decide most comparisons.
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| self.string(a.1).cmp(self.string(b.1))));
        let mut ranks = vec![0; order.len()];
        let mut rank = 0;
        for pair in order.windows(2) {
            rank += u32::from(self.string(pair[0].1) != self.string(pair[1].1));
            ranks[pair[1].1 as usize] = rank;
        }
        self.rows.iter().map(|number| ranks[*number as usize]).collect()
    }

    fn string(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[at] as usize]
    }
}

/// A prefix as a number: smaller only if the string comes first.
fn beginning(string: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = string.len().min(first.len());
    first[..length].copy_from_slice(&string[..length]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn ranks_are_those_of_the_strings(
            strings in prop::collection::vec("[a\\x00b]{0,12}", 0..40),
            cut in prop::option::of(0usize..12),
        ) {
            let mut kept = Strings::default();
            let half = strings.len() / 2;
            for string in &strings[..half] {
                kept.push(string.as_bytes());
            }
            if let Some(most) = cut {
                kept.shorten(most);
            }
            let cut = |string: &String| string.as_bytes()[..string.len().min(cut.unwrap_or(99))].to_vec();
            let cut: Vec<_> = strings.iter().map(cut).collect();
            for string in &cut[half..] {
                kept.push(string);
            }
            let ranks = kept.ranks();
            for (a, one) in cut.iter().enumerate() {
                for (b, other) in cut.iter().enumerate() {
                    prop_assert_eq!(ranks[a].cmp(&ranks[b]), one.cmp(other));
                }
            }
        }
    }

    #[test]
    fn repeated_strings_take_no_memory() {
        let mut strings = Strings::default();
        assert_eq!(strings.push(b"abc"), 3 + STRING_BYTES);
        assert_eq!(strings.push(b"abc"), 0);
        assert_eq!(strings.shorten(1), 1 + STRING_BYTES);
        assert_eq!(strings.push(b"a"), 0);
        assert_eq!(strings.ranks(), [0, 0, 0]);
    }
}
