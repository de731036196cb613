//! A priority queue: the smallest priority first, then in order of arrival.

use std::collections::BTreeMap;

/// Serves a number of entries at once, and queues a number of others. `T` notifies a waiting entry.
#[derive(Debug)]
pub struct Line<P, T> {
    /// How many more entries may be served now.
    free: usize,
    most_waiting: usize,
    waiting: BTreeMap<(P, u64), T>,
    next: u64,
}

/// The result of entering the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry<P, T> {
    /// The entry is served at once.
    Now,
    /// The entry waits under this number; `Some` is the entry that it displaced from a full queue.
    Waits((P, u64), Option<T>),
    /// The queue is full of entries that are served sooner.
    Full,
}

impl<P: Ord + Copy, T> Line<P, T> {
    /// An empty queue.
    pub fn new(at_once: usize, most_waiting: usize) -> Self {
        Line { free: at_once, most_waiting, waiting: BTreeMap::new(), next: 0 }
    }

    /// Enters the queue; `notify` notifies the entry if it must wait.
    pub fn enter(&mut self, priority: P, notify: T) -> Entry<P, T> {
        if self.free > 0 {
            self.free -= 1;
            return Entry::Now;
        }
        self.next += 1;
        let place = (priority, self.next);
        let mut put_out = None;
        if self.waiting.len() >= self.most_waiting {
            match self.waiting.last_entry() {
                Some(last) if *last.key() > place => put_out = Some(last.remove()),
                _ => return Entry::Full,
            }
        }
        self.waiting.insert(place, notify);
        Entry::Waits(place, put_out)
    }

    /// Ends the service of one entry and returns the next, which is served now.
    pub fn leave(&mut self) -> Option<T> {
        let next = self.waiting.pop_first().map(|(_, notify)| notify);
        if next.is_none() {
            self.free += 1;
        }
        next
    }

    /// Removes a waiting entry; false if it was already served or displaced.
    pub fn give_up(&mut self, place: (P, u64)) -> bool {
        self.waiting.remove(&place).is_some()
    }

    /// The number of waiting entries.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_priority_is_next_then_the_first_to_come() {
        let mut line = Line::new(1, 10);
        assert_eq!(line.enter(9, "first"), Entry::Now);
        for (priority, who) in [(2, "c"), (1, "a"), (2, "d"), (1, "b")] {
            assert!(matches!(line.enter(priority, who), Entry::Waits(_, None)));
        }
        let Entry::Waits(place, None) = line.enter(0, "gone") else { panic!("the queue is not full") };
        assert!(line.give_up(place) && !line.give_up(place));
        let order: Vec<_> = std::iter::from_fn(|| line.leave()).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
        assert_eq!(line.enter(9, "alone"), Entry::Now, "the queue is empty");
    }

    #[test]
    fn a_full_line_displaces_the_last_for_a_higher_priority() {
        let mut line = Line::new(0, 2);
        assert!(matches!(line.enter(2, "a"), Entry::Waits(_, None)));
        assert!(matches!(line.enter(2, "b"), Entry::Waits(_, None)));
        assert_eq!(line.enter(2, "no better"), Entry::Full);
        assert!(matches!(line.enter(1, "c"), Entry::Waits(_, Some("b"))));
        assert_eq!(line.enter(3, "worse"), Entry::Full);
        assert_eq!((line.leave(), line.leave(), line.len()), (Some("c"), Some("a"), 0));
    }
}
