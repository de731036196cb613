//! [`SentRecipients`]: to how many recipients each account has sent, hour by hour, in the last day.
//!
//! It is part of the state, so that limits on sending hold across restarts. Mail that users
//! submitted counts, in the hour in which it was accepted; reports and forwarded mail do not.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Timestamp, limits};

/// Seconds of an hour.
const HOUR_SECONDS: i64 = 3600;
/// The hour that passes now, and those before it.
const HOURS: u32 = 24;
/// The part of a full table that is evicted at once, since finding it takes a pass over all accounts.
const EVICTED_PART: usize = 16;

/// Recipients in one hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct HourCount {
    /// The hour, in hours since 1970 (UTC).
    #[n(0)]
    pub hour: u32,
    /// How many recipients.
    #[n(1)]
    pub recipients: u32,
}

impl HourCount {
    /// The hour of a time, in hours since 1970.
    pub fn hour_of(at: Timestamp) -> u32 {
        u32::try_from(at.seconds().max(0) / HOUR_SECONDS).unwrap_or(u32::MAX)
    }

    /// When an hour begins.
    pub fn begin_of(hour: u32) -> Timestamp {
        Timestamp::from_seconds(i64::from(hour) * HOUR_SECONDS)
    }

    /// The first hour in which this one counts no more.
    pub fn expires(&self) -> u32 {
        self.hour.saturating_add(HOURS)
    }

    /// Whether it counts in that hour. A count of the next hour does: the clock may have been set back.
    fn counts_in(&self, now: u32) -> bool {
        self.hour <= now.saturating_add(1) && self.expires() > now
    }
}

/// All accounts that sent in the last day, [`limits::QUEUE_SENDERS`] at most.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct SentRecipients {
    accounts: BTreeMap<AccountId, Vec<HourCount>>,
}

impl SentRecipients {
    /// Counts recipients that an account sent to.
    pub(super) fn count(&mut self, account: AccountId, at: Timestamp, recipients: u32) {
        let now = HourCount::hour_of(at);
        if self.accounts.len() >= limits::QUEUE_SENDERS && !self.accounts.contains_key(&account) {
            self.make_way(now);
        }
        let hours = self.accounts.entry(account).or_default();
        hours.retain(|count| count.counts_in(now));
        match hours.iter_mut().find(|count| count.hour == now) {
            Some(count) => count.recipients = count.recipients.saturating_add(recipients),
            None => hours.push(HourCount { hour: now, recipients }),
        }
    }

    /// The counts of an account in the last day, as of `now`.
    pub(super) fn of(&self, account: AccountId, now: Timestamp) -> Vec<HourCount> {
        let now = HourCount::hour_of(now);
        let hours = self.accounts.get(&account).into_iter().flatten();
        hours.filter(|count| count.counts_in(now)).copied().collect()
    }

    /// Forgets accounts that sent nothing in the last day; if there are none, those that sent least.
    fn make_way(&mut self, now: u32) {
        self.accounts.retain(|_, hours| hours.iter().any(|count| count.counts_in(now)));
        if self.accounts.len() < limits::QUEUE_SENDERS {
            return;
        }
        let total = |hours: &[HourCount]| hours.iter().map(|count| u64::from(count.recipients)).sum::<u64>();
        let mut least: Vec<_> = self.accounts.iter().map(|(id, hours)| (total(hours), *id)).collect();
        least.sort_unstable();
        for (_, id) in &least[..(least.len() / EVICTED_PART).max(1)] {
            self.accounts.remove(id);
        }
    }

    /// The counts as a checkpoint keeps them.
    pub(super) fn to_rows(&self) -> Vec<(AccountId, Vec<HourCount>)> {
        self.accounts.iter().map(|(id, hours)| (*id, hours.clone())).collect()
    }

    /// Restores counts from a checkpoint.
    pub(super) fn from_rows(rows: Vec<(AccountId, Vec<HourCount>)>) -> Self {
        SentRecipients { accounts: rows.into_iter().collect() }
    }

    /// About how many bytes of memory it takes.
    pub(super) fn heap_bytes(&self) -> usize {
        let hours = |hours: &Vec<HourCount>| hours.capacity() * size_of::<HourCount>() + 16;
        let entries = self.accounts.len() * (size_of::<(AccountId, Vec<HourCount>)>() + 8);
        entries + self.accounts.values().map(hours).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> AccountId {
        let mut id = AccountId([0; 16]);
        id.0[..8].copy_from_slice(&(n as u64).to_be_bytes());
        id
    }

    fn hour(n: u32) -> Timestamp {
        HourCount::begin_of(n)
    }

    #[test]
    fn hours_count_for_a_day() {
        let mut sent = SentRecipients::default();
        sent.count(id(1), hour(100), 3);
        sent.count(id(1), hour(100).after(std::time::Duration::from_secs(3599)), 4);
        sent.count(id(1), hour(101), 5);
        sent.count(id(2), hour(101), 9);
        let counted = |sent: &SentRecipients, now: u32| {
            sent.of(id(1), hour(now)).iter().map(|count| (count.hour, count.recipients)).collect::<Vec<_>>()
        };
        assert_eq!(counted(&sent, 101), [(100, 7), (101, 5)]);
        assert_eq!(counted(&sent, 123), [(100, 7), (101, 5)]);
        assert_eq!(counted(&sent, 124), [(101, 5)]);
        assert_eq!(counted(&sent, 125), []);
        // A clock that was far ahead leaves no lasting count.
        sent.count(id(1), hour(9000), 1);
        sent.count(id(1), hour(126), 2);
        assert_eq!(counted(&sent, 126), [(126, 2)]);
        assert_eq!(SentRecipients::from_rows(sent.to_rows()), sent);
    }

    #[test]
    fn accounts_are_bounded_and_those_that_send_most_stay() {
        let mut sent = SentRecipients::default();
        sent.count(id(0), hour(1), 1000);
        for n in 1..limits::QUEUE_SENDERS {
            sent.count(id(n), hour(50), 1 + u32::from(n % 2 == 0));
        }
        sent.count(id(7), hour(50), 1000);
        assert_eq!(sent.accounts.len(), limits::QUEUE_SENDERS);
        for n in 0..limits::QUEUE_SENDERS / 8 {
            sent.count(id(limits::QUEUE_SENDERS + n), hour(50), 1);
            assert!(sent.accounts.len() <= limits::QUEUE_SENDERS);
        }
        assert!(sent.of(id(0), hour(50)).is_empty(), "it sent nothing in the last day");
        assert_eq!(sent.of(id(7), hour(50)), [HourCount { hour: 50, recipients: 1001 }]);
        assert!(sent.heap_bytes() < limits::QUEUE_SENDERS * 128);
    }
}
