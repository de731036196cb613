//! [`DueIndex`]: when each mail outside of the active window is due.
//!
//! A mail takes eight bytes here. An entry may be outdated: the [state](crate::State) decides when the
//! mail is due. Accounts take turns with their due mails, so a mass of one sender's mail does not keep
//! other accounts out of the window.

use std::collections::BTreeMap;

use sealpost_base::Timestamp;

use super::fair::RoundRobin;
use crate::MailId;
use crate::state::of_time;

/// Mails by the second at which they are due.
#[derive(Default)]
pub(crate) struct DueIndex {
    later: BTreeMap<u32, Vec<MailId>>,
    now: RoundRobin<u32, MailId>,
}

impl DueIndex {
    /// Notes that a mail is due then.
    pub(crate) fn insert(&mut self, mail: MailId, due: Timestamp) {
        self.later.entry(of_time(due)).or_default().push(mail);
    }

    /// A mail that is due. `account` returns the number of the account of a mail, `None` if it is not
    /// queued any more.
    pub(crate) fn pop(&mut self, now: Timestamp, account: impl Fn(MailId) -> Option<u32>) -> Option<MailId> {
        let now = of_time(now);
        while let Some(first) = self.later.first_entry().filter(|first| *first.key() <= now) {
            for mail in first.remove() {
                if let Some(account) = account(mail) {
                    self.now.push(account, mail);
                }
            }
        }
        self.now.pop().map(|(_, mail)| mail)
    }

    /// When the next mail is due; in the past if one is due already.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        if !self.now.is_empty() {
            return Some(Timestamp(0));
        }
        self.later.keys().next().map(|seconds| crate::state::seconds(*seconds))
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        self.later.clear();
        self.now.clear();
    }

    /// How many entries there are; a mail may have several.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.now.len() + self.later.values().map(Vec::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_alternate_among_due_mails() {
        let mut due = DueIndex::default();
        (0..1000).for_each(|n| due.insert(MailId(n), Timestamp::from_seconds(10)));
        due.insert(MailId(5000), Timestamp::from_seconds(20));
        due.insert(MailId(6000), Timestamp::from_seconds(99));
        let account = |mail: MailId| (mail.0 != 3).then_some(u32::from(mail.0 >= 5000));
        assert_eq!(due.pop(Timestamp::from_seconds(9), account), None);
        assert_eq!(due.next(), Some(Timestamp::from_seconds(10)));
        let first: Vec<_> = (0..3).filter_map(|_| due.pop(Timestamp::from_seconds(30), account)).collect();
        assert!(first.contains(&MailId(5000)), "{first:?}");
        assert_eq!(due.len(), 998);
        assert!(due.next().is_some_and(|next| next < Timestamp::from_seconds(30)));
        due.clear();
        assert_eq!(due.next(), None);
    }
}
