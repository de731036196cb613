//! What a search found, and the memory that it takes.
//!
//! A result of many messages lives until its answer is sent, however slowly the client takes it. So it is drawn from a share of the
//! budget that is for this alone: whoever holds some of it may wait for other memory, for there always is some that is not results.

use std::ops::Deref;
use std::sync::Arc;

use sealpost_base::{Budget, Permit};
use tokio::sync::Mutex;

use super::run::Match;

/// What all results that are held together may take: what is common, divided by this.
const SHARE: usize = 8;
/// What larger ones may take besides: so many of those parts. A mailbox that needs more cannot be searched.
const LARGE_PARTS: usize = 3;
/// Results up to this size are part of what a connection takes anyway, in bytes.
const SMALL: usize = 8 * 1024;
/// What a message takes while it is searched for: its place among the matches, and among those that are not decided yet.
const SEARCHED_BYTES: usize = 2 * size_of::<Match>();

/// Where the memory for results comes from. Cloning shares it.
#[derive(Clone)]
pub struct Results {
    most: Budget,
    /// For those that `most` is too small for: whoever searches a very large mailbox keeps nobody else waiting.
    large: Budget,
    /// Held by the one that draws on `large`, in pieces: two that have a part each would wait for each other.
    turn: Arc<Mutex<()>>,
}

/// A mailbox needs more than results may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Results {
    /// Of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        let part = budget.common() / SHARE;
        Results { most: budget.share(part), large: budget.share(LARGE_PARTS * part), turn: Arc::default() }
    }

    /// Waits for what searching so many messages may take.
    pub(super) async fn for_search(&self, messages: usize) -> Result<Option<Drawn>, TooLarge> {
        let bytes = messages.saturating_mul(SEARCHED_BYTES);
        if bytes <= SMALL {
            return Ok(None);
        }
        if bytes <= self.most.total() {
            return Ok(Some(Drawn(vec![self.most.acquire(bytes).await])));
        }
        if bytes > self.large.total() {
            return Err(TooLarge);
        }
        let _turn = self.turn.lock().await;
        let mut drawn = Drawn(Vec::new());
        while drawn.bytes() < bytes {
            drawn.0.push(self.large.acquire(bytes - drawn.bytes()).await);
        }
        Ok(Some(drawn))
    }
}

/// Memory that was drawn for a result.
pub(in crate::imap) struct Drawn(Vec<Permit>);

impl Drawn {
    fn bytes(&self) -> usize {
        self.0.iter().map(Permit::bytes).sum()
    }

    /// Gives back all but `bytes`.
    fn shrink(&mut self, bytes: usize) {
        let mut left = bytes;
        for permit in &mut self.0 {
            permit.shrink(left);
            left = left.saturating_sub(permit.bytes());
        }
        self.0.retain(|permit| permit.bytes() > 0);
    }
}

/// What was found, in its order.
#[derive(Default)]
pub(in crate::imap) struct Found {
    matches: Vec<Match>,
    memory: Option<Drawn>,
}

impl Found {
    /// `matches`, for which that was drawn before they were known; what is too much goes back.
    pub(super) fn new(mut matches: Vec<Match>, mut memory: Option<Drawn>) -> Self {
        matches.shrink_to_fit();
        let bytes = size_of_val(&matches[..]);
        if bytes <= SMALL {
            memory = None;
        }
        if let Some(memory) = &mut memory {
            memory.shrink(bytes);
        }
        Found { matches, memory }
    }

    /// The same messages in another order, or others in their place that are not many more.
    pub(in crate::imap) fn map(self, with: impl FnOnce(Vec<Match>) -> Vec<Match>) -> Self {
        Found { matches: with(self.matches), memory: self.memory }
    }

    /// The messages, and the memory for them.
    pub(in crate::imap) fn into_parts(self) -> (Vec<Match>, Option<Drawn>) {
        (self.matches, self.memory)
    }

    /// What [`Found::into_parts`] gave, in another order.
    pub(in crate::imap) fn from_parts(matches: Vec<Match>, memory: Option<Drawn>) -> Self {
        Found { matches, memory }
    }
}

impl Deref for Found {
    type Target = [Match];

    fn deref(&self) -> &[Match] {
        &self.matches
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use sealpost_base::Uid;

    use super::*;

    fn matches(n: u32) -> Vec<Match> {
        (1..=n).filter_map(Uid::new).map(|uid| Match { uid, relevancy: 100 }).collect()
    }

    #[test]
    fn results_are_drawn_for_and_few_are_not() {
        let budget = Budget::new(8 << 20);
        let results = Results::of(&budget);
        let few = SMALL / SEARCHED_BYTES;
        assert!(now(&results, few).unwrap().is_none());
        let drawn = now(&results, few + 1).unwrap();
        assert_eq!(budget.in_use(), (few + 1) * SEARCHED_BYTES);
        let found = Found::new(matches(few as u32), drawn);
        assert_eq!((found.len(), budget.in_use()), (few, 0), "what was found is little");
    }

    #[test]
    fn what_is_held_is_what_was_found_and_leaves_room_for_others() {
        let budget = Budget::new(8 << 20);
        let results = Results::of(&budget);
        let part = (8 << 20) / SHARE;
        let found = Found::new(matches(5000), now(&results, 10_000).unwrap());
        assert_eq!(budget.in_use(), 5000 * size_of::<Match>());
        assert!(results.for_search(part / SEARCHED_BYTES).now_or_never().is_none(), "all there is for most");
        drop(found);
        let most = now(&results, part / SEARCHED_BYTES).unwrap();
        assert_eq!(budget.in_use(), part);
        assert!(results.for_search(1000).now_or_never().is_none());
        // Larger ones draw on what is theirs, all that they need.
        let messages = 2 * part / SEARCHED_BYTES + 1;
        let large = now(&results, messages).unwrap();
        assert_eq!(budget.in_use(), part + messages * SEARCHED_BYTES);
        let found = Found::new(matches(messages as u32), large);
        assert_eq!(budget.in_use(), part + messages * size_of::<Match>());
        let mut waits = Box::pin(results.for_search(messages));
        assert!((&mut waits).now_or_never().is_none(), "there is no room for another one yet");
        drop(found);
        assert!(waits.now_or_never().unwrap().is_ok());
        assert!(budget.try_acquire(budget.fair_part()).is_some(), "other work goes on");
        drop(most);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let results = Results::of(&Budget::new(8 << 20));
        let most = LARGE_PARTS * (8 << 20) / SHARE / SEARCHED_BYTES;
        assert!(now(&results, most).is_ok());
        assert_eq!(now(&results, most + 1).err(), Some(TooLarge));
        assert_eq!(now(&results, usize::MAX).err(), Some(TooLarge));
        let division = sealpost_base::MemoryDivision::default();
        assert!(
            now(&Results::of(&division.budget()), 1_000_000).is_ok(),
            "with the memory a server has by default"
        );
    }

    fn now(results: &Results, messages: usize) -> Result<Option<Drawn>, TooLarge> {
        results.for_search(messages).now_or_never().expect("there is room")
    }
}
