//! A queue that runs: the task that writes its log, and the one that sends.

use std::sync::Arc;
use std::time::Duration;

use sealpost_delivery::transport::Transport;
use sealpost_queue::runner::{Forms, Runner, Settings};
use sealpost_queue::{Queue, Stopped};
use sealpost_session::Context;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::survive::survive;

/// How long the last outcomes may take to be written when the server stops.
const WRITE_DOWN: Duration = Duration::from_secs(5);

/// A queue and what sends its mail.
pub(super) struct RunningQueue {
    pub(super) queue: Queue,
    pub(super) runner: Runner,
    tasks: Mutex<Tasks>,
}

struct Tasks {
    writing: JoinHandle<()>,
    sending: JoinHandle<()>,
}

impl RunningQueue {
    /// Runs `queue`.
    pub(super) fn begin(
        ctx: &Arc<Context>,
        queue: Queue,
        transport: Arc<dyn Transport>,
        forms: Arc<dyn Forms>,
    ) -> Self {
        let settings = Settings { host: ctx.hostname.clone(), connections: ctx.settings.sending.connections };
        let runner = Runner::new(queue.clone(), transport, forms, settings);
        let (written, sent) = (queue.clone(), runner.clone());
        let writing = survive("queue", ctx.clone(), move |_| write(written.clone()));
        let sending = survive("sending", ctx.clone(), move |_| send(sent.clone()));
        let tasks = Tasks { writing: tokio::spawn(writing), sending: tokio::spawn(sending) };
        RunningQueue { queue, runner, tasks: Mutex::new(tasks) }
    }

    /// Sends what is on its way to its end, until `deadline` at most, and closes the queue.
    pub(super) async fn end(&self, deadline: Instant) {
        self.runner.stop();
        let mut tasks = self.tasks.lock().await;
        if tokio::time::timeout_at(deadline, &mut tasks.sending).await.is_err() {
            let connections = self.runner.status().connections;
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
