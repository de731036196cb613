//! The ordered results of a query at certain positions of the logs.
//!
//! An email is represented by its first stored message: four bytes, and a bit for whether it is the first of
//! its thread.

use std::collections::HashSet;
use std::sync::Arc;

use sealpost_account::{AccountState, MessageNumber, ThreadId};
use sealpost_base::{AccountId, ObjectId};
use sealpost_mailbox::account_changes::LogPositions;

use super::EmailQuery;

/// The states of the logs of an account at one moment.
pub(super) type Logs<'a> = [(AccountId, &'a AccountState)];

/// The key of a cached list.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ListKey {
    /// The account; its own log comes first.
    pub(crate) account: AccountId,
    pub(super) query: Arc<EmailQuery>,
}

impl ListKey {
    pub(crate) fn bytes(&self) -> usize {
        self.query.bytes()
    }
}

/// A message: the index of its log, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Entry {
    pub(super) log: u16,
    pub(super) number: u32,
}

/// All results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EmailList {
    /// The positions at which these are the results.
    pub(super) upto: LogPositions,
    /// The logs, and the number of messages that each has dropped.
    pub(super) logs: Vec<(AccountId, u64)>,
    numbers: Vec<u32>,
    /// The log of each result; empty if all are in the first one.
    of_log: Vec<u16>,
    /// Which results are the first of their threads.
    firsts: Bits,
    /// Whether strings were compared completely; otherwise another run may give another order.
    pub(super) is_exact: bool,
}

/// A bit vector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bits {
    words: Vec<u64>,
    len: usize,
    ones: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if bit && let Some(last) = self.words.last_mut() {
            *last |= 1 << (self.len % 64);
            self.ones += 1;
        }
        self.len += 1;
    }

    fn get(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// The number of ones before an index.
    fn rank(&self, at: usize) -> usize {
        let whole: usize = self.words[..at / 64].iter().map(|word| word.count_ones() as usize).sum();
        let part = self.words.get(at / 64).map_or(0, |word| word & ((1 << (at % 64)) - 1));
        whole + part.count_ones() as usize
    }

    /// The indices of the ones, without the first `skip`.
    fn ones(&self, skip: usize) -> impl Iterator<Item = usize> + '_ {
        let (mut word, mut left) = (0, skip);
        while let Some(ones) = self.words.get(word).map(|bits| bits.count_ones() as usize)
            && ones <= left
        {
            (word, left) = (word + 1, left - ones);
        }
        let places = self.words[word..].iter().enumerate().flat_map(move |(n, bits)| {
            let of_word = (0..64).filter(move |bit| bits >> bit & 1 == 1);
            of_word.map(move |bit| (word + n) * 64 + bit)
        });
        places.skip(left)
    }
}

impl EmailList {
    /// Starts without results at these positions; `capacity` results will be pushed.
    pub(super) fn new(upto: LogPositions, logs: Vec<(AccountId, u64)>, capacity: usize) -> Self {
        EmailList {
            upto,
            logs,
            numbers: Vec::with_capacity(capacity),
            of_log: Vec::new(),
            firsts: Bits::default(),
            is_exact: true,
        }
    }

    /// Adds the next result, and whether it is the first of its thread.
    pub(super) fn push(&mut self, entry: Entry, first: bool) {
        self.push_unmarked(entry);
        self.mark(first);
    }

    /// Adds the next result; [`EmailList::mark`] later sets, in the same order, whether it is a first.
    pub(super) fn push_unmarked(&mut self, entry: Entry) {
        let at = self.numbers.len();
        if entry.log > 0 && self.of_log.is_empty() {
            self.of_log.reserve_exact(self.numbers.capacity());
            self.of_log.resize(at, 0);
        }
        if entry.log > 0 || !self.of_log.is_empty() {
            self.of_log.push(entry.log);
        }
        self.numbers.push(entry.number);
    }

    /// Sets whether the next unmarked result is the first of its thread.
    pub(super) fn mark(&mut self, first: bool) {
        self.firsts.push(first);
    }

    /// The number of results; one per thread if `collapsed`.
    pub(super) fn len(&self, collapsed: bool) -> usize {
        if collapsed { self.firsts.ones } else { self.numbers.len() }
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        Entry { log: self.of_log.get(at).copied().unwrap_or(0), number: self.numbers[at] }
    }

    /// All results, each with whether it is the first of its thread.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Entry, bool)> + '_ {
        (0..self.numbers.len()).map(|at| (self.entry(at), self.firsts.get(at)))
    }

    /// The results from that index.
    pub(super) fn from(&self, first: usize, collapsed: bool) -> Box<dyn Iterator<Item = Entry> + '_> {
        match collapsed {
            true => Box::new(self.firsts.ones(first).map(|at| self.entry(at))),
            false => Box::new((first..self.numbers.len()).map(|at| self.entry(at))),
        }
    }

    /// The index of a result, optionally among the collapsed ones; `None` if it is not one of these.
    pub(super) fn index(&self, at: usize, collapsed: bool) -> Option<usize> {
        match collapsed {
            true => self.firsts.get(at).then(|| self.firsts.rank(at)),
            false => Some(at),
        }
    }

    /// The index of the first result in `wanted`.
    pub(super) fn find(&self, wanted: &[Entry]) -> Option<usize> {
        (0..self.numbers.len()).find(|at| wanted.contains(&self.entry(*at)))
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.numbers.capacity() * 4
            + self.of_log.capacity() * 2
            + self.firsts.words.capacity() * 8
            + self.logs.len() * 96
    }

    /// Whether it belongs to these logs, in this order.
    pub(super) fn is_of(&self, logs: &Logs<'_>) -> bool {
        self.logs.len() == logs.len() && self.logs.iter().zip(logs).all(|((known, _), (log, _))| known == log)
    }
}

impl Entry {
    /// The object in the email's id.
    pub(super) fn object(self, logs: &Logs<'_>) -> Option<ObjectId> {
        Some(logs.get(usize::from(self.log))?.1.message_fields(MessageNumber(self.number))?.first_object)
    }

    /// Its thread.
    pub(super) fn thread(self, logs: &Logs<'_>) -> Option<ThreadId> {
        logs.get(usize::from(self.log))?.1.thread(MessageNumber(self.number))
    }
}

/// All messages of that email, visible or not.
pub(super) fn entries_of<'a>(logs: &'a Logs<'a>, object: ObjectId) -> impl Iterator<Item = Entry> + 'a {
    logs.iter().enumerate().flat_map(move |(log, (_, state))| {
        let numbers = state.maps().into_iter().flat_map(move |maps| maps.messages(object));
        numbers.map(move |number| Entry { log: log as u16, number: number.0 })
    })
}

/// How many messages each log has ever dropped.
pub(super) fn forgotten(logs: &Logs<'_>) -> Vec<(AccountId, u64)> {
    let of = |state: &AccountState| u64::from(state.next_message()) - state.message_count() as u64;
    logs.iter().map(|(log, state)| (*log, of(state))).collect()
}

/// Determines which emails of a list, in order, are the first of their threads.
#[derive(Default)]
pub(super) struct Firsts(HashSet<ThreadId>);

impl Firsts {
    pub(super) fn with_capacity(emails: usize) -> Self {
        Firsts(HashSet::with_capacity(emails))
    }

    /// Whether no earlier email belongs to the thread.
    pub(super) fn is_first(&mut self, thread: ThreadId) -> bool {
        self.0.insert(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(firsts: &[bool]) -> EmailList {
        let mut list = EmailList::new(LogPositions::default(), Vec::new(), firsts.len());
        for (at, first) in firsts.iter().enumerate() {
            list.push(Entry { log: (at / 100) as u16, number: at as u32 }, *first);
        }
        list
    }

    proptest::proptest! {
        #[test]
        fn a_collapsed_list_has_the_first_of_each_thread(
            firsts in proptest::collection::vec(proptest::bool::ANY, 0..300), skip in 0usize..300,
        ) {
            let list = list(&firsts);
            let expected: Vec<usize> = (0..firsts.len()).filter(|at| firsts[*at]).collect();
            let collapsed: Vec<usize> = list.from(skip, true).map(|entry| entry.number as usize).collect();
            proptest::prop_assert_eq!(&collapsed[..], expected.get(skip..).unwrap_or_default());
            proptest::prop_assert_eq!(list.len(true), expected.len());
            for at in 0..firsts.len() {
                proptest::prop_assert_eq!(list.index(at, true), expected.iter().position(|one| *one == at));
                let entry = Entry { log: (at / 100) as u16, number: at as u32 };
                proptest::prop_assert_eq!(list.find(&[entry]), Some(at));
            }
        }
    }
}
