//! Records that are written twice: a version that says in its nonce that the next one repeats it.
//!
//! The record of an account holds its keys in one object of a few hundred bytes. With two equal
//! versions, one of them may be damaged.

use sealpost_vault::Hash;

use super::path::path;

/// Random bytes behind a record; half of them are a tag if the next version [repeats](is_repeated)
/// this one.
pub(super) const NONCE_BYTES: usize = 16;

/// Records whose versions are written twice.
pub(super) const TWICE: &str = "accounts/";

/// The second half of the nonce of a version that the next one repeats, after this first half.
pub(super) fn repeated(path: &str, random: &[u8]) -> [u8; NONCE_BYTES / 2] {
    let hash = Hash::of(&[b"sealpost record repeated v1 ", path.as_bytes(), b" ", random].concat());
    let mut tag = [0; NONCE_BYTES / 2];
    tag.copy_from_slice(&hash.0[..NONCE_BYTES / 2]);
    tag
}

/// Whether the version after this one has the same content, if it exists.
pub(super) fn is_repeated(directory: &str, version: u64, bytes: &[u8]) -> bool {
    let nonce = bytes.len().checked_sub(NONCE_BYTES).map(|at| bytes[at..].split_at(NONCE_BYTES / 2));
    directory.starts_with(TWICE)
        && nonce.is_some_and(|(random, tag)| *tag == repeated(&path(directory, version), random))
}
