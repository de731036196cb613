//! Message numbers sorted by something that the messages themselves have, which is not stored
//! again: an index of two to three bytes a message.

use crate::state::packed::{MOST, Packed};
use crate::state::table::heap_bytes;

/// Message numbers sorted by a key, those of the same key ascending.
#[derive(Clone, Default)]
pub(super) struct Numbers {
    blocks: Vec<Packed>,
    /// Bytes on the heap of all blocks.
    packed_bytes: usize,
}

impl Numbers {
    /// These numbers, sorted by their keys.
    pub(super) fn sorted<K: Ord>(numbers: impl Iterator<Item = u32>, key: impl Fn(u32) -> K) -> Self {
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable_by_key(|number| (key(*number), *number));
        let mut index = Numbers::default();
        for block in numbers.chunks(MOST) {
            index.insert(index.blocks.len(), block.iter().copied());
        }
        index.blocks.shrink_to_fit();
        index
    }

    /// Adds a number higher than all others.
    pub(super) fn add<K: Ord>(&mut self, number: u32, key: impl Fn(u32) -> K) {
        let wanted = key(number);
        // Behind all of the same key.
        let after = |other: u64| key(other as u32) > wanted;
        let at = self.blocks.partition_point(|block| !after(block.get(block.len() - 1)));
        let at = at.min(self.blocks.len().max(1) - 1);
        let mut numbers: Vec<u32> = Vec::with_capacity(MOST + 1);
        if at < self.blocks.len() {
            let block = self.blocks.remove(at);
            self.packed_bytes -= block.heap_bytes();
            numbers.extend(block.iter().map(|number| number as u32));
        }
        let place = numbers.partition_point(|other| !after(u64::from(*other)));
        numbers.insert(place, number);
        let half = if numbers.len() > MOST { numbers.len() / 2 } else { numbers.len() };
        let (first, second) = numbers.split_at(half);
        if !second.is_empty() {
            self.insert(at, second.iter().copied());
        }
        self.insert(at, first.iter().copied());
    }

    fn insert(&mut self, at: usize, numbers: impl Iterator<Item = u32>) {
        let numbers: Vec<u64> = numbers.map(u64::from).collect();
        let block = Packed::new(&numbers);
        self.packed_bytes += block.heap_bytes();
        if self.blocks.len() == self.blocks.capacity() {
            self.blocks.reserve_exact((self.blocks.len() / 8).max(1));
        }
        self.blocks.insert(at, block);
    }

    /// Keeps the numbers for which `keep` returns true.
    pub(super) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let old = std::mem::take(self);
        let mut left: Vec<u32> = Vec::with_capacity(MOST);
        for block in old.blocks {
            for number in block.iter().map(|number| number as u32).filter(|number| keep(*number)) {
                left.push(number);
                if left.len() == MOST {
                    self.insert(self.blocks.len(), left.drain(..));
                }
            }
        }
        if !left.is_empty() {
            self.insert(self.blocks.len(), left.drain(..));
        }
        self.blocks.shrink_to_fit();
    }

    /// The numbers of that key, ascending.
    pub(super) fn with_key<'a, K: Ord + 'a>(
        &'a self,
        wanted: K,
        key: impl Fn(u32) -> K + 'a,
    ) -> impl Iterator<Item = u32> + 'a {
        let block = self.blocks.partition_point(|block| key(block.get(block.len() - 1) as u32) < wanted);
        let first = self.blocks.get(block).map_or(0, |found| {
            let (mut low, mut high) = (0, found.len());
            while low < high {
                let middle = low.midpoint(high);
                if key(found.get(middle) as u32) < wanted {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        });
        let rest = self.blocks[block..].iter().enumerate().flat_map(move |(n, block)| {
            let from = if n == 0 { first } else { 0 };
            (from..block.len()).map(move |at| block.get(at) as u32)
        });
        rest.take_while(move |number| key(*number) == wanted)
    }

    /// All numbers, sorted.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().flat_map(|block| block.iter().map(|number| number as u32))
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed_bytes + heap_bytes(self.blocks.capacity() * size_of::<Packed>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn numbers_are_found_by_their_keys(
            first in 0u32..3000,
            more in 0u32..1500,
            kinds in 1u64..2000,
            dropped in 2u32..50,
        ) {
            let key = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) % kinds;
            let mut index = Numbers::sorted(0..first, key);
            (first..first + more).for_each(|number| index.add(number, key));
            let check = |index: &Numbers, left: &dyn Fn(u32) -> bool| {
                for wanted in (0..kinds).step_by(1 + kinds as usize / 97) {
                    let found: Vec<u32> = index.with_key(wanted, key).collect();
                    let all = (0..first + more).filter(|number| key(*number) == wanted && left(*number));
                    prop_assert_eq!(found, all.collect::<Vec<_>>());
                }
                let bytes: usize = index.blocks.iter().map(Packed::heap_bytes).sum();
                prop_assert_eq!(index.packed_bytes, bytes);
                Ok(())
            };
            check(&index, &|_| true)?;
            index.retain(|number| !number.is_multiple_of(dropped));
            check(&index, &|number| !number.is_multiple_of(dropped))?;
        }
    }
}
