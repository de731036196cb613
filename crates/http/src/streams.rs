//! The streams of an HTTP/2 connection. Each request is a task. It ends with its connection, or when the
//! client stalls on the response.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::rt::Executor;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::HttpShared;
use crate::pace::Pace;

tokio::task_local! {
    static WATCH: StreamWatch;
}

/// Tells whether a stream waits for the server, to produce the next piece, or for the client, to take the
/// last one.
#[derive(Clone)]
pub(crate) struct StreamWatch {
    shared: Arc<HttpShared>,
    state: Arc<Mutex<StreamState>>,
}

#[derive(Default)]
struct StreamState {
    clients_since: Option<Instant>,
    bytes: usize,
    pace: Pace,
    is_too_slow: bool,
}

impl StreamWatch {
    /// The watch of the current task; `None` if the task serves no stream.
    pub(crate) fn current() -> Option<Self> {
        WATCH.try_with(Clone::clone).ok()
    }

    pub(crate) fn is_clients_turn(&self, bytes: usize) {
        let mut state = self.lock();
        (state.clients_since, state.bytes) = (Some(Instant::now()), bytes);
    }

    pub(crate) fn is_servers_turn(&self) {
        let mut state = self.lock();
        let Some(since) = state.clients_since.take() else { return };
        let bytes = state.bytes;
        state.pace.add(since.elapsed(), bytes);
        let (stalled, others_wait) = (self.shared.timeouts.stalled, self.shared.others_wait());
        state.is_too_slow |= state.pace.is_too_slow(stalled, others_wait);
    }

    /// Waits until the client has stalled for too long.
    async fn stalled(&self) {
        let timeouts = self.shared.timeouts;
        let look = timeouts.stalled.min(timeouts.write);
        loop {
            sleep_until(Instant::now() + look).await;
            let state = self.lock();
            let waited = state.clients_since.map(|since| since.elapsed()).unwrap_or_default();
            if state.is_too_slow
                || waited >= timeouts.write
                || waited >= timeouts.stalled && self.shared.others_wait()
            {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the tasks of a connection. Clones share them.
#[derive(Clone)]
pub(crate) struct Streams {
    shared: Arc<HttpShared>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Streams {
    pub(crate) fn new(shared: Arc<HttpShared>) -> Self {
        Streams { shared, tasks: Arc::default() }
    }

    /// Aborts all tasks.
    pub(crate) fn abort_all(&self) {
        self.lock().abort_all();
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let watch = StreamWatch { shared: self.shared.clone(), state: Arc::default() };
        let mut tasks = self.lock();
        while let Some(ended) = tasks.try_join_next() {
            if ended.is_err_and(|error| error.is_panic()) {
                self.shared.ctx.metrics.panics.increment();
            }
        }
        tasks.spawn(WATCH.scope(watch.clone(), async move {
            tokio::select! {
                () = stream => {}
                () = watch.stalled() => tracing::debug!("an HTTP/2 client takes nothing of a response"),
            }
        }));
    }
}

/// Aborts the tasks when the connection's task is dropped.
pub(crate) struct AbortOnDrop(pub(crate) Streams);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}
