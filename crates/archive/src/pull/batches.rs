//! [`Batches`]: the messages of a folder that are still to be fetched, divided into commands.

use std::collections::HashMap;

use sealpost_base::{Error, Result, UidSet, limits};

use super::report::Failure;

/// Bytes that one command asks for: enough that the next one is always at the server before it is
/// done.
const BATCH_BYTES: u64 = 2 * 1024 * 1024;
/// Messages of one command.
const BATCH_MESSAGES: u64 = 2048;
/// The size of a message that is assumed before the first one came.
const FIRST_GUESS: u64 = 8 * 1024;
/// What FETCH adds to a message's bytes: it counts too, so that no message counts as nothing.
const AROUND: u64 = 128;
/// Ranges of one command: lines of more than 8 KiB are refused by some servers.
const BATCH_RANGES: usize = 500;
/// How many connections may be lost at one message.
const ATTEMPTS: u32 = 3;

/// What is still to be fetched, shared by the connections that work on a folder.
#[derive(Debug, Default)]
pub(super) struct Batches {
    left: UidSet,
    /// To be asked for again, in commands of their own.
    again: Vec<UidSet>,
    /// To be asked for one by one: they replace stored messages, so they have to be right.
    alone: UidSet,
    attempts: HashMap<u32, u32>,
    messages: u64,
    bytes: u64,
    /// Commands that were completed since the last message came.
    empty: u32,
    failed: Vec<Failure>,
}

impl Batches {
    /// Everything in `left`, those of `alone` one by one.
    pub(super) fn new(left: UidSet, alone: &UidSet) -> Self {
        let alone = left.intersection(alone);
        Batches { left: left.difference(&alone), alone, ..Self::default() }
    }

    /// Messages that no command has asked for yet.
    pub(super) fn len(&self) -> u64 {
        let again: u64 = self.again.iter().map(|set| set.len() as u64).sum();
        self.left.len() as u64 + self.alone.len() as u64 + again
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.alone.is_empty() && self.again.is_empty()
    }

    /// Whether there are none, and none that failed.
    pub(super) fn is_done(&self) -> bool {
        self.is_empty() && self.failed.is_empty()
    }

    /// Bytes that came, as [`Batches::bytes_left`] counts them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.messages * AROUND
    }

    /// Estimated bytes that no command has asked for yet.
    pub(super) fn bytes_left(&self) -> u64 {
        self.len().saturating_mul(self.average())
    }

    /// The next command's messages.
    pub(super) fn next(&mut self) -> Option<UidSet> {
        if let Some(set) = self.again.pop() {
            return Some(set);
        }
        if let Some(uid) = self.alone.first() {
            self.alone.remove(uid);
            return Some(UidSet::range(uid, uid));
        }
        if self.left.is_empty() {
            return None;
        }
        let count = (BATCH_BYTES / self.average()).clamp(1, BATCH_MESSAGES) as usize;
        let mut set = self.left.slice(0..count.min(self.left.len()));
        if set.range_count() > BATCH_RANGES {
            set = UidSet::from_ranges(set.ranges().take(BATCH_RANGES));
        }
        if let (Some(first), Some(last)) = (set.first(), set.last()) {
            self.left.remove_range(first, last);
        }
        Some(set)
    }

    /// A message came.
    pub(super) fn arrived(&mut self, bytes: u64) {
        self.messages += 1;
        self.empty = 0;
        self.bytes += bytes;
    }

    /// A command was completed.
    ///
    /// # Errors
    /// `Limit` if [`limits::ARCHIVE_EMPTY_FETCHES`] in a row brought no message.
    pub(super) fn completed(&mut self) -> Result<()> {
        self.empty = self.empty.saturating_add(1);
        if self.empty <= limits::ARCHIVE_EMPTY_FETCHES {
            return Ok(());
        }
        let empty = limits::ARCHIVE_EMPTY_FETCHES;
        let why = format!(
            "the server announces messages, but {empty} FETCH commands returned none; retrying at the next \
             pull"
        );
        Err(Error::limit(why))
    }

    /// The connection was lost before these came; `guilty`: it was their turn. The first of them is
    /// requested alone then, and fails after some attempts.
    pub(super) fn connection_lost(&mut self, mut set: UidSet, guilty: bool, reason: &str) {
        let Some(first) = set.first() else { return };
        if !guilty {
            self.again.push(set);
            return;
        }
        set.remove(first);
        if !set.is_empty() {
            self.again.push(set);
        }
        let attempts = self.attempts.entry(first.get()).or_default();
        *attempts += 1;
        if *attempts < ATTEMPTS {
            self.again.push(UidSet::range(first, first));
        } else {
            self.failed.push(Failure { uid: first.get(), reason: reason.to_owned() });
        }
    }

    /// The server refused a command and did not send these: they are requested in two halves, and a
    /// single one fails.
    pub(super) fn refused(&mut self, set: UidSet, reason: &str) {
        match (set.len(), set.first()) {
            (0, _) | (_, None) => {}
            (1, Some(uid)) => self.failed.push(Failure { uid: uid.get(), reason: reason.to_owned() }),
            (n, _) => {
                self.again.push(set.slice(n / 2..n));
                self.again.push(set.slice(0..n / 2));
            }
        }
    }

    /// The server does not send these now. One that was requested alone fails after some attempts.
    pub(super) fn defer(&mut self, set: UidSet, reason: &str) {
        match (set.len(), set.first()) {
            (0, _) | (_, None) => {}
            (1, Some(uid)) => self.connection_lost(UidSet::range(uid, uid), true, reason),
            _ => self.again.push(set),
        }
    }

    /// Like [`Batches::defer`], in two halves: if the cause is one message, the others come.
    pub(super) fn defer_in_halves(&mut self, set: UidSet, reason: &str) {
        match set.len() {
            0 | 1 => self.defer(set, reason),
            n => {
                self.again.push(set.slice(n / 2..n));
                self.again.push(set.slice(0..n / 2));
            }
        }
    }

    /// Messages that could not be fetched so far.
    pub(super) fn take_failed(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.failed)
    }

    fn average(&self) -> u64 {
        if self.messages == 0 {
            return FIRST_GUESS;
        }
        self.bytes / self.messages + AROUND
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::Uid;

    use super::*;

    fn range(first: u32, last: u32) -> UidSet {
        UidSet::range(Uid::new(first).unwrap(), Uid::new(last).unwrap())
    }

    #[test]
    fn commands_grow_with_small_messages_and_shrink_with_large_ones() {
        let mut batches = Batches::new(range(1, 100_000), &UidSet::new());
        assert_eq!(batches.next().unwrap().len(), 256);
        for _ in 0..100 {
            batches.arrived(52);
        }
        assert_eq!(batches.next().unwrap().len() as u64, BATCH_MESSAGES);
        for _ in 0..100 {
            batches.arrived(50_000_000);
        }
        assert_eq!(batches.next().unwrap().len(), 1);
    }

    #[test]
    fn a_command_has_a_bounded_number_of_ranges() {
        let mut batches = Batches::new((1..5000).filter_map(|n| Uid::new(2 * n)).collect(), &UidSet::new());
        batches.arrived(1);
        let (mut total, mut commands) = (0, 0);
        while let Some(set) = batches.next() {
            assert!(set.range_count() <= BATCH_RANGES);
            total += set.len();
            commands += 1;
        }
        assert_eq!((total, commands), (4999, 10));
    }

    #[test]
    fn only_messages_that_end_connections_are_skipped() {
        let mut batches = Batches::new(range(1, 10), &UidSet::new());
        let mut lost = 0;
        let mut fetched = UidSet::new();
        while let Some(set) = batches.next() {
            let mut set = set;
            while let Some(uid) = set.first() {
                if uid.get() == 7 {
                    lost += 1;
                    batches.connection_lost(set, true, "gone");
                    break;
                }
                set.remove(uid);
                fetched.insert(uid);
            }
        }
        assert_eq!(lost, ATTEMPTS);
        assert_eq!(fetched.len(), 9);
        assert_eq!(batches.take_failed(), [Failure { uid: 7, reason: "gone".into() }]);
    }

    #[test]
    fn a_message_that_is_refused_is_found_by_halves() {
        let mut batches = Batches::new(range(1, 64), &UidSet::new());
        let mut fetched = UidSet::new();
        let mut commands = 0;
        while let Some(set) = batches.next() {
            commands += 1;
            if set.contains(Uid::new(13).unwrap()) {
                batches.refused(set, "no");
            } else {
                fetched = fetched.union(&set);
            }
        }
        assert_eq!((fetched.len(), batches.take_failed().len()), (63, 1));
        assert!(commands < 20, "{commands}");
    }
}
