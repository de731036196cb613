//! [`Pairs`]: which message of the source is which of the destination.

use std::collections::HashMap;

use sealpost_base::{Uid, UidSet};

use super::contents::Contents;
use super::key::Key;
use super::map::Known;

/// Two folders side by side.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Positions in both of messages that are the same.
    pub(super) same: Vec<(usize, usize)>,
    /// UIDs of the source that the destination has not.
    pub(super) missing: UidSet,
    /// UIDs of the destination that the source has not.
    pub(super) extra: UidSet,
}

/// First what the map of UIDs says, then by key, as often as it is there.
pub(super) fn pair(source: &Contents, there: &Contents, known: Option<&Known>) -> Pairs {
    let mut pairs = Pairs::default();
    let mut taken = vec![false; there.messages.len()];
    let mut paired = vec![false; source.messages.len()];
    if let Some(known) = known {
        for (uid, at) in known.pairs(source.uidvalidity, there.uidvalidity) {
            if let (Some(from), Some(to)) = (source.find(uid), there.find(at))
                && !paired[from]
                && !taken[to]
            {
                (paired[from], taken[to]) = (true, true);
                pairs.same.push((from, to));
            }
        }
    }
    let mut by_key: HashMap<Key, Vec<u32>> = HashMap::new();
    // The first ones are to be taken first.
    for (at, message) in there.messages.iter().enumerate().rev().filter(|(at, _)| !taken[*at]) {
        by_key.entry(message.key).or_default().push(at as u32);
    }
    let mut missing = Vec::new();
    for (at, message) in source.messages.iter().enumerate().filter(|(at, _)| !paired[*at]) {
        match by_key.get_mut(&message.key).and_then(Vec::pop) {
            Some(to) => {
                taken[to as usize] = true;
                pairs.same.push((at, to as usize));
            }
            None => missing.extend(Uid::new(message.uid)),
        }
    }
    let extra = there.messages.iter().zip(&taken).filter(|(_, taken)| !**taken);
    pairs.extra = extra.filter_map(|(message, _)| Uid::new(message.uid)).collect();
    pairs.missing = missing.into_iter().collect();
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::map::Put;
    use super::*;
    use crate::keep::Flags;

    fn folder(messages: &[(u32, u8)]) -> Contents {
        let mut contents = Contents::new(9);
        for (uid, key) in messages {
            contents.add(*uid, [*key; 16], &Flags::default());
        }
        contents.end(true);
        contents
    }

    #[test]
    fn what_is_there_twice_is_taken_twice() {
        let source = folder(&[(1, 1), (2, 1), (3, 1), (4, 2)]);
        let there = folder(&[(11, 1), (12, 3), (13, 1)]);
        let pairs = pair(&source, &there, None);
        assert_eq!(pairs.same, [(0, 0), (1, 2)]);
        assert_eq!((pairs.missing.to_string(), pairs.extra.to_string()), ("3:4".into(), "12".into()));
    }

    #[test]
    fn the_map_is_asked_first_as_long_as_uids_mean_what_they_meant() {
        let source = folder(&[(1, 1), (2, 2)]);
        let there = folder(&[(11, 7), (12, 1)]);
        let mut known = Known::default();
        known.add(Put { uidvalidity: 9, uid: 1, there: (9, 11) });
        assert_eq!(pair(&source, &there, Some(&known)).same, [(0, 0)]);
        let mut of_before = Known::default();
        of_before.add(Put { uidvalidity: 8, uid: 1, there: (9, 11) });
        assert_eq!(pair(&source, &there, Some(&of_before)).same, [(0, 1)]);
    }
}
