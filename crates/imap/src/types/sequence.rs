//! [`SequenceSet`]: message numbers or UIDs as ranges, never expanded.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

/// `seq-number = nz-number / "*"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqNumber(Option<NonZeroU32>);

impl SeqNumber {
    /// `*`: the largest number in use.
    pub const STAR: SeqNumber = SeqNumber(None);

    /// A number; `None` for 0.
    pub fn new(n: u32) -> Option<Self> {
        NonZeroU32::new(n).map(|n| SeqNumber(Some(n)))
    }

    /// The number, or `None` for `*`.
    pub fn number(self) -> Option<u32> {
        self.0.map(NonZeroU32::get)
    }

    /// The number, `*` being `largest`.
    pub fn resolve(self, largest: u32) -> u32 {
        self.0.map_or(largest, NonZeroU32::get)
    }
}

/// One member of a set, in the order it was written: `5`, `2:4`, `4:2`, `7:*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqRange {
    /// The first of the two.
    pub start: SeqNumber,
    /// The second; the same for a single number.
    pub end: SeqNumber,
}

impl SeqRange {
    /// The range in ascending order, `*` being `largest`.
    pub fn resolve(self, largest: u32) -> RangeInclusive<u32> {
        let (a, b) = (self.start.resolve(largest), self.end.resolve(largest));
        a.min(b)..=a.max(b)
    }
}

/// `sequence-set`: one or more ranges, at most `limits::IMAP_SEQUENCE_RANGES`, 8 bytes each (RFC
/// 3501 §9), or `$`, the result of the last search that was saved (RFC 5182 §2), or both (RFC 9051
/// §9).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SequenceSet {
    ranges: Vec<SeqRange>,
    saved: bool,
}

impl SequenceSet {
    /// A set from its ranges; `None` if there are none.
    pub fn new(ranges: Vec<SeqRange>) -> Option<Self> {
        if ranges.is_empty() { None } else { Some(SequenceSet { ranges, saved: false }) }
    }

    /// `$`, and before it these ranges, which may be none.
    pub fn with_saved(ranges: Vec<SeqRange>) -> Self {
        SequenceSet { ranges, saved: true }
    }

    /// Whether it has `$`, which only the session with the saved result can resolve: the other
    /// methods skip it.
    pub fn has_saved(&self) -> bool {
        self.saved
    }

    /// One number; `None` for 0.
    pub fn single(n: u32) -> Option<Self> {
        Self::from_numbers([n])
    }

    /// Everything: `1:*`.
    pub fn all() -> Self {
        let ranges = vec![SeqRange { start: SeqNumber(Some(NonZeroU32::MIN)), end: SeqNumber::STAR }];
        SequenceSet { ranges, saved: false }
    }

    /// The numbers in the order given, runs of consecutive ones as ranges; zeros are left out.
    /// `None` if nothing remains. For COPYUID the order is what pairs source and destination (RFC
    /// 4315 §3).
    pub fn from_numbers(numbers: impl IntoIterator<Item = u32>) -> Option<Self> {
        Self::from_ranges(numbers.into_iter().map(|n| n..=n))
    }

    /// As [`SequenceSet::from_numbers`], from ascending ranges; those that touch are joined.
    pub fn from_ranges(ranges: impl IntoIterator<Item = RangeInclusive<u32>>) -> Option<Self> {
        let mut set: Vec<SeqRange> = Vec::new();
        for range in ranges {
            let (Some(start), Some(end)) = (SeqNumber::new(*range.start()), SeqNumber::new(*range.end()))
            else {
                continue;
            };
            match set.last_mut() {
                Some(last) if last.end.number().and_then(|n| n.checked_add(1)) == start.number() => {
                    last.end = end
                }
                _ => set.push(SeqRange { start, end }),
            }
        }
        Self::new(set)
    }

    /// The ranges as they were written.
    pub fn ranges(&self) -> &[SeqRange] {
        &self.ranges
    }

    /// Whether `*` occurs.
    pub fn has_star(&self) -> bool {
        self.ranges.iter().any(|r| r.start == SeqNumber::STAR || r.end == SeqNumber::STAR)
    }

    /// The largest number, `*` being `largest`: for sequence numbers, one above the size of the mailbox is an
    /// error of the client.
    pub fn max(&self, largest: u32) -> u32 {
        self.ranges.iter().map(|r| *r.resolve(largest).end()).max().unwrap_or(0)
    }

    /// The set as ascending, disjoint, non-touching ranges clipped to `1..=largest`, `*` being `largest`
    /// (`559:*` always includes the largest, RFC 3501 §6.4.8). Nothing if `largest` is 0.
    pub fn resolve(&self, largest: u32) -> Vec<RangeInclusive<u32>> {
        if largest == 0 {
            return Vec::new();
        }
        let mut ranges: Vec<_> = self
            .ranges
            .iter()
            .map(|r| r.resolve(largest))
            .filter(|r| *r.start() <= largest)
            .map(|r| *r.start()..=(*r.end()).min(largest))
            .collect();
        ranges.sort_unstable_by_key(|r| *r.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=(*last.end()).max(*range.end());
                }
                _ => merged.push(range),
            }
        }
        merged
    }

    /// The numbers from 1 to `largest` that are in the set, ascending, each once.
    pub fn iter(&self, largest: u32) -> impl Iterator<Item = u32> + use<> {
        self.resolve(largest).into_iter().flatten()
    }

    /// Whether `n` is in the set, `*` being `largest`. Linear in the ranges: for many numbers,
    /// [`Self::resolve`].
    pub fn contains(&self, n: u32, largest: u32) -> bool {
        self.ranges.iter().any(|r| r.resolve(largest).contains(&n))
    }
}
