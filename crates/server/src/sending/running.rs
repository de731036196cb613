//! A queue that runs: the task that writes its log, and the one that sends.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sealpost_base::Result;
use sealpost_delivery::transport::Transport;
use sealpost_queue::runner::{Forms, Runner, RunnerMetrics, Settings};
use sealpost_queue::{Queue, Stopped};
use sealpost_session::Context;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::outcomes;
use crate::survive::survive;

/// How long the last outcomes may take to be written when the server stops.
const WRITE_DOWN: Duration = Duration::from_secs(5);

/// A queue and what sends its mail.
pub(super) struct RunningQueue {
    pub(super) queue: Queue,
    sending: QueueSending,
    runner: RwLock<Runner>,
    tasks: Mutex<Tasks>,
}

/// What sends the mail of queues.
#[derive(Clone)]
pub(super) struct QueueSending {
    pub(super) ctx: Arc<Context>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) forms: Arc<dyn Forms>,
    /// What all runners of this node count.
    pub(super) metrics: Arc<RunnerMetrics>,
}

struct Tasks {
    writing: JoinHandle<()>,
    sending: JoinHandle<()>,
    /// Reports to accounts what becomes of their submissions.
    recording: JoinHandle<()>,
}

impl QueueSending {
    fn begin(&self, queue: &Queue) -> (Runner, Tasks) {
        let QueueSending { ctx, transport, forms, metrics } = self.clone();
        let settings = Settings { host: ctx.hostname.clone(), connections: ctx.settings.sending.connections };
        let runner = Runner::counting(queue.clone(), transport, forms, settings, metrics);
        let (written, sent) = (queue.clone(), runner.clone());
        let writing = survive("queue", ctx.clone(), move |_| write(written.clone()));
        let sending = survive("sending", ctx.clone(), move |_| send(sent.clone()));
        let recorded = queue.clone();
        let recording =
            survive("submissions", ctx, move |ctx| outcomes::record_outcomes(recorded.clone(), ctx));
        let (writing, sending) = (tokio::spawn(writing), tokio::spawn(sending));
        (runner, Tasks { writing, sending, recording: tokio::spawn(recording) })
    }
}

impl RunningQueue {
    /// Runs `queue`.
    pub(super) fn begin(queue: Queue, sending: QueueSending) -> Self {
        let (runner, tasks) = sending.begin(&queue);
        RunningQueue { queue, sending, runner: RwLock::new(runner), tasks: Mutex::new(tasks) }
    }

    /// What sends.
    pub(super) fn runner(&self) -> Runner {
        self.runner.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the queue again, for the node called `node`, after another one had adopted it: its mail
    /// on its way ends first.
    ///
    /// # Errors
    /// As [`Queue::take_back`]; the queue stays stopped.
    pub(super) async fn take_back(&self, node: &str) -> Result<()> {
        let mut tasks = self.tasks.lock().await;
        // Both end by themselves once the queue has stopped; how, was reported.
        let _ = (&mut tasks.sending).await;
        let _ = (&mut tasks.writing).await;
        tasks.recording.abort();
        let taken = self.queue.take_back(node).await;
        match taken {
            Ok(()) => {
                let (runner, begun) = self.sending.begin(&self.queue);
                *self.runner.write().unwrap_or_else(PoisonError::into_inner) = runner;
                *tasks = begun;
            }
            Err(_) => {
                // A handle is not waited for twice.
                let [writing, sending, recording] = [(); 3].map(|()| tokio::spawn(async {}));
                *tasks = Tasks { writing, sending, recording };
            }
        }
        taken
    }

    /// Sends what is on its way to its end, until `deadline` at most, and closes the queue.
    pub(super) async fn end(&self, deadline: Instant) {
        self.runner().stop();
        let mut tasks = self.tasks.lock().await;
        // A queue that was taken back meanwhile.
        self.runner().stop();
        if tokio::time::timeout_at(deadline, &mut tasks.sending).await.is_err() {
            let connections = self.runner().status().connections;
            tracing::warn!(
                connections,
                "mail is still on its way, and the server stops: it may arrive twice"
            );
            tasks.sending.abort();
        }
        self.queue.close();
        if tokio::time::timeout(WRITE_DOWN, &mut tasks.writing).await.is_err() {
            tracing::warn!("cannot write the last outcomes to the queue: mail may be sent again");
            tasks.writing.abort();
        }
        // What it has not reported stays in the queue.
        tasks.recording.abort();
    }
}

async fn write(queue: Queue) {
    match queue.run().await {
        Stopped::Closed => {}
        Stopped::Adopted(node) => tracing::error!(node, "another process has taken the queue over"),
        Stopped::Broken(error) => {
            tracing::error!(error, "the queue has stopped: no mail is sent or accepted")
        }
    }
}

async fn send(runner: Runner) {
    runner.run().await;
}
