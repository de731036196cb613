//! [`KnownMessages`]: the messages of a folder, and their flags, in a few bytes a message.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use sealpost_base::{Uid, UidSet, limits};

use super::Flags;

/// UIDs and their flags, as runs of neighbours with equal flags: one run of a few words for a
/// mailbox in which all is read, about 20 bytes a message if no two neighbours are alike. Each set
/// of flags is stored once.
#[derive(Debug, Default)]
pub struct KnownMessages {
    /// By the first UID.
    runs: BTreeMap<u32, Tail>,
    sets: Vec<Flags>,
    numbers: HashMap<Flags, u32>,
    /// Bytes of the keywords in `sets`.
    words: usize,
    present: u64,
    gone: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tail {
    last: u32,
    /// The index of a set, and [`DELETED_UPSTREAM`].
    set: u32,
}

/// Added to the number of a set: the server no longer has the messages.
const DELETED_UPSTREAM: u32 = 1 << 31;

/// Messages whose UIDs follow each other and whose flags are equal.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The first UID.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// Their flags.
    pub flags: &'a Flags,
    /// The server no longer has them.
    pub gone: bool,
}

impl KnownMessages {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Messages that the server has too.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Messages that the server no longer has.
    pub fn deleted_upstream(&self) -> u64 {
        self.gone
    }

    /// Whether the message is known, gone from the server or not.
    pub fn contains(&self, uid: u32) -> bool {
        self.run(uid).is_some()
    }

    /// Whether the message is known and the server no longer has it.
    pub fn is_deleted_upstream(&self, uid: u32) -> bool {
        self.run(uid).is_some_and(|(_, tail)| tail.set & DELETED_UPSTREAM != 0)
    }

    /// The message's flags; `None` if it is not known.
    pub fn flags(&self, uid: u32) -> Option<&Flags> {
        let (_, tail) = self.run(uid)?;
        self.sets.get((tail.set & !DELETED_UPSTREAM) as usize)
    }

    /// Whether the message is known, and with other flags than [`KnownMessages::insert`] would give
    /// it.
    pub fn differs(&self, uid: u32, flags: &Flags) -> bool {
        self.flags(uid).is_some_and(|known| {
            known != flags && (self.fits(flags) || *known != Flags::of_system(flags.system))
        })
    }

    /// The runs, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        self.runs.iter().filter_map(|(first, tail)| {
            let flags = self.sets.get((tail.set & !DELETED_UPSTREAM) as usize)?;
            Some(Run { first: *first, last: tail.last, flags, gone: tail.set & DELETED_UPSTREAM != 0 })
        })
    }

    /// All UIDs.
    pub fn uids(&self) -> UidSet {
        self.ranges(|_| true)
    }

    /// The UIDs of messages that the server has too.
    pub fn present_uids(&self) -> UidSet {
        self.ranges(|tail| tail.set & DELETED_UPSTREAM == 0)
    }

    fn ranges(&self, keep: impl Fn(&Tail) -> bool) -> UidSet {
        let kept = self.runs.iter().filter(|(_, tail)| keep(tail));
        UidSet::from_ranges(kept.filter_map(|(first, tail)| Some((Uid::new(*first)?, Uid::new(tail.last)?))))
    }

    /// Adds the message, or changes its flags. `false`: there are too many different sets of flags,
    /// and its keywords and labels were left out here.
    pub fn insert(&mut self, uid: u32, flags: &Flags) -> bool {
        let (set, complete) = self.set(flags);
        self.put(uid, Some(set));
        complete
    }

    /// The server no longer has the message, or has it after all. Does nothing for an unknown
    /// message.
    pub fn set_deleted_upstream(&mut self, uid: u32, gone: bool) {
        if let Some((_, tail)) = self.run(uid) {
            self.put(
                uid,
                Some(if gone { tail.set | DELETED_UPSTREAM } else { tail.set & !DELETED_UPSTREAM }),
            );
        }
    }

    /// The message was removed.
    pub fn remove(&mut self, uid: u32) {
        self.put(uid, None);
    }

    fn run(&self, uid: u32) -> Option<(u32, Tail)> {
        let (first, tail) = self.runs.range(..=uid).next_back()?;
        (tail.last >= uid).then_some((*first, *tail))
    }

    fn set(&mut self, flags: &Flags) -> (u32, bool) {
        if let Some(number) = self.numbers.get(flags) {
            return (*number, true);
        }
        if !self.fits(flags) {
            return (self.set(&Flags::of_system(flags.system)).0, false);
        }
        self.words += words(flags);
        let number = u32::try_from(self.sets.len()).unwrap_or(DELETED_UPSTREAM - 1);
        self.sets.push(flags.clone());
        self.numbers.insert(flags.clone(), number);
        (number, true)
    }

    /// Whether these flags fit. Flags without keywords and labels always do: there are 256 such
    /// sets.
    fn fits(&self, flags: &Flags) -> bool {
        let words = words(flags);
        words == 0
            || self.numbers.contains_key(flags)
            || self.sets.len() < limits::FLAG_SETS
                && self.words + words <= limits::ARCHIVE_FLAG_BYTES
                && words <= limits::ARCHIVE_FLAG_BYTES / 16
    }

    fn count(&mut self, set: u32, messages: RangeInclusive<u32>, add: bool) {
        let n = u64::from(messages.end() - messages.start()) + 1;
        let which = if set & DELETED_UPSTREAM == 0 { &mut self.present } else { &mut self.gone };
        *which = if add { *which + n } else { which.saturating_sub(n) };
    }

    /// Moves `uid` to a run with this set, or removes it.
    fn put(&mut self, uid: u32, set: Option<u32>) {
        if let Some((first, tail)) = self.run(uid) {
            if set == Some(tail.set) {
                return;
            }
            self.count(tail.set, uid..=uid, false);
            self.runs.remove(&first);
            if first < uid {
                self.runs.insert(first, Tail { last: uid - 1, set: tail.set });
            }
            if uid < tail.last {
                self.runs.insert(uid + 1, tail);
            }
        }
        let Some(set) = set else { return };
        self.count(set, uid..=uid, true);
        let mut last = uid;
        if let Some(next) = uid.checked_add(1)
            && let Some(tail) = self.runs.get(&next).copied()
            && tail.set == set
        {
            self.runs.remove(&next);
            last = tail.last;
        }
        if let Some((_, before)) = self.runs.range_mut(..uid).next_back()
            && before.last + 1 == uid
            && before.set == set
        {
            before.last = last;
            return;
        }
        self.runs.insert(uid, Tail { last, set });
    }
}

/// Bytes of the keywords and labels of flags.
fn words(flags: &Flags) -> usize {
    flags.keywords.iter().chain(&flags.labels).map(|word| word.len() + 16).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen() -> Flags {
        Flags::from_names(["\\Seen"])
    }

    #[test]
    fn a_mailbox_in_which_all_is_read_is_one_run() {
        let mut known = KnownMessages::new();
        for uid in 1..=1000 {
            known.insert(uid, &seen());
        }
        assert_eq!(known.runs.len(), 1);
        assert_eq!(known.present(), 1000);
    }

    #[test]
    fn too_many_sets_lose_keywords_and_nothing_else() {
        let mut known = KnownMessages::new();
        let long = "k".repeat(limits::ARCHIVE_FLAG_BYTES / 32);
        let mut left_out = 0;
        for uid in 1..=200u32 {
            let mut flags = seen();
            flags.add(&format!("{long}{uid}"));
            left_out += u32::from(!known.insert(uid, &flags));
            assert!(!known.differs(uid, &flags));
            assert!(known.differs(uid, &Flags::default()));
        }
        assert!(left_out > 100, "{left_out}");
        assert!(known.words <= limits::ARCHIVE_FLAG_BYTES);
        assert!((1..=200).all(|uid| known.flags(uid).is_some_and(|flags| flags.system == Flags::SEEN)));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u32, u8),
        Gone(u32, bool),
        Remove(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1u32..40, 0u8..3).prop_map(|(uid, set)| Step::Insert(uid, set)),
            1 => (1u32..40, any::<bool>()).prop_map(|(uid, gone)| Step::Gone(uid, gone)),
            1 => (1u32..40).prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn known_messages_equal_a_naive_map(steps in prop::collection::vec(step(), 0..200)) {
            let (mut known, mut model) = (KnownMessages::new(), BTreeMap::<u32, (u8, bool)>::new());
            for step in steps {
                match step {
                    Step::Insert(uid, system) => {
                        known.insert(uid, &Flags { system, ..Flags::default() });
                        model.insert(uid, (system, false));
                    }
                    Step::Gone(uid, gone) => {
                        known.set_deleted_upstream(uid, gone);
                        if let Some(message) = model.get_mut(&uid) {
                            message.1 = gone;
                        }
                    }
                    Step::Remove(uid) => {
                        known.remove(uid);
                        model.remove(&uid);
                    }
                }
            }
            let mut found = BTreeMap::new();
            let mut before: Option<(u32, u8, bool)> = None;
            for run in known.runs() {
                prop_assert!(run.first <= run.last);
                if let Some((last, system, gone)) = before {
                    prop_assert!(run.first > last);
                    prop_assert!((run.first, run.flags.system, run.gone) != (last + 1, system, gone), "joined");
                }
                before = Some((run.last, run.flags.system, run.gone));
                found.extend((run.first..=run.last).map(|uid| (uid, (run.flags.system, run.gone))));
            }
            prop_assert_eq!(known.deleted_upstream(), model.values().filter(|m| m.1).count() as u64);
            prop_assert_eq!(known.present(), model.values().filter(|m| !m.1).count() as u64);
            prop_assert_eq!(known.uids().len(), model.len());
            prop_assert_eq!(found, model);
        }
    }
}
