//! The memory budget: one weighted, fair, asynchronous semaphore. Every buffer over 16 KiB acquires its
//! memory here.
//!
//! Work waits for budget and never fails for lack of it. The budget serves requests in order of arrival, so
//! small ones cannot starve a large one. No request can hold more than [`Budget::fair_part`]: a larger one is
//! trimmed to that, so that every wait ends once other requests complete. Some memory is reserved for
//! requests that need all of their bytes ([`Budget::acquire_whole`]); long-lived shares cannot use it.
//!
//! A [`Budget::share`] has its own queue: requests that wait in it do not delay requests of other shares.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// A bound on memory, in bytes, for everything that buffers. Clones share it.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    total: usize,
    /// Reserved for the largest request that is not trimmed, in bytes.
    largest: usize,
    /// The parent budget, if this is a share.
    whole: Option<Budget>,
    state: Mutex<BudgetState>,
}

struct BudgetState {
    free: usize,
    waiting: VecDeque<Waiter>,
    /// Requests that wait in shares of this budget.
    waiting_in_shares: usize,
    next_ticket: u64,
}

struct Waiter {
    ticket: u64,
    bytes: usize,
    waker: Waker,
}

/// Bytes acquired from a [`Budget`]; released when dropped.
pub struct Permit {
    budget: Budget,
    bytes: usize,
    /// The same bytes of the parent budget.
    of_whole: Option<Box<Permit>>,
}

impl Budget {
    /// A budget of `total` bytes.
    pub fn new(total: usize) -> Self {
        Self::with_largest(total, 0)
    }

    /// A budget of `total` bytes in which one request may use up to `largest`, as far as that leaves memory
    /// for others.
    pub fn with_largest(total: usize, largest: usize) -> Self {
        let largest = if largest < total { largest } else { 0 };
        Self::with(total, largest, None)
    }

    fn with(total: usize, largest: usize, whole: Option<Budget>) -> Self {
        let state =
            BudgetState { free: total, waiting: VecDeque::new(), waiting_in_shares: 0, next_ticket: 0 };
        Budget(Arc::new(Shared { total, largest, whole, state: Mutex::new(state) }))
    }

    /// A share of this budget of at most `bytes`. Each permit is acquired from both. A request that waits for
    /// the share holds nothing of the parent.
    pub fn share(&self, bytes: usize) -> Self {
        Self::with(bytes.min(self.common()).max(1), 0, Some(self.clone()))
    }

    /// The whole budget, in bytes.
    pub fn total(&self) -> usize {
        self.0.total
    }

    /// The part for long-lived shares: all but the memory reserved for the largest request. That request
    /// always succeeds, whatever the shares hold.
    pub fn common(&self) -> usize {
        self.0.total - self.0.largest
    }

    /// The most that one request may hold: an eighth of the common part. In a share, as much as in the
    /// parent, if the share is that large.
    pub fn fair_part(&self) -> usize {
        match &self.0.whole {
            Some(whole) => whole.fair_part().min(self.0.total),
            None => (self.common() / 8).max(1),
        }
    }

    /// Bytes in use now.
    pub fn in_use(&self) -> usize {
        self.0.total - self.lock().free
    }

    /// Requests that wait now, for this budget or for shares of it.
    pub fn waiting(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + state.waiting_in_shares
    }

    /// Waits until `bytes`, at most [`Budget::fair_part`], are free, and acquires them.
    pub fn acquire(&self, bytes: usize) -> Acquire {
        self.request(bytes.min(self.fair_part()))
    }

    /// As [`Budget::acquire`] for a buffer of a fixed size: trimmed only to the whole budget. The caller must
    /// hold nothing of the budget.
    pub fn acquire_large(&self, bytes: usize) -> Acquire {
        self.request(bytes.min(self.0.total))
    }

    /// As [`Budget::acquire`] for work that needs all of `bytes`. They are trimmed only to the reserved
    /// memory, or to the fair part if that is larger. The caller must hold nothing of the budget, and must
    /// release the permit without waiting for other work.
    pub fn acquire_whole(&self, bytes: usize) -> Acquire {
        self.request(bytes.min(self.0.largest.max(self.fair_part())))
    }

    /// Acquires `bytes` if they are free and no request waits; never blocks.
    pub fn try_acquire(&self, bytes: usize) -> Option<Permit> {
        self.try_request(bytes.min(self.fair_part()))
    }

    /// As [`Budget::try_acquire`], trimmed as [`Budget::acquire_large`] is.
    pub fn try_acquire_large(&self, bytes: usize) -> Option<Permit> {
        self.try_request(bytes.min(self.0.total))
    }

    fn try_request(&self, bytes: usize) -> Option<Permit> {
        let mut state = self.lock();
        if !state.waiting.is_empty() || state.free < bytes {
            return None;
        }
        let of_whole = match &self.0.whole {
            Some(whole) => Some(Box::new(whole.try_request(bytes)?)),
            None => None,
        };
        state.free -= bytes;
        Some(Permit { budget: self.clone(), bytes, of_whole })
    }

    fn request(&self, bytes: usize) -> Acquire {
        Acquire { budget: self.clone(), bytes, ticket: None, then: None }
    }

    /// Counts a request that starts or stops waiting, here and in every parent.
    fn count_waiting(&self, change: isize) {
        let mut share = self;
        while let Some(whole) = &share.0.whole {
            let mut state = whole.lock();
            state.waiting_in_shares = state.waiting_in_shares.saturating_add_signed(change);
            drop(state);
            share = whole;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.0.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Permit {
    /// The bytes that this permit holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Releases all but `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        if bytes < self.bytes {
            let surplus = self.bytes - bytes;
            self.bytes = bytes;
            if let Some(of_whole) = &mut self.of_whole {
                of_whole.shrink(bytes);
            }
            self.budget.release(surplus);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // The parent first: a request that waits for the share must find memory there.
        self.of_whole = None;
        self.budget.release(self.bytes);
    }
}

impl Budget {
    fn release(&self, bytes: usize) {
        let mut state = self.lock();
        state.free += bytes;
        state.wake_front();
    }
}

impl BudgetState {
    /// Only the front of the queue may proceed: order of arrival makes the budget fair.
    fn wake_front(&self) {
        if let Some(front) = self.waiting.front()
            && front.bytes <= self.free
        {
            front.waker.wake_by_ref();
        }
    }
}

/// The future of [`Budget::acquire`]. Dropping it leaves the queue.
pub struct Acquire {
    budget: Budget,
    bytes: usize,
    ticket: Option<u64>,
    /// Set once the share has granted its part: that permit, and the wait for the parent.
    then: Option<(Permit, Box<Acquire>)>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let this = &mut *self;
        if this.then.is_none() {
            let Poll::Ready(permit) = this.poll_share(cx) else { return Poll::Pending };
            let Some(whole) = &this.budget.0.whole else { return Poll::Ready(permit) };
            this.then = Some((permit, Box::new(whole.request(this.bytes))));
        }
        let Some((_, whole)) = &mut this.then else { return Poll::Pending };
        let Poll::Ready(of_whole) = Pin::new(&mut **whole).poll(cx) else { return Poll::Pending };
        match this.then.take() {
            Some((mut permit, _)) => {
                permit.of_whole = Some(Box::new(of_whole));
                Poll::Ready(permit)
            }
            None => Poll::Pending,
        }
    }
}

impl Acquire {
    /// Polls this budget without its parent.
    fn poll_share(&mut self, cx: &mut Context<'_>) -> Poll<Permit> {
        let this = self;
        let mut state = this.budget.lock();
        let at_front = match this.ticket {
            None => state.waiting.is_empty(),
            Some(ticket) => state.waiting.front().is_some_and(|front| front.ticket == ticket),
        };
        if at_front && state.free >= this.bytes {
            state.free -= this.bytes;
            if this.ticket.take().is_some() {
                state.waiting.pop_front();
                this.budget.count_waiting(-1);
            }
            state.wake_front();
            drop(state);
            return Poll::Ready(Permit { budget: this.budget.clone(), bytes: this.bytes, of_whole: None });
        }
        match this.ticket {
            Some(ticket) => {
                if let Some(waiter) = state.waiting.iter_mut().find(|w| w.ticket == ticket) {
                    waiter.waker.clone_from(cx.waker());
                }
            }
            None => {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                state.waiting.push_back(Waiter { ticket, bytes: this.bytes, waker: cx.waker().clone() });
                this.ticket = Some(ticket);
                this.budget.count_waiting(1);
            }
        }
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.budget.lock();
            state.waiting.retain(|w| w.ticket != ticket);
            self.budget.count_waiting(-1);
            state.wake_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(acquire: &mut Acquire) -> Poll<Permit> {
        Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn waits_in_order_and_gives_back() {
        let budget = Budget::new(800);
        let held: Vec<_> = (0..8).map(|_| budget.try_acquire(100).unwrap()).collect();
        assert_eq!(budget.in_use(), 800);
        let mut large = budget.acquire(100);
        let mut small = budget.acquire(1);
        assert!(poll(&mut large).is_pending());
        assert!(poll(&mut small).is_pending());
        assert_eq!(budget.waiting(), 2);
        drop(held);
        assert!(poll(&mut small).is_pending(), "the earlier request is served first");
        let permit = poll(&mut large);
        assert!(permit.is_ready());
        assert!(poll(&mut small).is_ready());
    }

    #[test]
    fn a_request_over_the_fair_part_is_trimmed_to_it() {
        let budget = Budget::new(800);
        let permit = budget.try_acquire(usize::MAX).unwrap();
        assert_eq!(permit.bytes(), 100);
    }

    #[test]
    fn a_large_buffer_is_drawn_whole() {
        let share = Budget::new(800).share(600);
        let Poll::Ready(large) = poll(&mut share.acquire_large(500)) else { panic!("it waits") };
        assert_eq!(large.bytes(), 500);
        let mut second = share.acquire_large(usize::MAX);
        assert!(poll(&mut second).is_pending() && share.try_acquire_large(1).is_none());
        drop(large);
        let Poll::Ready(second) = poll(&mut second) else { panic!("it waits") };
        assert_eq!(second.bytes(), 600);
        drop(second);
        assert_eq!(share.try_acquire_large(500).map(|permit| permit.bytes()), Some(500));
    }

    #[test]
    fn the_largest_request_has_room_beside_all_lasting_shares() {
        let budget = Budget::with_largest(1000, 200);
        let shares: Vec<_> = (0..8).map(|_| budget.try_acquire(usize::MAX).unwrap()).collect();
        assert_eq!(shares.iter().map(Permit::bytes).sum::<usize>(), budget.common());
        let Poll::Ready(whole) = poll(&mut budget.acquire_whole(200)) else { panic!("it waits") };
        assert_eq!(whole.bytes(), 200);
        assert!(poll(&mut budget.acquire_whole(1)).is_pending());
    }

    #[test]
    fn waiting_for_a_share_does_not_delay_others() {
        let budget = Budget::new(800);
        let (many, few) = (budget.share(200), budget.share(200));
        let held: Vec<_> = (0..2).map(|_| many.try_acquire(100).unwrap()).collect();
        assert!(many.try_acquire(1).is_none());
        let mut waiting: Vec<_> = (0..50).map(|_| many.acquire(100)).collect();
        assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
        assert_eq!((budget.in_use(), budget.waiting(), few.waiting()), (200, 50, 0));
        assert!(poll(&mut few.acquire(100)).is_ready());
        assert!(poll(&mut budget.acquire(100)).is_ready());
        drop(held);
        assert!(poll(&mut waiting[0]).is_ready());
        drop(waiting);
        assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    }

    #[test]
    fn a_share_is_part_of_the_whole() {
        let budget = Budget::new(800);
        let share = budget.share(400).share(200);
        let mut held: Vec<_> = (0..8).map(|_| budget.try_acquire(100).unwrap()).collect();
        assert!(share.try_acquire(100).is_none());
        let mut acquire = share.acquire(usize::MAX);
        assert!(poll(&mut acquire).is_pending());
        held.pop();
        let Poll::Ready(mut permit) = poll(&mut acquire) else { panic!("it waits") };
        assert_eq!((permit.bytes(), budget.in_use(), share.in_use()), (100, 800, 100));
        permit.shrink(10);
        assert_eq!((budget.in_use(), share.in_use()), (710, 10));
        drop(permit);
        assert_eq!((budget.in_use(), share.in_use()), (700, 0));
    }

    #[test]
    fn giving_up_lets_the_next_one_in() {
        let budget = Budget::new(800);
        let held: Vec<_> = (0..8).map(|_| budget.try_acquire(100).unwrap()).collect();
        let mut first = budget.acquire(100);
        assert!(poll(&mut first).is_pending());
        let mut second = budget.acquire(100);
        assert!(poll(&mut second).is_pending());
        drop(first);
        drop(held);
        assert!(poll(&mut second).is_ready());
    }
}
