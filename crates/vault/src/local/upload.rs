//! An object written in parts: a file from the start.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures::FutureExt;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};
use sealpost_base::Clock;

use crate::local::LocalStore;
use crate::local::counters::Counters;
use crate::local::failure::{blocking, generic};
use crate::local::files::NewFile;
use crate::local::reserve::Reserve;
use crate::local::writer::{Mode, Writer};

/// Parts go to a temporary file, which becomes the object at the end, or nothing if this is dropped before.
pub(super) struct LocalUpload {
    path: String,
    file: Option<NewFile>,
    writer: Writer,
    counters: Arc<Counters>,
    reserve: Arc<Reserve>,
    clock: Arc<dyn Clock>,
}

impl LocalUpload {
    pub fn new(path: String, file: NewFile, store: &LocalStore) -> object_store::Result<Self> {
        let (writer, counters) = (store.writer()?.clone(), store.counters.clone());
        let (reserve, clock) = (store.reserve.clone(), store.clock.clone());
        Ok(LocalUpload { path, file: Some(file), writer, counters, reserve, clock })
    }
}

impl fmt::Debug for LocalUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalUpload({})", self.path)
    }
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let Some(file) = &mut self.file else {
            return async { Err(generic("the upload has ended")) }.boxed();
        };
        let (file, mut offset) = file.reserve(payload.content_length());
        let (reserve, now) = (self.reserve.clone(), self.clock.monotonic());
        let write = move || {
            reserve.admit(now)?;
            for segment in &payload {
                file.write_all_at(segment, offset)?;
                offset += segment.len() as u64;
            }
            Ok(())
        };
        blocking(write).boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let file = self.file.take().ok_or_else(|| generic("the upload has ended"))?;
        self.counters.file_syncs.fetch_add(2, Ordering::Relaxed);
        let body = blocking(move || file.keep()).await?;
        self.writer.put(self.path.clone(), body, Mode::Overwrite, false).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        if let Some(file) = self.file.take() {
            blocking(move || {
                drop(file);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}
