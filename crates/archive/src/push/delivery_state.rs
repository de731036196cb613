//! What was learned of messages and of the account while they were put there: [`DeliveryState`] of
//! a folder, [`SizeRefusals`] of the account.

use std::collections::HashMap;

use sealpost_base::{Uid, UidSet};
use sealpost_imap::types::Flag;

/// How often a message may be what a connection ended with.
const ATTEMPTS: u32 = 3;
/// Messages that are refused for lack of room, one after the other, before nothing more is tried.
const REFUSALS: u32 = 4;
/// Failures that are told one by one.
const FAILURES_TOLD: usize = 10_000;

/// What was learned of a folder's messages.
#[derive(Debug, Default)]
pub(super) struct DeliveryState {
    /// Those that were on their way when a connection ended, or in a command that was refused: a
    /// command for each, after all others, and after another look at what is there.
    careful: UidSet,
    lost: HashMap<u32, u32>,
    /// Not tried again.
    evicted: UidSet,
    failed: Vec<(u32, String)>,
    failures: u64,
    /// Those that were sent with keywords, those of them that were refused, and how many of these
    /// were taken without.
    worded: UidSet,
    bare: UidSet,
    without_keywords: u64,
    /// Messages were put there, and the server did not say under which UIDs.
    unnamed: bool,
    /// What another connection sent may still be coming in.
    unsettled: Option<bool>,
    /// UIDVALIDITY of the destination, and its last UID, before anything was put there.
    before: Option<(u32, u32)>,
}

impl DeliveryState {
    /// Of what is missing, what to put there now, and whether with a command for each message.
    pub(super) fn next(&self, missing: &UidSet) -> (UidSet, bool) {
        let missing = missing.difference(&self.evicted);
        let first = missing.difference(&self.careful);
        if first.is_empty() { (missing, true) } else { (first, false) }
    }

    /// Whether some of what is missing was put off.
    pub(super) fn has_more(&self, missing: &UidSet) -> bool {
        !missing.intersection(&self.careful).difference(&self.evicted).is_empty()
    }

    /// Whether to wait until the server is done with what other connections sent, before `alone`
    /// messages are put there; `before`: an earlier run may have sent something.
    pub(super) fn must_wait(&self, before: bool, alone: bool) -> bool {
        let first = self.unsettled.is_none();
        self.unsettled.unwrap_or(before) && (first || alone)
    }

    /// Messages are put there now, or `waits`: that is waited for first, and not again. `before`: as with
    /// [`DeliveryState::must_wait`].
    pub(super) fn settling(&mut self, before: bool, waits: bool) {
        let unsettled = self.unsettled.unwrap_or(before);
        self.unsettled = Some(unsettled && !waits);
    }

    /// Whether something that was sent was not answered, and not waited for.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled == Some(true)
    }

    /// The destination was looked at: its UIDVALIDITY and its last UID. Whether for the first time.
    pub(super) fn looked(&mut self, uidvalidity: u32, last: u32) -> bool {
        let first = self.before.is_none();
        self.before.get_or_insert((uidvalidity, last));
        first
    }

    /// Another look shows it there, under this UID. Whether it came there although the answer did not.
    pub(super) fn found(&mut self, uid: u32, uidvalidity: u32, there: u32) -> bool {
        let Some(id) = Uid::new(uid) else { return false };
        if self.evicted.remove(id) {
            self.failed.retain(|(failed, _)| *failed != uid);
            self.failures -= 1;
        }
        self.careful.remove(id) && self.before.is_some_and(|(v, last)| v == uidvalidity && there > last)
    }

    /// Whether messages are there whose UIDs are not known.
    pub(super) fn has_unnamed(&self) -> bool {
        self.unnamed
    }

    /// It is there; `named`: its UID is known.
    pub(super) fn put(&mut self, uid: u32, named: bool) {
        self.unnamed |= !named;
        if let Some(uid) = Uid::new(uid) {
            self.careful.remove(uid);
            self.without_keywords += u64::from(self.bare.remove(uid));
        }
        self.lost.remove(&uid);
    }

    /// The flags to send a message with: all of these, unless it was refused with keywords.
    pub(super) fn flags(&mut self, uid: u32, mut flags: Vec<Flag>) -> Vec<Flag> {
        let Some(uid) = Uid::new(uid) else { return flags };
        if self.bare.contains(uid) {
            flags.retain(|flag| !matches!(flag, Flag::Keyword(_)));
        } else if flags.iter().any(|flag| matches!(flag, Flag::Keyword(_))) {
            self.worded.insert(uid);
        }
        flags
    }

    /// It was refused: whether it may be taken without its keywords, and will be tried again.
    pub(super) fn leave_keywords(&mut self, uid: u32) -> bool {
        let Some(id) = Uid::new(uid).filter(|id| self.worded.contains(*id) && !self.bare.contains(*id))
        else {
            return false;
        };
        self.bare.insert(id);
        self.careful.insert(id);
        true
    }

    /// Whether some of what is missing was put off to be tried without keywords.
    pub(super) fn has_bare(&self, missing: &UidSet) -> bool {
        self.has_more(&missing.intersection(&self.bare))
    }

    /// How many messages were taken without their keywords.
    pub(super) fn without_keywords(&self) -> u64 {
        self.without_keywords
    }

    /// It cannot be put there. UID 0: it is not known which.
    pub(super) fn failed(&mut self, uid: u32, why: String) {
        if let Some(uid) = Uid::new(uid) {
            self.evicted.insert(uid);
        }
        self.failures += 1;
        if self.failed.len() < FAILURES_TOLD {
            self.failed.push((uid, why));
        }
    }

    /// It is to be tried with a command of its own.
    pub(super) fn put_off(&mut self, uid: u32) {
        if let Some(uid) = Uid::new(uid) {
            self.careful.insert(uid);
        }
    }

    /// A connection ended while it was on its way; `guilty`: it was its turn.
    pub(super) fn lost(&mut self, uid: u32, guilty: bool, why: &str) {
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

    /// What failed so far, up to a number, and how many in all; it is forgotten here.
    pub(super) fn take_failed(&mut self) -> (Vec<(u32, String)>, u64) {
        (std::mem::take(&mut self.failed), std::mem::take(&mut self.failures))
    }
}

/// How much more the account takes.
#[derive(Debug, Default)]
pub(super) struct SizeRefusals {
    /// Messages of so many bytes were refused.
    least: Option<u64>,
    in_a_row: u32,
    why: String,
}

impl SizeRefusals {
    /// Something was taken.
    pub(super) fn taken(&mut self) {
        self.in_a_row = 0;
    }

    /// A message of so many bytes was refused.
    pub(super) fn refused(&mut self, octets: u64, why: &str) {
        self.least = Some(self.least.map_or(octets, |least| least.min(octets)));
        self.in_a_row += 1;
        why.clone_into(&mut self.why);
    }

    /// Why there is no use in trying a message of so many bytes.
    pub(super) fn why_not(&self, octets: u64) -> Option<&str> {
        self.least.filter(|least| octets >= *least).map(|_| &*self.why)
    }

    /// Why there is no use in trying any message.
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
    fn who_was_on_the_way_is_tried_last_and_not_for_ever() {
        let mut tried = DeliveryState::default();
        let missing = set(&[1, 2, 3]);
        assert_eq!(tried.next(&missing), (set(&[1, 2, 3]), false));
        tried.lost(1, true, "gone");
        tried.lost(2, false, "gone");
        assert_eq!(tried.next(&missing), (set(&[3]), false));
        assert!(tried.has_more(&missing));
        assert_eq!(tried.next(&set(&[1, 2])), (set(&[1, 2]), true));
        tried.lost(1, true, "gone");
        tried.lost(1, true, "gone");
        assert_eq!(tried.next(&set(&[1, 2])), (set(&[2]), true));
        assert_eq!(tried.take_failed(), (vec![(1, "gone".into())], 1));
        tried.put(2, true);
        assert!(!tried.has_more(&set(&[1, 2])));
    }

    #[test]
    fn it_is_waited_before_what_was_on_its_way_is_sent_again() {
        let must_wait = |tried: &mut DeliveryState, before, alone| {
            let wait = tried.must_wait(before, alone);
            tried.settling(before, wait);
            wait
        };
        let mut tried = DeliveryState::default();
        assert!(!must_wait(&mut tried, false, false));
        tried.lost(1, false, "gone");
        // The others come first.
        assert!(!must_wait(&mut tried, false, false));
        assert!(must_wait(&mut tried, false, true) && !must_wait(&mut tried, false, true));
        let mut tried = DeliveryState::default();
        assert!(must_wait(&mut tried, true, false) && !must_wait(&mut tried, true, false));
    }

    #[test]
    fn what_came_there_without_an_answer_did_not_fail() {
        let mut tried = DeliveryState::default();
        assert!(tried.looked(5, 100) && !tried.looked(5, 103));
        for _ in 0..ATTEMPTS {
            tried.lost(1, true, "gone");
        }
        tried.lost(2, false, "gone");
        tried.lost(3, false, "gone");
        assert!(tried.found(1, 5, 101));
        assert_eq!(tried.take_failed(), (vec![], 0));
        // One that was there before, and one in another folder.
        assert!(!tried.found(2, 5, 100) && !tried.found(3, 6, 102) && !tried.found(4, 5, 104));
    }

    #[test]
    fn smaller_messages_are_tried_until_some_are_refused_in_a_row() {
        let mut room = SizeRefusals::default();
        room.refused(1000, "full");
        assert_eq!((room.why_not(1000), room.why_not(999), room.is_full()), (Some("full"), None, None));
        room.taken();
        for size in [900, 800, 700] {
            room.refused(size, "full");
            assert_eq!(room.is_full(), None);
        }
        room.refused(600, "full");
        assert_eq!(room.is_full(), Some("full"));
    }
}
