//! [`Pairs`]: which message of the source is which one of the destination.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use sealpost_base::{Uid, UidSet};

use super::contents::{Contents, Message};
use super::key::Key;
use super::map::FolderMap;

/// Two folders side by side.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Positions in both of messages that are the same.
    pub(super) same: Vec<(usize, usize)>,
    /// UIDs of the source that the destination does not have.
    pub(super) missing: UidSet,
    /// UIDs of the destination that the source does not have.
    pub(super) extra: UidSet,
}

impl Pairs {
    /// Those of `extra` that look the same as messages `there` that the source has.
    pub(super) fn alike(&self, there: &Contents) -> UidSet {
        let mark = |message: &Message| (message.key, message.like.size, message.like.date);
        let extra: Vec<&Message> =
            self.extra.iter().filter_map(|uid| there.messages.get(there.find(uid.get())?)).collect();
        if extra.is_empty() {
            return UidSet::new();
        }
        let same: HashSet<_> = self.same.iter().map(|(_, at)| mark(&there.messages[*at])).collect();
        let alike = extra.into_iter().filter(|message| same.contains(&mark(message)));
        alike.filter_map(|message| Uid::new(message.uid)).collect()
    }
}

impl Pairs {
    /// These messages of the source are the same one: one of them is missing, if the destination
    /// has none of them.
    pub(super) fn keep_one_of(&mut self, twins: &BTreeSet<u32>) {
        let twins: UidSet = twins.iter().filter_map(|uid| Uid::new(*uid)).collect();
        let missing = self.missing.intersection(&twins);
        // The last one is the one that the server had last.
        let keep = if missing.len() == twins.len() { missing.len().saturating_sub(1) } else { missing.len() };
        self.missing = self.missing.difference(&missing.slice(0..keep));
    }
}

/// First by the map of UIDs, unless Message-IDs contradict it; then by key, each as often as it
/// occurs; then messages without a Message-ID and without a known INTERNALDATE at the source, by
/// their other fields.
pub(super) fn pair(source: &Contents, there: &Contents, known: Option<&FolderMap>) -> Pairs {
    let mut pairing = Pairing {
        source,
        there,
        paired: vec![false; source.messages.len()],
        taken: vec![false; there.messages.len()],
        same: Vec::new(),
    };
    for (uid, at) in known.into_iter().flat_map(|known| known.pairs(source.uidvalidity, there.uidvalidity)) {
        if let (Some(from), Some(to)) = (source.find(uid), there.find(at)) {
            pairing.by_map(from, to);
        }
    }
    pairing.of_one_key();
    pairing.by(|_, message| Some(message.key));
    for (from, to) in undated(source, there, &pairing.paired, &pairing.taken) {
        pairing.put(from, to);
    }
    let Pairing { paired, taken, same, .. } = pairing;
    let missing = source.messages.iter().zip(&paired).filter(|(_, paired)| !**paired);
    let missing = missing.filter_map(|(message, _)| Uid::new(message.uid)).collect();
    let extra = there.messages.iter().zip(&taken).filter(|(_, taken)| !**taken);
    let extra = extra.filter_map(|(message, _)| Uid::new(message.uid)).collect();
    Pairs { same, missing, extra }
}

/// Two folders while their messages are paired.
struct Pairing<'a> {
    source: &'a Contents,
    there: &'a Contents,
    /// By position: whether it is paired.
    paired: Vec<bool>,
    taken: Vec<bool>,
    same: Vec<(usize, usize)>,
}

impl<'a> Pairing<'a> {
    fn put(&mut self, from: usize, to: usize) {
        if !self.paired[from] && !self.taken[to] {
            (self.paired[from], self.taken[to]) = (true, true);
            self.same.push((from, to));
        }
    }

    /// Pairs messages that the map names. Servers may add a Message-ID, but do not change one: with
    /// different ones the UIDs have another meaning now, or the server reported wrong ones.
    fn by_map(&mut self, from: usize, to: usize) {
        let (at_source, at_there) = (&self.source.messages[from], &self.there.messages[to]);
        let have_ids = self.source.has_id(at_source) && self.there.has_id(at_there);
        if !have_ids || at_source.key == at_there.key {
            self.put(from, to);
        }
    }

    /// Pairs messages that share one key, as all versions of a draft may, by their other data.
    fn of_one_key(&mut self) {
        let mut repeated = HashSet::new();
        for contents in [self.source, self.there] {
            let mut seen = HashSet::with_capacity(contents.messages.len());
            let keys = contents.messages.iter().map(|message| message.key);
            repeated.extend(keys.filter(|key| !seen.insert(*key)));
        }
        if repeated.is_empty() {
            return;
        }
        let of = |message: &Message| repeated.contains(&message.key).then_some(message.key);
        if self.source.uidvalidity == self.there.uidvalidity {
            self.by(|_, message| Some((of(message)?, message.uid)));
        }
        // Those that differ only in flags pair with those of the same flags.
        self.by(|contents, message| Some((of(message)?, message.like, contents.flags(message)?)));
        self.by(|_, message| Some((of(message)?, message.like)));
        self.by(|_, message| Some((of(message)?, message.like.size)));
        self.by(|_, message| Some((of(message)?, message.like.date)));
    }

    /// Pairs messages with the same mark, as often as it occurs, the first ones first.
    fn by<K: Eq + Hash>(&mut self, mark: impl Fn(&'a Contents, &Message) -> Option<K>) {
        let mut marked: HashMap<K, Vec<u32>> = HashMap::new();
        for (at, message) in self.there.messages.iter().enumerate().rev().filter(|(at, _)| !self.taken[*at]) {
            if let Some(mark) = mark(self.there, message) {
                marked.entry(mark).or_default().push(at as u32);
            }
        }
        for (at, message) in self.source.messages.iter().enumerate() {
            if !self.paired[at]
                && let Some(to) = mark(self.source, message).and_then(|mark| marked.get_mut(&mark)?.pop())
            {
                self.put(at, to as usize);
            }
        }
    }
}

/// Unpaired messages that look the same, where the source's INTERNALDATE is not known.
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

    use super::super::contents::Like;
    use super::super::map::Put;
    use super::*;
    use crate::backup::Flags;

    fn folder(messages: &[(u32, u8)]) -> Contents {
        let mut contents = Contents::new(9);
        for (uid, key) in messages {
            contents.add(*uid, [*key; 16], Like::default(), &Flags::default());
        }
        contents.end(true);
        contents
    }

    #[test]
    fn two_equal_messages_match_two_at_the_destination() {
        let source = folder(&[(1, 1), (2, 1), (3, 1), (4, 2)]);
        let there = folder(&[(11, 1), (12, 3), (13, 1)]);
        let pairs = pair(&source, &there, None);
        assert_eq!(pairs.same, [(0, 0), (1, 2)]);
        assert_eq!((pairs.missing.to_string(), pairs.extra.to_string()), ("3:4".into(), "12".into()));
    }

    #[test]
    fn flags_decide_which_like_message_is_missing() {
        let folder = |uidvalidity, messages: &[(u32, &str)]| {
            let mut contents = Contents::new(uidvalidity);
            for (uid, flag) in messages {
                contents.add(*uid, [1; 16], Like::default(), &Flags::from_names([*flag]));
            }
            contents.end(true);
            contents
        };
        let source = folder(9, &[(1, "a"), (2, "b"), (3, "c")]);
        let missing = |there| pair(&source, &there, None).missing.to_string();
        assert_eq!(missing(folder(8, &[(21, "c"), (22, "a")])), "2");
        assert_eq!(missing(folder(8, &[(21, "b"), (22, "other")])), "3");
    }

    #[test]
    fn of_twins_one_is_missing_if_none_is_there() {
        let missing = |there: &[(u32, u8)]| {
            let source = folder(&[(1, 1), (2, 2), (6, 1), (9, 1)]);
            let mut pairs = pair(&source, &folder(there), None);
            pairs.keep_one_of(&[1, 6, 9].into());
            pairs.missing.to_string()
        };
        assert_eq!(missing(&[]), "2,9");
        assert_eq!(missing(&[(11, 1)]), "2");
        assert_eq!(missing(&[(11, 1), (12, 1), (13, 2)]), "");
    }

    #[test]
    fn undated_messages_pair_with_unpaired_ones_once() {
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
        // Known dates still have to match.
        let pairs = pair(&there, &source, None);
        assert_eq!((pairs.same.len(), pairs.missing.to_string()), (2, "13:14".into()));
    }

    #[test]
    fn the_map_decides_while_uidvalidities_are_unchanged() {
        let source = folder(&[(1, 1), (2, 2)]);
        let mut there = folder(&[(12, 1)]);
        // That server gave it a date of its own.
        there.add_without_id((11, b"Subject: x\n"), 5, Some(Timestamp(1000)), true, &Flags::default());
        there.end(true);
        let mut known = FolderMap::default();
        known.add(Put { uidvalidity: 9, uid: 1, there: (9, 11) });
        assert_eq!(pair(&source, &there, Some(&known)).same, [(0, 0)]);
        let mut of_before = FolderMap::default();
        of_before.add(Put { uidvalidity: 8, uid: 1, there: (9, 11) });
        assert_eq!(pair(&source, &there, Some(&of_before)).same, [(0, 1)]);
    }

    #[test]
    fn message_ids_contradict_the_map() {
        let (source, there) = (folder(&[(1, 1), (2, 2)]), folder(&[(11, 2), (12, 1), (13, 3)]));
        let mut known = FolderMap::default();
        for (uid, there) in [(1, 11), (2, 13)] {
            known.add(Put { uidvalidity: 9, uid, there: (9, there) });
        }
        let pairs = pair(&source, &there, Some(&known));
        assert_eq!((pairs.same, pairs.extra.to_string()), (vec![(0, 1), (1, 0)], "13".into()));
    }

    /// Messages of one Message-ID: UID, size, date.
    fn drafts(uidvalidity: u32, messages: &[(u32, u64, i64)]) -> Contents {
        let mut contents = Contents::new(uidvalidity);
        for (uid, size, date) in messages {
            let like = Like::of(*size, Some(Timestamp(*date * 1000)));
            contents.add(*uid, [1; 16], like, &Flags::default());
        }
        contents.end(true);
        contents
    }

    #[test]
    fn the_missing_one_of_several_versions_is_found() {
        let missing = |source: &Contents, there: &Contents| {
            let pairs = pair(source, there, None);
            (pairs.missing.to_string(), pairs.extra.to_string())
        };
        let both = drafts(9, &[(1, 100, 10), (2, 120, 20)]);
        // By size and date; by what of them a server keeps; by UID, where it is the same account.
        let one = ("1".to_owned(), String::new());
        for second in [(8, 120, 20), (8, 120, 55), (8, 130, 20)] {
            assert_eq!(missing(&both, &drafts(5, &[second])), one, "{second:?}");
        }
        assert_eq!(missing(&both, &drafts(9, &[(2, 100, 10)])), one);
        assert_eq!(missing(&drafts(5, &[(8, 120, 20)]), &both), (String::new(), "1".to_owned()));
        let alike = |source: &Contents, there: &Contents| pair(source, there, None).alike(there).to_string();
        assert_eq!(alike(&drafts(5, &[(8, 120, 20)]), &both), "");
        let twins = drafts(9, &[(1, 120, 20), (2, 120, 20)]);
        assert_eq!(alike(&drafts(5, &[(8, 120, 20)]), &twins), "2");
        // Where there is one, a server that says other sizes and dates has it all the same.
        assert_eq!(
            missing(&drafts(5, &[(8, 7, 7)]), &drafts(9, &[(1, 100, 10)])),
            (String::new(), String::new())
        );
    }
}
