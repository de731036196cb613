//! [`Shared`]: what the connections of a pull have in common.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sealpost_base::Error;
use tokio::sync::{Notify, watch};

use super::env::{Options, Tools};
use super::folder_task::FolderTask;
use super::ids::Ids;
use super::plan::Plan;
use super::report::{FolderReport, Report};
use super::reunite::Reuniting;
use crate::backup::Backup;
use crate::client::Server;
use crate::restored::Restored;

/// How often idle connections check whether they would be of use in a folder, and connections that
/// cannot work whether others have done it.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What a connection is to do next.
pub(super) enum Next {
    /// This folder.
    Folder(Arc<FolderTask>),
    /// Connect first.
    Connect,
    /// There is nothing left to do.
    Done,
}

/// A pull.
pub(super) struct Shared {
    pub(super) server: Server,
    pub(super) backup: Arc<dyn Backup>,
    pub(super) options: Options,
    pub(super) tools: Tools,
    pub(super) ids: Ids,
    /// Folders that the server has.
    pub(super) listed: Arc<HashSet<String>>,
    /// True when the pull ends early: on request, or because the backup cannot be written.
    stop: watch::Sender<bool>,
    /// There is nothing left to do, or nothing left of a folder.
    changed: Notify,
    state: Mutex<PullState>,
}

#[derive(Default)]
struct PullState {
    plans: VecDeque<Plan>,
    running: Vec<Arc<FolderTask>>,
    done: Vec<FolderReport>,
    broken: Option<Error>,
    received: u64,
    reconnects: u64,
}

/// What a thread needs to recognize messages that were put back.
pub(super) struct Parts {
    pub(super) backup: Arc<dyn Backup>,
    restored: Arc<Restored>,
    listed: Arc<HashSet<String>>,
    stop: watch::Receiver<bool>,
}

impl Parts {
    pub(super) fn reuniting(&self) -> Reuniting<'_> {
        Reuniting { backup: &*self.backup, restored: &self.restored, listed: &self.listed, stop: &self.stop }
    }
}

impl Shared {
    pub(super) fn new(
        server: Server,
        backup: Arc<dyn Backup>,
        options: Options,
        tools: Tools,
        (plans, ids, listed): (Vec<Plan>, Ids, HashSet<String>),
    ) -> Self {
        let listed = Arc::new(listed);
        let state = PullState { plans: plans.into(), ..PullState::default() };
        let stop = watch::Sender::new(false);
        let (changed, state) = (Notify::new(), Mutex::new(state));
        Shared { server, backup, options, tools, ids, listed, stop, changed, state }
    }

    fn state(&self) -> MutexGuard<'_, PullState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn parts(&self) -> Parts {
        let (backup, restored) = (self.backup.clone(), self.options.restored.clone());
        Parts { backup, restored, listed: self.listed.clone(), stop: self.stop() }
    }

    /// Becomes true when the pull is to end.
    pub(super) fn stop(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Ends the pull.
    pub(super) fn end(&self) {
        self.stop.send_replace(true);
        self.changed.notify_waiters();
    }

    pub(super) fn is_ending(&self) -> bool {
        *self.stop.borrow()
    }

    /// The next thing to work on: a folder, or one that another connection works on. May wait until
    /// that is clear. A task without a connection gets no folder that needs one: the server may not
    /// want another one, and the present ones continue meanwhile.
    pub(super) async fn next(&self, connected: bool) -> Next {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no notification is missed.
            changed.as_mut().enable();
            if self.is_ending() {
                return Next::Done;
            }
            {
                let mut state = self.state();
                if state.plans.front().is_some_and(|plan| !connected && plan.empty().is_none()) {
                    return Next::Connect;
                }
                if let Some(plan) = state.plans.pop_front() {
                    let job = Arc::new(FolderTask::new(plan));
                    job.join();
                    state.running.push(job.clone());
                    return Next::Folder(job);
                }
                let now = self.tools.clock.monotonic();
                if let Some(job) = state.running.iter().find(|job| job.help(now)) {
                    return Next::Folder(job.clone());
                }
                if state.running.is_empty() {
                    return Next::Done;
                }
            }
            // Either of the two will do.
            let _ = tokio::time::timeout(CHECK_INTERVAL, changed).await;
        }
    }

    /// Returns a folder in which nothing was done, for another connection.
    pub(super) fn give_back(&self, job: &Arc<FolderTask>) {
        let mut state = self.state();
        state.running.retain(|running| !Arc::ptr_eq(running, job));
        state.plans.push_front(job.plan.clone());
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns when there is nothing left to do.
    pub(super) async fn all_done(&self) {
        let is_done = || {
            let state = self.state();
            state.plans.is_empty() && state.running.is_empty()
        };
        while !self.is_ending() && !is_done() {
            let _ = tokio::time::timeout(CHECK_INTERVAL, self.changed.notified()).await;
        }
    }

    /// Nothing more will be done in this folder.
    pub(super) fn done(&self, job: &Arc<FolderTask>, mut report: FolderReport, written: Result<(), Error>) {
        match written {
            Ok(()) => self.tools.observer.ended(&report),
            // The error that ended the pull is reported once, below.
            Err(e) => {
                report.error = Some(e.to_string());
                self.broken(e);
            }
        }
        self.state().done.push(report);
        self.state().running.retain(|running| !Arc::ptr_eq(running, job));
        self.changed.notify_waiters();
    }

    /// The backup cannot be written: nothing else makes sense.
    pub(super) fn broken(&self, error: Error) {
        self.state().broken.get_or_insert(error);
        self.end();
    }

    /// Records that what restores put back is in the backup, if it is: in every folder that the
    /// server has, and in all of them if one was put into that it no longer has, since that may be
    /// any of the others now.
    pub(super) async fn restored_is_read(&self, report: &Report) {
        let restored = self.options.restored.clone();
        let is_done = |name: &&str| {
            let looked_into = report.of.iter().find(|folder| folder.name == **name);
            looked_into.is_some_and(|folder| folder.error.is_none())
        };
        if !restored.is_new() {
            return;
        }
        let folders = restored.folders();
        let is_all_there = folders.iter().all(|name| self.listed.contains(*name));
        let is_good = is_all_there || report.of.iter().all(|folder| folder.error.is_none());
        let mut there = folders.into_iter().filter(|name| self.listed.contains(*name));
        if !is_good || !there.all(|name| is_done(&name)) {
            return;
        }
        let now = self.tools.clock.now();
        let written = super::blocking(move || restored.done(now)).await;
        if let Err(e) = written {
            self.tools.observer.note(&format!("the next pull searches for restored messages again: {e}"));
        }
    }

    /// A connection ended after so many bytes.
    pub(super) fn received(&self, bytes: u64) {
        self.state().received += bytes;
    }

    /// A connection was made again.
    pub(super) fn reconnected(&self) {
        self.state().reconnects += 1;
    }

    /// Completes the report.
    pub(super) fn complete(&self, report: &mut Report) {
        let mut state = self.state();
        report.of = std::mem::take(&mut state.done);
        report.received = state.received;
        report.reconnects = state.reconnects;
        report.broken = state.broken.take();
        let left = state.plans.drain(..).map(|plan| FolderReport {
            error: Some("not started: the pull was interrupted".into()),
            ..FolderReport::planned(&plan)
        });
        report.of.extend(left);
        report.of.sort_by(|a, b| a.name.cmp(&b.name));
    }
}
