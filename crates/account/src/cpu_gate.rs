//! Runs long steps: thousands of rows processed without an await.
//!
//! The runtime has a worker per CPU, and all sessions share the workers. A step over half a million rows
//! keeps a worker busy for a tenth of a second, and with as many such steps as workers all sessions wait. So
//! a long step leaves the workers: its thread continues beside them, another one replaces it, and the system
//! divides the CPUs among them all. At most half as many long steps as CPUs run at once; the others wait in
//! order of arrival, without a thread.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Rows of a long step. Fewer take about a millisecond at most, and leaving the workers takes some hundredth
/// of that.
pub const LONG_ROWS: usize = 4096;

/// Bounds the concurrent long steps of a process.
pub struct CpuGate(Semaphore);

impl CpuGate {
    /// A gate for that many CPUs.
    pub(crate) fn new(processors: usize) -> Self {
        CpuGate(Semaphore::new((processors / 2).max(1)))
    }

    /// Runs a step over `rows` rows: directly if they are few. It must not wait, except for a lock that is
    /// held for steps only.
    pub async fn run<T>(&self, rows: usize, step: impl FnOnce() -> T) -> T {
        if rows < LONG_ROWS {
            return step();
        }
        // The semaphore is never closed.
        let _turn = self.0.acquire().await;
        block_in_place(step)
    }
}

impl Default for CpuGate {
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, |processors| processors.get()))
    }
}

/// Runs a step that blocks the thread, beside the workers if there are several.
pub(crate) fn block_in_place<T>(step: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(step),
        _ => step(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn only_long_steps_wait_for_earlier_ones() {
        let steps = CpuGate::new(4);
        let held = [steps.0.acquire().now_or_never().unwrap(), steps.0.acquire().now_or_never().unwrap()];
        assert_eq!(steps.run(LONG_ROWS - 1, || 1).now_or_never(), Some(1));
        let mut first = Box::pin(steps.run(LONG_ROWS, || 1));
        let mut second = Box::pin(steps.run(LONG_ROWS, || 2));
        assert_eq!((first.as_mut().now_or_never(), second.as_mut().now_or_never()), (None, None));
        let [one, other] = held;
        drop(one);
        assert_eq!(second.as_mut().now_or_never(), None, "the first one's turn");
        assert_eq!(first.as_mut().now_or_never(), Some(1));
        assert_eq!(second.now_or_never(), Some(2));
        drop(other);
        assert_eq!(CpuGate::new(1).run(LONG_ROWS, || 3).now_or_never(), Some(3));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_a_long_step() {
        let (say, said) = mpsc::channel();
        let steps = Arc::new(CpuGate::new(1));
        // Both are tasks of one worker: the waiting one is woken only once that continues.
        let long = tokio::spawn(async move {
            steps
                .run(LONG_ROWS, move || {
                    tokio::spawn(async move { say.send(()) });
                    said.recv_timeout(std::time::Duration::from_secs(30)).is_ok()
                })
                .await
        });
        assert!(long.await.unwrap());
    }
}
