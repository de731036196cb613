//! Counts and bounds the requests in progress per address and per account.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts work in progress by key. A key takes memory only while it has work in progress.
pub(crate) struct Gate<K> {
    most: usize,
    at_work: Mutex<HashMap<K, usize>>,
}

/// One unit of work in progress; dropping it ends the unit.
pub(crate) struct Place<K: Eq + Hash> {
    gate: Arc<Gate<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> Gate<K> {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Gate { most, at_work: Mutex::default() })
    }

    /// Admits work for `key`. `None` if it has too much in progress.
    pub(crate) fn enter(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut at_work = self.lock();
        let count = at_work.entry(key.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place { gate: self.clone(), key })
    }
}

impl<K> Gate<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Place<K> {
    pub(crate) fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut at_work = self.gate.lock();
        if let Some(count) = at_work.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                at_work.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_places_and_none_is_remembered() {
        let gate = Gate::new(2);
        let (one, two) = (gate.enter("a").unwrap(), gate.enter("a").unwrap());
        assert!(gate.enter("a").is_none());
        let other = gate.enter("b").unwrap();
        drop(one);
        assert!(gate.enter("a").is_some());
        drop((two, other));
        assert!(gate.lock().is_empty());
    }
}
