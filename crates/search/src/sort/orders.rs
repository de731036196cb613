//! A cache of sort orders of mailboxes, for later sorts by the same keys.
//!
//! By keys that never change, messages keep their order; they are only added and removed. So a cached order
//! serves every sort of messages that it includes; others in it are skipped. For a message that it lacks, the
//! mailbox is sorted again. UIDs are never reused, so the cache needs no invalidation. Only complete orders
//! are cached, for which every message could be read and compared in full.

use std::sync::Arc;

use sealpost_account::Cache;
use sealpost_base::{AccountId, MailboxId, UidSet, UidValidity};

use super::keys::{self, Comparator, SortKey};
use crate::emails::{EmailList, ListKey};
use crate::matches::Match;
use crate::scope::{MailboxScope, Scope};

/// Maximum memory of a UID range, in bytes.
const RANGE_BYTES: usize = 24;

/// Cached orders and lists of emails, shared by all sessions and bounded in bytes.
pub(crate) struct Orders(Cache<Kept, KeptKey>);

enum Kept {
    Order(Arc<Order>),
    Emails(Arc<EmailList>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum KeptKey {
    Order(Key),
    Emails(ListKey),
}

/// The sorted mailbox, and the comparators.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The account whose log has the mailbox.
    account: AccountId,
    mailbox: MailboxId,
    uid_validity: UidValidity,
    comparators: Box<[Comparator]>,
}

/// Messages in an order.
#[derive(Debug)]
pub(crate) struct Order {
    uids: UidSet,
    /// The n-th message in the order is this one of `uids`, from 0.
    ranks: Box<[u32]>,
}

impl Orders {
    /// An empty cache of about `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Orders(Cache::new(bytes))
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Order>> {
        match &*self.0.get(&KeptKey::Order(key.clone()))? {
            Kept::Order(order) => Some(order.clone()),
            Kept::Emails(_) => None,
        }
    }

    pub(crate) fn keep(&self, key: Key, order: Order) {
        let bytes = order.bytes();
        self.0.put(key.account, KeptKey::Order(key), Arc::new(Kept::Order(Arc::new(order))), bytes);
    }

    pub(crate) fn emails(&self, key: &ListKey) -> Option<Arc<EmailList>> {
        match &*self.0.get(&KeptKey::Emails(key.clone()))? {
            Kept::Emails(list) => Some(list.clone()),
            Kept::Order(_) => None,
        }
    }

    pub(crate) fn keep_emails(&self, key: ListKey, list: Arc<EmailList>) {
        let bytes = key.bytes() + list.bytes();
        self.0.put(key.account, KeptKey::Emails(key), Arc::new(Kept::Emails(list)), bytes);
    }
}

impl Key {
    /// `None` if the order can change, or covers several mailboxes.
    pub(crate) fn of(scope: Scope<'_>, comparators: &[Comparator]) -> Option<Self> {
        let MailboxScope { account, mailbox, uid_validity, .. } = scope.only()?;
        comparators.iter().all(|comparator| is_lasting(comparator.key)).then(|| Key {
            account: account.id(),
            mailbox: *mailbox,
            uid_validity: *uid_validity,
            comparators: keys::distinct(comparators).into(),
        })
    }
}

/// Whether the key depends on the message alone, not on the search or on changes of the message.
fn is_lasting(key: SortKey) -> bool {
    match key {
        SortKey::Received | SortKey::Sent | SortKey::Size | SortKey::Subject => true,
        SortKey::From | SortKey::To | SortKey::Cc | SortKey::DisplayFrom | SortKey::DisplayTo => true,
        SortKey::Relevance => false,
    }
}

impl Order {
    /// The order of `found`, which ascends by UID; each of `ranks` is an index into it.
    pub(crate) fn new(found: &[Match], ranks: Vec<u32>) -> Self {
        Order { uids: found.iter().map(|found| found.uid).collect(), ranks: ranks.into() }
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.uids.range_count() * RANGE_BYTES + self.ranks.len() * size_of::<u32>()
    }

    /// Temporary memory of [`Order::sort`] for that many messages, in bytes.
    pub(crate) fn work_bytes(&self, found: usize) -> usize {
        self.ranks.len() * size_of::<u32>() + found * size_of::<Match>()
    }

    /// Sorts `found`, which ascends by UID; `None` if the order lacks one of them. Takes time in proportion
    /// to the cached order.
    pub(crate) fn sort(&self, found: &[Match]) -> Option<Vec<Match>> {
        // The index in `found` of each message of the order; the maximum if it has none.
        let mut places = vec![u32::MAX; self.ranks.len()];
        let mut next = 0;
        for (uid, place) in self.uids.iter().zip(&mut places) {
            if found.get(next).is_some_and(|found| found.uid == uid) {
                *place = next as u32;
                next += 1;
            }
        }
        if next < found.len() {
            return None;
        }
        let mut sorted = Vec::with_capacity(found.len());
        let place = |rank: &u32| found.get(places[*rank as usize] as usize);
        sorted.extend(self.ranks.iter().filter_map(place));
        Some(sorted)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use sealpost_base::{SeededRandom, Uid};

    use super::*;
    use crate::scope::MailboxIndex;

    fn matches(uids: impl IntoIterator<Item = u32>) -> Vec<Match> {
        uids.into_iter()
            .map(|n| Match { mailbox: MailboxIndex::FIRST, uid: Uid::new(n).unwrap(), relevance: 100 })
            .collect()
    }

    /// Sorted by `value`; equal ones by UID.
    fn sorted(found: &[Match], value: impl Fn(Uid) -> u64) -> Vec<Match> {
        let mut sorted = found.to_vec();
        sorted.sort_by_key(|found| value(found.uid));
        sorted
    }

    fn order(found: &[Match], value: impl Fn(Uid) -> u64) -> Order {
        let ranks = sorted(found, value).into_iter().map(|one| found.binary_search(&one).unwrap() as u32);
        Order::new(found, ranks.collect())
    }

    #[test]
    fn an_order_sorts_its_subsets_and_nothing_else() {
        let random = SeededRandom::new(1);
        for _ in 0..200 {
            let values: Vec<u64> = (0..100).map(|_| random.below(10)).collect();
            let value = |uid: Uid| values[uid.get() as usize];
            let some = |of: u64| matches((1..100).filter(|_| random.below(of) > 0).collect::<Vec<_>>());
            let whole = some(5);
            let kept = order(&whole, value);
            let mut part = whole.clone();
            part.retain(|_| random.below(3) > 0);
            part.iter_mut().for_each(|one| one.relevance = random.below(100) as u8);
            assert_eq!(kept.sort(&part), Some(sorted(&part, value)), "relevance is that of the search");
            assert_eq!(kept.sort(&whole), Some(sorted(&whole, value)));
            let other = some(2);
            let known = other.iter().all(|one| whole.contains(one));
            assert_eq!(kept.sort(&other), known.then(|| sorted(&other, value)));
        }
        assert_eq!(order(&[], |_| 0).sort(&[]), Some(Vec::new()));
    }

    #[test]
    fn the_cache_of_orders_is_bounded() {
        let found = matches(1..=10_000);
        let key = |mailbox| Key {
            account: AccountId([1; 16]),
            mailbox: MailboxId(mailbox),
            uid_validity: UidValidity(NonZeroU32::MIN),
            comparators: [Comparator { key: SortKey::Size, descending: false }].into(),
        };
        let orders = Orders::new(130_000);
        for mailbox in 0..20 {
            orders.keep(key(mailbox), order(&found, |_| 0));
        }
        let kept = (0..20).filter(|mailbox| orders.get(&key(*mailbox)).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [17, 18, 19], "40,000 bytes each");
        orders.keep(key(20), order(&matches(1..=40_000), |_| 0));
        assert!(orders.get(&key(20)).is_none(), "larger than the whole cache");
        let scattered = matches((1..=5000).map(|n| 2 * n));
        orders.keep(key(21), order(&scattered, |_| 0));
        assert!(orders.get(&key(21)).is_none(), "so many gaps take more than the messages");
    }
}
