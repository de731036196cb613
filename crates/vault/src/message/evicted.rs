//! A message whose body is not kept here, and the source of its body.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Error, ObjectId, Result};

use super::layout::{HEAD, Layout};
use crate::chunk;
use crate::cipher::ObjectCipher;

pub(super) const DIGEST_BYTES: usize = 32;

/// The path of a stub.
pub fn stub_path(account: AccountId, object: ObjectId) -> String {
    format!("acct/{account}/thin/{object}")
}

/// A message whose body is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Whose it is.
    pub account: AccountId,
    /// Its object.
    pub object: ObjectId,
    /// Bytes of the message.
    pub size: u64,
    /// SHA-256 of these bytes.
    pub sha256: [u8; 32],
}

/// The body of a message that is not kept here, as it was fetched.
pub trait EvictedBody: Send + Sync {
    /// Bytes of the message.
    fn size(&self) -> u64;

    /// The bytes `range` of the message, or as many of them as it has, in batches.
    fn batches(&self, range: Range<u64>) -> BoxStream<'static, Result<Vec<Bytes>>>;
}

/// Where the bodies are that are not kept here.
pub trait EvictedBodies: Send + Sync {
    /// The whole message, whose size and SHA-256 were compared with the expected ones.
    ///
    /// # Errors
    /// `Offloaded` if it cannot be had as things are; `Retry` if it may be had later.
    fn body(&self, wanted: Wanted) -> BoxFuture<'static, Result<Arc<dyn EvictedBody>>>;
}

/// What a stub says of the message.
pub(super) struct StubHead {
    /// SHA-256 of the message.
    pub(super) sha256: [u8; 32],
    /// Its first bytes.
    pub(super) head: Bytes,
}

/// What a reader knows of a message besides its object.
pub(super) struct BodySource {
    pub(super) account: AccountId,
    pub(super) object: ObjectId,
    pub(super) bodies: Option<Arc<dyn EvictedBodies>>,
}

impl StubHead {
    pub(super) fn open(cipher: &ObjectCipher, layout: &Layout, sealed: &[u8]) -> Result<Self> {
        let mut plain = chunk::open_section(cipher, HEAD, sealed, CHUNK_BYTES)?;
        let plain = Bytes::from(std::mem::take(&mut *plain));
        let Some(sha256) = plain.first_chunk::<DIGEST_BYTES>() else {
            return Err(Error::corrupt("there is no digest"));
        };
        let known = StubHead { sha256: *sha256, head: plain.slice(DIGEST_BYTES..) };
        if known.head.len() as u64 > layout.raw_bytes {
            return Err(Error::corrupt("more bytes than the size of the message"));
        }
        Ok(known)
    }
}

impl BodySource {
    pub(super) fn stub_path(&self) -> String {
        stub_path(self.account, self.object)
    }
}
