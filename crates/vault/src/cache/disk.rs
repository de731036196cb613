//! The cache's file: an SQLite database, because it survives crashes, has many readers beside a
//! writer and uses its free pages again.
//!
//! One process has the file open, for as long as it runs. So SQLite keeps the shared data of its
//! connections in memory, and not in a mapped file: truncating that would end the process with
//! SIGBUS. Another process that opens the cache is refused.
//!
//! A block has a checksum of its bytes and its place, so any change on the disk is noticed. A
//! database that SQLite finds damaged, or that has other tables, is removed and created again; one
//! that cannot be used now is tried again with the next batch. Large blocks are several rows,
//! because SQLite has two copies of a row in memory.
//!
//! The file never shrinks. One above the size limit is created again when it is opened: cutting it
//! would move most of it, and its content can be fetched again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use sealpost_base::limits::STORE_CACHE_QUEUE_BYTES;
use sealpost_base::{Clock, Error, Result};
use sealpost_files::owner;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::cipher;

/// Its name in the directory of the cache.
const FILE: &str = "blocks.sqlite";
/// The version of the tables. A cache of another version is created again.
const VERSION: i64 = 2;
const TABLES: &str = "
    CREATE TABLE blocks (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL,
        number INTEGER NOT NULL,
        used INTEGER NOT NULL,
        size INTEGER NOT NULL,
        sum BLOB NOT NULL,
        UNIQUE (path, number)
    ) STRICT;
    CREATE INDEX blocks_used ON blocks (used, id);
    CREATE TABLE parts (id INTEGER PRIMARY KEY, block INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
    CREATE INDEX parts_block ON parts (block);
    CREATE TRIGGER blocks_gone AFTER DELETE ON blocks BEGIN DELETE FROM parts WHERE block = old.id; END;
";
/// Bytes of a block in one row.
const PART_BYTES: usize = 64 * 1024;
/// SQLite's way to files for those that no other process is to open: <https://sqlite.org/vfs.html>.
const ONE_PROCESS: &str = "unix-excl";
/// The most that the write-ahead log takes of the cache's size, in bytes.
const LOG_BYTES: u64 = 16 * 1024 * 1024;
/// The most by which pages may exceed those that may be in use: a batch is written before the
/// blocks that it replaces are removed.
const BATCH_BYTES: u64 = STORE_CACHE_QUEUE_BYTES as u64 * 4 / 3;
/// Jobs of one transaction.
const BATCH: usize = 64;
/// Objects that are to be forgotten as soon as the file can be written.
const DEFERRED_REMOVALS: usize = 4096;
/// Connections that are kept for readers.
const READERS: usize = 4;
const SUM_BYTES: usize = 16;
/// How long the writer waits for another process that has locked the file. After one timeout it
/// does not wait again before a successful write.
const WRITER_WAIT: Duration = Duration::from_secs(1);
/// How long a reader waits for a file that is being opened or closed, if it waits at all; of
/// writers it needs nothing.
const READER_WAIT: Duration = Duration::from_millis(100);

/// What is to be written.
pub(super) enum Job {
    /// A block of an object, or the whole, and its bytes in the queue until it is written.
    Keep { path: String, number: i64, bytes: Bytes, _permit: OwnedSemaphorePermit },
    /// A block was used.
    Touch { id: i64 },
    /// A block does not match its checksum.
    Drop { id: i64 },
    /// The object is no more.
    Forget { path: String },
    /// SQLite found damage in the file of that generation.
    BeginAnew { generation: u64 },
}

/// The file.
pub(super) struct Disk {
    path: PathBuf,
    /// The most that pages in use may take.
    bytes: u64,
    clock: Arc<dyn Clock>,
    /// The identity of the file: it may have been created again.
    generation: AtomicU64,
    readers: Mutex<Vec<(u64, Connection)>>,
    /// How long a batch may take.
    write_timeout: Duration,
    /// The last batch failed, took longer, or does so now.
    is_behind: AtomicBool,
}

impl Disk {
    /// The file in `dir`, and a connection for its writer: as long as there is one, no other process gets in.
    pub fn open(
        dir: &Path,
        bytes: u64,
        clock: Arc<dyn Clock>,
        write_timeout: Duration,
    ) -> Result<(Self, Connection)> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| {
            Error::retry(format!("the cache in {}", dir.display())).with_source(e)
        };
        owner::make_directory(dir).map_err(|e| failed(owner::explained(dir, e).into()))?;
        let path = dir.join(FILE);
        let bytes = bytes - LOG_BYTES.min(bytes / 2);
        let opened = connect(&path, write_timeout).and_then(|found| Ok((size(&found)?, found)));
        let connection = match opened {
            Err(e) if is_damage(&e) => {
                remove(&path);
                connect(&path, write_timeout)
            }
            Ok((size, old)) if size > bytes + BATCH_BYTES => {
                tracing::info!(cache = %path.display(), size, "the cache exceeds its size limit; starting \
                    with an empty cache");
                remove(&path);
                let new = connect(&path, write_timeout);
                // Whose files are not those of that name any more: it leaves them alone.
                drop(old);
                new
            }
            opened => opened.map(|(_, found)| found),
        };
        let connection = connection.map_err(|e| match e.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy) => {
                Error::retry(format!("another process has the cache in {} open", dir.display()))
            }
            _ => failed(e.into()),
        })?;
        // From a version that shared the file. A process that has it mapped has the cache too.
        let _ = std::fs::remove_file(beside(&path, "-shm"));
        let disk = Disk {
            path,
            bytes,
            clock,
            generation: AtomicU64::new(0),
            readers: Mutex::default(),
            write_timeout,
            is_behind: AtomicBool::new(false),
        };
        Ok((disk, connection))
    }

    /// How long to wait for what it writes.
    pub fn lock_timeout(&self) -> Duration {
        if self.is_behind.load(Ordering::Relaxed) { Duration::ZERO } else { self.write_timeout }
    }

    /// A wait for it has timed out.
    pub fn mark_behind(&self) {
        self.is_behind.store(true, Ordering::Relaxed);
    }

    /// A connection for a reader; `None` if there is none.
    pub fn reader<'a>(&'a self, jobs: &'a mpsc::Sender<Job>) -> Option<Reader<'a>> {
        let generation = self.generation.load(Ordering::SeqCst);
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept.filter(|(of, _)| *of == generation) {
            Some((_, connection)) => connection,
            None => match connect_to_read(&self.path, READER_WAIT.min(self.lock_timeout())) {
                Ok(connection) => connection,
                Err(e) => {
                    if is_damage(&e) {
                        let _ = jobs.try_send(Job::BeginAnew { generation });
                    }
                    return None;
                }
            },
        };
        Some(Reader { disk: self, jobs, generation, connection: Some(connection) })
    }

    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        connect(&self.path, WRITER_WAIT).and_then(|connection| used_bytes(&connection)).unwrap()
    }

    fn minute(&self) -> i64 {
        self.clock.now().0 / 60_000
    }
}

/// Reads blocks. Damage that it finds is reported to the writer, if that has time for it.
pub(super) struct Reader<'a> {
    disk: &'a Disk,
    jobs: &'a mpsc::Sender<Job>,
    generation: u64,
    connection: Option<Connection>,
}

impl Reader<'_> {
    pub fn block(&mut self, path: &str, number: i64) -> Option<Bytes> {
        let connection = self.connection.as_ref()?;
        match read(connection, path, number) {
            Ok(None) => None,
            Ok(Some(Block { id, bytes: None, .. })) => {
                tracing::warn!(path, number, "a cached object is damaged; reading it from the store again");
                let _ = self.jobs.try_send(Job::Drop { id });
                None
            }
            Ok(Some(Block { id, used, bytes })) => {
                if used < self.disk.minute() {
                    let _ = self.jobs.try_send(Job::Touch { id });
                }
                bytes
            }
            Err(e) => {
                if is_damage(&e) {
                    let _ = self.jobs.try_send(Job::BeginAnew { generation: self.generation });
                }
                self.connection = None;
                None
            }
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let mut readers = self.disk.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < READERS {
            readers.push((self.generation, connection));
        }
    }
}

struct Block {
    id: i64,
    used: i64,
    /// `None` if they are not those that were written.
    bytes: Option<Bytes>,
}

fn read(connection: &Connection, path: &str, number: i64) -> rusqlite::Result<Option<Block>> {
    // Row and parts as they were at one moment.
    let transaction = connection.unchecked_transaction()?;
    let mut select =
        transaction.prepare_cached("SELECT id, used, size, sum FROM blocks WHERE path = ? AND number = ?")?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let Some((id, used, size, sum)): Option<(i64, i64, i64, Vec<u8>)> =
        select.query_row(params![path, number], row).optional()?
    else {
        return Ok(None);
    };
    // What says more than was ever written is damaged.
    let size = usize::try_from(size).unwrap_or(0).min(STORE_CACHE_QUEUE_BYTES);
    let mut bytes = Vec::with_capacity(size);
    let mut parts = transaction.prepare_cached("SELECT bytes FROM parts WHERE block = ? ORDER BY id")?;
    let mut found = parts.query([id])?;
    while let Some(part) = found.next()? {
        let part = part.get_ref(0)?.as_blob().unwrap_or_default();
        if bytes.len() + part.len() > size {
            break;
        }
        bytes.extend_from_slice(part);
    }
    let is_whole = checksum(path, number, &bytes)[..] == sum;
    Ok(Some(Block { id, used, bytes: is_whole.then(|| bytes.into()) }))
}

fn checksum(path: &str, number: i64, bytes: &[u8]) -> [u8; SUM_BYTES] {
    let sum = cipher::sha256(&[path.as_bytes(), &number.to_be_bytes(), bytes]);
    let mut short = [0; SUM_BYTES];
    short.copy_from_slice(&sum[..SUM_BYTES]);
    short
}

/// Writes what comes, on a thread of its own, several jobs in one transaction; then they go to
/// `written`, whether they could be written or not. It ends with the sender.
pub(super) fn spawn_writer(
    disk: Arc<Disk>,
    connection: Connection,
    mut jobs: mpsc::Receiver<Job>,
    written: impl Fn(Vec<Job>) + Send + 'static,
) -> Result<()> {
    let work = move || {
        let mut writer = Writer { disk, connection: Some(connection), is_failing: false };
        let mut batch = Vec::new();
        while let Some(first) = jobs.blocking_recv() {
            batch.push(first);
            batch.extend(std::iter::from_fn(|| jobs.try_recv().ok()).take(BATCH - 1));
            let is_written = writer.take(&batch);
            // What could not be forgotten is tried again; if it is too much it stays unused for as
            // long as this process runs.
            let is_over = |job: &mut Job| is_written || !matches!(job, Job::Forget { .. });
            written(batch.extract_if(.., is_over).collect());
            batch.truncate(DEFERRED_REMOVALS);
        }
    };
    let thread = std::thread::Builder::new().name("store-cache".into()).spawn(work);
    thread.map(drop).map_err(|e| Error::retry("starting a thread for the cache").with_source(e))
}

struct Writer {
    disk: Arc<Disk>,
    connection: Option<Connection>,
    /// The last batch could not be written, which was logged.
    is_failing: bool,
}

impl Writer {
    /// Writes a batch, and notes how it went. Whether it was written; one that met damage counts as
    /// written, because nothing that was there before is there any more.
    fn take(&mut self, batch: &[Job]) -> bool {
        let began = self.disk.clock.monotonic();
        let now = self.disk.generation.load(Ordering::SeqCst);
        let is_requested =
            batch.iter().any(|job| matches!(job, Job::BeginAnew { generation } if *generation == now));
        let done = match self.try_write(batch) {
            Err(e) if is_damage(&e) => self.begin_anew(),
            _ if is_requested => self.begin_anew(),
            done => done,
        };
        let took = self.disk.clock.monotonic().saturating_sub(began);
        self.disk.is_behind.store(done.is_err() || took > self.disk.write_timeout, Ordering::Relaxed);
        self.report(done)
    }

    fn try_write(&mut self, batch: &[Job]) -> rusqlite::Result<()> {
        let wait = if self.is_failing { Duration::ZERO } else { WRITER_WAIT };
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.disk.path, wait)?,
        };
        connection.busy_timeout(wait)?;
        let done = write(&self.disk, &mut connection, batch);
        // Other failures may come from the connection, whose file may no longer exist.
        if done.as_ref().map_or_else(is_for_now, |()| true) {
            self.connection = Some(connection);
        }
        done
    }

    fn begin_anew(&mut self) -> rusqlite::Result<()> {
        tracing::warn!(cache = %self.disk.path.display(), "the cache is damaged; starting with an empty cache");
        self.connection = None;
        remove(&self.disk.path);
        self.disk.generation.fetch_add(1, Ordering::SeqCst);
        self.connection = Some(connect(&self.disk.path, WRITER_WAIT)?);
        Ok(())
    }

    /// Says when writing begins to fail and when it works again, not for each batch. Whether it works.
    fn report(&mut self, done: rusqlite::Result<()>) -> bool {
        let cache = self.disk.path.display();
        match &done {
            // A full disk is no reason to drop existing blocks.
            Err(e) if !self.is_failing => {
                tracing::warn!(%cache, error = %e, "cannot write to the cache: objects are not cached");
            }
            Err(e) => tracing::debug!(%cache, error = %e, "the cache cannot be written"),
            Ok(()) if self.is_failing => tracing::info!(%cache, "the cache is written again"),
            Ok(()) => {}
        }
        self.is_failing = done.is_err();
        done.is_ok()
    }
}

fn write(disk: &Disk, connection: &mut Connection, batch: &[Job]) -> rusqlite::Result<()> {
    let minute = disk.minute();
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    {
        let run =
            |sql: &str, values: &[&dyn rusqlite::ToSql]| transaction.prepare_cached(sql)?.execute(values);
        for job in batch {
            match job {
                Job::Keep { path, number, bytes, .. } => {
                    let sum = checksum(path, *number, bytes);
                    let is_new = run(
                        "INSERT INTO blocks (path, number, used, size, sum) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                        &[path, number, &minute, &(bytes.len() as i64), &sum],
                    )?;
                    if is_new == 1 {
                        let id = transaction.last_insert_rowid();
                        for part in bytes.chunks(PART_BYTES) {
                            run("INSERT INTO parts (block, bytes) VALUES (?, ?)", &[&id, &part])?;
                        }
                    }
                }
                Job::Touch { id } => {
                    run("UPDATE blocks SET used = ? WHERE id = ?", &[&minute, id])?;
                }
                Job::Drop { id } => {
                    run("DELETE FROM blocks WHERE id = ?", &[id])?;
                }
                Job::Forget { path } => {
                    run("DELETE FROM blocks WHERE path = ?", &[path])?;
                }
                Job::BeginAnew { .. } => {}
            }
        }
        evict_oldest(&transaction, disk.bytes)?;
    }
    transaction.commit()
}

/// Removes what was not used for the longest time until pages in use take at most `most` bytes.
fn evict_oldest(connection: &Connection, most: u64) -> rusqlite::Result<()> {
    while let excess @ 1.. = used_bytes(connection)?.saturating_sub(most) {
        let mut select = connection.prepare_cached("SELECT id, size FROM blocks ORDER BY used, id")?;
        let mut rows = select.query([])?;
        let (mut oldest, mut bytes) = (Vec::new(), 0);
        while bytes < excess
            && let Some(row) = rows.next()?
        {
            oldest.push(row.get::<_, i64>(0)?);
            bytes += u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        }
        if oldest.is_empty() {
            break;
        }
        let mut delete = connection.prepare_cached("DELETE FROM blocks WHERE id = ?")?;
        for id in oldest {
            delete.execute([id])?;
        }
    }
    Ok(())
}

/// Bytes of pages in use.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let free = number(connection, "freelist_count")?.saturating_mul(number(connection, "page_size")?);
    Ok(size(connection)?.saturating_sub(free))
}

/// Bytes of all pages.
fn size(connection: &Connection) -> rusqlite::Result<u64> {
    Ok(number(connection, "page_count")?.saturating_mul(number(connection, "page_size")?))
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    let number = connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))?;
    Ok(u64::try_from(number).unwrap_or(0))
}

/// Removes the cache in `dir`, if there is one. A process that has it open continues with unlinked
/// files.
pub(super) fn remove_from(dir: &Path) {
    remove(&dir.join(FILE));
}

/// For the writer: makes what is not there.
fn connect(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    // What fails here fails there too.
    let _ = owner::ensure(path);
    let mut connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), ONE_PROCESS)?;
    connection.busy_timeout(wait)?;
    connection.pragma_update(None, "page_size", 8192)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A crash may lose the last blocks, and nothing else.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES as i64)?;
    set_up(&connection)?;
    if !has_tables(&connection)? {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        // Another one may have made them meanwhile.
        if !has_tables(&transaction)? {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction.commit()?;
    }
    Ok(connection)
}

/// For a reader, which takes no lock that a writer has. It makes nothing: a file without tables is
/// about to get them.
fn connect_to_read(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, ONE_PROCESS)?;
    connection.busy_timeout(wait)?;
    set_up(&connection)?;
    if has_tables(&connection)? { Ok(connection) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -512)?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(())
}

/// Whether the tables of this version are there; `InvalidQuery` if others are, or only some.
fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    // Both as they were at one moment.
    let (version, tables): (i64, i64) = connection.query_row(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema WHERE name IN ('blocks', 'parts'))
         FROM pragma_user_version",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match (version, tables) {
        (VERSION, 2) => Ok(true),
        (0, 0) => Ok(false),
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

/// Whether the file must be created again: SQLite finds it damaged, or its tables differ.
fn is_damage(e: &rusqlite::Error) -> bool {
    matches!(e, rusqlite::Error::InvalidQuery)
        || matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Another process writes, or the disk is full.
fn is_for_now(e: &rusqlite::Error) -> bool {
    matches!(e.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull))
}

fn remove(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        // It may not be there.
        let _ = std::fs::remove_file(beside(path, end));
    }
}

/// The file that SQLite calls like its database, and `end`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
