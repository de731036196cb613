//! Sends queued mail: takes mail that is due, opens connections through a transport, and records the
//! outcomes.
//!
//! One task, [`Runner::run`], decides. Each resolution, connection and preparation is a task of its own.
//! A mail is in the active window from the moment it is taken until the log has the outcome of the
//! attempt: so no mail has two attempts at the same time.

mod address;
mod connection;
mod dispatch;
mod message;
mod outcome;
mod prepare;
mod requests;
mod settle;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_base::metrics::{Counter, Histogram};
use sealpost_base::{Clock, Timestamp};
use sealpost_delivery::transport::Transport;
use tokio::sync::Notify;

pub use address::mailbox;
pub use message::{AsAccepted, Forms, Pieces, QueuedMessage};

use crate::schedule::{RouteKey, SiteStatus};
use crate::{MailId, Queue};
use dispatch::Dispatch;

/// How long the runner sleeps at most: the clock may jump, and rules expire.
const NAP: Duration = Duration::from_secs(5);

/// The key by which mail from `from` to `domain` is resolved first.
pub(crate) fn first_route(domain: &str, from: &str) -> RouteKey {
    prepare::route(domain, from, prepare::Choice::First)
}

/// Settings of a runner.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of this server, in reports.
    pub host: String,
    /// Connections to other servers at once.
    pub connections: usize,
}

/// Sends a queue's mail. Cheap to clone.
#[derive(Clone)]
pub struct Runner(Arc<Shared>);

pub(crate) struct Shared {
    queue: Queue,
    transport: Arc<dyn Transport>,
    forms: Arc<dyn Forms>,
    settings: Settings,
    dispatch: Mutex<Dispatch>,
    wake: Notify,
    tasks: AtomicUsize,
    stopping: AtomicBool,
    metrics: Arc<RunnerMetrics>,
}

/// Counters of a runner.
pub struct RunnerMetrics {
    /// Recipients delivered to a server that reports, or without need of a report.
    pub delivered: Counter,
    /// Recipients delivered to a server that does not report.
    pub relayed: Counter,
    /// Recipients deferred to another attempt.
    pub deferred: Counter,
    /// Recipients that failed.
    pub failed: Counter,
    /// Connections opened, and those that failed.
    pub connections: Counter,
    /// See [`RunnerMetrics::connections`].
    pub connection_failures: Counter,
    /// From acceptance to delivery.
    pub age: Histogram,
}

impl Default for RunnerMetrics {
    fn default() -> Self {
        RunnerMetrics {
            delivered: Counter::default(),
            relayed: Counter::default(),
            deferred: Counter::default(),
            failed: Counter::default(),
            connections: Counter::default(),
            connection_failures: Counter::default(),
            age: Histogram::times(),
        }
    }
}

/// The state of a runner, for the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Mails in the active window.
    pub active: usize,
    /// Open connections.
    pub connections: usize,
    /// Known sites: key, waiting jobs, connections, how many there may be, and the end of a suspension.
    pub sites: Vec<(String, usize, usize, usize, Option<Timestamp>)>,
}

/// How busy a site is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLoad {
    /// Its key.
    pub site: String,
    /// Jobs that wait for a connection to it.
    pub waiting: usize,
    /// Open connections.
    pub connections: usize,
}

/// The sites of a runner, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteLoads {
    /// The busiest first.
    pub busiest: Vec<SiteLoad>,
    /// Sites that nothing is sent to for now.
    pub suspended: usize,
}

impl Runner {
    /// A runner of `queue`. There is one for each queue.
    pub fn new(
        queue: Queue,
        transport: Arc<dyn Transport>,
        forms: Arc<dyn Forms>,
        settings: Settings,
    ) -> Self {
        Self::counting(queue, transport, forms, settings, Arc::default())
    }

    /// The same with counters that runners share.
    pub fn counting(
        queue: Queue,
        transport: Arc<dyn Transport>,
        forms: Arc<dyn Forms>,
        settings: Settings,
        metrics: Arc<RunnerMetrics>,
    ) -> Self {
        let dispatch = Mutex::new(Dispatch::new(settings.connections));
        queue.inner().touched.watch();
        Runner(Arc::new(Shared {
            queue,
            transport,
            forms,
            settings,
            dispatch,
            wake: Notify::new(),
            tasks: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            metrics,
        }))
    }

    /// Sends until it is [stopped](Runner::stop), or the queue is. Attempts that have begun continue to their
    /// end.
    pub async fn run(&self) {
        let shared = &self.0;
        let mut changes = shared.queue.changes();
        let requests = tokio::spawn(shared.clone().handle_requests());
        shared.dispatch().rebuild(&shared.queue.state(), shared.now());
        while !shared.is_stopping() {
            let until = shared.tick();
            tokio::select! {
                () = shared.wake.notified() => {}
                changed = changes.changed() => {
                    if changed.is_err() {
                        break;
                    }
                }
                () = tokio::time::sleep(until) => {}
            }
        }
        while shared.tasks.load(Ordering::Acquire) > 0 {
            shared.wake.notified().await;
        }
        requests.abort();
    }

    /// Lets [`Runner::run`] end: it starts no more attempts.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::Release);
        self.0.dispatch().close_idle();
        self.0.wake.notify_one();
    }

    /// Its counters.
    pub fn metrics(&self) -> &RunnerMetrics {
        &self.0.metrics
    }

    /// Its state.
    pub fn status(&self) -> Status {
        let now = self.0.now();
        let dispatch = self.0.dispatch();
        let site = |site: SiteStatus<'_>| {
            (site.site.to_owned(), site.jobs, site.connections, site.allowed, site.suspended)
        };
        Status {
            active: dispatch.active(),
            connections: dispatch.scheduler.connections(),
            sites: dispatch.scheduler.sites(now).map(site).collect(),
        }
    }

    /// Its sites, of which the busiest are named: `most` of them.
    pub fn sites(&self, most: usize) -> SiteLoads {
        let now = self.0.now();
        let dispatch = self.0.dispatch();
        let suspended = dispatch.scheduler.sites(now).filter(|site| site.suspended.is_some()).count();
        let mut busy: Vec<SiteStatus<'_>> =
            dispatch.scheduler.sites(now).filter(|site| site.jobs + site.connections > 0).collect();
        busy.sort_unstable_by_key(|site| (std::cmp::Reverse(site.jobs + site.connections), site.site));
        let load = |site: &SiteStatus<'_>| SiteLoad {
            site: site.site.to_owned(),
            waiting: site.jobs,
            connections: site.connections,
        };
        SiteLoads { busiest: busy.iter().take(most).map(load).collect(), suspended }
    }
}

impl Shared {
    fn dispatch(&self) -> MutexGuard<'_, Dispatch> {
        self.dispatch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.queue.inner().clock
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || self.queue.stopped().is_some()
    }

    /// Waits until the queue has stopped.
    async fn stopped(&self) {
        let mut stopped = self.queue.inner().stopped_watch();
        let _ = stopped.wait_for(Option::is_some).await;
    }

    /// Starts all tasks that are due. Returns the time until the next one is.
    fn tick(self: &Arc<Self>) -> Duration {
        let now = self.now();
        let (prepare, actions, next, finished) = {
            let mut dispatch = self.dispatch();
            let state = self.queue.state();
            dispatch.look(&state, self.queue.inner().touched.take(), now);
            let prepare = dispatch.fill(&state, now);
            let is_held = state.all_held().is_some();
            drop(state);
            let mut actions = Vec::new();
            while let Some(action) = dispatch.next_action(now) {
                actions.push(action);
            }
            let finished = std::mem::take(&mut dispatch.finished);
            // A mail that cannot enter the window waits until another leaves it.
            let next = if is_held || dispatch.is_full() { None } else { dispatch.next_due() };
            (prepare, actions, next, finished)
        };
        for mail in finished {
            self.spawn(|shared| async move {
                if let Err(e) = shared.queue.remove_body(&mail).await {
                    tracing::debug!(error = %e, "the body of a finished mail is removed at a later start");
                }
            });
        }
        for id in prepare {
            let preparing = Preparing(self.clone());
            self.spawn(|shared| async move {
                shared.prepare(id).await;
                drop(preparing);
            });
        }
        for action in actions {
            self.begin(action);
        }
        next.map_or(NAP, |next| next.since(now).clamp(Duration::from_millis(1), NAP))
    }

    /// Runs a task that [`Runner::run`] waits for.
    fn spawn<F, T>(self: &Arc<Self>, task: F)
    where
        F: FnOnce(Arc<Shared>) -> T,
        T: Future<Output = ()> + Send + 'static,
    {
        self.tasks.fetch_add(1, Ordering::AcqRel);
        let done = Done(self.clone());
        let task = task(self.clone());
        tokio::spawn(async move {
            task.await;
            drop(done);
        });
    }

    /// Notes that the outcomes of the mail are on their way into the log.
    fn settled(&self, id: MailId) {
        self.dispatch().settled(id);
    }
}

/// Counts a preparation until it has ended, even by a panic.
struct Preparing(Arc<Shared>);

impl Drop for Preparing {
    fn drop(&mut self) {
        self.0.dispatch().prepared();
    }
}

/// Counts a task until it has ended, even by a panic.
struct Done(Arc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::AcqRel);
        self.0.wake.notify_one();
    }
}
