//! The bytes of the message behind an email.

use std::ops::Range;

use bytes::Bytes;
use futures::TryStreamExt;
use sealpost_base::{Kind, Result};
use sealpost_mime::decode::{Encoding, TransferDecoder};

use crate::blob::Blob;

/// A message, possibly wholly in memory.
pub(super) struct MessageBytes {
    blob: Blob,
    whole: Option<Bytes>,
}

impl MessageBytes {
    pub(super) fn new(blob: Blob, whole: Option<Bytes>) -> Self {
        MessageBytes { blob, whole }
    }

    /// Calls `each` with pieces of the range until it returns false.
    pub(super) async fn read(&self, range: Range<u64>, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        if let Some(bytes) = self.in_memory(&range) {
            each(bytes);
            return Ok(());
        }
        let mut pieces = self.blob.bytes(range).await?;
        while let Some(piece) = pieces.try_next().await? {
            if !each(&piece) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The size of the range after decoding.
    pub(super) async fn decoded_size(&self, range: Range<u64>, encoding: Encoding) -> Result<u64> {
        if matches!(encoding, Encoding::Identity | Encoding::Opaque) {
            return Ok(range.end - range.start);
        }
        let Some(bytes) = self.in_memory(&range) else {
            return Ok(self.blob.part(range, encoding).await?.size());
        };
        let (mut decoder, mut out, mut size) = (TransferDecoder::new(encoding), Vec::new(), 0);
        for slice in bytes.chunks(8 * 1024) {
            decoder.push(slice, &mut out);
            size += out.len() as u64;
            out.clear();
        }
        decoder.finish(&mut out);
        Ok(size + out.len() as u64)
    }

    fn in_memory(&self, range: &Range<u64>) -> Option<&[u8]> {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        self.whole.as_ref()?.get(start..end)
    }
}

/// The result of a read; `None` for a damaged message, so that the response shows the rest of it.
///
/// # Errors
/// Errors that may be temporary.
pub(super) fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::NotFound) => {
            tracing::error!(%error, "a message is damaged; what can be read of it is shown");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
