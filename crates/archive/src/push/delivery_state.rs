//! What was learned about messages and the account during a push: [`DeliveryState`] of a folder,
//! [`SizeRefusals`] of the account.

use std::collections::HashMap;

use sealpost_base::{Uid, UidSet};
use sealpost_imap::types::Flag;

/// How many connections may be lost at one message.
const ATTEMPTS: u32 = 3;
/// Messages in a row that are refused for lack of quota before nothing more is tried.
const REFUSALS: u32 = 4;
/// Most failures that are reported one by one.
const FAILURES_REPORTED: usize = 10_000;

/// What was learned about a folder's messages.
#[derive(Debug, Default)]
pub(super) struct DeliveryState {
    /// Those that were in flight when a connection ended, or in a refused command: they get a
    /// command each, after all others, and after another look at the destination.
    careful: UidSet,
    lost: HashMap<u32, u32>,
    /// Not tried again.
    evicted: UidSet,
    failed: Vec<(u32, String)>,
    failures: u64,
    /// Those that were sent with keywords, those of them that were refused, and how many of these
    /// were accepted without.
    worded: UidSet,
    bare: UidSet,
    without_keywords: u64,
    /// Messages were appended, and the server did not report their UIDs.
    unnamed: bool,
    /// The server may still process what another connection sent.
    unsettled: Option<bool>,
    /// UIDVALIDITY of the destination, and its last UID, before anything was appended.
    before: Option<(u32, u32)>,
}

impl DeliveryState {
    /// Of the missing messages those to append now, and whether with a command for each message.
    pub(super) fn next(&self, missing: &UidSet) -> (UidSet, bool) {
        let missing = missing.difference(&self.evicted);
        let first = missing.difference(&self.careful);
        if first.is_empty() { (missing, true) } else { (first, false) }
    }

    /// Whether some of the missing messages were put off.
    pub(super) fn has_more(&self, missing: &UidSet) -> bool {
        !missing.intersection(&self.careful).difference(&self.evicted).is_empty()
    }

    /// Whether to wait until the server has processed what other connections sent, before `alone`
    /// messages are appended; `before`: an earlier run may have sent some.
    pub(super) fn must_wait(&self, before: bool, alone: bool) -> bool {
        let first = self.unsettled.is_none();
        self.unsettled.unwrap_or(before) && (first || alone)
    }

    /// Messages are appended now, or with `waits` the pending ones are waited for first, once.
    /// `before`: as with [`DeliveryState::must_wait`].
    pub(super) fn settling(&mut self, before: bool, waits: bool) {
        let unsettled = self.unsettled.unwrap_or(before);
        self.unsettled = Some(unsettled && !waits);
    }

    /// Whether a sent message was neither answered nor waited for.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled == Some(true)
    }

    /// The destination was looked at: its UIDVALIDITY and its last UID. Returns whether for the
    /// first time.
    pub(super) fn destination_examined(&mut self, uidvalidity: u32, last: u32) -> bool {
        let first = self.before.is_none();
        self.before.get_or_insert((uidvalidity, last));
        first
    }

    /// The destination has it under this UID. Returns whether it was appended although no answer
    /// came.
    pub(super) fn found(&mut self, uid: u32, uidvalidity: u32, there: u32) -> bool {
        let Some(id) = Uid::new(uid) else { return false };
        if self.evicted.remove(id) {
            self.failed.retain(|(failed, _)| *failed != uid);
            self.failures -= 1;
        }
        self.careful.remove(id) && self.before.is_some_and(|(v, last)| v == uidvalidity && there > last)
    }

    /// Whether messages were appended whose UIDs are not known.
    pub(super) fn has_unnamed(&self) -> bool {
        self.unnamed
    }

    /// It was appended; `named`: its UID is known.
    pub(super) fn put(&mut self, uid: u32, named: bool) {
        self.unnamed |= !named;
        if let Some(uid) = Uid::new(uid) {
            self.careful.remove(uid);
            self.without_keywords += u64::from(self.bare.remove(uid));
        }
        self.lost.remove(&uid);
    }

    /// The flags to send a message with: all, unless it was refused with keywords.
    pub(super) fn flags(&mut self, uid: u32, mut flags: Vec<Flag>) -> Vec<Flag> {
        let Some(uid) = Uid::new(uid) else { return flags };
        if self.bare.contains(uid) {
            flags.retain(|flag| !matches!(flag, Flag::Keyword(_)));
        } else if flags.iter().any(|flag| matches!(flag, Flag::Keyword(_))) {
            self.worded.insert(uid);
        }
        flags
    }

    /// It was refused: returns whether it may be accepted without its keywords, and will be tried
    /// again.
    pub(super) fn leave_keywords(&mut self, uid: u32) -> bool {
        let Some(id) = Uid::new(uid).filter(|id| self.worded.contains(*id) && !self.bare.contains(*id))
        else {
            return false;
        };
        self.bare.insert(id);
        self.careful.insert(id);
        true
    }

    /// Whether some of the missing messages were put off to be tried without keywords.
    pub(super) fn has_bare(&self, missing: &UidSet) -> bool {
        self.has_more(&missing.intersection(&self.bare))
    }

    /// How many messages were accepted without their keywords.
    pub(super) fn without_keywords(&self) -> u64 {
        self.without_keywords
    }

    /// It cannot be appended. UID 0: not known which.
    pub(super) fn failed(&mut self, uid: u32, why: String) {
        if let Some(uid) = Uid::new(uid) {
            self.evicted.insert(uid);
        }
        self.failures += 1;
        if self.failed.len() < FAILURES_REPORTED {
            self.failed.push((uid, why));
        }
    }

    /// It is to be tried with a command of its own.
    pub(super) fn put_off(&mut self, uid: u32) {
        if let Some(uid) = Uid::new(uid) {
            self.careful.insert(uid);
        }
    }

    /// A connection ended while it was in flight; `guilty`: it was its turn.
    pub(super) fn connection_lost(&mut self, uid: u32, guilty: bool, why: &str) {
        self.put_off(uid);
        self.unsettled = Some(true);
        if guilty {
            let attempts = self.lost.entry(uid).or_default();
            *attempts += 1;
            if *attempts >= ATTEMPTS {
                self.failed(uid, why.to_owned());
            }
        }
    }

    /// The failures so far, up to [`FAILURES_REPORTED`], and how many in all; resets both.
    pub(super) fn take_failed(&mut self) -> (Vec<(u32, String)>, u64) {
        (std::mem::take(&mut self.failed), std::mem::take(&mut self.failures))
    }
}

/// How much more the account accepts.
#[derive(Debug, Default)]
pub(super) struct SizeRefusals {
    /// The smallest size that was refused.
    least: Option<u64>,
    in_a_row: u32,
    why: String,
}

impl SizeRefusals {
    /// A message was accepted.
    pub(super) fn accepted(&mut self) {
        self.in_a_row = 0;
    }

    /// A message of this size was refused.
    pub(super) fn refused(&mut self, bytes: u64, why: &str) {
        self.least = Some(self.least.map_or(bytes, |least| least.min(bytes)));
        self.in_a_row += 1;
        why.clone_into(&mut self.why);
    }

    /// Why a message of this size need not be tried.
    pub(super) fn refusal_of(&self, bytes: u64) -> Option<&str> {
        self.least.filter(|least| bytes >= *least).map(|_| &*self.why)
    }

    /// Why no message need be tried.
    pub(super) fn is_full(&self) -> Option<&str> {
        (self.in_a_row >= REFUSALS).then_some(&*self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(uids: &[u32]) -> UidSet {
        uids.iter().filter_map(|uid| Uid::new(*uid)).collect()
    }

    #[test]
    fn messages_in_flight_are_retried_last_and_bounded() {
        let mut tried = DeliveryState::default();
        let missing = set(&[1, 2, 3]);
        assert_eq!(tried.next(&missing), (set(&[1, 2, 3]), false));
        tried.connection_lost(1, true, "gone");
        tried.connection_lost(2, false, "gone");
        assert_eq!(tried.next(&missing), (set(&[3]), false));
        assert!(tried.has_more(&missing));
        assert_eq!(tried.next(&set(&[1, 2])), (set(&[1, 2]), true));
        tried.connection_lost(1, true, "gone");
        tried.connection_lost(1, true, "gone");
        assert_eq!(tried.next(&set(&[1, 2])), (set(&[2]), true));
        assert_eq!(tried.take_failed(), (vec![(1, "gone".into())], 1));
        tried.put(2, true);
        assert!(!tried.has_more(&set(&[1, 2])));
    }

    #[test]
    fn pending_messages_are_waited_for_before_a_resend() {
        let must_wait = |tried: &mut DeliveryState, before, alone| {
            let wait = tried.must_wait(before, alone);
            tried.settling(before, wait);
            wait
        };
        let mut tried = DeliveryState::default();
        assert!(!must_wait(&mut tried, false, false));
        tried.connection_lost(1, false, "gone");
        // The others come first.
        assert!(!must_wait(&mut tried, false, false));
        assert!(must_wait(&mut tried, false, true) && !must_wait(&mut tried, false, true));
        let mut tried = DeliveryState::default();
        assert!(must_wait(&mut tried, true, false) && !must_wait(&mut tried, true, false));
    }

    #[test]
    fn unacknowledged_messages_at_the_destination_did_not_fail() {
        let mut tried = DeliveryState::default();
        assert!(tried.destination_examined(5, 100) && !tried.destination_examined(5, 103));
        for _ in 0..ATTEMPTS {
            tried.connection_lost(1, true, "gone");
        }
        tried.connection_lost(2, false, "gone");
        tried.connection_lost(3, false, "gone");
        assert!(tried.found(1, 5, 101));
        assert_eq!(tried.take_failed(), (vec![], 0));
        // One that was there before, and one in another folder.
        assert!(!tried.found(2, 5, 100) && !tried.found(3, 6, 102) && !tried.found(4, 5, 104));
    }

    #[test]
    fn smaller_messages_are_tried_until_refusals_in_a_row() {
        let mut room = SizeRefusals::default();
        room.refused(1000, "full");
        assert_eq!((room.refusal_of(1000), room.refusal_of(999), room.is_full()), (Some("full"), None, None));
        room.accepted();
        for size in [900, 800, 700] {
            room.refused(size, "full");
            assert_eq!(room.is_full(), None);
        }
        room.refused(600, "full");
        assert_eq!(room.is_full(), Some("full"));
    }
}
