//! Rows of numbers sorted by all of them, packed, to which rows are added and from which they are
//! taken anywhere: indexes that are made of a state and kept up with it.

use super::block::Block;
use super::heap_bytes;
use crate::state::packed::MOST;

/// Rows of `C` numbers, each at most once.
#[derive(Clone, Default)]
pub(in crate::state) struct Sorted<const C: usize> {
    blocks: Vec<Block<C>>,
    /// Bytes on the heap of all blocks.
    packed_bytes: usize,
}

impl<const C: usize> Sorted<C> {
    /// Bytes on the heap.
    pub(in crate::state) fn heap_bytes(&self) -> usize {
        self.packed_bytes + heap_bytes(self.blocks.capacity() * size_of::<Block<C>>())
    }

    /// Adds rows, which must be sorted and not there. Each block that one belongs to is packed once.
    pub(in crate::state) fn add(&mut self, rows: &[[u64; C]]) {
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let at =
                self.blocks.partition_point(|block| last(block) < *first).min(self.blocks.len().max(1) - 1);
            let is_last = at + 1 >= self.blocks.len();
            let fits = match self.blocks.get(at) {
                Some(block) if !is_last => rest.partition_point(|row| *row <= last(block)),
                _ => rest.len(),
            };
            // A row behind the block belongs to it as well if the next block begins behind the row.
            let (now, later) = rest.split_at(fits.max(1));
            let mut merged = self.take(at);
            merged.extend_from_slice(now);
            merged.sort_unstable();
            self.put(at, &merged, is_last);
            rest = later;
        }
    }

    /// Takes rows out, which must be sorted; missing ones are skipped.
    pub(in crate::state) fn remove(&mut self, rows: &[[u64; C]]) {
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let at = self.blocks.partition_point(|block| last(block) < *first);
            let Some(block) = self.blocks.get(at) else { return };
            let (now, later) = rest.split_at(rest.partition_point(|row| *row <= last(block)));
            let mut left = self.take(at);
            left.retain(|row| now.binary_search(row).is_err());
            let little = left.len() <= MOST / 4 && at > 0;
            if little && self.blocks[at - 1].len() + left.len() <= MOST / 2 {
                let mut before = self.take(at - 1);
                before.append(&mut left);
                self.put(at - 1, &before, false);
            } else {
                self.put(at, &left, false);
            }
            rest = later;
        }
    }

    /// The rows that begin with `key`, ascending.
    pub(in crate::state) fn beginning_with(&self, key: u64) -> impl Iterator<Item = [u64; C]> + '_ {
        let block = self.blocks.partition_point(|block| block.last_key() < key);
        let rows = self.blocks[block..].iter().flat_map(move |block| {
            let from = first_of(block, key);
            (from..block.len()).map(|at| block.row(at))
        });
        rows.take_while(move |row| row[0] == key)
    }

    /// The rows of a block, which is missing until it is returned.
    fn take(&mut self, at: usize) -> Vec<[u64; C]> {
        let mut rows = Vec::with_capacity(MOST + 1);
        if at < self.blocks.len() {
            let block = self.blocks.remove(at);
            self.packed_bytes -= block.heap_bytes();
            rows.extend(block.rows());
        }
        rows
    }

    /// Puts rows where a block was, as several if they are too many. Rows that come at the end fill
    /// blocks one after the other.
    fn put(&mut self, at: usize, rows: &[[u64; C]], is_last: bool) {
        let pieces = rows.len().div_ceil(MOST).max(1);
        let each = if is_last { MOST } else { rows.len().div_ceil(pieces).max(1) };
        let blocks: Vec<_> = rows.chunks(each).map(Block::new).collect();
        self.packed_bytes += blocks.iter().map(Block::heap_bytes).sum::<usize>();
        if self.blocks.len() + blocks.len() > self.blocks.capacity() {
            self.blocks.reserve_exact(blocks.len() + self.blocks.len() / 8);
        }
        self.blocks.splice(at..at, blocks);
    }
}

fn last<const C: usize>(block: &Block<C>) -> [u64; C] {
    block.row(block.len() - 1)
}

/// Where in the block the first row is that begins with `key` or more: several may begin with the
/// same number.
fn first_of<const C: usize>(block: &Block<C>, key: u64) -> usize {
    let (mut low, mut high) = (0, block.len());
    while low < high {
        let middle = low.midpoint(high);
        if block.0[0].get(middle) < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn sorted_rows_equal_a_naive_set(
            steps in prop::collection::vec((any::<bool>(), 0u64..3000, 1u64..4, 1usize..900), 1..12),
        ) {
            let mut model: BTreeSet<[u64; 2]> = BTreeSet::new();
            let mut sorted = Sorted::<2>::default();
            for (adds, first, gap, count) in steps {
                let rows = (0..count as u64).map(|n| [(first + n * gap) / 3, n % 7]);
                let rows: BTreeSet<_> = rows.filter(|row| model.contains(row) != adds).collect();
                let list: Vec<_> = rows.iter().copied().collect();
                if adds {
                    sorted.add(&list);
                    model.extend(rows);
                } else {
                    sorted.remove(&list);
                    model.retain(|row| !rows.contains(row));
                }
                let all: Vec<_> = sorted.blocks.iter().flat_map(Block::rows).collect();
                prop_assert_eq!(&all, &model.iter().copied().collect::<Vec<_>>());
                prop_assert!(sorted.blocks.iter().all(|block| (1..=MOST).contains(&block.len())));
                let bytes: usize = sorted.blocks.iter().map(Block::heap_bytes).sum();
                prop_assert_eq!(sorted.packed_bytes, bytes);
                for key in (0..4000).step_by(17) {
                    let found: Vec<_> = sorted.beginning_with(key).collect();
                    prop_assert_eq!(found, model.range([key, 0]..[key + 1, 0]).copied().collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn rows_that_come_in_order_fill_their_blocks() {
        let mut sorted = Sorted::<2>::default();
        for n in 0..5000 {
            sorted.add(&[[n, 1]]);
        }
        assert_eq!(sorted.blocks.len(), 5000usize.div_ceil(MOST));
    }
}
