//! Writes: one thread that commits all queued writes as one transaction.
//!
//! Every caller gets its reply after the commit that carries its write. A failed commit is rolled
//! back and all its callers get `Retry`; then the connection is opened again, so that the store
//! recovers when the disk does.

use std::error::Error as StdError;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use sealpost_base::{Clock, Error, Result, Timestamp};
use tokio::sync::{oneshot, watch};

use crate::local::counters::Counters;
use crate::local::failure::{Failure, generic};
use crate::local::files::{self, Files};
use crate::local::reserve::Reserve;
use crate::local::schema::{self, Access, HEAD_BYTES, Removed};
use crate::local::shared;
use crate::local::unsound::Unsound;

/// How often the thread checks for commits of other processes.
const POLL: Duration = Duration::from_millis(200);
/// The most that one transaction carries; more waits for the next.
const BATCH_JOBS: usize = 1024;
const BATCH_BYTES: u64 = 8 * 1024 * 1024;
/// How long a batch waits for as many writes as the one before it had. Several clients then share
/// the wait for the disk even when it is quick; one alone never waits.
const GATHER: Duration = Duration::from_micros(500);
/// Bytes written after which the write-ahead log is copied into the database.
const CHECKPOINT_BYTES: u64 = 16 * 1024 * 1024;
/// The same while the disk is full.
const CHECKPOINT_BYTES_FULL: u64 = 2 * 1024 * 1024;
/// A log that grew to this (readers kept it from being reused) is emptied, waiting for readers if need be.
const TRUNCATE_BYTES: u64 = 128 * 1024 * 1024;

/// Where an object's bytes are.
pub(super) enum Body {
    /// In the row.
    Inline(Bytes),
    /// In a file that is durable already.
    File {
        name: String,
        size: u64,
        /// Locked until the row is there: [`crate::local::leftovers`] leaves it alone.
        _held: Option<Arc<File>>,
    },
}

/// What a put does about an object that exists.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Create,
    Overwrite,
}

/// What became of a job whose transaction was committed.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    Done,
    Exists,
}

/// Checks before a write.
pub(super) struct Guards {
    /// Whether the database is undamaged.
    pub unsound: Arc<Unsound>,
    /// What of the disk is kept for removing.
    pub reserve: Arc<Reserve>,
}

struct Job {
    change: Change,
    /// It may use what is kept for removing.
    frees: bool,
    reply: oneshot::Sender<std::result::Result<Outcome, Failure>>,
}

enum Change {
    Put(String, Body, Mode),
    /// All of them, except for those that exist.
    PutAll(Vec<(String, Body)>),
    /// All of them or, if the commit fails, none.
    Delete(Vec<String>),
}

/// A handle on the writer thread, which ends when the last one is dropped and everything queued is committed.
#[derive(Clone)]
pub(super) struct Writer(Sender<Job>);

impl Writer {
    /// Starts the thread. `ring` counts the commits of others.
    pub fn start(
        database: PathBuf,
        files: Arc<Files>,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
        ring: watch::Sender<u64>,
        guards: Guards,
    ) -> Result<Self> {
        let (sender, queue) = mpsc::channel();
        let mut thread = Thread {
            queue,
            database,
            files,
            clock,
            counters,
            ring,
            guards,
            connection: None,
            removed: Removed::Overwritten,
            data_version: None,
            polled_at: Duration::ZERO,
            batch_size: 1,
            unchecked: 0,
        };
        // Before the first read: from here on, no commit of others goes unnoticed.
        thread.poll_commits();
        std::thread::Builder::new()
            .name("sealpost-write".into())
            .spawn(move || thread.run())
            .map_err(|e| Error::retry("starting the writer thread").with_source(e))?;
        Ok(Writer(sender))
    }

    /// Writes one object; durable when it returns.
    pub async fn put(
        &self,
        path: String,
        body: Body,
        mode: Mode,
        frees: bool,
    ) -> object_store::Result<Outcome> {
        self.ask(Change::Put(path, body, mode), frees).await
    }

    /// Creates objects, all in one transaction; durable when it returns. `Exists`: some were there,
    /// and stay as they are.
    pub async fn put_all(&self, objects: Vec<(String, Body)>) -> object_store::Result<Outcome> {
        self.ask(Change::PutAll(objects), false).await
    }

    /// Removes objects, all in one transaction.
    pub async fn delete(&self, paths: Vec<String>) -> object_store::Result<()> {
        self.ask(Change::Delete(paths), true).await.map(drop)
    }

    async fn ask(&self, change: Change, frees: bool) -> object_store::Result<Outcome> {
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(Job { change, frees, reply });
        sent.map_err(|_| generic("the writer thread ended"))?;
        let outcome = answer.await.map_err(|_| generic("the writer thread ended"))?;
        outcome.map_err(Into::into)
    }
}

struct Thread {
    queue: Receiver<Job>,
    database: PathBuf,
    files: Arc<Files>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    ring: watch::Sender<u64>,
    guards: Guards,
    connection: Option<Connection>,
    /// What the connection does about rows that are removed.
    removed: Removed,
    /// The last `data_version`, which changes when another connection commits.
    data_version: Option<i64>,
    polled_at: Duration,
    /// How many writes the last batch had.
    batch_size: usize,
    /// Bytes written since the last checkpoint.
    unchecked: u64,
}

/// What is known of one job within a transaction.
struct Applied {
    outcome: Outcome,
    /// What it leaves without a row: a file as rows name it, and the object's size.
    orphans: Vec<(String, u64)>,
    /// Bytes of rows that it removed.
    overwritten: u64,
}

impl Thread {
    fn run(mut self) {
        loop {
            let waited = self.queue.recv_timeout(POLL);
            self.poll_commits();
            if self.guards.reserve.is_spent() {
                self.measure_free_pages();
            }
            match waited {
                Ok(first) => {
                    let batch = self.gather(first);
                    self.commit(batch);
                    self.checkpoint();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn gather(&mut self, first: Job) -> Vec<Job> {
        let until = self.clock.monotonic() + GATHER;
        let mut bytes = first.bytes();
        let mut batch = vec![first];
        while batch.len() < BATCH_JOBS && bytes < BATCH_BYTES {
            let job = if batch.len() < self.batch_size {
                self.queue.recv_timeout(until.saturating_sub(self.clock.monotonic())).ok()
            } else {
                self.queue.try_recv().ok()
            };
            let Some(job) = job else { break };
            bytes += job.bytes();
            batch.push(job);
        }
        self.batch_size = batch.len();
        batch
    }

    fn commit(&mut self, batch: Vec<Job>) {
        if let Some(damaged) = self.guards.unsound.write_refusal() {
            return fail(batch, &Failure::new("commit", damaged.into()));
        }
        let batch = match self.guards.reserve.admit(self.clock.monotonic()) {
            Ok(()) => batch,
            Err(full) => keep_freeing(batch, full.into()),
        };
        if !batch.is_empty() {
            self.attempt(batch, true);
        }
    }

    /// Commits. A commit that finds the disk full is tried once more after freeing space: from the
    /// reserve for writes that free space, from the write-ahead log for the others.
    fn attempt(&mut self, batch: Vec<Job>, first: bool) {
        let (now, began) = (self.clock.now(), self.clock.monotonic());
        let mut applied = self.transact(&batch, now);
        if applied.as_ref().is_err_and(schema::is_read_only) {
            // That may be a connection from when the disk was, and nothing was written: a new one
            // knows better.
            self.connection = None;
            applied = self.transact(&batch, now);
        }
        match applied {
            Ok(applied) => {
                let metrics = &self.counters.metrics;
                metrics.commits.observe_time(self.clock.monotonic().saturating_sub(began));
                metrics.commit_jobs.observe(batch.len() as u64);
                self.answer(batch, applied);
            }
            Err(e)
                if self.is_full(&e) && batch.iter().any(|job| job.frees) && self.guards.reserve.release() =>
            {
                let freeing = keep_freeing(batch, schema::explained(&self.database, e));
                self.attempt(freeing, false);
                self.shorten();
            }
            Err(e) if first && self.is_full(&e) && self.shorten() => self.attempt(batch, false),
            Err(e) => {
                tracing::warn!(error = %e, writes = batch.len(), "a commit failed");
                if !schema::is_busy(&e) {
                    self.connection = None;
                }
                // Files of failed writes stay: the commit may have reached the disk, and the sweep
                // tells. Not so if nothing can be written at all.
                if schema::is_read_only(&e) {
                    batch.iter().for_each(|job| job.files().for_each(|name| self.files.remove(name)));
                }
                fail(batch, &Failure::new("commit", schema::explained(&self.database, e)));
            }
        }
    }

    /// Whether the disk is full. With shared memory SQLite reports it differently.
    fn is_full(&self, e: &rusqlite::Error) -> bool {
        use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
        match e.sqlite_error_code() {
            Some(DiskFull) => true,
            Some(SystemIoFailure) => self.guards.reserve.is_disk_full(),
            _ => false,
        }
    }

    /// Returns the space of the write-ahead log to a full disk. Returns whether that was possible.
    fn shorten(&mut self) -> bool {
        self.connection = None;
        if !self.has_space_to_checkpoint() {
            return false;
        }
        let Ok(connection) = self.connected() else { return false };
        // The first column is 1 if readers kept it from being done.
        match connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)) {
            Ok(busy) => busy == 0,
            Err(e) => {
                tracing::debug!(error = %e, "the write-ahead log keeps its space");
                false
            }
        }
    }

    /// Whether the disk has space for the growth of the database when the write-ahead log is copied
    /// into it. The log's space is free only at the end; a copy that does not get there has used up
    /// the rest.
    fn has_space_to_checkpoint(&mut self) -> bool {
        let size = std::fs::metadata(&self.database).map_or(0, |metadata| metadata.len());
        let pages = self.connected().and_then(|connection| {
            connection.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get::<_, u64>(0),
            )
        });
        pages.is_ok_and(|pages| self.guards.reserve.has_space(pages.saturating_sub(size)))
    }

    fn transact(&mut self, batch: &[Job], now: Timestamp) -> rusqlite::Result<Vec<Applied>> {
        if batch.iter().any(|job| matches!(job.change, Change::Delete(_))) {
            // A full disk has no space for zeros in the log: removed bytes then stay in free pages
            // until these are used again.
            let removed = if self.guards.reserve.is_spent() { Removed::Left } else { Removed::Overwritten };
            self.connected()?;
            if self.removed != removed {
                schema::treat_removed(self.connected()?, removed)?;
                self.removed = removed;
            }
        }
        self.connected().and_then(|connection| transact(connection, batch, now))
    }

    fn answer(&mut self, batch: Vec<Job>, applied: Vec<Applied>) {
        let counters = &self.counters;
        counters.commits.fetch_add(1, Ordering::Relaxed);
        for (job, Applied { outcome, orphans, overwritten }) in batch.into_iter().zip(applied) {
            if let Outcome::Done = outcome {
                counters.objects.fetch_add(job.objects(), Ordering::Relaxed);
                counters.bytes.fetch_add(job.size(), Ordering::Relaxed);
            }
            // A row dirties about a page besides its bytes; many that were made together are in few.
            self.unchecked += 8192 + job.bytes() + overwritten + 512 * job.objects();
            // Files that held slots are erased before the reply to the removal.
            let (erased, orphans): (Vec<_>, Vec<_>) =
                orphans.into_iter().partition(|(name, _)| files::is_erased(name));
            erased.iter().for_each(|(name, _)| self.files.remove(name));
            let _ = job.reply.send(Ok(outcome));
            if let Some(connection) = self.connection.as_ref().filter(|_| !orphans.is_empty()) {
                shared::release(connection, &self.files, &orphans);
            }
        }
    }

    fn connected(&mut self) -> rusqlite::Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(schema::connect(&self.database, Access::Write)?);
            self.removed = Removed::Overwritten;
            // A new connection counts from its own start: what happened meanwhile may be anything.
            self.data_version = None;
        }
        self.connection.as_mut().ok_or(rusqlite::Error::InvalidQuery)
    }

    /// Notifies if another connection has committed since the last poll.
    fn poll_commits(&mut self) {
        let now = self.clock.monotonic();
        if now.saturating_sub(self.polled_at) < POLL && self.data_version.is_some() {
            return;
        }
        self.polled_at = now;
        let first_ever = self.connection.is_none() && self.data_version.is_none();
        let version = self.connected().and_then(|connection| {
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
        });
        match version {
            Ok(version) => {
                if self.data_version != Some(version) && !first_ever {
                    self.ring.send_modify(|count| *count += 1);
                }
                self.data_version = Some(version);
            }
            Err(e) => {
                tracing::debug!(error = %e, "looking for other processes' commits failed");
                self.connection = None;
            }
        }
    }

    /// Measures the free pages of the database: other processes free pages too.
    fn measure_free_pages(&mut self) {
        let free = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size";
        let free = self.connected().and_then(|connection| connection.query_row(free, [], |row| row.get(0)));
        self.guards.reserve.is_free_inside(free.unwrap_or(0));
    }

    /// Copies the write-ahead log into the database when it has grown. A failure costs nothing but
    /// space: the log keeps everything, and the next commit tries again.
    fn checkpoint(&mut self) {
        // What is left of a full disk does not go to the log.
        let is_full = self.guards.reserve.is_spent();
        let limit = if is_full { CHECKPOINT_BYTES_FULL } else { CHECKPOINT_BYTES };
        if self.unchecked < limit || is_full && !self.has_space_to_checkpoint() {
            return;
        }
        let log = self.database.with_extension("sqlite-wal");
        let grown = std::fs::metadata(log).is_ok_and(|m| m.len() > TRUNCATE_BYTES);
        let pragma = if grown || is_full {
            "PRAGMA wal_checkpoint(TRUNCATE)"
        } else {
            "PRAGMA wal_checkpoint(PASSIVE)"
        };
        let Ok(connection) = self.connected() else { return };
        match connection.query_row(pragma, [], |_| Ok(())) {
            Ok(()) => {
                self.unchecked = 0;
                self.counters.metrics.wal_checkpoints.increment();
            }
            Err(e) => {
                tracing::warn!(error = %e, "copying the write-ahead log into the database failed");
                // Not at every commit: half the distance to the next try.
                self.unchecked = CHECKPOINT_BYTES / 2;
            }
        }
    }
}

impl Job {
    /// Bytes that the database writes for this job.
    fn bytes(&self) -> u64 {
        match &self.change {
            Change::Put(_, body, _) => body.inline(),
            Change::PutAll(objects) => objects.iter().map(|(_, body)| body.inline()).sum(),
            Change::Delete(_) => 0,
        }
    }

    /// Objects that it creates, and their bytes.
    fn objects(&self) -> u64 {
        match &self.change {
            Change::Put(..) => 1,
            Change::PutAll(objects) => objects.len() as u64,
            Change::Delete(_) => 0,
        }
    }

    /// Files that it has made.
    fn files(&self) -> impl Iterator<Item = &str> {
        let bodies = match &self.change {
            Change::Put(_, body, _) => std::slice::from_ref(body).iter().collect::<Vec<_>>(),
            Change::PutAll(objects) => objects.iter().map(|(_, body)| body).collect(),
            Change::Delete(_) => Vec::new(),
        };
        bodies.into_iter().filter_map(|body| match body {
            Body::File { name, .. } => Some(shared::place(name).0),
            Body::Inline(_) => None,
        })
    }

    fn size(&self) -> u64 {
        match &self.change {
            Change::Put(_, body, _) => body.size(),
            Change::PutAll(objects) => objects.iter().map(|(_, body)| body.size()).sum(),
            Change::Delete(_) => 0,
        }
    }
}

impl Body {
    fn size(&self) -> u64 {
        match self {
            Body::Inline(bytes) => bytes.len() as u64,
            Body::File { size, .. } => *size,
        }
    }

    /// Bytes that are in the row.
    fn inline(&self) -> u64 {
        match self {
            Body::Inline(bytes) => bytes.len() as u64,
            Body::File { .. } => 0,
        }
    }
}

fn fail(batch: Vec<Job>, failure: &Failure) {
    batch.into_iter().for_each(|job| drop(job.reply.send(Err(failure.clone()))));
}

/// The jobs that free space; the others fail.
fn keep_freeing(batch: Vec<Job>, full: Box<dyn StdError + Send + Sync>) -> Vec<Job> {
    let (freeing, others) = batch.into_iter().partition(|job| job.frees);
    fail(others, &Failure::new("commit", full));
    freeing
}

/// Applies the whole batch and commits it. Dropped on an error, the transaction is rolled back.
fn transact(connection: &mut Connection, batch: &[Job], now: Timestamp) -> rusqlite::Result<Vec<Applied>> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let applied = batch
        .iter()
        .map(|job| match &job.change {
            Change::Put(path, body, mode) => put(&transaction, path, body, *mode, now),
            Change::PutAll(objects) => {
                let (mut outcome, mut orphans) = (Outcome::Done, Vec::new());
                if objects.iter().any(|(_, body)| matches!(body, Body::File { .. })) {
                    schema::now_shares_files(&transaction)?;
                }
                for (path, body) in objects {
                    let put = put(&transaction, path, body, Mode::Create, now)?;
                    if let Outcome::Exists = put.outcome {
                        outcome = Outcome::Exists;
                        orphans.extend(put.orphans);
                    }
                }
                Ok(Applied { outcome, orphans, overwritten: 0 })
            }
            Change::Delete(paths) => {
                let mut applied = Applied { outcome: Outcome::Done, orphans: Vec::new(), overwritten: 0 };
                for path in paths {
                    match delete(&transaction, path)? {
                        Some(RemovedRow::File(orphan)) => applied.orphans.push(orphan),
                        Some(RemovedRow::Row(bytes)) => applied.overwritten += bytes,
                        None => {}
                    }
                }
                Ok(applied)
            }
        })
        .collect::<rusqlite::Result<_>>()?;
    transaction.commit()?;
    Ok(applied)
}

fn put(
    connection: &Connection,
    path: &str,
    body: &Body,
    mode: Mode,
    now: Timestamp,
) -> rusqlite::Result<Applied> {
    let replaced = match mode {
        Mode::Create => None,
        Mode::Overwrite => delete(connection, path)?,
    };
    let (file, head, rest) = match body {
        Body::File { name, .. } => (Some(name), None, None),
        Body::Inline(bytes) => {
            let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
            (None, Some(head), (!rest.is_empty()).then_some(rest))
        }
    };
    let mut insert = connection.prepare_cached(
        "INSERT INTO objects (path, size, modified, file, head, rest) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (path) DO NOTHING",
    )?;
    let inserted = insert.execute(params![path, body.size() as i64, now.0, file, head, rest])?;
    if inserted == 0 {
        let orphans = file.map(|file| (file.clone(), body.size())).into_iter().collect();
        return Ok(Applied { outcome: Outcome::Exists, orphans, overwritten: 0 });
    }
    let (orphans, overwritten) = match replaced {
        Some(RemovedRow::File(orphan)) => (vec![orphan], 0),
        Some(RemovedRow::Row(bytes)) => (Vec::new(), bytes),
        None => (Vec::new(), 0),
    };
    Ok(Applied { outcome: Outcome::Done, orphans, overwritten })
}

/// What is left to do of a row that was removed.
enum RemovedRow {
    /// It had this file; and its object's size.
    File((String, u64)),
    /// It had all of so many bytes.
    Row(u64),
}

/// Removes one row.
fn delete(connection: &Connection, path: &str) -> rusqlite::Result<Option<RemovedRow>> {
    let mut delete = connection.prepare_cached("DELETE FROM objects WHERE path = ?1 RETURNING file, size")?;
    let gone: Option<(Option<String>, u64)> =
        delete.query_row([path], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(gone.map(|(file, size)| match file {
        Some(file) => RemovedRow::File((file, size)),
        None => RemovedRow::Row(size),
    }))
}
