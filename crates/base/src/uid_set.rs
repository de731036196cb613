//! A set of UIDs as sorted ranges, with ranks, for events and for a session's view.
//!
//! Memory grows with the number of ranges, not of UIDs. `nth` and `rank` (message sequence numbers, RFC 3501
//! §2.3.1.2) are binary searches.

use std::fmt;

use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::Uid;

/// UIDs in ascending order, kept as ranges that neither touch nor overlap.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UidSet {
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    /// The number of UIDs in all earlier ranges.
    before: u32,
}

impl Range {
    fn len(self) -> u32 {
        self.last - self.first + 1
    }
}

impl UidSet {
    /// Memory of one range, in bytes.
    pub const RANGE_BYTES: usize = size_of::<Range>();

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The UIDs from `first` to `last`, both included; empty if `first > last`.
    pub fn range(first: Uid, last: Uid) -> Self {
        let mut set = Self::new();
        set.insert_range(first, last);
        set
    }

    /// The number of UIDs.
    pub fn len(&self) -> usize {
        self.ranges.last().map_or(0, |r| r.before as usize + r.len() as usize)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The smallest UID.
    pub fn first(&self) -> Option<Uid> {
        self.ranges.first().and_then(|r| Uid::new(r.first))
    }

    /// The largest UID.
    pub fn last(&self) -> Option<Uid> {
        self.ranges.last().and_then(|r| Uid::new(r.last))
    }

    /// Whether `uid` is in the set.
    pub fn contains(&self, uid: Uid) -> bool {
        self.rank(uid).is_some()
    }

    /// The number of UIDs smaller than `uid`; `None` if `uid` is not in the set.
    pub fn rank(&self, uid: Uid) -> Option<usize> {
        let uid = uid.get();
        let at = self.ranges.partition_point(|r| r.last < uid);
        let range = self.ranges.get(at).filter(|r| r.first <= uid)?;
        Some((range.before + (uid - range.first)) as usize)
    }

    /// The number of UIDs smaller than `uid`, whether or not it is in the set.
    pub fn count_below(&self, uid: Uid) -> usize {
        let uid = uid.get();
        let at = self.ranges.partition_point(|r| r.last < uid);
        match self.ranges.get(at) {
            Some(range) => (range.before + uid.saturating_sub(range.first)) as usize,
            None => self.len(),
        }
    }

    /// The UID at `index`, from 0.
    pub fn nth(&self, index: usize) -> Option<Uid> {
        let index = u32::try_from(index).ok()?;
        let at = self.ranges.partition_point(|r| r.before <= index).checked_sub(1)?;
        let range = self.ranges[at];
        let uid = range.first.checked_add(index - range.before)?;
        if uid <= range.last { Uid::new(uid) } else { None }
    }

    /// The UIDs at these indices.
    #[must_use]
    pub fn slice(&self, indices: std::ops::Range<usize>) -> UidSet {
        let last = indices.end.min(self.len()).checked_sub(1);
        match (self.nth(indices.start), last.and_then(|last| self.nth(last))) {
            (Some(first), Some(last)) => self.intersection(&UidSet::range(first, last)),
            _ => UidSet::new(),
        }
    }

    /// The ranges, ascending, both ends included.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (Uid, Uid)> + Clone + '_ {
        self.ranges.iter().filter_map(|r| Some((Uid::new(r.first)?, Uid::new(r.last)?)))
    }

    /// As [`UidSet::ranges`], without those that end below `uid`.
    pub fn ranges_from(&self, uid: Uid) -> impl DoubleEndedIterator<Item = (Uid, Uid)> + '_ {
        let start = self.ranges.partition_point(|r| r.last < uid.get());
        self.ranges[start..].iter().filter_map(|r| Some((Uid::new(r.first)?, Uid::new(r.last)?)))
    }

    /// The number of ranges.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// The UIDs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Uid> + '_ {
        self.ranges.iter().flat_map(|r| r.first..=r.last).filter_map(Uid::new)
    }

    /// Adds one UID.
    pub fn insert(&mut self, uid: Uid) {
        self.insert_range(uid, uid);
    }

    /// As [`UidSet::insert`], fast for a UID above all others.
    pub fn push(&mut self, uid: Uid) {
        self.push_range(uid, uid);
    }

    /// As [`UidSet::insert_range`], fast for UIDs above all others.
    pub fn push_range(&mut self, first: Uid, last: Uid) {
        let (from, to) = (first.get(), last.get());
        match self.ranges.last_mut() {
            _ if from > to => {}
            Some(r) if from <= r.last => self.insert_range(first, last),
            Some(r) if r.last + 1 == from => r.last = to,
            last => {
                let before = last.map_or(0, |r| r.before + r.len());
                self.ranges.push(Range { first: from, last: to, before });
            }
        }
    }

    /// Adds `first..=last`; nothing if `first > last`.
    pub fn insert_range(&mut self, first: Uid, last: Uid) {
        let (mut first, mut last) = (first.get(), last.get());
        if first > last {
            return;
        }
        // Replace ranges that overlap or touch the new one by their union.
        let from = self.ranges.partition_point(|r| r.last.saturating_add(1) < first);
        let to = self.ranges.partition_point(|r| r.first <= last.saturating_add(1));
        if from < to {
            first = first.min(self.ranges[from].first);
            last = last.max(self.ranges[to - 1].last);
        }
        self.ranges.splice(from..to, [Range { first, last, before: 0 }]);
        self.recount(from);
    }

    /// Removes a UID; returns whether the set had it.
    pub fn remove(&mut self, uid: Uid) -> bool {
        let held = self.contains(uid);
        if held {
            self.remove_range(uid, uid);
        }
        held
    }

    /// Removes `first..=last`.
    pub fn remove_range(&mut self, first: Uid, last: Uid) {
        let (first, last) = (first.get(), last.get());
        let from = self.ranges.partition_point(|r| r.last < first);
        let to = self.ranges.partition_point(|r| r.first <= last);
        if from >= to {
            return;
        }
        let left = self.ranges[from];
        let right = self.ranges[to - 1];
        let mut rest = Vec::with_capacity(2);
        if left.first < first {
            rest.push(Range { first: left.first, last: first - 1, before: 0 });
        }
        if right.last > last {
            rest.push(Range { first: last + 1, last: right.last, before: 0 });
        }
        self.ranges.splice(from..to, rest);
        self.recount(from);
    }

    /// The UIDs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &UidSet) -> UidSet {
        let mut out = UidSet::new();
        let (mut a, mut b) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let (first, last) = (x.first.max(y.first), x.last.min(y.last));
            if first <= last {
                out.ranges.push(Range { first, last, before: 0 });
            }
            if x.last < y.last {
                a.next();
            } else {
                b.next();
            }
        }
        out.recount(0);
        out
    }

    /// The UIDs in this set but not in the other.
    #[must_use]
    pub fn difference(&self, other: &UidSet) -> UidSet {
        let mut out = UidSet::new();
        let mut at = 0;
        for range in &self.ranges {
            // Where the rest of the range begins; `None` if nothing is left.
            let mut rest = Some(range.first);
            while let (Some(first), Some(taken)) = (rest, other.ranges.get(at)) {
                if taken.first > range.last {
                    break;
                }
                if taken.first > first {
                    out.ranges.push(Range { first, last: taken.first - 1, before: 0 });
                }
                if taken.last >= range.last {
                    // The hole may reach into the next range.
                    rest = None;
                } else {
                    rest = Some(first.max(taken.last + 1));
                    at += 1;
                }
            }
            if let Some(first) = rest {
                out.ranges.push(Range { first, last: range.last, before: 0 });
            }
        }
        out.recount(0);
        out
    }

    /// The UIDs in either set.
    #[must_use]
    pub fn union(&self, other: &UidSet) -> UidSet {
        Self::from_ranges(self.ranges().chain(other.ranges()))
    }

    /// A set of ranges in any order, which may overlap; ranges with `first > last` are empty.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (Uid, Uid)>) -> UidSet {
        let ranges = ranges.into_iter().filter(|(first, last)| first <= last);
        let mut ranges: Vec<Range> =
            ranges.map(|(first, last)| Range { first: first.get(), last: last.get(), before: 0 }).collect();
        ranges.sort_unstable_by_key(|r| r.first);
        let mut out = UidSet::new();
        for range in ranges {
            match out.ranges.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(range.last);
                }
                _ => out.ranges.push(range),
            }
        }
        out.recount(0);
        out
    }

    fn recount(&mut self, from: usize) {
        let mut before = match from.checked_sub(1) {
            Some(i) => self.ranges[i].before + self.ranges[i].len(),
            None => 0,
        };
        for range in &mut self.ranges[from..] {
            range.before = before;
            before += range.len();
        }
    }
}

impl FromIterator<Uid> for UidSet {
    /// Fast for UIDs in ascending order, correct in any.
    fn from_iter<I: IntoIterator<Item = Uid>>(uids: I) -> Self {
        let mut set = UidSet::new();
        uids.into_iter().for_each(|uid| set.push(uid));
        set
    }
}

impl fmt::Debug for UidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for UidSet {
    /// Formats an IMAP `sequence-set`: `1:3,7`. Empty for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.ranges.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            if range.first == range.last {
                write!(f, "{}", range.first)?;
            } else {
                write!(f, "{}:{}", range.first, range.last)?;
            }
        }
        Ok(())
    }
}

impl<C> Encode<C> for UidSet {
    /// Encoded as `[first, length - 1, gap - 2, length - 1, …]`: numbers stay small, and overlaps have no
    /// encoding.
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(self.ranges.len() as u64 * 2)?;
        let mut last = None;
        for range in &self.ranges {
            let gap = match last {
                None => range.first - 1,
                Some(last) => range.first - last - 2,
            };
            e.u32(gap)?.u32(range.last - range.first)?;
            last = Some(range.last);
        }
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for UidSet {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bad = |d: &Decoder<'b>| minicbor::decode::Error::message("not a UID set").at(d.position());
        let len = d.array()?.ok_or_else(|| bad(d))?;
        if len % 2 != 0 {
            return Err(bad(d));
        }
        let mut set = UidSet::new();
        let mut last: Option<u32> = None;
        for _ in 0..len / 2 {
            let (gap, more) = (d.u32()?, d.u32()?);
            let first = match last {
                None => gap.checked_add(1),
                Some(last) => gap.checked_add(2).and_then(|gap| last.checked_add(gap)),
            };
            let first = first.ok_or_else(|| bad(d))?;
            let end = first.checked_add(more).ok_or_else(|| bad(d))?;
            set.ranges.push(Range { first, last: end, before: 0 });
            last = Some(end);
        }
        set.recount(0);
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn uid(n: u32) -> Uid {
        Uid::new(n).unwrap()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set(ops in prop::collection::vec((any::<bool>(), 1u32..60, 0u32..9), 0..60)) {
            let mut model = BTreeSet::new();
            let mut set = UidSet::new();
            for (add, first, more) in ops {
                for n in first..=first + more {
                    if add { model.insert(n); } else { model.remove(&n); }
                }
                if add {
                    set.insert_range(uid(first), uid(first + more));
                } else {
                    set.remove_range(uid(first), uid(first + more));
                }
            }
            prop_assert_eq!(set.iter().map(Uid::get).collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), model.len());
            for n in 1..80 {
                prop_assert_eq!(set.contains(uid(n)), model.contains(&n));
                prop_assert_eq!(set.count_below(uid(n)), model.range(..n).count());
                prop_assert_eq!(set.nth(n as usize - 1).map(Uid::get), model.iter().nth(n as usize - 1).copied());
            }
            let again: UidSet = model.iter().copied().map(uid).collect();
            prop_assert_eq!(&again, &set);
            let mut again = UidSet::new();
            set.ranges().for_each(|(first, last)| again.push_range(first, last));
            set.ranges().rev().for_each(|(first, last)| again.push_range(first, last));
            prop_assert_eq!(&again, &set);
            let bytes = minicbor::to_vec(&set).unwrap();
            prop_assert_eq!(minicbor::decode::<UidSet>(&bytes).unwrap(), set);
        }

        #[test]
        fn intersects_like_a_set(a in prop::collection::btree_set(1u32..40, 0..20), b in prop::collection::btree_set(1u32..40, 0..20)) {
            let set = |s: &BTreeSet<u32>| s.iter().copied().map(uid).collect::<UidSet>();
            let both: BTreeSet<u32> = a.intersection(&b).copied().collect();
            prop_assert_eq!(set(&a).intersection(&set(&b)), set(&both));
            for (from, to) in [(0, 3), (2, 9), (5, 5), (7, 4), (0, 1000)] {
                let some: BTreeSet<u32> = a.iter().copied().take(to).skip(from).collect();
                prop_assert_eq!(set(&a).slice(from..to), set(&some));
            }
            let either: BTreeSet<u32> = a.union(&b).copied().collect();
            prop_assert_eq!(set(&a).union(&set(&b)), set(&either));
            let only: BTreeSet<u32> = a.difference(&b).copied().collect();
            prop_assert_eq!(set(&a).difference(&set(&b)), set(&only));
            prop_assert_eq!(UidSet::from_ranges(a.iter().rev().map(|n| (uid(*n), uid(*n)))), set(&a));
        }
    }

    #[test]
    fn the_largest_uid_does_not_overflow() {
        let mut set = UidSet::range(uid(1), uid(u32::MAX));
        assert_eq!(set.nth(usize::try_from(u32::MAX).unwrap() - 1), Uid::new(u32::MAX));
        set.remove_range(uid(2), uid(u32::MAX - 1));
        set.insert(uid(u32::MAX));
        assert_eq!(set.to_string(), "1,4294967295");
        let all = UidSet::range(uid(1), uid(u32::MAX));
        assert_eq!(all.difference(&set).to_string(), "2:4294967294");
        assert_eq!(set.difference(&all), UidSet::new());
        assert_eq!(all.difference(&all), UidSet::new());
        assert_eq!(all.difference(&UidSet::range(uid(1), uid(u32::MAX - 1))).to_string(), "4294967295");
        assert_eq!(set.union(&all.difference(&set)), all);
    }
}
