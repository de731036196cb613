//! The fair scheduler bounds the CPUs that the sessions of one account use at once.
//!
//! The runtime polls tasks in the order in which they became ready. A client with a thousand busy connections
//! to one account would get a thousand polls for each poll of any other account. So the sessions of an
//! account share a few permits ([`CpuPermit`]). Only tasks with a permit are ready; the others wait in the
//! account's queue. A permit lasts for one poll, so a waiting task holds none, and a lone account loses
//! nothing but the other CPUs.
//!
//! Connections that name recipients belong to no account, so all RCPT commands share one queue.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use sealpost_base::AccountId;

/// The queues of all accounts that have sessions.
pub struct FairScheduler {
    at_once: usize,
    accounts: Mutex<HashMap<AccountId, Weak<AccountQueue>>>,
}

/// The queue of one account's sessions.
pub struct AccountQueue {
    at_once: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Permits in use, or granted to waiters not yet polled.
    taken: usize,
    /// The waiters with a granted permit.
    given: Vec<u64>,
    waiting: VecDeque<(u64, Waker)>,
    next: u64,
}

/// A session's handle on a queue; on none until its user has logged in. Clones share it.
#[derive(Clone, Default)]
pub struct QueueHandle(Arc<Mutex<Option<Arc<AccountQueue>>>>);

/// A task in a queue; dropping it leaves the queue.
struct Waiter {
    account_queue: Arc<AccountQueue>,
    number: u64,
}

/// The right to one poll; dropping it passes the permit on.
struct CpuPermit(Arc<AccountQueue>);

impl Default for FairScheduler {
    /// Uses the machine's number of CPUs: one account has half of them.
    fn default() -> Self {
        FairScheduler { at_once: half_the_processors(), accounts: Mutex::default() }
    }
}

fn half_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get() / 2).max(1)
}

impl FairScheduler {
    /// The queue of an account.
    pub fn of(&self, account: AccountId) -> Arc<AccountQueue> {
        let mut accounts = lock(&self.accounts);
        if let Some(account_queue) = accounts.get(&account).and_then(Weak::upgrade) {
            return account_queue;
        }
        // Drop the queues of accounts without sessions from time to time.
        if accounts.len().is_power_of_two() {
            accounts.retain(|_, account_queue| account_queue.strong_count() > 0);
        }
        let account_queue = Arc::new(AccountQueue { at_once: self.at_once, queue: Mutex::default() });
        accounts.insert(account, Arc::downgrade(&account_queue));
        account_queue
    }
}

impl QueueHandle {
    /// A handle on a queue of its own, with half of the CPUs. Clones share it.
    pub fn shared() -> Self {
        let handle = QueueHandle::default();
        handle.take(Arc::new(AccountQueue { at_once: half_the_processors(), queue: Mutex::default() }));
        handle
    }

    /// Moves the session into a queue.
    pub fn take(&self, account_queue: Arc<AccountQueue>) {
        *lock(&self.0) = Some(account_queue);
    }

    /// Moves the session out of its queue.
    pub fn leave(&self) {
        *lock(&self.0) = None;
    }
}

/// Runs `work`; each poll of it takes a permit.
pub async fn run<T>(handle: &QueueHandle, mut work: Pin<&mut impl Future<Output = T>>) -> T {
    let mut waiter = None;
    poll_fn(|cx| {
        let account_queue = lock(&handle.0).clone();
        let _permit = match account_queue {
            None => None,
            Some(account_queue) => match permit(account_queue, &mut waiter, cx) {
                Poll::Ready(permit) => Some(permit),
                Poll::Pending => return Poll::Pending,
            },
        };
        work.as_mut().poll(cx)
    })
    .await
}

fn permit(
    account_queue: Arc<AccountQueue>,
    waiter: &mut Option<Waiter>,
    cx: &Context<'_>,
) -> Poll<CpuPermit> {
    let mut queue = lock(&account_queue.queue);
    match waiter {
        None if queue.taken < account_queue.at_once => {
            queue.taken += 1;
            drop(queue);
            Poll::Ready(CpuPermit(account_queue))
        }
        None => {
            queue.next += 1;
            let number = queue.next;
            queue.waiting.push_back((number, cx.waker().clone()));
            drop(queue);
            *waiter = Some(Waiter { account_queue, number });
            Poll::Pending
        }
        Some(Waiter { number, .. }) => {
            if let Some(at) = queue.given.iter().position(|given| given == number) {
                queue.given.swap_remove(at);
                // The waiter has left the queue already, so dropping it changes nothing.
                drop(queue);
                *waiter = None;
                return Poll::Ready(CpuPermit(account_queue));
            }
            // Waiters are in order of their numbers.
            if let Ok(at) = queue.waiting.binary_search_by_key(number, |(waiting, _)| *waiting) {
                queue.waiting[at].1.clone_from(cx.waker());
            }
            Poll::Pending
        }
    }
}

impl Queue {
    /// Passes a free permit to the next waiter, which the caller must wake.
    fn pass_on(&mut self) -> Option<Waker> {
        let Some((number, waker)) = self.waiting.pop_front() else {
            self.taken -= 1;
            return None;
        };
        self.given.push(number);
        Some(waker)
    }
}

impl Drop for CpuPermit {
    fn drop(&mut self) {
        let next = lock(&self.0.queue).pass_on();
        if let Some(waker) = next {
            waker.wake();
            // Otherwise threads that wait for this CPU may wait for a scheduler tick, up to 4 ms.
            std::thread::yield_now();
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut queue = lock(&self.account_queue.queue);
        if let Ok(at) = queue.waiting.binary_search_by_key(&self.number, |(number, _)| *number) {
            queue.waiting.remove(at);
        }
        let given = queue.given.iter().position(|given| *given == self.number);
        let next = given.and_then(|at| {
            queue.given.swap_remove(at);
            queue.pass_on()
        });
        drop(queue);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::rc::Rc;

    use futures::FutureExt;
    use futures::future::LocalBoxFuture;
    use futures::task::{ArcWake, waker};

    use super::*;

    fn account_queue() -> Arc<AccountQueue> {
        Arc::new(AccountQueue { at_once: 1, queue: Mutex::default() })
    }

    fn joined(account_queue: &Arc<AccountQueue>) -> QueueHandle {
        let handle = QueueHandle::default();
        handle.take(account_queue.clone());
        handle
    }

    #[derive(Default)]
    struct Woken(Mutex<usize>);

    impl ArcWake for Woken {
        fn wake_by_ref(this: &Arc<Self>) {
            *lock(&this.0) += 1;
        }
    }

    type Worker = (LocalBoxFuture<'static, ()>, Arc<Woken>);

    /// A task that completes at its first poll.
    fn worker(account_queue: &Arc<AccountQueue>) -> Worker {
        let handle = joined(account_queue);
        (async move { run(&handle, pin!(async {})).await }.boxed_local(), Arc::default())
    }

    fn poll((work, woken): &mut Worker) -> Poll<()> {
        work.poll_unpin(&mut Context::from_waker(&waker(woken.clone())))
    }

    fn woken((_, woken): &Worker) -> usize {
        *lock(&woken.0)
    }

    #[test]
    fn tasks_get_permits_in_order_of_arrival() {
        let (ours, theirs) = (account_queue(), account_queue());
        let others: Rc<RefCell<Vec<Worker>>> = Rc::default();
        others.borrow_mut().extend((0..3).map(|_| worker(&ours)));
        let (during, mut stranger) = (others.clone(), worker(&theirs));
        // Holds a permit, as if on another thread.
        let busy = async move {
            assert!(poll(&mut stranger).is_ready(), "another account does not wait");
            assert!(during.borrow_mut().iter_mut().all(|other| poll(other).is_pending()));
        };
        let handle = joined(&ours);
        async { run(&handle, pin!(busy)).await }.now_or_never().unwrap();

        let mut others = others.borrow_mut();
        assert_eq!(others.iter().map(woken).collect::<Vec<_>>(), [1, 0, 0]);
        assert!(poll(&mut others[1]).is_pending(), "it has no permit");
        assert!(poll(&mut worker(&ours)).is_pending(), "nor has a new task");
        assert!(poll(&mut others[0]).is_ready());
        assert_eq!(others.iter().map(woken).collect::<Vec<_>>(), [1, 1, 0]);
        // A dropped task passes on its permit.
        drop(others.remove(1));
        assert!(poll(&mut others[1]).is_ready());
        assert_eq!(lock(&ours.queue).taken, 0);
        assert!(poll(&mut worker(&ours)).is_ready());
    }

    #[test]
    fn queues_are_those_of_accounts_with_sessions() {
        let all = FairScheduler { at_once: 1, accounts: Mutex::default() };
        let account = |n: u64| AccountId(u128::from(n).to_be_bytes());
        let kept = all.of(account(0));
        for n in 1..1000 {
            drop(all.of(account(n)));
        }
        assert!(Arc::ptr_eq(&kept, &all.of(account(0))));
        assert!(lock(&all.accounts).len() <= 4);
    }
}
