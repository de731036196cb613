//! Stores behind a network: every request is bounded in time, repeated when that may help, and
//! waits its turn.
//!
//! What a backend of `object_store` does for one request is kept; what has to be right for
//! write-once objects is done here: a conditional write whose reply was lost is repeated, and if
//! something is there by then, it is read to find out whose it is. So [`PutMode::Create`] answers
//! `AlreadyExists` for another's object only, as long as the network lets it find out; else it
//! fails, and the outcome is unknown.
//!
//! Whole replies are held while they are received (the callers bound their size), so that a request
//! whose body breaks off is repeated like any other.

mod azure;
mod client;
mod gcs;
mod http;
mod refusal;
mod retrier;
mod s3;
mod upload;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use sealpost_base::Random;

use crate::StoreMetrics;
use crate::store::{AtMost, ETags, TooLarge, too_large_in};
pub use azure::Azure;
pub use gcs::Gcs;
pub use refusal::Refusal;
pub use retrier::RetryPolicy;
use retrier::{Retrier, conflicts};
pub use s3::{Addressing, Credentials, S3};
use upload::RemoteUpload;

/// What a remote store is made of: a backend that can upload in parts, each part again if need be.
pub(crate) trait Bucket: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> Bucket for T {}

/// A store behind a network. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Remote {
    shared: Arc<Shared>,
    /// Whether writes say that nothing may be there yet.
    conditional: bool,
}

struct Shared {
    /// `scheme://bucket/prefix`
    url: String,
    bucket: Arc<dyn Bucket>,
    /// What every path begins with.
    prefix: Path,
    conflict: Conflict,
    retrier: Retrier,
    metrics: Arc<StoreMetrics>,
    e_tags: Arc<ETags>,
    /// Whether the store numbers what is written only where it keeps what is removed.
    versions_tell: bool,
}

/// What "409 Conflict" says to a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conflict {
    /// Another writer's request is under way, and its outcome is open: S3.
    Open,
    /// There is something.
    Exists,
}

/// Objects that a listing hands on at once: as many as come in one answer of S3.
const PAGE: usize = 1000;

impl Remote {
    /// All of `bucket` below `prefix`, which `url` names.
    fn new(
        url: String,
        bucket: Arc<dyn Bucket>,
        prefix: Path,
        conflict: Conflict,
        versions_tell: bool,
        retry_policy: RetryPolicy,
        random: Arc<dyn Random>,
    ) -> Self {
        let metrics = Arc::new(StoreMetrics::default());
        let retrier = Retrier::new(retry_policy, random, metrics.clone());
        let e_tags = Arc::default();
        let shared =
            Arc::new(Shared { url, bucket, prefix, conflict, retrier, metrics, e_tags, versions_tell });
        Remote { shared, conditional: true }
    }

    /// The same, for a server that refuses writes with a condition.
    pub fn without_conditions(&self) -> Self {
        Remote { shared: self.shared.clone(), conditional: false }
    }

    /// Which bucket it is, wherever its server is: `scheme://bucket/prefix`.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// What it measures; [`crate::Store`] adds what its callers wait.
    pub fn metrics(&self) -> Arc<StoreMetrics> {
        self.shared.metrics.clone()
    }

    /// What its ETags are; [`crate::Store`] finds out.
    pub fn e_tags(&self) -> Arc<ETags> {
        self.shared.e_tags.clone()
    }
}

impl Shared {
    fn full(&self, path: &Path) -> Path {
        self.prefix.parts().chain(path.parts()).collect()
    }

    fn short(&self, mut meta: ObjectMeta) -> Option<ObjectMeta> {
        let location = meta.location.prefix_match(&self.prefix)?.collect();
        meta.location = location;
        Some(meta)
    }

    async fn create(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = |attempt| {
            let (payload, options) = (payload.clone(), options.clone());
            async move {
                match self.put(path, payload.clone(), options).await {
                    // Not an answer for the caller: an earlier attempt may have arrived, or no
                    // object may exist.
                    Err(e) if self.conflict == Conflict::Open && conflicts(&e) => {
                        Err(Error::Generic { store: "remote", source: Box::new(e) })
                    }
                    // Whose it is is known only if nothing of ours may have arrived yet.
                    Err(e @ Error::AlreadyExists { .. }) if attempt > 1 => {
                        self.is_there(path, payload, e).await
                    }
                    put => put,
                }
            }
        };
        self.retrier.run("writing", put).await
    }

    /// Writes an object, once. A reply with a different ETag is accepted if reading confirms it.
    async fn put(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = self.bucket.put_opts(path, payload.clone(), options).await?;
        let payload = Bytes::from(payload);
        if self.e_tags.fits(put.e_tag.as_deref(), &payload).await != Some(false) {
            return Ok(put);
        }
        match async { self.bucket.get(path).await?.bytes().await }.await {
            Ok(there) if there == payload => Ok(put),
            Ok(_) | Err(Error::NotFound { .. }) => {
                let source = "the reply to a write has an ETag that does not match the bytes written".into();
                Err(Error::Generic { store: "remote", source })
            }
            Err(e) => Err(e),
        }
    }

    /// Whether the existing object has the written bytes, after `exists` was the reply to a
    /// repeated write.
    async fn is_there(&self, path: &Path, payload: PutPayload, exists: Error) -> Result<PutResult> {
        let payload = Bytes::from(payload);
        let mut before = None;
        loop {
            let there = async { self.bucket.get(path).await?.bytes().await };
            match there.await {
                Ok(there) if there == payload => return Ok(PutResult { e_tag: None, version: None }),
                Err(Error::NotFound { .. }) => return Err(exists),
                // Nothing of ours is so large.
                Err(e) if too_large_in(&e).is_some() => return Err(exists),
                Err(e) => return Err(e),
                // One answer may be wrong; said twice it is another's object.
                Ok(there) => match before.replace(there.clone()) {
                    None => {}
                    Some(before) if before == there => return Err(exists),
                    Some(_) => {
                        let source = "another answer each time".into();
                        return Err(Error::Generic { store: "remote", source });
                    }
                },
            }
        }
    }

    async fn get(&self, path: &Path, options: GetOptions) -> Result<(GetResult, Bytes)> {
        let get = |_| {
            let options = options.clone();
            async {
                let (head, most) = (options.head, options.extensions.get::<AtMost>().copied());
                let got = self.bucket.get_opts(path, options).await?;
                if let Some(AtMost(most)) = most
                    && got.meta.size > most
                {
                    let why = TooLarge { size: got.meta.size, most };
                    return Err(Error::Generic { store: "remote", source: why.into() });
                }
                let (meta, range, attributes) = (got.meta.clone(), got.range.clone(), got.attributes.clone());
                let bytes = if head { Bytes::new() } else { got.bytes().await? };
                let payload = GetResultPayload::Stream(stream::empty().boxed());
                Ok((GetResult { payload, meta, range, attributes }, bytes))
            }
        };
        self.retrier.run("reading", get).await
    }
}

#[async_trait]
impl ObjectStore for Remote {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let path = self.shared.full(location);
        let mut done = if options.mode == PutMode::Create && self.conditional {
            self.shared.create(&path, payload, options).await?
        } else {
            let options = PutOptions { mode: PutMode::Overwrite, ..options };
            let put = |_| self.shared.put(&path, payload.clone(), options.clone());
            self.shared.retrier.run("writing", put).await?
        };
        done.version = done.version.filter(|_| self.shared.versions_tell);
        Ok(done)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(RemoteUpload::begin(self.shared.clone(), self.shared.full(location)).await?))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (mut got, bytes) = self.shared.get(&self.shared.full(location), options).await?;
        got.meta.location = location.clone();
        got.payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(got)
    }

    async fn delete(&self, location: &Path) -> Result<()> {
        let path = self.shared.full(location);
        self.shared.retrier.run("removing", |_| self.shared.bucket.delete(&path)).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        list(self.shared.clone(), prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        list(self.shared.clone(), prefix, Some(self.shared.full(offset)))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.map_or_else(|| self.shared.prefix.clone(), |prefix| self.shared.full(prefix));
        let listed = |_| self.shared.bucket.list_with_delimiter(Some(&path));
        let ListResult { common_prefixes, objects } = self.shared.retrier.run("listing", listed).await?;
        let short = |path: Path| path.prefix_match(&self.shared.prefix).map(|parts| parts.collect());
        Ok(ListResult {
            common_prefixes: common_prefixes.into_iter().filter_map(short).collect(),
            objects: objects.into_iter().filter_map(|meta| self.shared.short(meta)).collect(),
        })
    }

    async fn copy(&self, _: &Path, _: &Path) -> Result<()> {
        Err(Error::NotImplemented)
    }

    async fn copy_if_not_exists(&self, _: &Path, _: &Path) -> Result<()> {
        Err(Error::NotImplemented)
    }
}

/// A listing, a page at a time. It has a request under way only while its reader waits for a page;
/// after a failure it continues behind its last object.
fn list(
    shared: Arc<Shared>,
    prefix: Option<&Path>,
    after: Option<Path>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    struct Walk {
        shared: Arc<Shared>,
        below: Path,
        after: Option<Path>,
        listed: Option<BoxStream<'static, Result<ObjectMeta>>>,
        /// There was nothing behind the last page.
        ended: bool,
    }
    let below = prefix.map_or_else(|| shared.prefix.clone(), |prefix| shared.full(prefix));
    let walk = Walk { shared, below, after, listed: None, ended: false };
    let pages = stream::try_unfold(walk, |mut walk| async move {
        if walk.ended {
            return Ok(None);
        }
        let shared = walk.shared.clone();
        let (below, after) = (walk.below.clone(), walk.after.clone());
        let begun = std::sync::Mutex::new(walk.listed.take());
        let page = |_| {
            // What failed once says nothing any more: a new listing from where that one was.
            let going_on = begun.lock().ok().and_then(|mut begun| begun.take());
            let (shared, below, after) = (&shared, &below, &after);
            async move {
                let mut listed = going_on.unwrap_or_else(|| match after {
                    Some(after) => shared.bucket.list_with_offset(Some(below), after).fuse().boxed(),
                    None => shared.bucket.list(Some(below)).fuse().boxed(),
                });
                let mut page = Vec::new();
                page.extend(listed.try_next().await?);
                while page.len() < PAGE {
                    match listed.next().now_or_never() {
                        Some(Some(next)) => page.push(next?),
                        Some(None) => return Ok((page, listed, true)),
                        None => break,
                    }
                }
                Ok((page, listed, false))
            }
        };
        let (page, listed, ended) = shared.retrier.run("listing", page).await?;
        walk.ended = ended;
        let Some(last) = page.last() else { return Ok(None) };
        walk.after = Some(last.location.clone());
        walk.listed = Some(listed);
        let page: Vec<_> = page.into_iter().filter_map(|meta| shared.short(meta)).map(Ok).collect();
        Ok::<_, Error>(Some((stream::iter(page), walk)))
    });
    pages.try_flatten().boxed()
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({}, {})", self.shared.bucket, self.shared.prefix)
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
