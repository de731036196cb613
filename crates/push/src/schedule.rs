//! When each subscription is pushed to: at most once a second, later after a failure. Entries that
//! follow each other closely are one push, and so is all that changes during a pause.
//!
//! A plain value without tasks: [`crate::pusher`] asks what is due and says what became of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use sealpost_account::Touched;
use sealpost_base::AccountId;
use sealpost_base::limits::{
    JMAP_PUSH_INTERVAL, PUSH_ATTEMPTS, PUSH_INTERVAL, PUSH_PAUSE, PUSH_PAUSE_MOST, PUSH_WAITING,
};
use tokio::time::Instant;

use crate::subscription::SubscriptionId;

/// A subscription of an account.
pub(crate) type Key = (AccountId, SubscriptionId);

/// The pushes that wait, and those under way. Empty when nothing changes: a subscription without
/// either costs nothing.
#[derive(Default)]
pub(crate) struct Schedule {
    waiting: HashMap<Key, Waiting>,
    due: BTreeSet<(Instant, Key)>,
}

struct Waiting {
    /// What to push about.
    touched: Touched,
    /// When it is due; `None` while it is under way.
    at: Option<Instant>,
    /// No push before this.
    not_before: Instant,
    /// Attempts that failed in a row.
    failures: u32,
}

impl Schedule {
    /// Something changed. `false` if too many pushes wait already.
    pub(crate) fn add(&mut self, key: Key, touched: Touched, now: Instant) -> bool {
        if self.waiting.len() >= PUSH_WAITING && !self.waiting.contains_key(&key) {
            return false;
        }
        let new = || Waiting { touched: Touched::NONE, at: Some(now), not_before: now, failures: 0 };
        let waiting = self.waiting.entry(key).or_insert_with(new);
        let is_first = waiting.touched.is_none();
        waiting.touched = waiting.touched.and(touched);
        if let (true, Some(at)) = (is_first, waiting.at) {
            self.due.remove(&(at, key));
            let at = waiting.not_before.max(now + JMAP_PUSH_INTERVAL);
            waiting.at = Some(at);
            self.due.insert((at, key));
        }
        true
    }

    /// The next push that is due, which is under way from now on.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(Key, Touched)> {
        while let Some((_, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_first();
            let Some(waiting) = self.waiting.get_mut(&key) else { continue };
            if waiting.touched.is_none() {
                // Nothing changed in the second after the last push.
                self.waiting.remove(&key);
                continue;
            }
            waiting.at = None;
            return Some((key, std::mem::take(&mut waiting.touched)));
        }
        None
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A push that was under way is over, and is not tried again.
    pub(crate) fn over(&mut self, key: Key, now: Instant) {
        self.rest(key, Touched::NONE, 0, PUSH_INTERVAL, now);
    }

    /// A push that was under way failed; `retry_after` is the pause that the push service wants. `false`
    /// if it is dropped after many attempts.
    pub(crate) fn failed(
        &mut self,
        key: Key,
        touched: Touched,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> bool {
        let Some(waiting) = self.waiting.get(&key) else { return true };
        let failures = waiting.failures + 1;
        let doubled = PUSH_PAUSE.saturating_mul(1 << waiting.failures.min(16));
        let pause = doubled.max(retry_after.unwrap_or_default()).min(PUSH_PAUSE_MOST);
        let is_dropped = failures >= PUSH_ATTEMPTS;
        let (touched, failures) = if is_dropped { (Touched::NONE, 0) } else { (touched, failures) };
        self.rest(key, touched, failures, pause, now);
        !is_dropped
    }

    fn rest(&mut self, key: Key, touched: Touched, failures: u32, pause: Duration, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let at = now + pause;
        waiting.touched = waiting.touched.and(touched);
        (waiting.at, waiting.not_before, waiting.failures) = (Some(at), at, failures);
        self.due.insert((at, key));
    }

    /// The subscription has ended.
    pub(crate) fn remove(&mut self, key: Key) {
        if let Some(Waiting { at: Some(at), .. }) = self.waiting.remove(&key) {
            self.due.remove(&(at, key));
        }
    }

    /// The accounts to which something is owed.
    pub(crate) fn busy(&self) -> HashSet<AccountId> {
        let owed = self.waiting.iter().filter(|(_, it)| it.at.is_none() || !it.touched.is_none());
        owed.map(|((account, _), _)| *account).collect()
    }

    /// Bytes of the tables, about.
    pub(crate) fn memory(&self) -> usize {
        let row = size_of::<(Key, Waiting)>() + size_of::<(Instant, Key)>();
        2 * row * self.waiting.len()
    }

    /// How many subscriptions wait for a push, or have one under way.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: AccountId = AccountId([7; 16]);

    fn key(number: u8) -> Key {
        (ME, SubscriptionId([number; 16]))
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn changes_of_one_second_are_one_push() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        assert!(schedule.add(key(1), Touched::MAILBOXES, start));
        assert!(schedule.add(key(1), Touched::EMAILS, start + Duration::from_millis(100)));
        assert_eq!(schedule.pop(start), None);
        let first = start + JMAP_PUSH_INTERVAL;
        assert_eq!(schedule.next(), Some(first));
        assert_eq!(schedule.pop(first), Some((key(1), Touched::MAILBOXES.and(Touched::EMAILS))));
        assert_eq!((schedule.pop(first), schedule.next()), (None, None));
        // What changes meanwhile waits for the end of this push, and then for its second.
        schedule.add(key(1), Touched::EMAILS, first);
        assert!(schedule.busy().contains(&ME));
        schedule.over(key(1), first);
        assert_eq!(schedule.pop(first + Duration::from_millis(999)), None);
        assert_eq!(schedule.pop(first + PUSH_INTERVAL), Some((key(1), Touched::EMAILS)));
        schedule.over(key(1), first + seconds(1));
        assert!(schedule.busy().is_empty());
        // A change just after a push waits too.
        schedule.add(key(1), Touched::EMAILS, first + Duration::from_millis(1001));
        assert_eq!(schedule.next(), Some(first + seconds(2)));
        assert_eq!(schedule.pop(first + seconds(2)), Some((key(1), Touched::EMAILS)));
        schedule.over(key(1), first + seconds(2));
        assert_eq!((schedule.pop(first + seconds(9)), schedule.len()), (None, 0));
    }

    #[test]
    fn pauses_double_and_follow_the_push_service() {
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        schedule.add(key(1), Touched::EMAILS, now);
        let mut pauses = Vec::new();
        for attempt in 1..=PUSH_ATTEMPTS {
            now = schedule.next().unwrap();
            let (_, touched) = schedule.pop(now).unwrap();
            let retry_after = (attempt == 2).then_some(seconds(300));
            let goes_on = schedule.failed(key(1), touched, retry_after, now);
            assert_eq!(goes_on, attempt < PUSH_ATTEMPTS);
            pauses.push(schedule.next().unwrap() - now);
        }
        assert_eq!(pauses[..4], [seconds(10), seconds(300), seconds(40), seconds(80)]);
        assert_eq!(pauses.last(), Some(&PUSH_PAUSE_MOST));
        assert_eq!(schedule.pop(now + PUSH_PAUSE_MOST), None, "it was dropped");
        schedule.add(key(2), Touched::EMAILS, now);
        let at = schedule.next().unwrap();
        let (_, touched) = schedule.pop(at).unwrap();
        schedule.failed(key(2), touched, Some(PUSH_PAUSE_MOST * 2), at);
        assert_eq!(schedule.next(), Some(at + PUSH_PAUSE_MOST));
        schedule.remove(key(2));
        assert_eq!((schedule.len(), schedule.next()), (0, None));
    }

    #[test]
    fn pushes_beyond_the_limit_are_not_taken() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        let key = |number: usize| {
            let mut id = SubscriptionId([0; 16]);
            id.0[..8].copy_from_slice(&number.to_be_bytes());
            (ME, id)
        };
        for number in 0..PUSH_WAITING {
            assert!(schedule.add(key(number), Touched::EMAILS, now));
        }
        assert!(!schedule.add(key(PUSH_WAITING), Touched::EMAILS, now));
        assert!(schedule.add(key(0), Touched::EMAILS, now));
    }
}
