//! The database: its one table, and how connections to it are set up.

use std::error::Error as StdError;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::park_timeout;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use sealpost_base::{Error, Result};
use sealpost_files::owner;

use crate::format::{self, FORMAT};
use crate::local::frozen::{self, Frozen};

/// The database's name in the directory of the store.
const FILE: &str = "objects.sqlite";

/// Ten times the format of the store, in `PRAGMA user_version`. The formats before 5 had 3 and 4 there.
const VERSION: i64 = FORMAT as i64 * 10;
/// That of a database with rows of which several are in one file. It has the same tables; programs
/// that do not know of such rows must leave it alone.
pub(super) const SHARES_FILES: i64 = VERSION + 1;
/// "SPst" in `PRAGMA application_id`, so that `file` can tell what the database is.
const APPLICATION_ID: i64 = 0x5350_7374;
/// Bytes of an object kept before the rest of it in its row. SQLite reads a row's columns from the
/// front, so what is within the head (a small message's structure) is read without the rest.
pub(super) const HEAD_BYTES: usize = 4096;
/// How often a locked database is tried again, a millisecond apart, before the caller gets an
/// error.
const BUSY_TRIES: i32 = 10_000;

const TABLES: &str = "
    CREATE TABLE objects (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        file TEXT,
        head BLOB,
        rest BLOB
    ) STRICT;
    CREATE UNIQUE INDEX objects_file ON objects (file) WHERE file IS NOT NULL;
    CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
";

/// What a connection is for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Access {
    Read,
    Write,
    /// Reading where nothing can be written.
    Frozen(Frozen),
}

impl Access {
    /// `PRAGMA cache_size`. A reader needs the upper pages of its trees, and reads them again after
    /// every write.
    fn cache_kibibytes(self) -> i64 {
        match self {
            Access::Read | Access::Frozen(_) => -256,
            Access::Write => -1024,
        }
    }
}

/// Where the database of the store in `dir` is.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Makes sure that the database in `dir` exists and is of this version; returns its path.
pub(super) fn create(dir: &Path) -> Result<PathBuf> {
    let path = path(dir);
    // SQLite gives its other files the owner and the permissions of this one.
    owner::ensure(&path)
        .map_err(|e| owner::explained(&path, e))
        .and_then(|()| File::open(dir)?.sync_all())
        .map_err(|e| cannot_open(&path, e.into()))?;
    loop {
        let file = inode(&path);
        let mut connection = connect(&path, Access::Write).map_err(|e| unusable(&path, e))?;
        let version = prepare(&mut connection).map_err(|e| unusable(&path, e))?;
        // A repair that this has waited for may have put a new database in the place of the one
        // that was opened.
        if inode(&path) == file {
            return known_version(&path, version);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|metadata| metadata.ino())
}

/// The path of the database in `dir`, of which nothing can be written, and how it is opened.
pub(super) fn existing(dir: &Path) -> Result<(PathBuf, Access)> {
    let path = path(dir);
    let frozen = frozen::inspect(&path).map_err(|e| cannot_open(&path, owner::explained(&path, e).into()))?;
    let access = Access::Frozen(frozen);
    let failed = |e| unusable(&path, e);
    let connection = connect(&path, access).map_err(failed)?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    Ok((known_version(&path, version)?, access))
}

fn known_version(path: &Path, version: i64) -> Result<PathBuf> {
    match version {
        VERSION | SHARES_FILES => Ok(path.to_owned()),
        _ => {
            let format = u32::try_from(version / 10).ok().filter(|format| *format > 0);
            Err(format::other(&path.display().to_string(), format))
        }
    }
}

fn cannot_open(path: &Path, e: Box<dyn StdError + Send + Sync>) -> Error {
    Error::retry(format!("opening {}", path.display())).with_source(e)
}

/// Why the database cannot be opened. Damage does not go away.
fn unusable(path: &Path, e: rusqlite::Error) -> Error {
    if is_damage(&e) {
        let why = format!(
            "{} is damaged: sealpost store repair makes a new one of what can be read",
            path.display()
        );
        return Error::corrupt(why).with_source(e);
    }
    cannot_open(path, explained(path, e))
}

/// An error of SQLite. If the reason is a permission, it names the file and its owner; if the disk
/// is read-only, it says so, which SQLite does not.
pub(super) fn explained(database: &Path, e: rusqlite::Error) -> Box<dyn StdError + Send + Sync> {
    use ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    if !matches!(e.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly)) {
        return e.into();
    }
    let beside = ["-wal", "-shm"].map(|end| frozen::beside(database, end));
    let files = [database.parent().unwrap_or(Path::new(".")), database];
    let files = files.into_iter().chain(beside.iter().map(PathBuf::as_path));
    if let Some(denied) = owner::denied_among(files, true) {
        return denied.into();
    }
    match std::fs::OpenOptions::new().append(true).open(database) {
        Err(refused) if refused.kind() == std::io::ErrorKind::ReadOnlyFilesystem => refused.into(),
        _ => e.into(),
    }
}

/// Creates the tables if they are not there, and returns the version of what is.
fn prepare(connection: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut version = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        make_tables(&transaction)?;
        version = VERSION;
    }
    transaction.commit()?;
    Ok(version)
}

/// Creates the tables in an empty database.
pub(super) fn make_tables(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    set_version(connection, false)
}

/// Says of which version the database is.
pub(super) fn set_version(connection: &Connection, shares_files: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", if shares_files { SHARES_FILES } else { VERSION })
}

/// Says that there are rows of which several are in one file: within the transaction that brings
/// the first of them.
pub(super) fn now_shares_files(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < SHARES_FILES {
        connection.pragma_update(None, "user_version", SHARES_FILES)?;
    }
    Ok(())
}

/// A connection with what this store relies on: write-ahead log, a commit that returns is on the
/// disk, and little memory (the operating system caches the pages).
pub(super) fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match access {
        Access::Frozen(frozen) => frozen::connect(path, frozen)?,
        Access::Read | Access::Write => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_handler(Some(wait_for_lock))?;
    if access == Access::Write {
        // Only a database without pages takes a page size; others ignore it.
        connection.pragma_update(None, "page_size", 8192)?;
        write_ahead(&connection)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        treat_removed(&connection, Removed::Overwritten)?;
        // The writer makes checkpoints, after its replies.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    } else {
        connection.pragma_update(None, "query_only", true)?;
    }
    connection.pragma_update(None, "cache_size", access.cache_kibibytes())?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(16);
    Ok(connection)
}

/// What becomes of rows that are removed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Removed {
    /// They are overwritten, in pages that are used again and in those that are free.
    Overwritten,
    /// The latter stay as they are: they are not written.
    Left,
}

/// Has the connection treat them so from now on.
pub(super) fn treat_removed(connection: &Connection, removed: Removed) -> rusqlite::Result<()> {
    let secure = match removed {
        Removed::Overwritten => "ON",
        Removed::Left => "FAST",
    };
    connection.pragma_update_and_check(None, "secure_delete", secure, |_| Ok(()))
}

/// Two processes that create a database at once may find it locked here without SQLite waiting for them.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(e) if is_busy(&e) && wait_for_lock(tries) => tries += 1,
            Err(e) => return Err(e),
        }
    }
}

/// Whether another process locked the database for longer than the timeout.
pub(super) fn is_busy(e: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(e.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Whether the connection cannot write.
pub(super) fn is_read_only(e: &rusqlite::Error) -> bool {
    e.sqlite_error_code() == Some(rusqlite::ErrorCode::ReadOnly)
}

/// Whether SQLite found its own file damaged, or read values that were never written.
pub(super) fn is_damage(e: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match e {
        // A column with what this program never wrote there.
        FromSqlConversionFailure(..)
        | IntegralValueOutOfRange(..)
        | InvalidColumnType(..)
        | Utf8Error(..) => true,
        e => matches!(e.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)),
    }
}

fn wait_for_lock(tries: i32) -> bool {
    // SQLite's own handler waits up to 100 ms between tries; a busy server would never let another
    // process in.
    park_timeout(Duration::from_millis(1));
    tries < BUSY_TRIES
}
