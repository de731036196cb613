//! Rows of numbers, sorted by the first of them, in packed blocks: what mailboxes and tombstones are made of.
//!
//! The last rows wait unpacked, few enough that a small mailbox takes little memory, so that a
//! delivery does not pack a block again.

mod block;
pub(super) mod sorted;
#[cfg(test)]
mod tests;

use super::packed::MOST;
use block::Block;
pub(super) use block::lower_bound;

/// Rows that wait unpacked.
const WAITING: usize = 64;
/// Blocks that are together smaller than this become one when rows of one of them go.
const SPARSE: usize = MOST / 2;

/// What the allocator takes for that many bytes.
pub(super) fn heap_bytes(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
}

/// Rows of `C` numbers, those of which the first is smaller in front.
#[derive(Clone)]
pub(super) struct Table<const C: usize> {
    blocks: Vec<Block<C>>,
    waiting: Vec<[u64; C]>,
    len: usize,
    /// Bytes on the heap of all blocks.
    packed_bytes: usize,
}

/// Where a row is: the block, of which the last are the rows that wait, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPosition {
    block: usize,
    at: usize,
}

impl<const C: usize> Default for Table<C> {
    fn default() -> Self {
        Table { blocks: Vec::new(), waiting: Vec::new(), len: 0, packed_bytes: 0 }
    }
}

impl<const C: usize> Table<C> {
    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed_bytes
            + heap_bytes(self.blocks.capacity() * size_of::<Block<C>>())
            + heap_bytes(self.waiting.capacity() * size_of::<[u64; C]>())
    }

    /// Adds a row behind all others.
    pub(super) fn push(&mut self, row: [u64; C]) {
        if self.waiting.len() == self.waiting.capacity() {
            let more = self.waiting.len().clamp(4, WAITING);
            self.waiting.reserve_exact(more);
        }
        self.waiting.push(row);
        self.len += 1;
        if self.waiting.len() >= WAITING {
            self.extend([]);
        }
    }

    /// Adds rows behind all others, each block packed once.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = [u64; C]>) {
        let mut rows = rows.into_iter();
        let few: Vec<_> = rows.by_ref().take(WAITING).collect();
        if self.waiting.len() + few.len() < WAITING {
            few.into_iter().for_each(|row| self.push(row));
            return;
        }
        let mut open = match self.blocks.last() {
            Some(last) if last.len() < MOST => self.pop_block(),
            _ => Vec::with_capacity(MOST),
        };
        let waiting = std::mem::take(&mut self.waiting);
        self.len -= waiting.len();
        for row in waiting.into_iter().chain(few).chain(rows) {
            self.len += 1;
            self.fill(&mut open, row);
        }
        if !open.is_empty() {
            self.push_block(Block::new(&open));
        }
    }

    fn fill(&mut self, open: &mut Vec<[u64; C]>, row: [u64; C]) {
        if open.len() == MOST {
            self.push_block(Block::new(open));
            open.clear();
        }
        open.push(row);
    }

    fn push_block(&mut self, block: Block<C>) {
        self.packed_bytes += block.heap_bytes();
        if self.blocks.len() == self.blocks.capacity() {
            let more = (self.blocks.len() / 8).max(1);
            self.blocks.reserve_exact(more);
        }
        self.blocks.push(block);
    }

    fn pop_block(&mut self) -> Vec<[u64; C]> {
        let mut rows = Vec::with_capacity(MOST);
        if let Some(block) = self.blocks.pop() {
            self.packed_bytes -= block.heap_bytes();
            rows.extend(block.rows());
        }
        rows
    }

    /// Where the first row is.
    pub(super) fn start(&self) -> RowPosition {
        RowPosition { block: 0, at: 0 }
    }

    /// Behind the last row.
    pub(super) fn end(&self) -> RowPosition {
        RowPosition { block: self.blocks.len(), at: self.waiting.len() }
    }

    /// Where the first row is that begins with `key` or more.
    pub(super) fn lower_bound(&self, key: u64) -> RowPosition {
        let block = self.blocks.partition_point(|block| block.last_key() < key);
        let at = match self.blocks.get(block) {
            Some(found) => found.lower_bound(key),
            None => self.waiting.partition_point(|row| row[0] < key),
        };
        RowPosition { block, at }
    }

    /// The row that begins with `key`.
    pub(super) fn find(&self, key: u64) -> Option<[u64; C]> {
        self.get(self.lower_bound(key)).filter(|row| row[0] == key)
    }

    /// The row at a place that this table gave.
    pub(super) fn get(&self, place: RowPosition) -> Option<[u64; C]> {
        match self.blocks.get(place.block) {
            Some(block) => (place.at < block.len()).then(|| block.row(place.at)),
            None => self.waiting.get(place.at).copied(),
        }
    }

    /// The first of the last row's numbers.
    pub(super) fn last_key(&self) -> Option<u64> {
        let waiting = self.waiting.last().map(|row| row[0]);
        waiting.or_else(|| self.blocks.last().map(Block::last_key))
    }

    /// The rows from one place up to another.
    pub(super) fn range(
        &self,
        from: RowPosition,
        to: RowPosition,
    ) -> impl DoubleEndedIterator<Item = [u64; C]> + '_ {
        let last = to.block.min(self.blocks.len());
        let ends = move |block: usize, len: usize| {
            let begin = if block == from.block { from.at } else { 0 };
            let end = if block == to.block { to.at } else { len };
            begin..end.min(len).max(begin)
        };
        let packed = (from.block..last + 1).filter_map(move |at| Some((at, self.blocks.get(at)?)));
        let packed = packed.flat_map(move |(at, block)| ends(at, block.len()).map(move |row| block.row(row)));
        let waits = to.block >= self.blocks.len() && from <= to;
        let waiting = if waits { ends(self.blocks.len(), self.waiting.len()) } else { 0..0 };
        let waiting = self.waiting.get(waiting).unwrap_or_default();
        packed.chain(waiting.iter().copied())
    }

    /// All rows.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = [u64; C]> + '_ {
        self.range(self.start(), self.end())
    }

    /// The first numbers of the rows from one index on, as runs of consecutive ones: a block
    /// without gaps is one run, whatever its size.
    pub(super) fn runs_from(&self, from: RowPosition, mut each: impl FnMut(u64, u64)) {
        let before = |block| if block == from.block { from.at } else { 0 };
        for (n, block) in self.blocks.iter().enumerate().skip(from.block) {
            let (keys, at) = (&block.0[0], before(n));
            if at >= keys.len() {
                continue;
            }
            let (first, last) = (keys.get(at), block.last_key());
            if last - first == (keys.len() - 1 - at) as u64 {
                each(first, last);
            } else {
                keys.iter().skip(at).for_each(|key| each(key, key));
            }
        }
        self.waiting.iter().skip(before(self.blocks.len())).for_each(|row| each(row[0], row[0]));
    }

    /// The first row whose number matches: a block in which all are equal is tested once.
    pub(super) fn find_by<const N: usize>(&self, mut is_such: impl FnMut(u64) -> bool) -> Option<[u64; C]> {
        let found = self.blocks.iter().find_map(|block| {
            let at = match block.0[N].same() {
                Some(same) => is_such(same).then_some(0),
                None => block.0[N].iter().position(&mut is_such),
            };
            at.map(|at| block.row(at))
        });
        found.or_else(|| self.waiting.iter().copied().find(|row| is_such(row[N])))
    }

    /// The rows from one place on of which that number is above `floor`.
    pub(super) fn above<const N: usize>(
        &self,
        floor: u64,
        from: RowPosition,
    ) -> impl Iterator<Item = [u64; C]> + '_ {
        let before = move |block| if block == from.block { from.at } else { 0 };
        let packed = self.blocks.iter().enumerate().skip(from.block).flat_map(move |(n, block)| {
            let numbers = block.0[N].iter().enumerate().skip(before(n));
            numbers.filter(move |(_, number)| *number > floor).map(|(at, _)| block.row(at))
        });
        let waiting = self.waiting.iter().skip(before(self.blocks.len())).copied();
        packed.chain(waiting.filter(move |row| row[N] > floor))
    }

    /// The rows from the `n`-th on, of a table that nothing was ever taken out of but by [`Table::retain`].
    pub(super) fn iter_from(&self, n: usize) -> impl Iterator<Item = [u64; C]> + '_ {
        let packed = self.len - self.waiting.len();
        let place = if n < packed {
            RowPosition { block: n / MOST, at: n % MOST }
        } else {
            RowPosition { block: self.blocks.len(), at: n - packed }
        };
        self.range(place, self.end())
    }

    /// Shows `change` the rows from one place up to another; what it gives for one is there from
    /// now on. The first number of a row stays.
    pub(super) fn update(
        &mut self,
        from: RowPosition,
        to: RowPosition,
        mut change: impl FnMut(&[u64; C]) -> Option<[u64; C]>,
    ) {
        for at in from.block..self.blocks.len().min(to.block + 1) {
            let block = &mut self.blocks[at];
            let begin = if at == from.block { from.at } else { 0 };
            let end = if at == to.block { to.at } else { block.len() };
            let before = block.heap_bytes();
            block.update(begin..end, &mut change);
            self.packed_bytes = self.packed_bytes - before + block.heap_bytes();
        }
        if to.block >= self.blocks.len() {
            let begin = if from.block >= self.blocks.len() { from.at } else { 0 };
            for row in self.waiting.get_mut(begin..to.at).unwrap_or_default() {
                if let Some(new) = change(row) {
                    *row = new;
                }
            }
        }
    }

    /// Takes out the rows that begin with a number of these ranges, which ascend, and shows them to
    /// `gone`, in order.
    pub(super) fn remove(
        &mut self,
        ranges: impl DoubleEndedIterator<Item = (u64, u64)> + Clone,
        mut gone: impl FnMut(&[u64; C]),
    ) {
        let (Some((first, _)), Some((_, last))) = (ranges.clone().next(), ranges.clone().next_back()) else {
            return;
        };
        let mut going = Going(ranges.peekable());
        let (from, to) = (self.lower_bound(first).block, self.lower_bound(last).block + 1);
        let behind = self.blocks.split_off(to.min(self.blocks.len()));
        let old = self.blocks.split_off(from);
        let mut stays = |going: &mut Going<_>, row: &[u64; C]| {
            let goes = going.reach(row[0]).is_some_and(|(first, _)| first <= row[0]);
            if goes {
                gone(row);
            }
            !goes
        };
        let mut rows = Vec::with_capacity(MOST);
        let mut open = Vec::new();
        for block in old {
            self.packed_bytes -= block.heap_bytes();
            let first = going.reach(block.0[0].get(0)).map(|(first, _)| first);
            if open.is_empty() && first.is_none_or(|first| first > block.last_key()) {
                self.push_block(block);
                continue;
            }
            rows.clear();
            rows.extend(block.rows().filter(|row| stays(&mut going, row)));
            self.len -= block.len() - rows.len();
            rows.iter().for_each(|row| self.fill(&mut open, *row));
            if open.len() > SPARSE {
                self.push_block(Block::new(&open));
                open.clear();
            }
        }
        let waiting = self.waiting.len();
        self.waiting.retain(|row| stays(&mut going, row));
        self.len -= waiting - self.waiting.len();
        self.close(open, behind);
    }

    /// Packs what is left open in front of the blocks `behind`, with the block in front of it or
    /// with what waits behind it if that is little.
    fn close(&mut self, mut open: Vec<[u64; C]>, mut behind: Vec<Block<C>>) {
        if self.blocks.last().is_some_and(|last| !open.is_empty() && last.len() + open.len() <= SPARSE) {
            let mut rows = self.pop_block();
            rows.append(&mut open);
            open = rows;
        }
        if self.blocks.is_empty() && behind.is_empty() && open.len() + self.waiting.len() < WAITING {
            open.append(&mut self.waiting);
            self.waiting = open;
        } else if !open.is_empty() {
            self.push_block(Block::new(&open));
        }
        self.blocks.append(&mut behind);
        self.blocks.shrink_to(self.blocks.len() + self.blocks.len() / 8);
        self.waiting.shrink_to_fit();
    }

    /// Passes all rows to `keep`, which may change them, and keeps those for which it returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut [u64; C]) -> bool) {
        let old = std::mem::take(self);
        let mut open = Vec::with_capacity(MOST);
        let mut each = |mut row: [u64; C]| {
            if keep(&mut row) {
                self.len += 1;
                self.fill(&mut open, row);
            }
        };
        for block in old.blocks {
            block.rows().for_each(&mut each);
        }
        old.waiting.into_iter().for_each(each);
        if open.len() < WAITING {
            open.shrink_to_fit();
            self.waiting = open;
        } else {
            self.push_block(Block::new(&open));
        }
    }
}

/// Ranges of numbers that ascend, gone through once.
struct Going<I: Iterator<Item = (u64, u64)>>(std::iter::Peekable<I>);

impl<I: Iterator<Item = (u64, u64)>> Going<I> {
    /// The first range that does not end below `key`, which is never less than before.
    fn reach(&mut self, key: u64) -> Option<(u64, u64)> {
        while self.0.peek().is_some_and(|(_, last)| *last < key) {
            self.0.next();
        }
        self.0.peek().copied()
    }
}
