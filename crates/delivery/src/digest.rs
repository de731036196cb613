//! The digests that DANE and long site keys need, from `ring`.

use ring::digest;

/// SHA-256.
pub(crate) fn sha256(data: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, data).as_ref());
    out
}

/// SHA-512.
pub(crate) fn sha512(data: &[u8]) -> [u8; 64] {
    let mut out = [0; 64];
    out.copy_from_slice(digest::digest(&digest::SHA512, data).as_ref());
    out
}
