//! The local backend: SQLite for small objects and for the names of all, files for large ones.
//!
//! One thread commits all queued writes as one transaction, so that many writers wait for the disk
//! together; a few threads read. Several processes may open one directory: SQLite's locks order
//! their commits, and each sees the commits of the others within a fifth of a second
//! ([`LocalStore::changes`]).
//!
//! What makes it safe to kill at any moment: a row is there after its transaction was synced to the
//! write-ahead log and not before; the file that a row names was synced, renamed and its directory
//! synced before the row was written, and is unlinked after the row is gone. What a crash can leave
//! is a file without a row, which is swept up at a later start. The bytes on disk:
//! `docs/format/local-store.md`; why: `docs/decisions/0003-local-store.md`.

mod counters;
mod failure;
mod files;
mod frozen;
mod leftovers;
mod objects;
mod reader;
mod repair;
mod reserve;
mod schema;
mod shared;
mod shrink;
mod sound;
mod store_owner;
mod unsound;
mod upload;
mod writer;

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{GetRange, PutPayload, PutResult};
use rusqlite::OptionalExtension;
use sealpost_base::limits::{INLINE_OBJECT_BYTES, QUEUE_ENTRY_BYTES};
use sealpost_base::{Clock, Result, SystemClock, Timestamp};
use sealpost_files::owner;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::{Put, StoreMetrics, StoreStats};
use counters::Counters;
pub(crate) use failure::Damaged;
use failure::{blocking, cannot_open, generic};
use files::Files;
pub(crate) use reader::Parts;
pub use reader::{Mark, Newer};
use reader::{ReadObject, Readers};
pub use repair::{Remedy, Repaired};
pub(crate) use reserve::Frees;
use reserve::Reserve;
use schema::Access;
pub(crate) use shared::Shared;
pub use sound::{Extent, Inspection};
pub use store_owner::local_store_owner;
use unsound::Unsound;
use writer::{Body, Guards, Mode, Outcome, Writer};

/// Objects in a directory of this machine.
pub struct LocalStore {
    files: Arc<Files>,
    readers: Readers,
    /// `None` where nothing can be written.
    writer: Option<Writer>,
    changes: watch::Receiver<u64>,
    /// Held where there is no writer, so that receivers of changes wait instead of seeing a closed
    /// channel.
    _silent: Option<watch::Sender<u64>>,
    counters: Arc<Counters>,
    database: PathBuf,
    access: Access,
    unsound: Arc<Unsound>,
    reserve: Arc<Reserve>,
    clock: Arc<dyn Clock>,
}

/// Up to how many bytes the object at `path` is in a row. What a queue acknowledges mail by waits
/// for one sync, not for those of a file as well; it is removed again soon.
fn inline_bytes(path: &str) -> usize {
    let is_queue_entry = path.starts_with("queue/") && path.contains("/log/");
    if is_queue_entry { QUEUE_ENTRY_BYTES + INLINE_OBJECT_BYTES } else { INLINE_OBJECT_BYTES }
}

impl LocalStore {
    /// Opens the store in `dir`, created with mode 0700 if absent. Blocks the thread. On a full
    /// disk SQLite may use the reserve: otherwise nothing could be removed while no process has the
    /// store open.
    ///
    /// # Errors
    /// `Retry` if the directory or the database cannot be opened, `Invalid` if a newer version of
    /// this program made it.
    pub fn open(dir: &FilePath) -> Result<Self> {
        let reserve = Reserve::of(dir);
        match Self::try_open(dir) {
            Err(_) if reserve.is_disk_full() && reserve.release() => Self::try_open(dir),
            opened => opened,
        }
    }

    fn try_open(dir: &FilePath) -> Result<Self> {
        let files = Files::open(dir).map_err(|e| cannot_open(dir, e))?;
        let (ring, changes) = watch::channel(0);
        let mut store = Self::readable(dir, files, (schema::create(dir)?, Access::Read), changes)?;
        let LocalStore { files, database, clock, counters, .. } = &store;
        let guards = Guards { unsound: store.unsound.clone(), reserve: store.reserve.clone() };
        let (kept, counted) = (files.clone(), counters.clone());
        let writer = Writer::start(database.clone(), kept, clock.clone(), counted, ring, guards)?;
        files::spawn_sweep(files.clone(), database.clone(), clock.clone());
        store.writer = Some(writer);
        Ok(store)
    }

    /// What every store has, without a writer.
    fn readable(
        dir: &FilePath,
        files: Files,
        (database, access): (PathBuf, Access),
        changes: watch::Receiver<u64>,
    ) -> Result<Self> {
        let (files, counters) = (Arc::new(files), Arc::<Counters>::default());
        let unsound = Unsound::new(counters.metrics.clone());
        let readers = Readers::start(&database, access, &files, &unsound)?;
        Ok(LocalStore {
            files,
            readers,
            writer: None,
            changes,
            _silent: None,
            counters,
            database,
            access,
            unsound,
            reserve: Arc::new(Reserve::of(dir)),
            clock: Arc::new(SystemClock::new()),
        })
    }

    /// Opens the store in `dir` as it is, where nothing can be written: a read-only mount, or a
    /// directory that this user may only read. Every write fails. Elsewhere as
    /// [`LocalStore::open`]. Blocks the thread.
    ///
    /// # Errors
    /// As [`LocalStore::open`].
    pub fn open_to_read(dir: &FilePath) -> Result<Self> {
        let writable = owner::may_write(dir) && owner::may_write(&schema::path(dir));
        if writable { Self::open(dir) } else { Self::open_frozen(dir) }
    }

    fn open_frozen(dir: &FilePath) -> Result<Self> {
        let files = Files::existing(dir).map_err(|e| cannot_open(dir, e))?;
        let (silent, changes) = watch::channel(0);
        let store = Self::readable(dir, files, schema::existing(dir)?, changes)?;
        Ok(LocalStore { _silent: Some(silent), ..store })
    }

    /// Checks the database for damage, for at most `time`.
    ///
    /// # Errors
    /// If the check is not possible now.
    pub(crate) async fn inspect(&self, extent: Extent, time: Duration) -> object_store::Result<Inspection> {
        let (database, access) = (self.database.clone(), self.access);
        let inspect = move || {
            let connection = schema::connect(&database, access)?;
            sound::inspect(&connection, extent, time)
        };
        spawn_blocking(inspect).await?.map_err(generic)
    }

    /// When an object that is still there was written last.
    pub(crate) async fn written_last(&self) -> object_store::Result<Option<Timestamp>> {
        let (database, access) = (self.database.clone(), self.access);
        let look = move || {
            let connection = schema::connect(&database, access)?;
            let newest = "SELECT modified FROM objects ORDER BY id DESC LIMIT 1";
            connection.query_row(newest, [], |row| row.get(0).map(Timestamp)).optional()
        };
        spawn_blocking(look).await?.map_err(generic)
    }

    /// Files that held account records and have no object any more: a process was killed before it
    /// had erased them. Paths below the store's directory.
    pub(crate) async fn left_slots(&self) -> object_store::Result<Vec<String>> {
        let (files, database, access) = (self.files.clone(), self.database.clone(), self.access);
        let now = self.clock.now();
        let find = move || leftovers::find(&files, &schema::connect(&database, access)?, now);
        spawn_blocking(find).await?.map_err(generic)
    }

    /// Erases them; how many there were.
    pub(crate) async fn erase_left_slots(&self) -> object_store::Result<usize> {
        self.writer()?;
        let (files, database, now) = (self.files.clone(), self.database.clone(), self.clock.now());
        let erase = move || leftovers::erase(&files, &schema::connect(&database, Access::Read)?, now);
        spawn_blocking(erase).await?.map_err(generic)
    }

    /// If that is damage, this instance writes nothing any more.
    pub(crate) fn write_only_if_sound(&self, found: &Inspection) {
        found.damage.iter().for_each(|what| self.unsound.found(what.clone()));
    }

    /// Repairs the database in `dir`, which no process has open. Blocks the thread.
    ///
    /// # Errors
    /// As the error says; the database is as it was then.
    pub(crate) fn repair(dir: &FilePath) -> Result<Repaired> {
        repair::repair(dir, SystemClock::new().now())
    }

    /// The directory that it is in.
    pub(crate) fn directory(&self) -> &FilePath {
        self.files.root()
    }

    fn writer(&self) -> object_store::Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| {
            let why = format!("cannot write to {}", self.files.root().display());
            generic(io::Error::new(ErrorKind::ReadOnlyFilesystem, why))
        })
    }

    /// Counts the commits of other processes (or other instances) to this directory, checked every
    /// 200 ms.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Log entries that any process wrote since `mark`.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn newer(&self, mark: Mark) -> object_store::Result<Newer> {
        self.readers.newer(mark).await
    }

    /// What was done since this instance was opened.
    pub fn stats(&self) -> StoreStats {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let commits = load(&self.counters.commits);
        StoreStats {
            commits,
            fsyncs: commits + load(&self.counters.file_syncs),
            objects: load(&self.counters.objects),
            bytes: load(&self.counters.bytes),
        }
    }

    /// Whether all bytes of the object are here, as far as the size of its file tells.
    pub(crate) async fn has_all(&self, path: &Path) -> object_store::Result<bool> {
        let row = self.find(path, None, true).await?.row;
        let Some(name) = row.file else { return Ok(true) };
        let files = self.files.clone();
        blocking(move || files.has_all(&name, row.size)).await
    }

    /// The file that the object at `path` is in; `None` if it is in the database.
    pub(crate) async fn file(&self, path: &Path) -> object_store::Result<Option<PathBuf>> {
        let row = self.find(path, None, true).await?.row;
        Ok(row.file.map(|name| self.files.file(&name)))
    }

    /// Returns space of removed objects inside files and the database to the disk, of the database
    /// if it is worth it.
    ///
    /// # Errors
    /// What SQLite says; everything is as it was then.
    pub(crate) async fn shrink(&self) -> object_store::Result<()> {
        // Space of removed objects is freed after the replies to their removal: by now, when the
        // reply to the next removal is there.
        self.writer()?.delete(Vec::new()).await?;
        let database = self.database.clone();
        spawn_blocking(move || shrink::shrink(&database)).await?.map_err(generic)
    }

    /// What its writer measures; [`crate::Store`] adds what its callers wait.
    pub(crate) fn metrics(&self) -> Arc<StoreMetrics> {
        self.counters.metrics.clone()
    }

    /// Reserves `bytes` of the disk for writes that free space; 0: none.
    pub(crate) async fn keep_reserve(&self, bytes: u64) -> object_store::Result<()> {
        self.writer()?;
        let reserve = self.reserve.clone();
        blocking(move || reserve.keep(bytes)).await
    }

    /// Whether what is kept for removing is in use.
    pub(crate) fn is_disk_full(&self) -> bool {
        self.reserve.is_spent()
    }

    /// Writes a file, unless the free space is reserved for removals.
    async fn write_file<T: Send + 'static>(
        &self,
        write: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> object_store::Result<T> {
        let (reserve, now) = (self.reserve.clone(), self.clock.monotonic());
        blocking(move || reserve.admit(now).and_then(|()| write())).await
    }

    /// The same for writes that free space: they may use the reserve.
    async fn write_file_that_frees<T: Send + 'static>(
        &self,
        write: impl Fn() -> io::Result<T> + Send + 'static,
    ) -> object_store::Result<T> {
        let reserve = self.reserve.clone();
        blocking(move || match write() {
            Err(e) if reserve::is_full(&e) && reserve.release() => write(),
            written => written,
        })
        .await
    }

    async fn put_body(
        &self,
        path: &Path,
        body: Body,
        mode: Mode,
        frees: bool,
    ) -> object_store::Result<PutResult> {
        match self.writer()?.put(path.to_string(), body, mode, frees).await? {
            Outcome::Done => Ok(PutResult { e_tag: None, version: None }),
            Outcome::Exists => Err(object_store::Error::AlreadyExists {
                path: path.to_string(),
                source: "an object with this path exists".into(),
            }),
        }
    }

    /// Makes `payload` a body that a row of `path` can hold: small ones as they are, large ones,
    /// and those that are to be erased some day, as a durable file.
    async fn body(&self, path: &Path, payload: PutPayload, frees: bool) -> object_store::Result<Body> {
        self.writer()?;
        if payload.content_length() <= inline_bytes(path.as_ref()) && !files::holds_slots(path.as_ref()) {
            return Ok(Body::Inline(Bytes::from(payload)));
        }
        let (files, counters, path) = (self.files.clone(), self.counters.clone(), path.clone());
        let write = move || {
            let mut file = files.create_for(path.as_ref())?;
            for segment in &payload {
                file.append(segment)?;
            }
            counters.file_syncs.fetch_add(2, Ordering::Relaxed);
            file.keep()
        };
        if frees { self.write_file_that_frees(write).await } else { self.write_file(write).await }
    }

    async fn duplicate(&self, from: &Path, to: &Path, mode: Mode) -> object_store::Result<()> {
        let ReadObject { row, bytes } = self.readers.get(from, None, false).await?;
        let body = match row.file {
            None => self.body(to, bytes.into(), false).await?,
            // A second name for a file that is erased some day would be erased with it.
            Some(name)
                if shared::is_shared(&name) || files::is_erased(&name) || files::holds_slots(to.as_ref()) =>
            {
                self.body(to, bytes.into(), false).await?
            }
            Some(name) => {
                let files = self.files.clone();
                self.counters.file_syncs.fetch_add(1, Ordering::Relaxed);
                blocking(move || files.link(&name, row.size)).await?
            }
        };
        self.put_body(to, body, mode, false).await.map(drop)
    }

    /// The beginning of objects that become durable together.
    pub(crate) fn together(&self) -> Arc<Shared> {
        Arc::new(Shared::new(self.files.clone()))
    }

    /// Takes objects for `together`.
    pub(crate) async fn add(
        &self,
        together: &Arc<Shared>,
        objects: Vec<(String, Bytes)>,
    ) -> object_store::Result<()> {
        self.writer()?;
        let together = together.clone();
        self.write_file(move || together.add(objects)).await
    }

    /// Creates all objects that were added, in one transaction, except for those that are there.
    pub(crate) async fn put_all(&self, together: Arc<Shared>) -> object_store::Result<Put> {
        let (rows, syncs) = blocking(move || together.keep()).await?;
        self.counters.file_syncs.fetch_add(syncs, Ordering::Relaxed);
        if rows.is_empty() {
            return Ok(Put::Created);
        }
        Ok(match self.writer()?.put_all(rows).await? {
            Outcome::Done => Put::Created,
            Outcome::Exists => Put::Exists,
        })
    }

    /// Removes objects, all in one transaction; those that are not there are no error.
    pub(crate) async fn delete_all(&self, paths: Vec<String>) -> object_store::Result<()> {
        self.writer()?.delete(paths).await
    }

    /// Parts of several objects, each with an answer of its own, and what `then` makes of them on
    /// the thread that read them. It begins now, whenever it is polled.
    pub(crate) fn get_ranges<T: Send + 'static>(
        &self,
        wanted: Vec<(String, std::ops::Range<u64>)>,
        then: impl FnOnce(Vec<(String, std::ops::Range<u64>)>, Parts) -> T + Send + 'static,
    ) -> BoxFuture<'static, object_store::Result<T>> {
        self.readers.get_many(wanted, then)
    }

    /// The last object below `prefix` by its path.
    pub(crate) async fn last(&self, prefix: &Path) -> object_store::Result<Option<(String, Bytes)>> {
        let (after, before) = (format!("{prefix}/"), format!("{prefix}0"));
        self.readers.last(after, before).await
    }

    async fn find(
        &self,
        path: &Path,
        range: Option<GetRange>,
        head: bool,
    ) -> object_store::Result<ReadObject> {
        self.readers.get(path, range, head).await
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalStore({})", self.files.root().display())
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
