//! Uploads of an account: bytes that a client sent and that are in no message yet.
//!
//! They have a quota of their own (RFC 8620 §6, [`limits::JMAP_UPLOADS_BYTES`]). Each upload removes the
//! oldest ones beyond the quota, and those older than [`KEPT`]; so does garbage collection. The number of
//! uploads is bounded too, and removes only those for which the hour of the RFC is over: a client that
//! uploads many small files loses none of them, and is refused. The store's clock decides on their age.

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

/// How long an upload is kept within the quota.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long no other upload removes it, unless they are too large together: what RFC 8620 §6 asks for.
const PROMISED: Duration = Duration::from_secs(3600);

/// How an upload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishedUpload {
    /// Its text, which [`Account::uploaded`] reads.
    Kept(String),
    /// It is removed: the account has [`limits::JMAP_UPLOADS`] of the last hour.
    TooMany,
}

impl Account {
    /// Starts an upload. The caller must limit its size.
    ///
    /// # Errors
    /// Store errors.
    pub async fn upload(&self) -> Result<UploadWriter> {
        UploadWriter::new(self.store(), &self.keys(), self.id(), self.random(), self.env.storing()).await
    }

    /// Completes an upload, and removes excess and old ones. Durable when it returns.
    ///
    /// # Errors
    /// Store errors.
    pub async fn finish_upload(&self, writer: UploadWriter) -> Result<FinishedUpload> {
        let upload = writer.finish().await?;
        let text = upload.to_text(&self.keys(), self.id())?;
        let own = upload::path(self.id(), upload.object());
        match self.collect_uploads(Timestamp(i64::MIN), Some(&own)).await {
            Ok(true) => Ok(FinishedUpload::Kept(text)),
            Ok(false) => Ok(FinishedUpload::TooMany),
            // The upload is complete, whether or not others can be removed.
            Err(error) => {
                tracing::warn!(account = %self.id(), %error, "old uploads were not removed; retrying later");
                Ok(FinishedUpload::Kept(text))
            }
        }
    }

    /// The upload with that text; `None` if it cannot be an upload of this account. The upload may have been
    /// removed.
    pub fn uploaded(&self, text: &str) -> Option<Upload> {
        Upload::of_text(&self.keys(), self.id(), text)
    }

    /// Whether the upload still exists.
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

    /// The bytes of a span of an upload, as [`Account::bytes`].
    ///
    /// # Errors
    /// `NotFound` if it was removed, `Corrupt`; store errors.
    pub async fn upload_bytes(
        &self,
        upload: &Upload,
        span: Span,
    ) -> Result<BoxStream<'static, Result<Bytes>>> {
        self.bytes_by(upload.object(), &self.upload_reader(upload)?, span).await
    }

    /// The decoded form of these layers of an upload, as [`Account::decoded`].
    ///
    /// # Errors
    /// As [`Account::upload_bytes`].
    pub async fn upload_decoded(&self, upload: &Upload, layers: &[Layer]) -> Result<Arc<Decoded>> {
        self.decoded_by(upload.object(), &self.upload_reader(upload)?, layers).await
    }

    fn upload_reader(&self, upload: &Upload) -> Result<MessageReader> {
        upload.reader(self.store(), &self.keys(), self.id())
    }

    /// Removes excess uploads, and those too old at `store_time` or at the time of the newest one. Ignores
    /// the age while the clock is doubted, which may be the store's too. Whether `new`, which has just
    /// arrived, stays.
    pub(super) async fn collect_uploads(&self, store_time: Timestamp, new: Option<&str>) -> Result<bool> {
        let listed = self.store().list(&upload::folder(self.id()), None);
        // May exceed the limit, if others upload at the same time.
        let uploads: Vec<ListedObject> = listed.try_collect().await?;
        let removed = superfluous(uploads, new, store_time, !self.env.keeps_all());
        let stays = !removed.iter().any(|path| Some(path.as_str()) == new);
        for path in removed {
            match self.store().delete(&path).await {
                Err(error) if error.kind() != Kind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(stays)
    }
}

/// The paths of excess and old uploads. The newest stay, but for `new` if there is no room among those of
/// the last hour. With `ends`, age counts.
fn superfluous(
    mut uploads: Vec<ListedObject>,
    new: Option<&str>,
    store_time: Timestamp,
    ends: bool,
) -> Vec<String> {
    uploads.sort_by_key(|upload| std::cmp::Reverse(upload.modified));
    let now = uploads.first().map_or(store_time, |newest| newest.modified.max(store_time));
    let is_older = |upload: &ListedObject, age| ends && now.since(upload.modified) > age;
    let promised = uploads.iter().filter(|upload| !is_older(upload, PROMISED)).count();
    if promised > limits::JMAP_UPLOADS
        && let Some(new) = new
    {
        return vec![new.to_owned()];
    }
    let (mut count, mut bytes) = (0, 0u64);
    let mut is_superfluous = |upload: &ListedObject| {
        count += 1;
        bytes = bytes.saturating_add(upload.size);
        let is_excess = count > limits::JMAP_UPLOADS && is_older(upload, PROMISED);
        // RFC 8620 §6: the oldest go, however new they are. The newest one has just arrived.
        count > 1 && (is_excess || bytes > limits::JMAP_UPLOADS_BYTES) || is_older(upload, KEPT)
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
        assert_eq!(superfluous(uploads, Some("2"), LONG_AGO, true), ["1"]);
        let large = vec![listed(1, 1, 10), listed(2, 3 * half, 30)];
        assert_eq!(
            superfluous(large, Some("2"), LONG_AGO, true),
            ["1"],
            "the newest one stays, however large"
        );
    }

    #[test]
    fn no_number_of_uploads_ends_one_of_the_last_hour() {
        let hour = i64::try_from(PROMISED.as_millis()).unwrap();
        let most = limits::JMAP_UPLOADS as u32;
        let many = |count: u32| (0..count).map(|n| listed(n, 1, n.into())).collect::<Vec<_>>();
        let newest = most.to_string();
        assert_eq!(superfluous(many(most), None, LONG_AGO, true), [""; 0]);
        assert_eq!(superfluous(many(most + 1), Some(&newest), LONG_AGO, true), std::slice::from_ref(&newest));
        assert_eq!(superfluous(many(most + 1), None, LONG_AGO, true), [""; 0], "garbage collection");
        // An hour later they make room, as many as are needed.
        let mut later = many(most + 1);
        later.push(listed(most + 1, 1, hour + 3));
        assert_eq!(superfluous(later.clone(), Some("x"), LONG_AGO, true), ["1", "0"]);
        assert_eq!(superfluous(later, Some("x"), LONG_AGO, false), ["x"], "the clock is not believed");
    }

    #[test]
    fn uploads_are_kept_for_a_day() {
        let kept = i64::try_from(KEPT.as_millis()).unwrap();
        let uploads = || vec![listed(1, 1, 0), listed(2, 1, 1), listed(3, 1, kept + 1)];
        assert_eq!(superfluous(uploads(), None, LONG_AGO, true), ["1"]);
        assert_eq!(superfluous(uploads(), None, Timestamp(2 * kept + 2), true), ["3", "2", "1"]);
        assert!(superfluous(uploads(), None, LONG_AGO, false).is_empty(), "the clock is not believed");
    }
}
