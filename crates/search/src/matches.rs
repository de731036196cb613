//! The messages that a search found, and their memory.
//!
//! A large result lives until its response is sent, however slow the client is. So its memory comes from a
//! part of the budget for results only: a session that holds some of it may wait for other memory, which
//! results never exhaust.

use std::ops::Deref;
use std::sync::Arc;

use sealpost_base::{Budget, Permit, Uid};
use tokio::sync::Mutex;

use crate::scope::MailboxIndex;

/// The share of all results in the common budget, as a divisor.
const SHARE: usize = 8;
/// Larger results may take this many such parts in addition. A scope that needs more cannot be searched.
const LARGE_PARTS: usize = 3;
/// Results up to this size, in bytes, are covered by the memory of a connection.
const SMALL: usize = 8 * 1024;
/// Memory of a message during a search: its entry among the matches, and among the undecided.
const SEARCHED_BYTES: usize = 2 * size_of::<Match>();

/// A found message. Ordered by mailbox, then by UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// Its mailbox in the scope.
    pub mailbox: MailboxIndex,
    /// Its UID there.
    pub uid: Uid,
    /// From 1 to 100; 100 without `Criterion::Fuzzy`.
    pub relevance: u8,
}

/// The matches in order, and their memory.
#[derive(Default)]
pub struct Matches {
    list: Vec<Match>,
    memory: Option<ResultPermit>,
}

/// The memory for results. Clones share it.
#[derive(Clone)]
pub(crate) struct ResultMemory {
    most: Budget,
    /// For results too large for `most`: the search of a very large mailbox does not delay others.
    large: Budget,
    /// Held by the search that acquires from `large`, in pieces: two searches with a part each would
    /// deadlock.
    turn: Arc<Mutex<()>>,
}

/// Memory for a result.
pub(crate) struct ResultPermit(Vec<Permit>);

/// A scope needs more memory than results may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl ResultMemory {
    /// The memory of a server with that budget.
    pub(crate) fn of(budget: &Budget) -> Self {
        let part = budget.common() / SHARE;
        ResultMemory {
            most: budget.share(part),
            large: budget.share(LARGE_PARTS * part),
            turn: Arc::default(),
        }
    }

    /// Waits for the memory to search that many messages; `None` if they are few.
    pub(crate) async fn acquire(&self, messages: usize) -> Result<Option<ResultPermit>, TooLarge> {
        let bytes = messages.saturating_mul(SEARCHED_BYTES);
        if bytes <= SMALL {
            return Ok(None);
        }
        if bytes <= self.most.total() {
            return Ok(Some(ResultPermit(vec![self.most.acquire(bytes).await])));
        }
        if bytes > self.large.total() {
            return Err(TooLarge);
        }
        let _turn = self.turn.lock().await;
        let mut permit = ResultPermit(Vec::new());
        while permit.bytes() < bytes {
            permit.0.push(self.large.acquire(bytes - permit.bytes()).await);
        }
        Ok(Some(permit))
    }
}

impl ResultPermit {
    fn bytes(&self) -> usize {
        self.0.iter().map(Permit::bytes).sum()
    }

    /// Releases all but `bytes`.
    fn shrink(&mut self, bytes: usize) {
        let mut left = bytes;
        for permit in &mut self.0 {
            permit.shrink(left);
            left = left.saturating_sub(permit.bytes());
        }
        self.0.retain(|permit| permit.bytes() > 0);
    }
}

impl Matches {
    /// `list`, for which `memory` was acquired before its size was known; the excess is released.
    pub(crate) fn new(mut list: Vec<Match>, mut memory: Option<ResultPermit>) -> Self {
        list.shrink_to_fit();
        let bytes = size_of_val(&list[..]);
        if bytes <= SMALL {
            memory = None;
        }
        if let Some(memory) = &mut memory {
            memory.shrink(bytes);
        }
        Matches { list, memory }
    }

    /// Reorders the messages, or replaces them by not many more.
    #[must_use]
    pub fn map(self, with: impl FnOnce(Vec<Match>) -> Vec<Match>) -> Self {
        Matches { list: with(self.list), memory: self.memory }
    }

    /// The messages, and the memory for them.
    pub(crate) fn into_parts(self) -> (Vec<Match>, Option<ResultPermit>) {
        (self.list, self.memory)
    }

    /// The parts from [`Matches::into_parts`], in another order.
    pub(crate) fn from_parts(list: Vec<Match>, memory: Option<ResultPermit>) -> Self {
        Matches { list, memory }
    }

    /// The messages, without their memory, which is released.
    pub fn into_list(self) -> Vec<Match> {
        self.list
    }
}

impl Deref for Matches {
    type Target = [Match];

    fn deref(&self) -> &[Match] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use sealpost_base::Uid;

    use super::*;

    fn matches(n: u32) -> Vec<Match> {
        (1..=n)
            .filter_map(Uid::new)
            .map(|uid| Match { mailbox: MailboxIndex::FIRST, uid, relevance: 100 })
            .collect()
    }

    #[test]
    fn a_match_takes_8_bytes() {
        assert_eq!((size_of::<Match>(), SEARCHED_BYTES), (8, 16));
    }

    #[test]
    fn results_are_drawn_for_and_few_are_not() {
        let budget = Budget::new(8 << 20);
        let results = ResultMemory::of(&budget);
        let few = SMALL / SEARCHED_BYTES;
        assert!(now(&results, few).unwrap().is_none());
        let drawn = now(&results, few + 1).unwrap();
        assert_eq!(budget.in_use(), (few + 1) * SEARCHED_BYTES);
        let found = Matches::new(matches(few as u32), drawn);
        assert_eq!((found.len(), budget.in_use()), (few, 0), "a small result takes no memory");
    }

    #[test]
    fn results_hold_only_their_matches_and_leave_memory_for_others() {
        let budget = Budget::new(8 << 20);
        let results = ResultMemory::of(&budget);
        let part = (8 << 20) / SHARE;
        let found = Matches::new(matches(5000), now(&results, 10_000).unwrap());
        assert_eq!(budget.in_use(), 5000 * size_of::<Match>());
        assert!(results.acquire(part / SEARCHED_BYTES).now_or_never().is_none(), "all of their memory");
        drop(found);
        let most = now(&results, part / SEARCHED_BYTES).unwrap();
        assert_eq!(budget.in_use(), part);
        assert!(results.acquire(1000).now_or_never().is_none());
        // Larger ones acquire everything from their own budget.
        let messages = 2 * part / SEARCHED_BYTES + 1;
        let large = now(&results, messages).unwrap();
        assert_eq!(budget.in_use(), part + messages * SEARCHED_BYTES);
        let found = Matches::new(matches(messages as u32), large);
        assert_eq!(budget.in_use(), part + messages * size_of::<Match>());
        let mut waits = Box::pin(results.acquire(messages));
        assert!((&mut waits).now_or_never().is_none(), "there is no memory for another one yet");
        drop(found);
        assert!(waits.now_or_never().unwrap().is_ok());
        assert!(budget.try_acquire(budget.fair_part()).is_some(), "other work gets memory");
        drop(most);
    }

    #[test]
    fn a_result_larger_than_the_budget_is_refused() {
        let results = ResultMemory::of(&Budget::new(8 << 20));
        let most = LARGE_PARTS * (8 << 20) / SHARE / SEARCHED_BYTES;
        assert!(now(&results, most).is_ok());
        assert_eq!(now(&results, most + 1).err(), Some(TooLarge));
        assert_eq!(now(&results, usize::MAX).err(), Some(TooLarge));
        let division = sealpost_base::MemoryDivision::default();
        assert!(
            now(&ResultMemory::of(&division.budget()), 1_000_000).is_ok(),
            "with the memory a server has by default"
        );
    }

    fn now(results: &ResultMemory, messages: usize) -> Result<Option<ResultPermit>, TooLarge> {
        results.acquire(messages).now_or_never().expect("there is memory")
    }
}
