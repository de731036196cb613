//! Whether two messages of backups are the same: by their bytes.

use std::io::Read;

use ring::digest::{Context, SHA256};
use sealpost_base::{Error, Result};

use crate::backup::Folder;
use crate::backup::digest::finish;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// SHA-256 of data that arrives in pieces.
pub(crate) struct Hasher(Context);

impl Hasher {
    /// The hash state before the first byte.
    pub(crate) fn new() -> Self {
        Hasher(Context::new(&SHA256))
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes.
    pub(crate) fn finish(self) -> [u8; 32] {
        finish(self.0)
    }
}

/// SHA-256 of a message, also of one whose body is evicted.
///
/// # Errors
/// `NotFound` if there is no such message; `Retry`, `Corrupt`.
pub(crate) fn sha256(folder: &dyn Folder, uid: u32) -> Result<[u8; 32]> {
    if let Some(hash) = folder.evicted(uid)? {
        return Ok(hash);
    }
    let (mut bytes, mut hash, mut piece) = (folder.read(uid)?, Hasher::new(), vec![0; PIECE_BYTES]);
    loop {
        match bytes.read(&mut piece) {
            Ok(0) => return Ok(hash.finish()),
            Ok(n) => hash.push(&piece[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::retry("it cannot be read").with_source(e)),
        }
    }
}

/// Whether two messages have the same bytes. Messages that cannot be read count as different.
pub(crate) fn is_same(first: &dyn Folder, uid: u32, second: &dyn Folder, other: u32) -> bool {
    let hashes = (sha256(first, uid), sha256(second, other));
    matches!(hashes, (Ok(first), Ok(second)) if first == second)
}
