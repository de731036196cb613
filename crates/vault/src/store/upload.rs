//! Objects that are written in parts.

use object_store::{MultipartUpload, PutPayload};
use sealpost_base::{Error, Result};

use super::{Store, error};
use crate::Sealed;

/// An object on its way, in parts. Dropped before [`Upload::complete`], it leaves nothing.
pub(crate) struct Upload {
    pub(super) store: Store,
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) parts: Option<Box<dyn MultipartUpload>>,
}

impl Upload {
    /// Writes the next part; all but the last have [`Store::part_bytes`] or more.
    pub async fn part(&mut self, sealed: Sealed) -> Result<()> {
        self.size += sealed.len() as u64;
        let Some(parts) = &mut self.parts else {
            return Err(Error::internal("a part was uploaded after the end of the upload"));
        };
        let written = parts.put_part(PutPayload::from_bytes(sealed.into_bytes())).await;
        written.map_err(|e| error(&self.path, e))
    }

    /// Makes the object visible and durable.
    pub async fn complete(mut self) -> Result<()> {
        let Some(parts) = &mut self.parts else {
            return Err(Error::internal("a part was uploaded after the end of the upload"));
        };
        let complete = parts.complete();
        self.store.timed(&self.store.0.metrics.writes, complete).await.map_err(|e| error(&self.path, e))?;
        self.parts = None;
        self.store.wrote(self.size);
        Ok(())
    }
}

impl Upload {
    /// Removes the parts now: for a process that may end before what is dropped has gone.
    pub async fn abort(mut self) {
        if let Some(mut parts) = self.parts.take()
            && let Err(e) = parts.abort().await
        {
            tracing::debug!(path = self.path, error = %e, "aborting an upload failed");
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Err(e) = parts.abort().await {
                    tracing::debug!(error = %e, "aborting an upload failed");
                }
            });
        }
    }
}
