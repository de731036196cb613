//! Memory for the values of requests, acquired before a request is parsed.
//!
//! The values of small requests have a share of their own, so they never wait for large ones. In each share a
//! user has a few turns, and has no place in the common queue without one: delaying the large requests of the
//! others takes many users. A client that takes the response to a large request too slowly loses it while
//! others wait ([`PacedSink`]).

use std::pin::pin;
use std::time::Duration;

use sealpost_base::limits::{
    JMAP_LARGE_REQUEST_WAIT, JMAP_LARGE_REQUESTS_PER_USER, JMAP_REQUEST_BYTES, JMAP_SMALL_REQUESTS_PER_USER,
    JMAP_SMALL_VALUES_BYTES, JMAP_SMALL_VALUES_SHARE, JMAP_VALUES_SHARE,
};
use sealpost_base::{AccountId, Budget, Permit};
use sealpost_jmap::{Problem, json};
use sealpost_session::account_turns::{AccountTurn, AccountTurns};
use tokio::time::{Instant, sleep};

use crate::responder::{ClientGone, ResponseSink};

/// How often to look whether others wait, once a client has kept the server waiting for too long.
const CHECK: Duration = Duration::from_secs(1);

/// Memory for the values of all requests.
pub(crate) struct RequestMemory {
    small: Shelf,
    large: Shelf,
    small_bytes: usize,
}

/// Memory for requests of one kind, and the turns of their users.
struct Shelf {
    memory: Budget,
    turns: AccountTurns,
}

/// Memory for the values of one request. Hold it as long as the request.
pub struct RequestPermit {
    is_large: bool,
    _memory: Permit,
    _turn: AccountTurn,
}

impl RequestMemory {
    pub(crate) fn new(budget: &Budget) -> Self {
        let common = budget.common();
        let small = budget.share(common / JMAP_SMALL_VALUES_SHARE);
        let large = budget.share(common / JMAP_VALUES_SHARE - common / JMAP_SMALL_VALUES_SHARE);
        // In a server with little memory: at most half of the share for one user.
        let small_bytes = JMAP_SMALL_VALUES_BYTES.min(small.total() / (2 * JMAP_SMALL_REQUESTS_PER_USER));
        RequestMemory {
            small: Shelf { memory: small, turns: AccountTurns::new(JMAP_SMALL_REQUESTS_PER_USER) },
            large: Shelf { memory: large, turns: AccountTurns::new(JMAP_LARGE_REQUESTS_PER_USER) },
            small_bytes,
        }
    }

    /// The most bytes that a request may have.
    pub(crate) fn request_bytes(&self) -> usize {
        self.large.memory.total().min(JMAP_REQUEST_BYTES)
    }

    /// Waits for the turn of the user, and then for memory for the values that this JSON may contain.
    ///
    /// # Errors
    /// The limit, if they are too many.
    pub(crate) async fn acquire(&self, user: AccountId, json: &[u8]) -> Result<RequestPermit, Problem> {
        let (shelf, bytes) = self.shelf(json)?;
        let turn = shelf.turns.wait(user).await;
        Ok(self.permit(turn, shelf.memory.acquire_large(bytes).await))
    }

    /// The same without waiting for the turn, for requests of which a user may send any number.
    ///
    /// # Errors
    /// The limit, also if other requests of the user have all turns.
    pub(crate) async fn acquire_at_turn(
        &self,
        user: AccountId,
        json: &[u8],
    ) -> Result<RequestPermit, Problem> {
        let (shelf, bytes) = self.shelf(json)?;
        let turn = shelf.turns.try_take(user).ok_or_else(|| {
            Problem::limit("maxConcurrentRequests", "Other requests of this user are under way.")
        })?;
        Ok(self.permit(turn, shelf.memory.acquire_large(bytes).await))
    }

    fn shelf(&self, json: &[u8]) -> Result<(&Shelf, usize), Problem> {
        let bytes = json::memory_bound(json);
        if bytes <= self.small_bytes {
            return Ok((&self.small, bytes));
        }
        if bytes > self.large.memory.total() {
            return Err(Problem::limit("maxSizeRequest", "The request has too many values."));
        }
        Ok((&self.large, bytes))
    }

    fn permit(&self, turn: AccountTurn, memory: Permit) -> RequestPermit {
        RequestPermit { is_large: memory.bytes() > self.small_bytes, _memory: memory, _turn: turn }
    }
}

impl RequestPermit {
    /// Whether the request is a large one.
    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }
}

/// Sends the response to a large request. It gives up a client for which the server has waited for more than
/// [`JMAP_LARGE_REQUEST_WAIT`] while others wait for memory.
pub(crate) struct PacedSink<'a> {
    sink: &'a mut dyn ResponseSink,
    budget: &'a Budget,
    waited: Duration,
}

impl<'a> PacedSink<'a> {
    /// Sends to `sink`; others wait for memory of `budget` or of its shares.
    pub(crate) fn new(sink: &'a mut dyn ResponseSink, budget: &'a Budget) -> Self {
        PacedSink { sink, budget, waited: Duration::ZERO }
    }
}

#[async_trait::async_trait]
impl ResponseSink for PacedSink<'_> {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientGone> {
        let (before, began) = (self.waited, Instant::now());
        let mut sending = pin!(self.sink.send(bytes));
        loop {
            self.waited = before + began.elapsed();
            let left = JMAP_LARGE_REQUEST_WAIT.saturating_sub(self.waited);
            if left.is_zero() && self.budget.waiting() > 0 {
                return Err(ClientGone);
            }
            tokio::select! {
                biased;
                sent = &mut sending => {
                    self.waited = before + began.elapsed();
                    return sent;
                }
                () = sleep(left.max(CHECK)) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const BUDGET: usize = 32 << 20;

    fn users() -> [AccountId; 2] {
        [AccountId([1; 16]), AccountId([2; 16])]
    }

    /// JSON with values for so many bytes.
    fn json(bytes: usize) -> Vec<u8> {
        let mut text = vec![b'0'; 1 + bytes - json::memory_bound(b"[")];
        text[0] = b'[';
        assert_eq!(json::memory_bound(&text), bytes);
        text
    }

    #[test]
    fn a_second_large_request_of_a_user_waits_without_memory() {
        let budget = Budget::new(BUDGET);
        let (memory, [one, two]) = (RequestMemory::new(&budget), users());
        // Two of these do not fit.
        let large = json(memory.request_bytes() * 2 / 3);
        let first = memory.acquire(one, &large).now_or_never().unwrap().unwrap();
        assert!(first.is_large());
        let mut second = Box::pin(memory.acquire(one, &large));
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(budget.waiting(), 0, "it is not in the queue");
        let mut other = Box::pin(memory.acquire(two, &large));
        assert!((&mut other).now_or_never().is_none() && budget.waiting() == 1);
        drop(first);
        assert!((&mut second).now_or_never().is_none(), "the other user was there before");
        let other = other.now_or_never().unwrap().unwrap();
        drop(other);
        assert!(second.now_or_never().unwrap().is_ok());
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn small_requests_never_wait_for_large_ones() {
        let budget = Budget::new(BUDGET);
        let (memory, [one, two]) = (RequestMemory::new(&budget), users());
        let _whole = memory.acquire(one, &json(memory.large.memory.total())).now_or_never().unwrap().unwrap();
        let large = json(memory.small_bytes + 1);
        let mut waiting = Box::pin(memory.acquire(two, &large));
        assert!((&mut waiting).now_or_never().is_none());
        let of_one: Vec<_> = (0..JMAP_SMALL_REQUESTS_PER_USER)
            .map(|_| memory.acquire(one, &json(memory.small_bytes)).now_or_never().unwrap().unwrap())
            .collect();
        assert!(of_one.iter().all(|permit| !permit.is_large()));
        assert!(memory.acquire(one, b"{}").now_or_never().is_none(), "this user has its part");
        let refused = memory.acquire_at_turn(one, b"{}").now_or_never().unwrap().err().unwrap();
        assert_eq!(refused.problem, Problem::limit("maxConcurrentRequests", "").problem);
        assert!(memory.acquire(two, &json(memory.small_bytes)).now_or_never().is_some());
    }

    #[test]
    fn more_values_than_there_is_memory_for_are_refused() {
        for bytes in [1 << 20, BUDGET] {
            let memory = RequestMemory::new(&Budget::new(bytes));
            let most = memory.large.memory.total();
            assert!(memory.acquire(users()[0], &json(most)).now_or_never().unwrap().is_ok());
            let refused = memory.acquire(users()[0], &json(most + 1)).now_or_never().unwrap().err().unwrap();
            assert_eq!(refused.problem, Problem::limit("maxSizeRequest", "").problem);
        }
    }

    /// Takes each piece after so long.
    struct Slow(Duration);

    #[async_trait::async_trait]
    impl ResponseSink for Slow {
        async fn send(&mut self, _: Vec<u8>) -> Result<(), ClientGone> {
            sleep(self.0).await;
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_lose_large_responses_while_others_wait() {
        let budget = Budget::new(10);
        let mut slow = Slow(JMAP_LARGE_REQUEST_WAIT / 4 - Duration::from_millis(10));
        let mut sink = PacedSink::new(&mut slow, &budget);
        for _ in 0..8 {
            assert_eq!(sink.send(Vec::new()).await, Ok(()));
        }
        let mut slow = Slow(JMAP_LARGE_REQUEST_WAIT / 4 - Duration::from_millis(10));
        let mut sink = PacedSink::new(&mut slow, &budget);
        let _all = budget.try_acquire_large(10).unwrap();
        let mut other = Box::pin(budget.acquire(1));
        assert!((&mut other).now_or_never().is_none());
        let began = Instant::now();
        for _ in 0..4 {
            assert_eq!(sink.send(Vec::new()).await, Ok(()));
        }
        assert_eq!(sink.send(Vec::new()).await, Err(ClientGone));
        assert_eq!(began.elapsed().as_secs(), JMAP_LARGE_REQUEST_WAIT.as_secs());
        // One that takes nothing at all.
        let (mut stuck, began) = (Slow(Duration::MAX), Instant::now());
        assert_eq!(PacedSink::new(&mut stuck, &budget).send(Vec::new()).await, Err(ClientGone));
        assert_eq!(began.elapsed().as_secs(), JMAP_LARGE_REQUEST_WAIT.as_secs());
    }
}
