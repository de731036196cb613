//! What a search found, and the memory that it takes.
//!
//! A result of many messages lives until its answer is sent, however slowly the client takes it. So it is drawn from a share of the
//! budget that is for this alone: whoever holds some of it may wait for other memory, for there always is some that is not results.

use std::ops::Deref;

use sealpost_base::{Budget, Permit};

use super::run::Match;

/// What all results that are held together may take: this part of what is common, one so-manieth.
const SHARE: usize = 8;
/// Results up to this size are part of what a connection takes anyway, in bytes.
const SMALL: usize = 8 * 1024;
/// What a message takes while it is searched for: its place among the matches, and among those that are not decided yet.
const SEARCHED_BYTES: usize = 2 * size_of::<Match>();

/// Where the memory for results comes from. Cloning shares it.
#[derive(Clone)]
pub struct Results(Budget);

impl Results {
    /// Of a server with that budget.
    pub fn of(budget: &Budget) -> Self {
        Results(budget.share(budget.common() / SHARE))
    }

    /// Waits for what searching so many messages may take. One mailbox that needs more than there is for all gets that, and has it
    /// alone.
    pub(super) async fn for_search(&self, messages: usize) -> Option<Permit> {
        let bytes = messages.saturating_mul(SEARCHED_BYTES);
        if bytes <= SMALL {
            return None;
        }
        Some(self.0.acquire(bytes).await)
    }
}

/// What was found, in its order.
#[derive(Default)]
pub(in crate::imap) struct Found {
    matches: Vec<Match>,
    memory: Option<Permit>,
}

impl Found {
    /// `matches`, for which that was drawn before they were known; what is too much goes back.
    pub(super) fn new(mut matches: Vec<Match>, mut memory: Option<Permit>) -> Self {
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
    pub(in crate::imap) fn into_parts(self) -> (Vec<Match>, Option<Permit>) {
        (self.matches, self.memory)
    }

    /// What [`Found::into_parts`] gave, in another order.
    pub(in crate::imap) fn from_parts(matches: Vec<Match>, memory: Option<Permit>) -> Self {
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
        assert!(results.for_search(few).now_or_never().unwrap().is_none());
        let drawn = results.for_search(few + 1).now_or_never().unwrap();
        assert_eq!(budget.in_use(), (few + 1) * SEARCHED_BYTES);
        let found = Found::new(matches(few as u32), drawn);
        assert_eq!((found.len(), budget.in_use()), (few, 0), "what was found is little");
    }

    #[test]
    fn what_is_held_is_what_was_found_and_leaves_room_for_others() {
        let budget = Budget::new(8 << 20);
        let results = Results::of(&budget);
        let drawn = results.for_search(10_000).now_or_never().unwrap();
        let found = Found::new(matches(5000), drawn);
        assert_eq!(budget.in_use(), 5000 * size_of::<Match>());
        let all = results.for_search(usize::MAX);
        assert!(all.now_or_never().is_none(), "the share is one mailbox's at most");
        drop(found);
        let most = results.for_search(usize::MAX).now_or_never().unwrap();
        assert_eq!(budget.in_use(), (8 << 20) / SHARE);
        assert!(results.for_search(1000).now_or_never().is_none());
        assert!(budget.try_acquire(budget.fair_part()).is_some(), "other work goes on");
        drop(most);
    }
}
