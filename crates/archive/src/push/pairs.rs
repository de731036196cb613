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

/// First what the map of UIDs says, then by key, as often as it is there; then what has no Message-ID and no known INTERNALDATE
/// at the source, by its other fields.
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
    for (at, message) in source.messages.iter().enumerate() {
        if !paired[at]
            && let Some(to) = by_key.get_mut(&message.key).and_then(Vec::pop)
        {
            (paired[at], taken[to as usize]) = (true, true);
            pairs.same.push((at, to as usize));
        }
    }
    for (at, to) in undated(source, there, &paired, &taken) {
        (paired[at], taken[to]) = (true, true);
        pairs.same.push((at, to));
    }
    let missing = source.messages.iter().zip(&paired).filter(|(_, paired)| !**paired);
    pairs.missing = missing.filter_map(|(message, _)| Uid::new(message.uid)).collect();
    let extra = there.messages.iter().zip(&taken).filter(|(_, taken)| !**taken);
    pairs.extra = extra.filter_map(|(message, _)| Uid::new(message.uid)).collect();
    pairs
}

/// Messages that are left and are the same as far as can be told, the INTERNALDATE of the source's being unknown.
fn undated(source: &Contents, there: &Contents, paired: &[bool], taken: &[bool]) -> Vec<(usize, usize)> {
    let wanted = source.without_id.iter().filter(|message| !message.dated);
    let wanted = wanted.filter_map(|message| Some((source.find(message.uid)?, message.key)));
    let mut wanted = wanted.filter(|(at, _)| !paired[*at]).peekable();
    if wanted.peek().is_none() {
        return Vec::new();
    }
    let mut by_key: HashMap<Key, Vec<usize>> = HashMap::new();
    for message in there.without_id.iter().rev() {
        if let Some(at) = there.find(message.uid).filter(|at| !taken[*at]) {
            by_key.entry(message.key).or_default().push(at);
        }
    }
    wanted.filter_map(|(at, key)| Some((at, by_key.get_mut(&key)?.pop()?))).collect()
}

#[cfg(test)]
mod tests {
    use sealpost_base::Timestamp;

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
    fn what_has_no_date_takes_what_is_left_and_each_once() {
        let mut source = Contents::new(9);
        let mut there = Contents::new(9);
        let (flags, header) = (Flags::default(), b"Subject: x\n".as_slice());
        let (first, second) = (Some(Timestamp(1000)), Some(Timestamp(2000)));
        for (uid, date, dated) in [(1, None, false), (2, second, true), (3, first, false), (4, None, false)] {
            source.add_without_id((uid, header), 5, date, dated, &flags);
        }
        for (uid, date) in [(11, second), (12, first), (13, Some(Timestamp(3000)))] {
            there.add_without_id((uid, header), 5, date, true, &flags);
        }
        there.add_without_id((14, b"Subject: y\n"), 5, first, true, &flags);
        source.end(true);
        there.end(true);
        let pairs = pair(&source, &there, None);
        assert_eq!(pairs.same, [(1, 0), (2, 1), (0, 2)]);
        assert_eq!((pairs.missing.to_string(), pairs.extra.to_string()), ("4".into(), "14".into()));
        // What has a date is nothing else for that.
        let pairs = pair(&there, &source, None);
        assert_eq!((pairs.same.len(), pairs.missing.to_string()), (2, "13:14".into()));
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
