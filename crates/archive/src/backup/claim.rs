//! Write locks: one run at a time for a backup, one thread at a time for a folder of it.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sealpost_base::{Error, Result};
use sealpost_files::{io_error, open_file, owner};

/// The file that is locked, at the top of a backup. It stays when no process has it locked: the
/// lock is the system's and ends with the process, so none is ever stale.
pub const LOCK_FILE: &str = "sealpost.lock";

/// Reserves a whole backup for this process until it is dropped.
pub(super) struct Claims {
    _lock: Option<File>,
    open: Arc<Mutex<HashSet<String>>>,
}

/// Reserves a folder until it is dropped.
pub(super) struct Claim {
    folder: String,
    open: Arc<Mutex<HashSet<String>>>,
}

impl Claims {
    /// Locks the backup at `directory`.
    ///
    /// # Errors
    /// `Conflict` if another process has it; `Retry` if the lock file cannot be made.
    pub fn new(directory: &Path) -> Result<Self> {
        Self::named(directory, LOCK_FILE)
    }

    /// As [`Claims::new`], by a lock file of that name.
    ///
    /// # Errors
    /// As [`Claims::new`].
    pub fn named(directory: &Path, name: &str) -> Result<Self> {
        let path = directory.join(name);
        let lock = owner::open_or_create(&path).map_err(|e| io_error(&path, e))?;
        self::lock(&lock, &path, || in_use(directory))?;
        Ok(Claims { _lock: Some(lock), open: Arc::default() })
    }

    /// As [`Claims::new`], for a reader that changes nothing: others may read at the same time. A
    /// backup without a lock file is not locked.
    ///
    /// # Errors
    /// As [`Claims::new`].
    pub fn to_read(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_FILE);
        let lock = match open_file(&path) {
            Ok(lock) => lock,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Ok(Claims { _lock: None, open: Arc::default() });
            }
            Err(e) => return Err(io_error(path, e)),
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(Claims { _lock: Some(lock), open: Arc::default() }),
            Err(TryLockError::WouldBlock) => Err(Error::conflict(in_use(directory))),
            Err(TryLockError::Error(e)) => Err(io_error(path, e)),
        }
    }

    /// Reserves a folder.
    ///
    /// # Errors
    /// `Conflict` if it is reserved already.
    pub fn claim(&self, folder: &str) -> Result<Claim> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.insert(folder.to_owned()) {
            return Err(Error::conflict(format!("the folder {folder} is open already")));
        }
        Ok(Claim { folder: folder.to_owned(), open: self.open.clone() })
    }
}

fn in_use(directory: &Path) -> String {
    format!("{}: another sealpost process is using this backup: wait until it exits", directory.display())
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.folder);
    }
}

/// Locks the file at `path` for as long as it is open; `taken` is the error text if another process
/// has it.
///
/// # Errors
/// `Conflict` if another process has it; `Retry` if it cannot be locked.
pub(crate) fn lock(file: &File, path: &Path, taken: impl FnOnce() -> String) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::conflict(taken())),
        Err(TryLockError::Error(e)) => Err(io_error(path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let claims = Claims::new(directory.path()).unwrap();
        let error = Claims::new(directory.path()).err().unwrap();
        assert_eq!(error.kind(), sealpost_base::Kind::Conflict);
        let first = claims.claim("a").unwrap();
        assert!(claims.claim("a").is_err());
        claims.claim("b").unwrap();
        drop(first);
        claims.claim("a").unwrap();
        drop(claims);
        Claims::new(directory.path()).unwrap();
    }
}
