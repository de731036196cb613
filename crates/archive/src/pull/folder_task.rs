//! [`FolderTask`]: one folder that is being pulled, by one connection or several.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use sealpost_base::{Error, Result, Uid, UidSet, counted, limits};
use tokio::task::JoinHandle;

use super::batches::Batches;
use super::plan::Plan;
use super::report::{Failure, FolderReport};
use super::reunite::Recorded;
use super::shared::Shared;
use super::work::{ToWriter, Work, work};
use super::worker_scaling::{Progress, WorkerScaling};
use super::writer::{CommitStats, Writer};
use crate::backup::{Folder, Identity, Resume};
use crate::blocking::blocking;
use crate::client::Selected;

/// A folder that is being pulled.
pub(super) struct FolderTask {
    pub(super) plan: Plan,
    state: Mutex<TaskState>,
}

/// A folder of the backup that was opened, and is not written to yet.
pub(super) struct Opened {
    identity: Identity,
    folder: Box<dyn Folder>,
    pub(super) recorded: Recorded,
}

/// What the backup had before.
#[derive(Debug, Clone, Default)]
pub(super) struct PriorState {
    pub(super) resume: Resume,
    /// Messages that the server had too.
    pub(super) present: UidSet,
    /// All messages.
    pub(super) all: UidSet,
    /// Those that are to be fetched again, and others that the backup should have.
    pub(super) again: UidSet,
    /// Those whose date has to be asked for.
    pub(super) undated: UidSet,
}

#[derive(Default)]
struct TaskState {
    identity: Option<Identity>,
    work: Option<ToWriter>,
    writer: Option<JoinHandle<(CommitStats, Result<()>)>>,
    /// What the backup had before; nothing once what to fetch is known.
    before: Option<PriorState>,
    /// What to fetch is known.
    synced: bool,
    batches: Batches,
    /// How many messages of `batches` there are, if the server did not say that it has each of them.
    expected: Option<u64>,
    /// Messages that did not come although the command was completed.
    unanswered: UidSet,
    /// An answer could not be parsed.
    unreadable: bool,
    /// What the last commit records.
    resume: Resume,
    /// Something was left out that the next pull has to check.
    unfinished: bool,
    worker_scaling: WorkerScaling,
    planned: u64,
    error: Option<String>,
    /// Why a connection left early. It means incomplete work if something is left when the last one
    /// leaves.
    left_early: Option<String>,
}

impl TaskState {
    fn progress(&self, at: Duration) -> Progress {
        let waited = self.work.as_ref().map_or(Duration::ZERO, ToWriter::waited);
        Progress { at, bytes: self.batches.bytes(), waited }
    }
}

/// What to do with a folder, once it is known.
#[derive(Debug, Default)]
pub(super) struct SyncPlan {
    /// Messages to fetch.
    pub(super) missing: UidSet,
    /// How many of them there are; `None`: the server said that it has each of them.
    pub(super) expected: Option<u64>,
    /// The resume state to record when all is done.
    pub(super) resume: Resume,
    /// The server did not name all its messages: the notice about that. The next pull has to look
    /// again.
    pub(super) unlisted: Option<String>,
}

impl FolderTask {
    pub(super) fn new(plan: Plan) -> Self {
        FolderTask { plan, state: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        self.plan.found.name.as_str()
    }

    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Opens the folder of the backup, unless it is open. Afterwards the mailbox must be the same.
    ///
    /// # Errors
    /// `Conflict` if the mailbox is another one by now; what the backup says.
    pub(super) async fn open(&self, shared: &Shared, selected: &Selected) -> Result<Option<Opened>> {
        let identity = shared.ids.identity(&self.plan.found.name, selected.identity());
        if let Some(known) = &self.state().identity {
            if known.uidvalidity == identity.uidvalidity {
                return Ok(None);
            }
            let why = "the mailbox was replaced during the pull; the next pull fetches the new one";
            return Err(Error::conflict(why));
        }
        let (parts, name) = (shared.parts(), self.plan.found.name.clone());
        let opened = blocking(move || {
            let folder = parts.backup.open(&name, &identity)?;
            let recorded = parts.reuniting().recorded(&*folder, &name, &identity)?;
            Ok(Opened { identity, folder, recorded })
        });
        opened.await.map(Some)
    }

    /// Begins to write to the folder, and reads what it had. `confirmed`: UIDs under which the
    /// server has what was put back.
    ///
    /// # Errors
    /// What the backup says.
    pub(super) async fn begin(&self, shared: &Shared, opened: Opened, confirmed: HashSet<u32>) -> Result<()> {
        let Opened { identity, mut folder, recorded } = opened;
        let again = shared.options.again.get(self.name()).cloned().unwrap_or_default();
        let parts = shared.parts();
        let (folder, before, reunited) = blocking(move || {
            let reunited = parts.reuniting().reunite(&mut *folder, recorded, &confirmed)?;
            folder.replace(&again);
            let (resume, known) = (folder.resume(), folder.known());
            let (present, undated) = (known.present_uids(), folder.undated());
            let before = PriorState { resume, undated, all: known.uids(), present, again };
            Ok((folder, before, reunited))
        })
        .await?;
        let tools = &shared.tools;
        let (sender, receiver) = work(&tools.clock);
        let writer = Writer::new(
            folder,
            self.name(),
            reunited,
            shared.options.delete,
            tools.clock.clone(),
            tools.observer.clone(),
        );
        let mut state = self.state();
        state.identity = Some(identity);
        state.before = Some(before);
        state.work = Some(sender);
        state.writer = Some(tokio::task::spawn_blocking(move || writer.run(receiver)));
        Ok(())
    }

    /// The channel to the writer.
    ///
    /// # Errors
    /// `Internal` if the folder is not open.
    pub(super) fn work(&self) -> Result<ToWriter> {
        self.state().work.clone().ok_or_else(|| Error::internal("the folder is not open"))
    }

    /// Whether the folder is open, what to fetch not known yet, and the backup had nothing.
    pub(super) fn was_empty(&self) -> bool {
        let state = self.state();
        !state.synced && state.before.as_ref().is_some_and(|before| before.all.is_empty())
    }

    /// What the backup had before, if what to fetch is not known yet. Only the first attempt asks
    /// for dates: a message whose date ends the connection must not keep new ones away.
    pub(super) fn before_sync(&self) -> Option<PriorState> {
        let mut state = self.state();
        let before = state.before.clone().filter(|_| !state.synced)?;
        if let Some(left) = &mut state.before {
            left.undated = UidSet::new();
        }
        Some(before)
    }

    /// From `now` on there are messages to fetch.
    pub(super) fn set_todo(&self, todo: SyncPlan, now: Duration) -> u64 {
        let mut state = self.state();
        state.planned = todo.missing.len() as u64;
        let again = state.before.as_ref().map(|before| before.again.clone()).unwrap_or_default();
        state.batches = Batches::new(todo.missing, &again);
        state.expected = todo.expected;
        state.resume = todo.resume;
        state.unfinished = todo.unlisted.is_some();
        state.error = state.error.take().or(todo.unlisted);
        state.synced = true;
        state.before = None;
        let progress = state.progress(now);
        state.worker_scaling.begin(progress);
        state.planned
    }

    pub(super) fn batches<T>(&self, with: impl FnOnce(&mut Batches) -> T) -> T {
        with(&mut self.state().batches)
    }

    /// A command was completed and these did not come.
    pub(super) fn unanswered(&self, set: &UidSet) {
        let mut state = self.state();
        if !set.is_empty() {
            state.unanswered = state.unanswered.union(set);
        }
    }

    /// An answer of the server cannot be parsed.
    pub(super) fn unreadable(&self) {
        self.state().unreadable = true;
    }

    /// A connection joins.
    pub(super) fn join(&self) {
        self.state().worker_scaling.join();
    }

    /// A connection begins to fetch at `now`.
    pub(super) fn works(&self, now: Duration) {
        let mut state = self.state();
        let progress = state.progress(now);
        state.worker_scaling.works(progress);
    }

    /// Whether nothing was done in it.
    pub(super) fn is_untouched(&self) -> bool {
        self.state().identity.is_none()
    }

    /// Whether everything was asked for and came.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state();
        state.synced && state.batches.is_done() && state.unanswered.is_empty()
    }

    /// A connection leaves although something may be left.
    pub(super) fn left_early(&self, error: &Error) {
        self.state().left_early.get_or_insert_with(|| error.to_string());
    }

    /// A connection has nothing more to do here; returns whether it was the last one.
    pub(super) fn leave(&self) -> bool {
        self.state().worker_scaling.leave()
    }

    /// Adds another connection, if it would be of use.
    pub(super) fn help(&self, now: Duration) -> bool {
        let mut state = self.state();
        let (progress, left) = (state.progress(now), state.batches.bytes_left());
        state.worker_scaling.help(progress, left)
    }

    /// The folder is not complete because of `error`.
    pub(super) fn set_error(&self, error: &Error) {
        let mut state = self.state();
        state.unfinished = true;
        state.error.get_or_insert_with(|| error.to_string());
    }

    /// Whether messages were asked for that the server did not name.
    pub(super) fn is_guess(&self) -> bool {
        self.state().expected.is_some()
    }

    /// Messages that were asked for and did not come, and why.
    pub(super) fn doubtful(&self) -> Vec<Failure> {
        let mut state = self.state();
        let mut doubtful = state.batches.take_failed();
        let unanswered = std::mem::take(&mut state.unanswered);
        if let Some(expected) = state.expected {
            let missed = (unanswered.len() + doubtful.len()) as u64 + state.batches.len();
            if state.planned.saturating_sub(missed) >= expected {
                return doubtful;
            }
            // The next pull compares everything.
            state.unfinished = true;
        }
        let reason = match state.unreadable {
            true => "the server does not send it, or sends an invalid response",
            false => "the server lists it but does not send it",
        };
        let told = unanswered.iter().take(limits::ARCHIVE_DOUBTFUL);
        doubtful.extend(told.map(|uid| Failure { uid: uid.get(), reason: reason.into() }));
        if unanswered.len() > limits::ARCHIVE_DOUBTFUL {
            state.unfinished = true;
            let messages = counted(unanswered.len(), "message", "messages");
            let why = || format!("the server lists {messages} but does not send them");
            state.error.get_or_insert_with(why);
        }
        doubtful
    }

    /// Commits what is left; returns what was done, and the error if the backup cannot be written.
    /// `failed`: messages that could not be fetched.
    pub(super) async fn finish(&self, failed: Vec<Failure>) -> (FolderReport, Result<()>) {
        let (work, writer, resume, mut report) = {
            let mut state = self.state();
            let fetched = state.synced && state.batches.is_empty();
            let whole = fetched && !state.unfinished && failed.is_empty();
            let left_early = state.left_early.take().filter(|_| !fetched);
            let report = FolderReport {
                name: self.name().to_owned(),
                reason: Some(self.plan.reason),
                planned: state.planned,
                error: state.error.take().or(left_early),
                ..FolderReport::default()
            };
            let resume = Resume { whole, ..state.resume };
            let resume = state.synced.then_some(resume);
            (state.work.take(), state.writer.take(), resume, report)
        };
        if let (Some(work), Some(resume)) = (work, resume) {
            // If the writer has ended, the reason follows below.
            let _ = work.send(Work::Resume(resume)).await;
        }
        failed.into_iter().for_each(|failure| report.fail(failure));
        let Some(writer) = writer else { return (report, Ok(())) };
        let (written, done) = match writer.await {
            Ok(written) => written,
            Err(e) => return (report, Err(Error::internal("the writer did not finish").with_source(e))),
        };
        report.new = written.new;
        report.bytes = written.bytes;
        (report.recognized, report.doubles) = (written.recognized, written.doubles);
        report.flags = written.flags;
        report.gone = written.gone;
        report.lost = written.lost;
        report.lost_of = written.lost_of;
        report.unread = written.unread;
        report.unread_all = written.unread_all;
        written.failed.into_iter().for_each(|failure| report.fail(failure));
        (report, done)
    }
}

/// The UIDs from `first` to `last`; may be empty.
pub(super) fn range(first: u32, last: u32) -> UidSet {
    match (Uid::new(first.max(1)), Uid::new(last)) {
        (Some(first), Some(last)) => UidSet::range(first, last),
        _ => UidSet::new(),
    }
}
