//! Bytes that may be stored, and the hash that chains log entries.

use std::fmt;

use bytes::Bytes;
use minicbor::{Decode, Encode};

use crate::cipher;

/// Bytes that hold no plaintext of an account: the only thing a [`crate::Store`] accepts.
///
/// There is no public constructor: every value comes from one of this crate's `seal` functions.
#[derive(Clone)]
pub struct Sealed(Bytes);

impl Sealed {
    pub(crate) fn new(bytes: impl Into<Bytes>) -> Self {
        Sealed(bytes.into())
    }

    /// An object that says nothing but that it is there.
    pub fn marker() -> Self {
        Sealed(Bytes::from_static(b"SPM\x01"))
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a sealed object is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl AsRef<[u8]> for Sealed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// SHA-256 of an object as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Hash(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

impl Hash {
    /// What stands for "no object before this one".
    pub const ZERO: Hash = Hash([0; 32]);

    /// The hash of `object`.
    pub fn of(object: &[u8]) -> Self {
        Hash(cipher::sha256(&[object]))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}
