//! Password checks: a few at a time, on threads of their own, with memory from the budget.
//!
//! Argon2 takes 19 MiB and tens of milliseconds. On the runtime's threads it would stop every session that shares
//! them; without a bound, a handful of guessers would take all memory and all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use sealpost_base::memory::LARGEST_REQUEST;
use sealpost_base::{Budget, Error, Permit, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Memory that one check takes, in bytes (Argon2id, m = 19 MiB).
pub const CHECK_BYTES: usize = LARGEST_REQUEST;

type Job = Box<dyn FnOnce() + Send>;

/// The threads and who waits for them.
pub struct Checks {
    jobs: Sender<Job>,
    running: Arc<Semaphore>,
    waiting: Semaphore,
    most_waiting: usize,
    budget: Budget,
}

/// Leave to run one check. It holds a thread and memory until dropped.
pub struct Turn {
    _running: OwnedSemaphorePermit,
    _memory: Permit,
}

/// More checks wait than are allowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl Checks {
    /// `at_once` threads, and at most `waiting` checks waiting for one.
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
                .map_err(|e| Error::retry("no thread for password checks").with_source(e))?;
        }
        let running = Arc::new(Semaphore::new(at_once.max(1)));
        Ok(Checks { jobs, running, waiting: Semaphore::new(waiting), most_waiting: waiting, budget })
    }

    /// Waits for a thread and for memory, in order of arrival.
    pub async fn turn(&self) -> Result<Turn, Busy> {
        let _waiting = self.waiting.try_acquire().map_err(|_| Busy)?;
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|_| Busy)?;
        let memory = self.budget.acquire_whole(CHECK_BYTES).await;
        Ok(Turn { _running: running, _memory: memory })
    }

    /// Checks that wait for a thread or for memory now.
    pub fn waiting(&self) -> usize {
        self.most_waiting - self.waiting.available_permits()
    }

    /// Runs `check` on one of the threads. Dropping the future does not stop it; its turn ends when it does.
    ///
    /// # Errors
    /// `Internal` if it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = move || {
            let result = check();
            // Before the answer: whoever gets it may count on the turn being over.
            drop(turn);
            // The session may have gone; then nobody wants to know.
            let _ = answer.send(result);
        };
        let gone = || Error::internal("a password check did not finish");
        self.jobs.send(Box::new(job)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// One thread: takes the jobs until there is nobody left to send any. A panic (reported by the panic hook) costs
/// its job, not the thread.
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn never_more_at_once_than_there_are_threads() {
        let budget = Budget::new(64 * CHECK_BYTES);
        let checks = Arc::new(Checks::new(2, 100, budget.clone()).unwrap());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (checks, now, most, budget) = (checks.clone(), now.clone(), most.clone(), budget.clone());
                tokio::spawn(async move {
                    let turn = checks.turn().await.unwrap();
                    let check = move || {
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
        assert_eq!(budget.in_use(), 0);
    }

    #[tokio::test]
    async fn one_too_many_is_told_so_and_a_panic_costs_only_its_own_check() {
        let checks = Checks::new(1, 1, Budget::new(64 * CHECK_BYTES)).unwrap();
        let turn = checks.turn().await.unwrap();
        let mut second = Box::pin(checks.turn());
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(checks.turn().await.err(), Some(Busy));

        let failed = checks.run(turn, || std::panic::resume_unwind(Box::new("gone"))).await;
        assert_eq!(failed.map(|(): ()| ()).unwrap_err().kind(), Kind::Internal);
        let turn = second.await.unwrap();
        assert_eq!(checks.run(turn, || 7).await.unwrap(), 7);
    }
}
