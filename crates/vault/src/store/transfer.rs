//! Copies objects from one store to another unchanged: sealed, and checked by reading them back. A
//! copy has no keys, so it relies on no reply that was not confirmed, and calls no object different
//! because of one.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use futures::TryStreamExt;
use rustix::io::Errno;
use sealpost_base::{Error, Kind, Result};

use super::{AppendMode, Store, error, location};
use crate::{Hash, Put, Sealed};

/// What became of the copy of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// It was written, read back, and is the same.
    Copied,
    /// It was there: the same bytes, or for a large one as many.
    Same,
    /// Something else of that path is there, and stays.
    Differs,
    /// It is not in the store that it should come from: it was removed meanwhile.
    Missing,
    /// It cannot be read in the store that it should come from, which says nothing of others there.
    Unreadable(Unreadable),
}

/// Why one object cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// It is damaged, or listed and missing.
    Damaged,
    /// This user may not read its file.
    NotAllowed,
    /// The disk has failed to read it.
    DiskFailed,
}

/// Larger objects are copied in pieces of as many bytes: the smallest parts that S3 takes.
const PIECE_BYTES: u64 = 5 * 1024 * 1024;

impl Store {
    /// Copies the object `path` of `size` bytes to the store `to`. Holds a few MiB at most.
    ///
    /// # Errors
    /// `Corrupt` if the bytes read back differ from those written, which are removed again; errors
    /// of the stores.
    pub async fn transfer(&self, path: &str, size: u64, to: &Store) -> Result<Transfer> {
        let copied = if size <= PIECE_BYTES {
            self.transfer_whole(path, to).await
        } else {
            self.transfer_in_parts(path, size, to).await
        };
        match copied {
            // That it cannot be read here is no error.
            Err(e) if e.kind() == Kind::NotFound => {
                Err(Error::corrupt(format!("{path} is missing after it was written")).with_source(e))
            }
            copied => copied,
        }
    }

    /// Reads the object `path`, which has `size` bytes in both stores, from both:
    /// [`Transfer::Same`] if the bytes are, otherwise [`Transfer::Differs`]. Holds a few MiB at
    /// most.
    ///
    /// # Errors
    /// What the stores say; but what is damaged here is [`Transfer::Unreadable`], and what is in
    /// `to` differs.
    pub async fn compare(&self, path: &str, size: u64, to: &Store) -> Result<Transfer> {
        let mut start = 0;
        while start < size {
            let piece = start..size.min(start + PIECE_BYTES);
            start = piece.end;
            let here = match self.read_range_confirmed(path, piece.clone()).await {
                Ok(bytes) => Hash::of(&bytes),
                Err(e) => return self.unread(path, e).await,
            };
            match to.has(path, piece, here).await {
                Ok(true) => {}
                Err(e) if e.kind() == Kind::Retry => return Err(e),
                _ => return Ok(Transfer::Differs),
            }
        }
        Ok(Transfer::Same)
    }

    /// Whether all bytes of the object `path`, which is listed here, are here, as far as that is
    /// seen without reading them: a local file has to be there and as long as it was. Other stores
    /// list what they have.
    ///
    /// # Errors
    /// What may pass.
    pub async fn has_all(&self, path: &str) -> Result<bool> {
        let Some(local) = &self.0.local else { return Ok(true) };
        match local.has_all(&location(path)?).await.map_err(|e| error(path, e)) {
            Err(e) if e.kind() == Kind::NotFound => Ok(false),
            found => found,
        }
    }

    /// The file that the object `path` is in, if the store is local and the object a file of its own there.
    ///
    /// # Errors
    /// What the store says.
    pub async fn file(&self, path: &str) -> Result<Option<PathBuf>> {
        match &self.0.local {
            Some(local) => local.file(&location(path)?).await.map_err(|e| error(path, e)),
            None => Ok(None),
        }
    }

    /// Copies the object `path` of `size` bytes over the one that `to` has [lost
    /// bytes](Store::has_all) of. That one stays until all was read here. Holds a few MiB at most.
    ///
    /// # Errors
    /// As [`Store::transfer`].
    pub async fn mend(&self, path: &str, size: u64, to: &Store) -> Result<Transfer> {
        self.write_in_parts(path, size, to).await
    }

    async fn transfer_whole(&self, path: &str, to: &Store) -> Result<Transfer> {
        let bytes = match self.read_confirmed(path).await {
            Ok(bytes) => bytes,
            Err(e) => return self.unread(path, e).await,
        };
        // Without conditions a write would replace what is there.
        if to.append_mode() == AppendMode::Siblings {
            match to.read(path).await {
                Ok(there) => return Ok(if there == bytes { Transfer::Same } else { Transfer::Differs }),
                Err(e) if e.kind() == Kind::Corrupt => return Ok(Transfer::Differs),
                Err(e) if e.kind() == Kind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        let put = to.put_new(path, Sealed::new(bytes.clone())).await?;
        let same = to.is_same(path, &bytes).await?;
        match put {
            Put::Created if same => Ok(Transfer::Copied),
            Put::Created => Err(to.take_back(path).await),
            Put::Exists if same => Ok(Transfer::Same),
            Put::Exists => Ok(Transfer::Differs),
        }
    }

    async fn transfer_in_parts(&self, path: &str, size: u64, to: &Store) -> Result<Transfer> {
        match to.size(path).await {
            Ok(there) if there == size => return Ok(Transfer::Same),
            Ok(_) => return Ok(Transfer::Differs),
            Err(e) if e.kind() == Kind::NotFound => {}
            Err(e) => return Err(e),
        }
        self.write_in_parts(path, size, to).await
    }

    async fn write_in_parts(&self, path: &str, size: u64, to: &Store) -> Result<Transfer> {
        let pieces = (0..size.div_ceil(PIECE_BYTES)).map(|n| n * PIECE_BYTES);
        let pieces: Vec<_> = pieces.map(|start| start..size.min(start + PIECE_BYTES)).collect();
        let mut upload = to.upload(path).await?;
        let mut written = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let bytes = match self.read_range_confirmed(path, piece.clone()).await {
                Ok(bytes) => bytes,
                Err(e) => return self.unread(path, e).await,
            };
            written.push(Hash::of(&bytes));
            upload.part(Sealed::new(bytes)).await?;
        }
        upload.complete().await?;
        for (piece, written) in pieces.into_iter().zip(written) {
            if !to.has(path, piece, written).await? {
                return Err(to.take_back(path).await);
            }
        }
        Ok(Transfer::Copied)
    }

    /// Whether the object is here and these bytes; what is damaged is not.
    async fn is_same(&self, path: &str, bytes: &Bytes) -> Result<bool> {
        for confirmed in [false, true] {
            match if confirmed { self.read_confirmed(path).await } else { self.read(path).await } {
                Ok(there) if there == bytes => return Ok(true),
                Err(e) if e.kind() != Kind::Corrupt => return Err(e),
                _ => {}
            }
        }
        Ok(false)
    }

    /// What it means that the object `path`, which was listed, cannot be read here.
    ///
    /// # Errors
    /// What may pass.
    async fn unread(&self, path: &str, e: Error) -> Result<Transfer> {
        match e.kind() {
            Kind::NotFound if !self.is_listed(path).await? => Ok(Transfer::Missing),
            Kind::NotFound | Kind::Corrupt => {
                tracing::debug!(path, error = %e, "an object cannot be read");
                Ok(Transfer::Unreadable(Unreadable::Damaged))
            }
            _ => match self.0.local.as_ref().and_then(|_| of_one_object(&e)) {
                Some(why) => {
                    tracing::debug!(path, error = %e, "an object cannot be read");
                    Ok(Transfer::Unreadable(why))
                }
                None => Err(e),
            },
        }
    }

    /// Whether a listing has the object `path` now.
    ///
    /// # Errors
    /// What the store says.
    pub async fn is_listed(&self, path: &str) -> Result<bool> {
        let Some((directory, _)) = path.rsplit_once('/') else { return Ok(false) };
        let mut shorter = path.chars();
        shorter.next_back();
        // Everything between that and the path begins like it.
        let after = Some(shorter.as_str()).filter(|after| !after.ends_with('/'));
        let mut listed = self.list(directory, after);
        while let Some(object) = listed.try_next().await? {
            if object.path.as_str() >= path {
                return Ok(object.path == path);
            }
        }
        Ok(false)
    }

    /// Whether the bytes `range` of the object have that hash.
    async fn has(&self, path: &str, range: Range<u64>, hash: Hash) -> Result<bool> {
        for confirmed in [false, true] {
            let read = match confirmed {
                false => self.read_range(path, range.clone()).await,
                true => self.read_range_confirmed(path, range.clone()).await,
            };
            match read {
                Ok(bytes) if Hash::of(&bytes) == hash => return Ok(true),
                Err(e) if e.kind() != Kind::Corrupt => return Err(e),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Removes what was just written, so that it is not taken for a copy the next time.
    async fn take_back(&self, path: &str) -> Error {
        let error = Error::corrupt(format!("{path}: the bytes read back differ from those written"));
        match self.delete(path).await {
            Ok(()) => error,
            Err(e) => error.with_source(e),
        }
    }

    /// The names directly below `prefix` (empty: of the whole store) that have objects below them.
    ///
    /// # Errors
    /// What the store says.
    pub async fn names_below(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut listed = self.list(prefix, after.as_deref());
            let Some(next) = listed.try_next().await? else { return Ok(names) };
            let skip = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
            let name = next.path[skip..].split('/').next().unwrap_or_default().to_owned();
            // '0' is the character after '/': every path below the name is before it. No name has a
            // '/' or ends before one.
            after = Some(format!("{}{name}0", &next.path[..skip]));
            names.push(name);
        }
    }
}

/// Why a local store could not read an object, if others may well be readable all the same. That no
/// more files can be opened, or that a file system behind a network is away, says nothing of the
/// object.
fn of_one_object(e: &Error) -> Option<Unreadable> {
    let first: &(dyn StdError + 'static) = e;
    successors(Some(first), |&e| e.source()).find_map(|cause| {
        if let Some(e) = cause.downcast_ref::<io::Error>() {
            return match Errno::from_io_error(e)? {
                Errno::ACCESS | Errno::PERM => Some(Unreadable::NotAllowed),
                Errno::IO | Errno::BADMSG | Errno::ILSEQ => Some(Unreadable::DiskFailed),
                #[cfg(target_os = "linux")]
                Errno::UCLEAN | Errno::NODATA | Errno::REMOTEIO => Some(Unreadable::DiskFailed),
                // What is there is no file.
                Errno::ISDIR | Errno::NOTDIR | Errno::LOOP => Some(Unreadable::Damaged),
                _ => None,
            };
        }
        let of_sqlite = cause.downcast_ref::<rusqlite::Error>()?.sqlite_error()?;
        (of_sqlite.extended_code == rusqlite::ffi::SQLITE_IOERR_READ).then_some(Unreadable::DiskFailed)
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn local(source: impl StdError + Send + Sync + 'static) -> Error {
        error("acct/a/msg/b", object_store::Error::Generic { store: "local", source: Box::new(source) })
    }

    #[test]
    fn failures_of_one_object_and_of_the_store_differ() {
        for (errno, expected) in [
            (Errno::IO, Some(Unreadable::DiskFailed)),
            (Errno::ACCESS, Some(Unreadable::NotAllowed)),
            (Errno::PERM, Some(Unreadable::NotAllowed)),
            (Errno::ISDIR, Some(Unreadable::Damaged)),
            (Errno::MFILE, None),
            (Errno::NOMEM, None),
            (Errno::STALE, None),
            (Errno::TIMEDOUT, None),
        ] {
            assert_eq!(of_one_object(&local(io::Error::from(errno))), expected, "{errno}");
        }
        for (code, expected) in [
            (ffi::SQLITE_IOERR_READ, Some(Unreadable::DiskFailed)),
            (ffi::SQLITE_BUSY, None),
            (ffi::SQLITE_CANTOPEN, None),
        ] {
            let e = local(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(of_one_object(&e), expected, "{code}");
        }
        assert_eq!(of_one_object(&Error::retry("took too long")), None);
    }
}
