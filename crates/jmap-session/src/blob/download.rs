//! Downloads (RFC 8620 §6.2).

use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sealpost_auth::standing::Standing;
use sealpost_base::{Error, Permit, Result};
use sealpost_jmap::GivenId;
use sealpost_jmap::id::CreatedIds;
use sealpost_vault::message::READER_BYTES;

use super::open::{Blob, open};
use crate::scope::Scope;
use crate::user::User;

/// Memory for each byte of a small blob: one as stored, one decrypted.
const SMALL_FACTOR: u64 = 2;
/// The least memory for a blob, in bytes.
const LEAST_BYTES: u64 = 4096;

/// A blob to download.
pub struct BlobDownload {
    blob: Blob,
    standing: Standing,
}

/// Opens a blob. `None` if the account has no such blob, or the caller has no such account.
pub(crate) async fn download(user: &User, account: &str, blob: &str) -> Result<Option<BlobDownload>> {
    let mut scope = Scope::open(user, Vec::new(), CreatedIds::default()).await?;
    scope.select(Some(account)).await?;
    if scope.id().as_str() != account {
        return Ok(None);
    }
    // Finding a part can mean reading the whole message.
    let _permit = scope.permit(READER_BYTES).await;
    let blob = open(&scope, &GivenId::from(blob.to_owned())).await?;
    Ok(blob.map(|blob| BlobDownload { blob, standing: user.standing.clone() }))
}

impl BlobDownload {
    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.blob.size()
    }

    /// A range of the blob's bytes, read from the store as the consumer polls. The stream acquires memory
    /// before its first piece and holds it until it is dropped.
    ///
    /// # Errors
    /// An error is the last item: the blob cannot be read any further, or the login is no longer valid.
    pub fn bytes(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let (blob, standing) = (self.blob.clone(), self.standing.clone());
        let opened = async move {
            let wanted = range.end.saturating_sub(range.start).min(blob.size());
            let bytes = wanted.saturating_mul(SMALL_FACTOR).saturating_add(LEAST_BYTES);
            let bytes = usize::try_from(bytes).unwrap_or(READER_BYTES).min(READER_BYTES);
            let permit = blob.account().reading().acquire(bytes).await;
            let pieces = blob.bytes(range).await?;
            Ok::<_, Error>(futures::stream::try_unfold((pieces, standing, permit), next_piece))
        };
        futures::stream::once(opened).try_flatten().boxed()
    }
}

/// The state of a download: the bytes, the login, and the permit for their memory.
type Sending = (BoxStream<'static, Result<Bytes>>, Standing, Permit);

async fn next_piece((mut pieces, standing, permit): Sending) -> Result<Option<(Bytes, Sending)>> {
    if !standing.holds() {
        return Err(Error::denied("the login is not valid any more"));
    }
    let piece = pieces.try_next().await?;
    Ok(piece.map(|piece| (piece, (pieces, standing, permit))))
}
