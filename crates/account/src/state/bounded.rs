//! A bounded record of recent changes, oldest first and packed. Each row begins with a log position.
//!
//! Beyond the limit the older half is dropped, always whole positions. A query about an earlier position gets
//! "too long ago", never an incomplete result.

use sealpost_base::{Position, limits};

use super::table::Table;

/// Rows of `C` numbers, of which the first is a position.
#[derive(Clone, Default)]
pub(super) struct Bounded<const C: usize> {
    rows: Table<C>,
    /// Rows up to here were dropped.
    floor: Position,
}

impl<const C: usize> Bounded<C> {
    /// An empty record, before any rows of a checkpoint.
    pub(super) fn restore(floor: Position) -> Self {
        Bounded { rows: Table::default(), floor }
    }

    /// Adds a change. At most [`limits::TOMBSTONES`] rows remain.
    pub(super) fn push(&mut self, row: [u64; C]) {
        if row[0] <= self.floor.0 {
            // This position is itself too long ago: it has too many changes.
            return;
        }
        self.rows.push(row);
        if self.rows.len() > limits::TOMBSTONES {
            let middle = self.rows.iter_from(self.rows.len() / 2).next();
            self.forget_up_to(Position(middle.map_or(row[0], |middle| middle[0])));
        }
    }

    /// Drops the rows up to that position.
    pub(super) fn forget_up_to(&mut self, position: Position) {
        if position > self.floor {
            self.floor = position;
            self.rows.retain(|row| row[0] > position.0);
        }
    }

    /// The rows after `since`, in order; `None` if that is too long ago.
    pub(super) fn since(&self, since: Position) -> Option<impl Iterator<Item = [u64; C]> + '_> {
        let from = self.rows.lower_bound(since.0.saturating_add(1));
        (since >= self.floor).then(|| self.rows.range(from, self.rows.end()))
    }

    /// The position of the last change, or up to which changes were dropped.
    pub(super) fn last(&self) -> Position {
        let row = self.rows.len().checked_sub(1).and_then(|last| self.rows.iter_from(last).next());
        row.map_or(self.floor, |row| Position(row[0]).max(self.floor))
    }

    pub(super) fn floor(&self) -> Position {
        self.floor
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows from the `n`-th on.
    pub(super) fn iter_from(&self, n: usize) -> impl Iterator<Item = [u64; C]> + '_ {
        self.rows.iter_from(n)
    }

    /// Heap memory, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_positions_are_dropped() {
        let mut rows = Bounded::<2>::default();
        for n in 0..=limits::TOMBSTONES as u64 {
            rows.push([1 + n / 3, n]);
        }
        let floor = rows.floor();
        assert!(rows.len() <= limits::TOMBSTONES / 2 && floor > Position(100));
        assert!(rows.since(Position(floor.0 - 1)).is_none());
        let left: Vec<_> = rows.since(floor).unwrap().collect();
        assert_eq!(left.len(), rows.len());
        assert_eq!(left[0], [floor.0 + 1, 3 * floor.0]);
        assert_eq!(rows.last(), Position(1 + limits::TOMBSTONES as u64 / 3));
        assert_eq!(rows.since(Position(u64::MAX)).unwrap().count(), 0);
    }

    #[test]
    fn too_much_at_one_position_forgets_that_position() {
        let mut rows = Bounded::<2>::default();
        rows.push([4, 0]);
        (0..3 * limits::TOMBSTONES as u64).for_each(|n| rows.push([5, n]));
        assert_eq!((rows.floor(), rows.len(), rows.last()), (Position(5), 0, Position(5)));
        rows.push([6, 1]);
        assert_eq!(rows.since(Position(5)).unwrap().count(), 1);
        assert!(rows.since(Position(4)).is_none());
    }
}
