//! The database of a store of which nothing can be written: a read-only mount, or a directory of
//! another user.
//!
//! A database with a write-ahead log is normally written even by its readers: SQLite keeps an index
//! of the log in a `-shm` file, and readers register there. Without write access it depends on the
//! existing files:
//!
//! - `-wal` and `-shm`: another process may have the store open, seen through a mount that is
//!   read-only here. SQLite reads both files, with locks if that process runs; if the machine has
//!   stopped, with an index of its own in memory.
//! - `-wal` alone, as a copy of the files may have it: SQLite makes that index in memory, without locks.
//! - neither, as a server leaves it that was stopped: the database is complete, and is read as it is.
//!
//! Without a `-shm` file no process has the store open, so nothing changes while it is read, as
//! long as none is started.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// SQLite's way to files without locks: <https://sqlite.org/vfs.html>.
const NO_LOCKS: &std::ffi::CStr = c"unix-none";

/// What there is beside a database that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frozen {
    /// A write-ahead log, and its index.
    Shared,
    /// A write-ahead log without an index.
    Log,
    /// Nothing that matters.
    Complete,
}

/// Looks what there is.
///
/// # Errors
/// What the file system says.
pub(super) fn inspect(database: &Path) -> io::Result<Frozen> {
    let log = length(&beside(database, "-wal"))?;
    let index = length(&beside(database, "-shm"))?;
    Ok(match (log, index) {
        (Some(_), Some(_)) => Frozen::Shared,
        (Some(1..), None) => Frozen::Log,
        (Some(0) | None, _) => Frozen::Complete,
    })
}

/// A connection that writes nothing.
pub(super) fn connect(database: &Path, frozen: Frozen) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match frozen {
        Frozen::Shared => Connection::open_with_flags(database, flags),
        Frozen::Log => {
            let connection = Connection::open_with_flags_and_vfs(database, flags, NO_LOCKS)?;
            // Before the first read: then the index of the log is in memory.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            Ok(connection)
        }
        Frozen::Complete => {
            let uri = format!("file:{}?immutable=1", escaped(database));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
        }
    }
}

/// A file that SQLite has beside the database.
pub(super) fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn length(path: &Path) -> io::Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The path in a URI: <https://sqlite.org/uri.html>.
fn escaped(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                text.push(char::from(*byte))
            }
            byte => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests;
