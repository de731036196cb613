//! Sending threads, each with its part of the connections.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

use super::drive::{self, Plan};
use super::{RunningPhase, Shared};
use crate::load::client::Thread;
use crate::load::scenario::template::Names;
use crate::process::own_waits;
use crate::result::Recorder;

enum Order {
    /// Begin a phase with these connections.
    Begin(Arc<RunningPhase>, Vec<usize>),
    /// From now on, their CPU use counts for another phase.
    Mark(oneshot::Sender<()>),
    /// Returns the measurements since then, and the thread's CPU use.
    Collect(oneshot::Sender<(Recorder, Busy)>),
    /// Returns the server's syntax of mailbox names.
    Names(oneshot::Sender<Result<Names>>),
}

/// A thread's CPU use over some time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Busy {
    /// Time on a processor.
    pub cpu: Duration,
    /// Time with work, but without a processor.
    pub waited: Duration,
}

impl Busy {
    /// This thread's, since it started.
    fn now() -> Self {
        Busy { cpu: cpu(), waited: own_waits() }
    }

    fn since(self, before: Self) -> Self {
        Busy { cpu: self.cpu.saturating_sub(before.cpu), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// All threads.
pub struct Workers {
    threads: Vec<(mpsc::UnboundedSender<Order>, Option<JoinHandle<()>>)>,
}

impl Workers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn start(shared: &Arc<Shared>, count: usize) -> Result<Self> {
        let start = |nth: usize| {
            let (send, orders) = mpsc::unbounded_channel();
            let shared = shared.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let name = format!("bench {}", nth + 1);
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                LocalSet::new().block_on(&runtime, work(shared, orders));
                // Hanging connections must not delay the end.
                runtime.shutdown_background();
            })?;
            anyhow::Ok((send, Some(thread)))
        };
        let threads = (0..count).map(start).collect::<Result<_>>().context("the threads of the bench")?;
        Ok(Workers { threads })
    }

    /// A single worker, on the present `LocalSet`.
    pub fn here(shared: &Arc<Shared>) -> Self {
        let (send, orders) = mpsc::unbounded_channel();
        spawn_local(work(shared.clone(), orders));
        Workers { threads: vec![(send, None)] }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Begins a phase on all of them.
    pub fn begin(&self, job: &Arc<RunningPhase>) {
        let connections = usize::try_from(job.phase.connections).unwrap_or(usize::MAX);
        for (nth, (orders, _)) in self.threads.iter().enumerate() {
            let own = (nth..connections).step_by(self.threads.len()).collect();
            let _ = orders.send(Order::Begin(job.clone(), own));
        }
    }

    /// From now on, their CPU use counts for another phase.
    pub async fn mark(&self) {
        for (orders, _) in &self.threads {
            let (send, done) = oneshot::channel();
            let _ = orders.send(Order::Mark(send));
            let _ = done.await;
        }
    }

    /// The measurements since the last call, and each thread's CPU use since the mark.
    pub async fn collect(&self) -> (Recorder, Vec<Busy>) {
        let mut all = Recorder::new();
        let mut busy = Vec::new();
        for (orders, _) in &self.threads {
            let (send, collected) = oneshot::channel();
            let _ = orders.send(Order::Collect(send));
            if let Ok((recorder, its)) = collected.await {
                all.merge(recorder);
                busy.push(its);
            }
        }
        (all, busy)
    }

    /// The server's syntax of mailbox names, asked with the first account.
    pub async fn names(&self) -> Result<Names> {
        let (send, names) = oneshot::channel();
        let first = self.threads.first().context("no thread")?;
        let _ = first.0.send(Order::Names(send));
        names.await.map_err(|_| anyhow!("the thread has ended"))?
    }

    /// Ends them.
    pub async fn end(self) {
        for (orders, thread) in self.threads {
            drop(orders);
            if let Some(thread) = thread {
                // It ends as soon as it sees that there are no more orders.
                let _ = tokio::task::spawn_blocking(move || thread.join()).await;
            }
        }
    }
}

async fn work(shared: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let thread = Rc::new(Thread { shared, recorder: RefCell::new(Recorder::new()) });
    let mut marked = Busy::now();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Begin(job, connections) => {
                let plan = Rc::new(Plan::new(&job.phase));
                for connection in connections {
                    spawn_local(drive::client(thread.clone(), job.clone(), plan.clone(), connection));
                }
            }
            Order::Mark(done) => {
                marked = Busy::now();
                let _ = done.send(());
            }
            Order::Collect(to) => {
                let _ = to.send((thread.recorder.take(), Busy::now().since(marked)));
            }
            Order::Names(to) => {
                let names = drive::names(&thread).await;
                thread.recorder.take();
                let _ = to.send(names.map_err(|fail| anyhow!(fail.to_string())));
            }
        }
    }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
