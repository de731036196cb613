//! [`Ranges`]: parts of a file that are to be left out, and the positions of everything else then.

use std::collections::BTreeMap;

/// Parts of a file that do not touch each other.
#[derive(Debug)]
pub struct Ranges {
    /// Their ends, by their beginnings.
    ends: BTreeMap<u64, u64>,
    most: usize,
    full: bool,
}

impl Ranges {
    /// None, and never more than `most`.
    pub fn new(most: usize) -> Self {
        Ranges { ends: BTreeMap::new(), most, full: false }
    }

    /// Whether there was no room to add one, or to cut one in two: these are not all.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Adds a part, merged with those that it touches.
    pub fn add(&mut self, mut begins: u64, mut ends: u64) {
        if begins >= ends {
            return;
        }
        while let Some((first, last)) = self.ends.range(..=ends).next_back().map(|(b, e)| (*b, *e))
            && last >= begins
        {
            self.ends.remove(&first);
            (begins, ends) = (begins.min(first), ends.max(last));
        }
        self.insert(begins, ends);
    }

    fn insert(&mut self, begins: u64, ends: u64) {
        if self.ends.len() < self.most {
            self.ends.insert(begins, ends);
        } else {
            self.full = true;
        }
    }

    /// Removes a part from them.
    pub fn remove(&mut self, begins: u64, ends: u64) {
        while let Some((first, last)) = self.ends.range(..ends).next_back().map(|(b, e)| (*b, *e))
            && last > begins
        {
            self.ends.remove(&first);
            if first < begins {
                self.insert(first, begins);
            }
            if last > ends {
                self.insert(ends, last);
            }
        }
    }

    /// Bytes in them.
    pub fn bytes(&self) -> u64 {
        self.ends.iter().map(|(begins, ends)| ends - begins).sum()
    }

    /// The gaps between them, as far as `end`.
    pub fn gaps(&self, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let begins = std::iter::once(0).chain(self.ends.values().copied());
        let ends = self.ends.keys().copied().chain([end]);
        begins
            .zip(ends)
            .map(move |(begins, ends)| (begins, ends.min(end)))
            .filter(|(begins, ends)| begins < ends)
    }

    /// The positions of everything else without them.
    pub fn moved(&self) -> Moved {
        let mut before = 0;
        Moved(
            self.ends
                .iter()
                .map(|(begins, ends)| {
                    before += ends - begins;
                    (*ends, before)
                })
                .collect(),
        )
    }
}

/// Positions in a file without parts of it: the end of each part, and how many bytes are missing
/// from there on.
#[derive(Debug)]
pub struct Moved(Vec<(u64, u64)>);

impl Moved {
    /// The new position of `at`.
    pub fn to(&self, at: u64) -> u64 {
        let passed = self.0.partition_point(|(ends, _)| *ends <= at);
        at - passed.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_equal_a_naive_byte_map(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..20)) {
            let (mut ranges, mut model) = (Ranges::new(100), [false; 100]);
            for (add, begins, length) in steps {
                let ends = begins + length;
                if add { ranges.add(begins, ends) } else { ranges.remove(begins, ends) }
                model[begins as usize..ends as usize].fill(add);
            }
            prop_assert_eq!(ranges.bytes(), model.iter().filter(|out| **out).count() as u64);
            let kept: Vec<u64> = ranges.gaps(100).flat_map(|(begins, ends)| begins..ends).collect();
            let wanted: Vec<u64> = (0..100).filter(|at| !model[*at as usize]).collect();
            prop_assert_eq!(&kept, &wanted);
            let moved = ranges.moved();
            for (at, was) in wanted.iter().enumerate() {
                prop_assert_eq!(moved.to(*was), at as u64);
            }
        }
    }

    #[test]
    fn they_are_bounded() {
        let mut ranges = Ranges::new(2);
        for n in 0..2 {
            ranges.add(n * 10, n * 10 + 5);
        }
        ranges.add(5, 10);
        ranges.add(20, 29);
        assert!(!ranges.is_full());
        assert_eq!(ranges.gaps(50).collect::<Vec<_>>(), [(15, 20), (29, 50)]);
        let cut = |ranges: &mut Ranges| ranges.remove(3, 4);
        let more = |ranges: &mut Ranges| ranges.add(40, 41);
        for step in [&cut as &dyn Fn(&mut Ranges), &more] {
            let mut ranges = Ranges::new(2);
            ranges.add(0, 15);
            ranges.add(20, 29);
            step(&mut ranges);
            assert!(ranges.is_full() && ranges.gaps(50).count() <= 3);
        }
    }
}
