//! ETags that are MD5s show whether a reply has the written bytes, without another request.

use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use md5::{Digest, Md5};

/// Larger answers are held against their ETag on a thread that may block.
const INLINE_BYTES: usize = 64 * 1024;
const MD5_BYTES: usize = 16;

/// What the ETags of a store are, learned from the first answer to a write that has one.
#[derive(Debug, Default)]
pub(crate) struct ETags(AtomicU8);

const MD5: u8 = 1;
const OTHER: u8 = 2;

impl ETags {
    /// `written` was answered with that ETag.
    pub fn learn(&self, e_tag: Option<&str>, written: &Bytes) {
        if let Some(e_tag) = e_tag
            && self.0.load(Ordering::Relaxed) == 0
        {
            let is_md5 = digest_in(e_tag).is_some_and(|digest| digest == md5(written));
            self.0.store(if is_md5 { MD5 } else { OTHER }, Ordering::Relaxed);
        }
    }

    /// The MD5 of the object with that ETag; `None` if it does not tell.
    fn md5_of(&self, e_tag: Option<&str>) -> Option<[u8; MD5_BYTES]> {
        e_tag.and_then(digest_in).filter(|_| self.0.load(Ordering::Relaxed) == MD5)
    }

    /// Whether `bytes` are the object with that ETag; `None` if it does not tell.
    pub async fn fits(&self, e_tag: Option<&str>, bytes: &Bytes) -> Option<bool> {
        let digest = self.md5_of(e_tag)?;
        if bytes.len() <= INLINE_BYTES {
            return Some(md5(bytes) == digest);
        }
        let bytes = bytes.clone();
        tokio::task::spawn_blocking(move || md5(&bytes) == digest).await.ok()
    }
}

fn md5(bytes: &[u8]) -> [u8; MD5_BYTES] {
    Md5::digest(bytes).into()
}

/// The MD5 that an ETag says, if it has the form of one: those of objects in parts have not.
fn digest_in(e_tag: &str) -> Option<[u8; MD5_BYTES]> {
    let hex = e_tag.trim_matches('"').as_bytes();
    let mut digest = [0; MD5_BYTES];
    let digit = |at: usize| char::from(hex[at]).to_digit(16);
    if hex.len() != 2 * MD5_BYTES {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = (digit(2 * at)? << 4 | digit(2 * at + 1)?) as u8;
    }
    Some(digest)
}
