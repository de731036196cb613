//! Space on the disk that is reserved for removals.
//!
//! On a full disk no message can be expunged, because an expunge is written first. So a file of
//! zeros in the directory of the store reserves some space. Writes that free space (removals, and
//! log entries that expunge or delete) may use it: when the disk is full the file is emptied. From
//! then on all other writes fail with a full disk, until there is enough space to create the file
//! again. All processes that have the store open see the same file, so they agree about that.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealpost_files::owner;

/// The file in the directory of the store.
const FILE: &str = "reserve";
/// The pause before the next check of free space.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A disk with less free space than this is full, whatever the error.
const FULL_BYTES: u64 = 1024 * 1024;
/// Zeros written at a time where the file system cannot allocate space otherwise.
const ZEROS: usize = 64 * 1024;

/// Marks a write that frees space: in the options that pass through an object store to this one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frees;

/// The reserve of a store.
pub(super) struct Reserve {
    directory: PathBuf,
    /// How much is kept; 0: as the file says, if there is one.
    bytes: AtomicU64,
    /// Bytes of the database that are free for what comes.
    inside: AtomicU64,
    checked_at: Mutex<Option<Duration>>,
}

impl Reserve {
    /// That of the store in `directory`, as another process may have made it.
    pub fn of(directory: &Path) -> Self {
        Reserve {
            directory: directory.to_owned(),
            bytes: 0.into(),
            inside: 0.into(),
            checked_at: Mutex::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Reserves `bytes` from now on; 0: none. A disk that is full now is no error: they are
    /// reserved when there is space.
    ///
    /// # Errors
    /// What the file system says.
    pub fn keep(&self, bytes: u64) -> io::Result<()> {
        self.bytes.store(bytes, Ordering::Relaxed);
        if bytes == 0 {
            return match std::fs::remove_file(self.path()) {
                Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        owner::ensure(&self.path()).map_err(|e| owner::explained(&self.path(), e))?;
        match self.make(bytes) {
            Err(e) if is_full(&e) => {
                tracing::warn!(bytes, "the disk is full: mail is refused for now, and can be removed");
                Ok(())
            }
            made => made,
        }
    }

    /// Whether it was used, and is not there again.
    pub fn is_spent(&self) -> bool {
        std::fs::metadata(self.path()).is_ok_and(|metadata| metadata.len() == 0)
    }

    /// Whether there is something to use.
    pub fn is_available(&self) -> bool {
        std::fs::metadata(self.path()).is_ok_and(|metadata| metadata.len() > 0)
    }

    /// Before a write that frees no space. If the reserve was used it is created again, if there is
    /// enough space.
    ///
    /// # Errors
    /// `StorageFull` if there is none.
    pub fn admit(&self, now: Duration) -> io::Result<()> {
        if !self.is_spent() {
            return Ok(());
        }
        let full = || {
            io::Error::new(
                ErrorKind::StorageFull,
                "the disk is full: the reserve is for expunging and \
                                                       removing only",
            )
        };
        {
            let mut checked_at = self.checked_at.lock().unwrap_or_else(PoisonError::into_inner);
            if checked_at.is_some_and(|checked_at| now.saturating_sub(checked_at) < CHECK_INTERVAL) {
                return Err(full());
            }
            *checked_at = Some(now);
        }
        let bytes = match self.bytes.load(Ordering::Relaxed) {
            0 => sealpost_base::limits::STORE_RESERVE_BYTES,
            bytes => bytes,
        };
        let restorable = self.restorable_bytes(bytes)?.ok_or_else(full)?;
        self.make(restorable).map_err(|e| if is_full(&e) { full() } else { e })?;
        tracing::info!(bytes = restorable, "enough disk space again: mail is accepted");
        Ok(())
    }

    /// How much can be reserved again while mail is accepted: all of it, or, where removed objects
    /// left free space inside the database, a part, so that some is left for the write-ahead log.
    fn restorable_bytes(&self, bytes: u64) -> io::Result<Option<u64>> {
        let free = self.free()?;
        Ok(match self.inside.load(Ordering::Relaxed) {
            _ if free >= bytes.saturating_add(FULL_BYTES) => Some(bytes),
            inside if inside >= bytes && free >= bytes / 2 => Some(free - free / 2),
            _ => None,
        })
    }

    /// So much of the database is free for what comes.
    pub fn is_free_inside(&self, bytes: u64) {
        self.inside.store(bytes, Ordering::Relaxed);
    }

    /// Releases the reserve for writes that free space; returns whether there was any.
    pub fn release(&self) -> bool {
        if !self.is_available() {
            return false;
        }
        let released = OpenOptions::new().write(true).open(self.path()).and_then(|file| file.set_len(0));
        match released {
            Ok(()) => tracing::warn!("the disk is full: mail is refused, and can be removed"),
            Err(ref error) => tracing::error!(%error, "the reserve on the disk cannot be used"),
        }
        released.is_ok()
    }

    /// Whether the disk is nearly full, for errors that do not show it.
    pub fn is_disk_full(&self) -> bool {
        self.free().is_ok_and(|free| free < FULL_BYTES)
    }

    /// Whether the disk has so much free space, and a little more if it is not zero.
    pub fn has_space(&self, bytes: u64) -> bool {
        bytes == 0 || self.free().is_ok_and(|free| free >= bytes.saturating_add(FULL_BYTES))
    }

    fn free(&self) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(&self.directory)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn make(&self, bytes: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path())?;
        let before = file.metadata()?.len();
        if before >= bytes {
            return file.set_len(bytes);
        }
        // The earlier reserve stays if there is not enough space for all of it.
        allocate(&file, bytes).inspect_err(|_| drop(file.set_len(before)))
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    use rustix::io::Errno;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, bytes),
        allocated => Ok(allocated?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    write_zeros(file, bytes)
}

fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    file.rewind()?;
    let zeros = vec![0; ZEROS];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(ZEROS as u64);
        file.write_all(&zeros[..step as usize])?;
        left -= step;
    }
    file.sync_data()
}

pub(super) fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_reserve_is_restored_when_space_allows() {
        let dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(dir.path());
        assert!(!reserve.is_spent() && !reserve.release(), "nobody keeps any");
        reserve.admit(Duration::ZERO).unwrap();
        reserve.keep(100_000).unwrap();
        assert!(reserve.is_available());
        // Another process sees the same.
        let other = Reserve::of(dir.path());
        assert!(other.release() && reserve.is_spent() && !reserve.release());
        reserve.admit(Duration::ZERO).unwrap();
        assert!(reserve.is_available(), "there is enough space");
        reserve.keep(50_000).unwrap();
        assert_eq!(std::fs::metadata(reserve.path()).unwrap().len(), 50_000);
        reserve.keep(0).unwrap();
        assert!(!reserve.path().exists());
        // More than any disk has.
        reserve.keep(i64::MAX as u64 / 4).unwrap();
        assert!(reserve.is_spent());
        assert_eq!(reserve.admit(Duration::ZERO).unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
