//! Turns: how much of the processors the sessions of one account may have at once.
//!
//! The runtime runs tasks in the order in which they became ready. Whoever opens a thousand connections to one account and keeps all
//! of them busy would have a thousand turns for one of everybody else's. So the tasks of an account's sessions take turns among
//! themselves: only some are ready at a time, the others stand in a queue of the account. A turn lasts for one poll, so nobody
//! holds one while it waits for anything, and an account that is alone loses nothing but the other processors.
//!
//! Nobody knows whose the connections are that name recipients, so all RCPT commands there are take turns with each other.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use sealpost_base::AccountId;

/// The queues of all accounts that have sessions.
pub struct AllTurns {
    at_once: usize,
    accounts: Mutex<HashMap<AccountId, Weak<Turns>>>,
}

/// The queue of one account.
pub struct Turns {
    at_once: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Turns that somebody has, or that were given to somebody who has not come yet.
    taken: usize,
    /// Who was given one.
    given: Vec<u64>,
    waiting: VecDeque<(u64, Waker)>,
    next: u64,
}

/// Where a session takes its turns: nowhere until somebody has logged in. Cloning shares it.
#[derive(Clone, Default)]
pub struct Seat(Arc<Mutex<Option<Arc<Turns>>>>);

/// A place in a queue; dropping it gives it up.
struct Place {
    turns: Arc<Turns>,
    number: u64,
}

/// A turn; dropping it ends it.
struct Turn(Arc<Turns>);

impl Default for AllTurns {
    /// For as many processors as there are: one account has half of them.
    fn default() -> Self {
        AllTurns { at_once: half_the_processors(), accounts: Mutex::default() }
    }
}

fn half_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get() / 2).max(1)
}

impl AllTurns {
    /// The queue of that account.
    pub fn of(&self, account: AccountId) -> Arc<Turns> {
        let mut accounts = lock(&self.accounts);
        if let Some(turns) = accounts.get(&account).and_then(Weak::upgrade) {
            return turns;
        }
        // Now and then, those that nobody has any more.
        if accounts.len().is_power_of_two() {
            accounts.retain(|_, turns| turns.strong_count() > 0);
        }
        let turns = Arc::new(Turns { at_once: self.at_once, queue: Mutex::default() });
        accounts.insert(account, Arc::downgrade(&turns));
        turns
    }
}

impl Seat {
    /// At a queue of its own, which has half of the processors: whoever clones it takes turns with the others.
    pub fn shared() -> Self {
        let seat = Seat::default();
        seat.take(Arc::new(Turns { at_once: half_the_processors(), queue: Mutex::default() }));
        seat
    }

    /// From now on turns are taken there.
    pub fn take(&self, turns: Arc<Turns>) {
        *lock(&self.0) = Some(turns);
    }

    /// From now on no turns are needed.
    pub fn leave(&self) {
        *lock(&self.0) = None;
    }
}

/// Does `work`, each poll of it in its turn.
pub async fn in_turn<T>(seat: &Seat, mut work: Pin<&mut impl Future<Output = T>>) -> T {
    let mut place = None;
    poll_fn(|cx| {
        let turns = lock(&seat.0).clone();
        let _turn = match turns {
            None => None,
            Some(turns) => match turn(turns, &mut place, cx) {
                Poll::Ready(turn) => Some(turn),
                Poll::Pending => return Poll::Pending,
            },
        };
        work.as_mut().poll(cx)
    })
    .await
}

fn turn(turns: Arc<Turns>, place: &mut Option<Place>, cx: &Context<'_>) -> Poll<Turn> {
    let mut queue = lock(&turns.queue);
    match place {
        None if queue.taken < turns.at_once => {
            queue.taken += 1;
            drop(queue);
            Poll::Ready(Turn(turns))
        }
        None => {
            queue.next += 1;
            let number = queue.next;
            queue.waiting.push_back((number, cx.waker().clone()));
            drop(queue);
            *place = Some(Place { turns, number });
            Poll::Pending
        }
        Some(Place { number, .. }) => {
            if let Some(at) = queue.given.iter().position(|given| given == number) {
                queue.given.swap_remove(at);
                // It is not in the queue any more; what dropping the place does finds nothing.
                drop(queue);
                *place = None;
                return Poll::Ready(Turn(turns));
            }
            // They are in the order of their numbers.
            if let Ok(at) = queue.waiting.binary_search_by_key(number, |(waiting, _)| *waiting) {
                queue.waiting[at].1.clone_from(cx.waker());
            }
            Poll::Pending
        }
    }
}

impl Queue {
    /// A turn is over: it is the next one's, who has to be woken.
    fn pass_on(&mut self) -> Option<Waker> {
        let Some((number, waker)) = self.waiting.pop_front() else {
            self.taken -= 1;
            return None;
        };
        self.given.push(number);
        Some(waker)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = lock(&self.0.queue).pass_on();
        if let Some(waker) = next {
            waker.wake();
            // Threads that wait for this processor would otherwise wait for a tick of the system's, up to 4 ms.
            std::thread::yield_now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queue = lock(&self.turns.queue);
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

    fn turns() -> Arc<Turns> {
        Arc::new(Turns { at_once: 1, queue: Mutex::default() })
    }

    fn seated(turns: &Arc<Turns>) -> Seat {
        let seat = Seat::default();
        seat.take(turns.clone());
        seat
    }

    #[derive(Default)]
    struct Woken(Mutex<usize>);

    impl ArcWake for Woken {
        fn wake_by_ref(this: &Arc<Self>) {
            *lock(&this.0) += 1;
        }
    }

    type Worker = (LocalBoxFuture<'static, ()>, Arc<Woken>);

    /// Something that is done at its first turn.
    fn worker(turns: &Arc<Turns>) -> Worker {
        let seat = seated(turns);
        (async move { in_turn(&seat, pin!(async {})).await }.boxed_local(), Arc::default())
    }

    fn poll((work, woken): &mut Worker) -> Poll<()> {
        work.poll_unpin(&mut Context::from_waker(&waker(woken.clone())))
    }

    fn woken((_, woken): &Worker) -> usize {
        *lock(&woken.0)
    }

    #[test]
    fn one_after_the_other_in_the_order_they_came() {
        let (ours, theirs) = (turns(), turns());
        let others: Rc<RefCell<Vec<Worker>>> = Rc::default();
        others.borrow_mut().extend((0..3).map(|_| worker(&ours)));
        let (during, mut stranger) = (others.clone(), worker(&theirs));
        // While one has its turn, on another thread as it were.
        let busy = async move {
            assert!(poll(&mut stranger).is_ready(), "another account does not wait");
            assert!(during.borrow_mut().iter_mut().all(|other| poll(other).is_pending()));
        };
        let seat = seated(&ours);
        async { in_turn(&seat, pin!(busy)).await }.now_or_never().unwrap();

        let mut others = others.borrow_mut();
        assert_eq!(others.iter().map(woken).collect::<Vec<_>>(), [1, 0, 0]);
        assert!(poll(&mut others[1]).is_pending(), "it is not its turn");
        assert!(poll(&mut worker(&ours)).is_pending(), "nor that of one who comes now");
        assert!(poll(&mut others[0]).is_ready());
        assert_eq!(others.iter().map(woken).collect::<Vec<_>>(), [1, 1, 0]);
        // Whoever goes does not keep its turn.
        drop(others.remove(1));
        assert!(poll(&mut others[1]).is_ready());
        assert_eq!(lock(&ours.queue).taken, 0);
        assert!(poll(&mut worker(&ours)).is_ready());
    }

    #[test]
    fn queues_are_those_of_accounts_with_sessions() {
        let all = AllTurns { at_once: 1, accounts: Mutex::default() };
        let account = |n: u64| AccountId(u128::from(n).to_be_bytes());
        let kept = all.of(account(0));
        for n in 1..1000 {
            drop(all.of(account(n)));
        }
        assert!(Arc::ptr_eq(&kept, &all.of(account(0))));
        assert!(lock(&all.accounts).len() <= 4);
    }
}
