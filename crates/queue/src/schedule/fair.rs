//! [`RoundRobin`]: values of several owners, handed out by turns; and [`Shares`]: how much each of them has.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Queues of values, one for each owner that has any.
pub(crate) struct RoundRobin<K, V> {
    ring: VecDeque<K>,
    queues: HashMap<K, VecDeque<V>>,
    len: usize,
}

/// How much of something each owner has.
pub(crate) struct Shares<K>(HashMap<K, usize>);

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Shares(HashMap::new())
    }
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// How much `owner` has.
    pub(crate) fn of(&self, owner: K) -> usize {
        self.0.get(&owner).copied().unwrap_or(0)
    }

    /// `owner` gets one more.
    pub(crate) fn add(&mut self, owner: K) {
        *self.0.entry(owner).or_insert(0) += 1;
    }

    /// `owner` gives one back.
    pub(crate) fn give_back(&mut self, owner: K) {
        match self.0.get_mut(&owner) {
            Some(share) if *share > 1 => *share -= 1,
            _ => drop(self.0.remove(&owner)),
        }
    }
}

impl<K, V> Default for RoundRobin<K, V> {
    fn default() -> Self {
        RoundRobin { ring: VecDeque::new(), queues: HashMap::new(), len: 0 }
    }
}

impl<K: Copy + Eq + Hash, V> RoundRobin<K, V> {
    /// Adds a value behind the others of `owner`.
    pub(crate) fn push(&mut self, owner: K, value: V) {
        self.len += 1;
        let queue = self.queues.entry(owner).or_insert_with(|| {
            self.ring.push_back(owner);
            VecDeque::new()
        });
        queue.push_back(value);
    }

    /// The first value of the owner whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<(K, V)> {
        let owner = self.ring.pop_front()?;
        let queue = self.queues.get_mut(&owner)?;
        let value = queue.pop_front()?;
        self.len -= 1;
        if queue.is_empty() {
            self.queues.remove(&owner);
        } else {
            if queue.capacity() > 64 && queue.len() * 4 < queue.capacity() {
                queue.shrink_to_fit();
            }
            self.ring.push_back(owner);
        }
        Some((owner, value))
    }

    /// The same among the owners that `is_allowed` names.
    pub(crate) fn pop_where(&mut self, mut is_allowed: impl FnMut(K) -> bool) -> Option<(K, V)> {
        for _ in 0..self.ring.len() {
            if is_allowed(*self.ring.front()?) {
                return self.pop();
            }
            self.ring.rotate_left(1);
        }
        None
    }

    /// How many values there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops all.
    pub(crate) fn clear(&mut self) {
        *self = RoundRobin::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns() {
        let mut all = RoundRobin::default();
        (0..5).for_each(|n| all.push('a', n));
        (0..2).for_each(|n| all.push('b', n));
        let order: Vec<_> = std::iter::from_fn(|| all.pop()).collect();
        assert_eq!(order, [('a', 0), ('b', 0), ('a', 1), ('b', 1), ('a', 2), ('a', 3), ('a', 4)]);
        assert!(all.is_empty());
    }
}
