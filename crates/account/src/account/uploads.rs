//! Uploads of an account: bytes that a client sent and that no message has yet.
//!
//! They have a quota of their own ([`limits::JMAP_UPLOADS_BYTES`]): each upload makes room by
//! removing the oldest ones, and those older than [`KEPT`]. The garbage collection removes old ones
//! too. How old they are, the store says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use sealpost_base::{Kind, Result, Timestamp, limits};
use sealpost_mime::Layer;
use sealpost_vault::ListedObject;
use sealpost_vault::message::MessageReader;
use sealpost_vault::upload::{self, Upload, UploadWriter};

use super::Account;
use crate::decoded::{Decoded, Span};

/// How long an upload is kept, unless others need its place: RFC 8620 §6 asks for an hour.
const KEPT: Duration = Duration::from_secs(24 * 3600);

impl Account {
    /// Starts an upload. The caller ends one that has too many bytes.
    ///
    /// # Errors
    /// Store errors.
    pub async fn upload(&self) -> Result<UploadWriter> {
        UploadWriter::new(self.store(), &self.keys(), self.id(), self.random(), self.env.storing()).await
    }

    /// Completes an upload, and removes others that are too many or too old; its text, which
    /// [`Account::uploaded`] reads. Durable when it returns.
    ///
    /// # Errors
    /// Store errors.
    pub async fn finish_upload(&self, writer: UploadWriter) -> Result<String> {
        let upload = writer.finish().await?;
        let text = upload.to_text(&self.keys(), self.id())?;
        // It is there, whatever becomes of the others.
        if let Err(error) = self.collect_uploads(Timestamp(i64::MIN)).await {
            tracing::warn!(account = %self.id(), %error, "old uploads were not removed; retrying later");
        }
        Ok(text)
    }

    /// The upload with that text; `None` if it is no text of an upload of this account. It may have
    /// been collected.
    pub fn uploaded(&self, text: &str) -> Option<Upload> {
        Upload::of_text(&self.keys(), self.id(), text)
    }

    /// Whether the upload was not collected.
    ///
    /// # Errors
    /// Store errors.
    pub async fn has_upload(&self, upload: &Upload) -> Result<bool> {
        match self.store().size(&upload::path(self.id(), upload.object())).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == Kind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The bytes of an upload that a span names, as [`Account::bytes`].
    ///
    /// # Errors
    /// `NotFound` if it was collected, `Corrupt`; store errors.
    pub async fn upload_bytes(
        &self,
        upload: &Upload,
        span: Span,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.bytes_by(upload.object(), &self.upload_reader(upload)?, span).await
    }

    /// What comes out of these layers of an upload, as [`Account::decoded`].
    ///
    /// # Errors
    /// As [`Account::upload_bytes`].
    pub async fn upload_decoded(&self, upload: &Upload, layers: &[Layer]) -> Result<Arc<Decoded>> {
        self.decoded_by(upload.object(), &self.upload_reader(upload)?, layers).await
    }

    fn upload_reader(&self, upload: &Upload) -> Result<MessageReader> {
        upload.reader(self.store(), &self.keys(), self.id())
    }

    /// Removes uploads that are too many, or too old at `store_time` or the time of the newest one;
    /// not for their age while the clock is not believed, which may be the store's too.
    pub(super) async fn collect_uploads(&self, store_time: Timestamp) -> Result<()> {
        let listed = self.store().list(&upload::folder(self.id()), None);
        // More than there may be, in case others upload at the same time.
        let uploads: Vec<ListedObject> = listed.try_collect().await?;
        for path in superfluous(uploads, store_time, !self.env.keeps_all()) {
            match self.store().delete(&path).await {
                Err(error) if error.kind() != Kind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The paths of those that are too many, or too old: the newest stay. With `ends`, age counts.
fn superfluous(mut uploads: Vec<ListedObject>, store_time: Timestamp, ends: bool) -> Vec<String> {
    uploads.sort_by_key(|upload| std::cmp::Reverse(upload.modified));
    let now = uploads.first().map_or(store_time, |newest| newest.modified.max(store_time));
    let (mut count, mut bytes) = (0, 0u64);
    let mut is_superfluous = |upload: &ListedObject| {
        count += 1;
        bytes = bytes.saturating_add(upload.size);
        // The newest one has just come.
        let is_full = count > limits::JMAP_UPLOADS || bytes > limits::JMAP_UPLOADS_BYTES;
        count > 1 && is_full || ends && now.since(upload.modified) > KEPT
    };
    uploads.retain(|upload| is_superfluous(upload));
    uploads.into_iter().map(|upload| upload.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_AGO: Timestamp = Timestamp(i64::MIN);

    fn listed(name: u32, size: u64, modified: i64) -> ListedObject {
        ListedObject { path: name.to_string(), size, modified: Timestamp(modified) }
    }

    #[test]
    fn the_oldest_uploads_go_first() {
        let half = limits::JMAP_UPLOADS_BYTES / 2;
        let uploads = vec![listed(1, half, 10), listed(2, half, 30), listed(3, half, 20)];
        assert_eq!(superfluous(uploads, LONG_AGO, true), ["1"]);
        let large = vec![listed(1, 1, 10), listed(2, 3 * half, 30)];
        assert_eq!(superfluous(large, LONG_AGO, true), ["1"], "the newest one stays, however large");
        let many = (0..limits::JMAP_UPLOADS as u32 + 2).map(|n| listed(n, 1, n.into())).collect();
        assert_eq!(superfluous(many, LONG_AGO, true), ["1", "0"]);
    }

    #[test]
    fn uploads_are_kept_for_a_day() {
        let kept = i64::try_from(KEPT.as_millis()).unwrap();
        let uploads = || vec![listed(1, 1, 0), listed(2, 1, 1), listed(3, 1, kept + 1)];
        assert_eq!(superfluous(uploads(), LONG_AGO, true), ["1"]);
        assert_eq!(superfluous(uploads(), Timestamp(2 * kept + 2), true), ["3", "2", "1"]);
        assert!(superfluous(uploads(), LONG_AGO, false).is_empty(), "the clock is not believed");
    }
}
