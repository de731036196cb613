//! Reads: a few threads, each with a connection, that take requests from one queue.
//!
//! A thread takes what has queued up, a fair part of it, and answers it within one read
//! transaction: under load the locks of a transaction and the waking of a thread are shared by many
//! reads.

mod neighbours;
mod queries;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::GetRange;
use object_store::path::Path;
use rusqlite::{Connection, OptionalExtension, params};
use sealpost_base::{Error, Result, Timestamp};
use tokio::sync::oneshot;

use crate::local::failure::{Damaged, Failure, generic, not_found};
use crate::local::files::{self, Files};
use crate::local::schema::{self, Access, HEAD_BYTES};
use crate::local::shared;
use crate::local::unsound::Unsound;
use queries::{failed, find, head_part, inline, list, newer, resolve};

/// Reader threads. Reads that wait for a disk are few, so more would only cost memory.
const THREADS: usize = 3;
/// Rows of one page of a listing.
pub(super) const LIST_ROWS: usize = 500;
/// The most requests a thread answers within one transaction.
const BATCH: usize = 16;

/// The most rows that one query for new entries reads.
const NEWER: usize = 1000;

/// A position in the sequence of writes to the store. The default: before the first.
#[derive(Debug, Clone, Default)]
pub struct Mark(Option<(i64, String)>);

/// What came since a mark.
#[derive(Debug)]
pub struct Newer {
    /// The paths of new log entries.
    pub entries: Vec<String>,
    /// The position up to which this goes.
    pub mark: Mark,
    /// There are more.
    pub more: bool,
    /// No entry was skipped. Some may have been if the mark was the first, or its row was removed.
    pub complete: bool,
}

/// A row without its bytes.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub id: i64,
    pub size: u64,
    pub modified: Timestamp,
    pub file: Option<String>,
}

/// An object, or the requested part of it.
pub(super) struct ReadObject {
    pub row: Row,
    pub bytes: Bytes,
}

/// A page of a listing.
pub(super) struct Page {
    /// Paths and rows, ascending.
    pub rows: Vec<(String, Row)>,
    /// There may be more after the last one.
    pub more: bool,
}

type Reply<T> = oneshot::Sender<object_store::Result<T>>;

enum Request {
    Get { path: String, range: Option<GetRange>, head: bool, reply: Reply<ReadObject> },
    GetMany { wanted: Wanted, taker: Box<dyn Taker> },
    Last { after: String, before: String, reply: Reply<Option<(String, Bytes)>> },
    List { after: String, before: Option<String>, reply: Reply<Page> },
    Newer { mark: Mark, reply: Reply<Newer> },
}

/// A function that takes the result of a read, on the thread that read it.
trait Taker: Send {
    /// Whether a caller still waits for the result.
    fn waits(&self) -> bool;
    fn take(self: Box<Self>, wanted: Wanted, found: object_store::Result<Parts>);
}

/// Paths, and which part of each.
type Wanted = Vec<(String, Range<u64>)>;

/// Parts of objects, each with an answer of its own.
pub(crate) type Parts = Vec<object_store::Result<Bytes>>;

struct Then<F, T> {
    then: F,
    reply: Reply<T>,
}

impl<T: Send, F: FnOnce(Wanted, Parts) -> T + Send> Taker for Then<F, T> {
    fn waits(&self) -> bool {
        !self.reply.is_closed()
    }

    fn take(self: Box<Self>, wanted: Wanted, found: object_store::Result<Parts>) {
        let Then { then, reply } = *self;
        // A panic costs the caller its reply, and does not end the thread.
        let made = catch_unwind(AssertUnwindSafe(move || found.map(|found| then(wanted, found))));
        let _ = made.map(|made| reply.send(made));
    }
}

/// A handle on the reader threads, which end when the last one is dropped.
#[derive(Clone)]
pub(super) struct Readers(Arc<Handle>);

struct Handle(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<ReaderState>,
    wake: Condvar,
}

#[derive(Default)]
struct ReaderState {
    requests: VecDeque<Request>,
    closed: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.wake.notify_all();
    }
}

impl Readers {
    /// Starts the threads.
    pub fn start(
        database: &FilePath,
        access: Access,
        files: &Arc<Files>,
        unsound: &Arc<Unsound>,
    ) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        let handle = Handle(queue.clone());
        for _ in 0..THREADS {
            let reader = Reader {
                queue: queue.clone(),
                database: database.to_owned(),
                access,
                files: files.clone(),
                unsound: unsound.clone(),
                connection: None,
            };
            std::thread::Builder::new()
                .name("sealpost-read".into())
                .spawn(move || reader.run())
                .map_err(|e| Error::retry("starting a reader thread").with_source(e))?;
        }
        Ok(Readers(Arc::new(handle)))
    }

    /// The object `path`, or `range` of it; with `head`, its row alone.
    pub async fn get(
        &self,
        path: &Path,
        range: Option<GetRange>,
        head: bool,
    ) -> object_store::Result<ReadObject> {
        self.ask(|reply| Request::Get { path: path.to_string(), range, head, reply }).await
    }

    /// Parts of several objects, read within one transaction, and the result of `then` on the
    /// thread that read them: the caller is woken once. Begins now, whenever it is polled.
    pub fn get_many<T: Send + 'static>(
        &self,
        wanted: Wanted,
        then: impl FnOnce(Wanted, Parts) -> T + Send + 'static,
    ) -> BoxFuture<'static, object_store::Result<T>> {
        self.ask(|reply| Request::GetMany { wanted, taker: Box::new(Then { then, reply }) }).boxed()
    }

    /// The last object after the path `after` and before `before`, and its path.
    pub async fn last(&self, after: String, before: String) -> object_store::Result<Option<(String, Bytes)>> {
        self.ask(|reply| Request::Last { after, before, reply }).await
    }

    /// Objects after the path `after` and before `before`, sorted; [`LIST_ROWS`] of them at most.
    pub async fn list(&self, after: String, before: Option<String>) -> object_store::Result<Page> {
        self.ask(|reply| Request::List { after, before, reply }).await
    }

    /// Log entries that came since `mark`, at most [`NEWER`] rows further.
    pub async fn newer(&self, mark: Mark) -> object_store::Result<Newer> {
        self.ask(|reply| Request::Newer { mark, reply }).await
    }

    fn ask<T, R: FnOnce(Reply<T>) -> Request>(
        &self,
        request: R,
    ) -> impl Future<Output = object_store::Result<T>> + use<T, R> {
        let (reply, answer) = oneshot::channel();
        self.0.0.lock().requests.push_back(request(reply));
        self.0.0.wake.notify_one();
        answer.map(|answer| answer.unwrap_or_else(|_| Err(generic("a reader thread ended"))))
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits for requests; `None` when there will be no more.
    fn take(&self) -> Option<Vec<Request>> {
        let mut state = self.lock();
        while state.requests.is_empty() {
            if state.closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        let share = state.requests.len().div_ceil(THREADS).min(BATCH);
        Some(state.requests.drain(..share).collect())
    }
}

struct Reader {
    queue: Arc<Queue>,
    database: PathBuf,
    access: Access,
    files: Arc<Files>,
    unsound: Arc<Unsound>,
    connection: Option<Connection>,
}

impl Reader {
    fn run(mut self) {
        while let Some(requests) = self.queue.take() {
            let connection = match self.connection.take() {
                Some(connection) => Ok(connection),
                None => self.connect(),
            };
            match connection {
                Ok(connection) => {
                    if self.answer_all(&connection, requests) {
                        self.connection = Some(connection);
                    }
                }
                Err(e) => {
                    let failure = Failure::new("opening the store", schema::explained(&self.database, e));
                    requests.into_iter().for_each(|request| request.fail(&failure));
                }
            }
        }
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = schema::connect(&self.database, self.access)?;
        // Whether it can be read at all shows with the first page.
        connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
        Ok(connection)
    }

    /// Whether the connection can be used again.
    fn answer_all(&self, connection: &Connection, requests: Vec<Request>) -> bool {
        let several = requests.len() > 1
            || matches!(requests.first(), Some(Request::GetMany { wanted, .. }) if wanted.len() > 1);
        let mut sound = !several || connection.execute_batch("BEGIN").is_ok();
        let mut read = Vec::new();
        for request in requests {
            // A cancelled request needs no reply.
            match request {
                Request::Get { reply, .. } if reply.is_closed() => {}
                Request::Get { path, range, head, reply } => {
                    let found = self.get(connection, &path, range, head);
                    sound &= found.as_ref().map_or_else(is_about_the_object, |_| true);
                    let _ = reply.send(found);
                }
                Request::GetMany { taker, .. } if !taker.waits() => {}
                Request::GetMany { wanted, taker } => {
                    let found = self.get_each(connection, &wanted);
                    sound &=
                        found.iter().all(|found| found.as_ref().map_or_else(is_about_the_object, |_| true));
                    read.push((taker, wanted, found));
                }
                Request::Last { after, before, reply } => {
                    let found = self.last(connection, &after, &before);
                    sound &= found.as_ref().map_or_else(is_about_the_object, |_| true);
                    let _ = reply.send(found);
                }
                Request::Newer { mark, reply } => {
                    let newer = newer(connection, mark).map_err(failed);
                    sound &= newer.is_ok();
                    let _ = reply.send(newer);
                }
                Request::List { after, before, reply } => {
                    let page = list(connection, &after, before.as_deref(), &self.unsound).map_err(failed);
                    sound &= page.is_ok();
                    let _ = reply.send(page);
                }
            }
        }
        sound &= !several || connection.execute_batch("COMMIT").is_ok();
        // What is done with it may take longer than a transaction should.
        for (taker, wanted, found) in read {
            taker.take(wanted, Ok(found));
        }
        sound
    }

    fn last(
        &self,
        connection: &Connection,
        after: &str,
        before: &str,
    ) -> object_store::Result<Option<(String, Bytes)>> {
        let look = || {
            let mut query = connection.prepare_cached(
                "SELECT path FROM objects WHERE path > ?1 AND path < ?2 ORDER BY path DESC LIMIT 1",
            )?;
            query.query_row([after, before], |row| row.get::<_, String>(0)).optional()
        };
        let Some(path) = look().map_err(failed)? else { return Ok(None) };
        let found = self.get(connection, &path, None, false)?;
        Ok(Some((path, found.bytes)))
    }

    fn get(
        &self,
        connection: &Connection,
        path: &str,
        range: Option<GetRange>,
        head: bool,
    ) -> object_store::Result<ReadObject> {
        let found = find(connection, path, |found| self.read(connection, path, found, range, head))?;
        found.unwrap_or_else(|| Err(not_found(path)))
    }

    /// Parts of several objects, in order. Those within the heads of their rows share one buffer: a block of
    /// memory for each would be allocated here and freed on the thread that opens it.
    fn get_each(&self, connection: &Connection, wanted: &[(String, Range<u64>)]) -> Parts {
        let paths: Vec<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
        let mut read: Vec<_> = wanted.iter().map(|(path, _)| Err(not_found(path))).collect();
        let in_head = |range: &Range<u64>| range.end.saturating_sub(range.start).min(HEAD_BYTES as u64);
        let mut shared = Vec::new();
        if wanted.len() > 1 {
            shared.reserve_exact(wanted.iter().map(|(_, range)| in_head(range) as usize).sum());
        }
        neighbours::find_each(connection, &paths, |at, found| {
            let ((path, range), read) = (&wanted[at], &mut read[at]);
            match found {
                Ok(Some((row, head))) => {
                    *read = match head_part(&row, head, range).filter(|_| wanted.len() > 1) {
                        Some(part) => {
                            let start = shared.len();
                            shared.extend_from_slice(part);
                            Ok(Part::Shared(start..shared.len()))
                        }
                        None => {
                            let range = Some(GetRange::Bounded(range.clone()));
                            self.read(connection, path, (row, head), range, false)
                                .map(|read| Part::Own(read.bytes))
                        }
                    };
                }
                Ok(None) => {}
                Err(e) => *read = Err(e),
            }
        });
        let shared = Bytes::from(shared);
        let bytes = |part| match part {
            Part::Shared(range) => shared.slice(range),
            Part::Own(bytes) => bytes,
        };
        read.into_iter().map(|part| part.map(bytes)).collect()
    }

    /// The bytes of the object `path`, whose row was found.
    fn read(
        &self,
        connection: &Connection,
        path: &str,
        (row, first): Found<'_>,
        range: Option<GetRange>,
        head: bool,
    ) -> object_store::Result<ReadObject> {
        if head {
            return Ok(ReadObject { row, bytes: Bytes::new() });
        }
        let range = resolve(range, row.size)?;
        let bytes = match &row.file {
            None => inline(connection, &row, first, range)?,
            Some(name) => match self.files.read(name, range.start, (range.end - range.start) as usize) {
                Ok(bytes) => match shared::place(name) {
                    // Deleted, and the file has others.
                    (_, Some(at))
                        if shared::may_be_hole(&bytes, at + range.start) && !self.still_there(&row) =>
                    {
                        return Err(not_found(path));
                    }
                    // Deleted, and overwritten before it is unlinked.
                    (file, None)
                        if files::is_erased(file)
                            && shared::may_be_hole(&bytes, range.start)
                            && !self.still_there(&row) =>
                    {
                        return Err(not_found(path));
                    }
                    _ => bytes,
                },
                // Deleted (or replaced) between the row and the file: only this transaction still
                // sees the row.
                Err(e) if e.kind() == ErrorKind::NotFound && !self.still_there(&row) => {
                    return Err(not_found(path));
                }
                Err(e) if is_lasting(&e) => {
                    return Err(generic(Damaged(format!("file {name}: {e}"))));
                }
                Err(e) => return Err(generic(e)),
            },
        };
        Ok(ReadObject { row, bytes: Bytes::from(bytes) })
    }

    /// Whether a fresh look finds the row. On a connection of its own: the other one may be within
    /// a transaction.
    fn still_there(&self, row: &Row) -> bool {
        let look = || {
            let connection = self.connect()?;
            connection
                .prepare("SELECT 1 FROM objects WHERE id = ?1 AND file = ?2")?
                .exists(params![row.id, row.file])
        };
        look().unwrap_or(true)
    }
}

impl Request {
    fn fail(self, failure: &Failure) {
        match self {
            Request::Get { reply, .. } => drop(reply.send(Err(generic(failure.clone())))),
            Request::GetMany { wanted, taker } => taker.take(wanted, Err(generic(failure.clone()))),
            Request::Last { reply, .. } => drop(reply.send(Err(generic(failure.clone())))),
            Request::List { reply, .. } => drop(reply.send(Err(generic(failure.clone())))),
            Request::Newer { reply, .. } => drop(reply.send(Err(generic(failure.clone())))),
        }
    }
}

/// A row, and the first bytes of the object, if they are in it.
type Found<'a> = (Row, Option<&'a [u8]>);

/// Bytes of one of several objects: within the buffer that they share, or by themselves.
enum Part {
    Shared(Range<usize>),
    Own(Bytes),
}

/// Errors that say something about one object, and nothing about the connection.
fn is_about_the_object(e: &object_store::Error) -> bool {
    match e {
        object_store::Error::NotFound { .. } => true,
        object_store::Error::Generic { source, .. } => !source.is::<rusqlite::Error>(),
        _ => false,
    }
}

/// Whether a failure to read a file is permanent: the file is missing, truncated or no file. Its
/// row was read. A backup distinguishes failures of the disk and missing permissions.
fn is_lasting(e: &std::io::Error) -> bool {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound, UnexpectedEof};
    matches!(e.kind(), NotFound | UnexpectedEof | IsADirectory | NotADirectory)
}
