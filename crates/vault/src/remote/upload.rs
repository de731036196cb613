//! An object written in parts, each repeated by itself if need be.
//!
//! It needs no condition: only message objects are written so, and their ids are random, so no
//! other object is ever at that path. The parts of an upload that was never completed are not
//! visible, but take space: stores have a rule that removes them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::FutureExt;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{Error, MultipartId, MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::Shared;

pub(super) struct RemoteUpload {
    shared: Arc<Shared>,
    path: Path,
    id: MultipartId,
    /// Those that were begun, in order; what has arrived has its id.
    parts: Arc<Mutex<Vec<Option<PartId>>>>,
    size: u64,
}

impl RemoteUpload {
    pub async fn begin(shared: Arc<Shared>, path: Path) -> Result<Self> {
        let id = shared.retrier.run("beginning an upload", |_| shared.bucket.create_multipart(&path)).await?;
        Ok(RemoteUpload { shared, path, id, parts: Arc::default(), size: 0 })
    }

    /// Whether the object exists, whatever the reply to its completion was.
    async fn is_complete(&self) -> bool {
        let head = |_| self.shared.bucket.head(&self.path);
        let found = self.shared.retrier.run("looking for an upload", head).await;
        found.is_ok_and(|meta| meta.size == self.size)
    }
}

#[async_trait]
impl MultipartUpload for RemoteUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.size += data.content_length() as u64;
        let number = {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.push(None);
            parts.len() - 1
        };
        let (shared, path, id, parts) =
            (self.shared.clone(), self.path.clone(), self.id.clone(), self.parts.clone());
        async move {
            let put = |_| shared.bucket.put_part(&path, &id, number, data.clone());
            let part = shared.retrier.run("uploading a part", put).await.map_err(not_absent)?;
            parts.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(part);
            Ok(())
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts: Option<Vec<PartId>> =
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let Some(parts) = parts else {
            let source = "an upload was completed without all of its parts".into();
            return Err(Error::Generic { store: "remote", source });
        };
        let complete = |_| self.shared.bucket.complete_multipart(&self.path, &self.id, parts.clone());
        match self.shared.retrier.run("completing an upload", complete).await {
            Ok(put) => Ok(put),
            // It was completed, but the reply was lost: then there is no such upload any more.
            Err(_) if self.is_complete().await => Ok(PutResult { e_tag: None, version: None }),
            Err(e) => Err(not_absent(e)),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        let abort = |_| self.shared.bucket.abort_multipart(&self.path, &self.id);
        self.shared.retrier.run("aborting an upload", abort).await
    }
}

/// For the writer, a missing upload does not mean that an object is absent.
fn not_absent(e: Error) -> Error {
    match e {
        Error::NotFound { .. } => Error::Generic { store: "remote", source: Box::new(e) },
        e => e,
    }
}

impl fmt::Debug for RemoteUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteUpload({})", self.path)
    }
}
