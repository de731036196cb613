//! Password checks: a few at a time, on dedicated threads, with memory from the budget, ordered by priority.
//!
//! Argon2 takes 19 MiB and tens of milliseconds. On the runtime's threads it would block every session there.
//! Without a bound, a few guessers would take all memory and all CPUs. Queued checks run by
//! [priority](crate::throttle::Priority): guessers wait behind all others, and are the first to be displaced
//! from a full queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::memory::LARGEST_REQUEST;
use sealpost_base::{Budget, Error, Permit, Result, limits};
use sealpost_vault::slot::StretchMemory;
use tokio::sync::oneshot;

use super::line::{Entry, Line};
use crate::throttle::Priority;

/// Memory that one check takes, in bytes (Argon2id, m = 19 MiB).
pub const CHECK_BYTES: usize = LARGEST_REQUEST;

type Job = Box<dyn FnOnce() + Send>;

/// Notifies a queued attempt that its check may run, or that others have displaced it.
type CheckSender = oneshot::Sender<Result<(), Busy>>;

/// The threads, and the queue of attempts for them.
pub struct Checks {
    jobs: Sender<Job>,
    line: SharedLine,
    budget: Budget,
    #[cfg(test)]
    run: std::sync::atomic::AtomicUsize,
}

#[derive(Clone)]
struct SharedLine(Arc<Mutex<Line<Priority, CheckSender>>>);

/// The permit to run one check. It holds a thread and memory until dropped.
pub struct CheckPermit {
    // Dropped first: the next check needs the memory.
    _memory: Permit,
    _thread: Thread,
}

/// The exclusive use of a thread.
struct Thread(SharedLine);

/// An attempt in the queue; dropping it leaves the queue.
struct QueuedCheck {
    line: SharedLine,
    number: (Priority, u64),
    granted: oneshot::Receiver<Result<(), Busy>>,
    /// Whether the attempt has received its result.
    is_over: bool,
}

/// Too many checks are queued, or checks of higher priority displaced this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl Checks {
    /// Starts `at_once` threads; at most `waiting` checks may queue for them.
    ///
    /// # Errors
    /// `Retry` if the threads cannot be started.
    pub fn new(at_once: usize, waiting: usize, budget: Budget) -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for n in 0..at_once.max(1) {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name(format!("password-{n}"))
                .spawn(move || work(&queue))
                .map_err(|e| Error::retry("cannot start the threads for password checks").with_source(e))?;
        }
        let line = SharedLine(Arc::new(Mutex::new(Line::new(at_once.max(1), waiting))));
        Ok(Checks {
            jobs,
            line,
            budget,
            #[cfg(test)]
            run: Default::default(),
        })
    }

    /// Waits for a thread and for memory, at most [`limits::LOGIN_QUEUE_TIMEOUT`]. Cancel-safe.
    ///
    /// # Errors
    /// [`Busy`] if the queue is full of checks that run sooner, now or during the wait.
    pub async fn turn(&self, priority: Priority) -> Result<CheckPermit, Busy> {
        let thread = self.line.thread(priority).await?;
        let memory = self.budget.acquire_whole(CHECK_BYTES).await;
        Ok(CheckPermit { _memory: memory, _thread: thread })
    }

    /// The number of checks that wait for a thread.
    pub fn waiting(&self) -> usize {
        self.line.lock().len()
    }

    /// The number of checks that have started.
    #[cfg(test)]
    pub(super) fn run_so_far(&self) -> usize {
        self.run.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Runs `check` on one of the threads. Dropping the future does not stop it. The permit is released
    /// shortly after the result arrives: wiping and freeing the memory takes milliseconds for which the
    /// client need not wait.
    ///
    /// # Errors
    /// `Internal` if the check panics.
    pub async fn run<T: Send + 'static>(
        &self,
        turn: CheckPermit,
        check: impl FnOnce(&mut StretchMemory) -> T + Send + 'static,
    ) -> Result<T> {
        #[cfg(test)]
        self.run.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let (answer, answered) = oneshot::channel();
        let job = move || {
            let mut memory = StretchMemory::default();
            let result = check(&mut memory);
            // If the session has ended, there is no receiver.
            let _ = answer.send(result);
            drop(memory);
            // Only after the memory is free: the next check takes as much.
            drop(turn);
        };
        let gone = || Error::internal("a password check did not finish");
        self.jobs.send(Box::new(job)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

impl SharedLine {
    fn lock(&self) -> MutexGuard<'_, Line<Priority, CheckSender>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn thread(&self, priority: Priority) -> Result<Thread, Busy> {
        let (sender, granted) = oneshot::channel();
        let number = match self.lock().enter(priority, sender) {
            Entry::Now => return Ok(Thread(self.clone())),
            Entry::Full => return Err(Busy),
            Entry::Waits(number, put_out) => {
                // The displaced attempt may have ended.
                put_out.map(|other| other.send(Err(Busy)));
                number
            }
        };
        let mut place = QueuedCheck { line: self.clone(), number, granted, is_over: false };
        let granted = tokio::time::timeout(limits::LOGIN_QUEUE_TIMEOUT, &mut place.granted).await;
        // After a timeout, dropping `place` leaves the queue.
        let granted = granted.map_err(|_| Busy)?;
        place.is_over = true;
        granted.unwrap_or(Err(Busy)).map(|()| Thread(self.clone()))
    }

    /// Passes a free thread to the next attempt in the queue.
    fn pass_on(&self) {
        let mut line = self.lock();
        while let Some(next) = line.leave() {
            if next.send(Ok(())).is_ok() {
                return;
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl Drop for QueuedCheck {
    fn drop(&mut self) {
        if self.is_over || self.line.lock().give_up(self.number) {
            return;
        }
        // A thread may have been granted at the last moment.
        if let Ok(Ok(())) = self.granted.try_recv() {
            self.line.pass_on();
        }
    }
}

/// Runs jobs on one thread until all senders are dropped. A panic ends its job, not the thread; the panic
/// hook reports it.
fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let next = queue.lock().unwrap_or_else(|e| e.into_inner()).recv();
        let Ok(job) = next else { return };
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sealpost_base::Kind;

    use super::*;
    use crate::throttle::{Name, Throttle};

    fn anyone() -> Priority {
        let clock = sealpost_base::FakeClock::new(sealpost_base::Timestamp(0));
        let throttle = Throttle::new(crate::settings::Login::default(), Arc::new(clock));
        throttle.arrive(None, Name::of("anyone"), false).unwrap().priority()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn never_more_at_once_than_there_are_threads() {
        let budget = Budget::new(64 * CHECK_BYTES);
        let checks = Arc::new(Checks::new(2, 100, budget.clone()).unwrap());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (checks, now, most, budget) = (checks.clone(), now.clone(), most.clone(), budget.clone());
                tokio::spawn(async move {
                    let turn = checks.turn(anyone()).await.unwrap();
                    let check = move |_: &mut StretchMemory| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        assert!(budget.in_use() >= CHECK_BYTES);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    checks.run(turn, check).await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 2);
        // Others now hold both threads, so all earlier permits are released.
        let _others = [checks.turn(anyone()).await.unwrap(), checks.turn(anyone()).await.unwrap()];
        assert_eq!(budget.in_use(), 2 * CHECK_BYTES);
    }

    #[tokio::test]
    async fn an_excess_check_is_busy_and_a_panic_fails_one() {
        let checks = Checks::new(1, 1, Budget::new(64 * CHECK_BYTES)).unwrap();
        let turn = checks.turn(anyone()).await.unwrap();
        let mut second = Box::pin(checks.turn(anyone()));
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(checks.turn(anyone()).await.err(), Some(Busy));

        let failed = checks.run(turn, |_| std::panic::resume_unwind(Box::new("gone"))).await;
        assert_eq!(failed.map(|(): ()| ()).unwrap_err().kind(), Kind::Internal);
        let turn = second.await.unwrap();
        assert_eq!(checks.run(turn, |_| 7).await.unwrap(), 7);
    }
}
