//! Where sealed objects live: any [`ObjectStore`], seen through the few operations that write-once
//! objects need.
//!
//! Objects are never overwritten. A write that returned is durable. A write that failed with
//! `Retry` may or may not have happened: the caller may repeat the identical write, and must then
//! take [`Put::Exists`] for "mine or another's" and read the object to find out which.

mod append_mode;
mod batch;
mod e_tags;
mod maintenance;
mod open;
mod size_limit;
mod transfer;
mod types;
mod upload;
mod verified_read;
mod withheld;

use std::error::Error as StdError;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload};
use sealpost_base::metrics::Histogram;
use sealpost_base::{Clock, Error, Result, SystemClock, Timestamp};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::cipher::Secret;
use crate::local::{Damaged, Frees, LocalStore, Parts};
pub use crate::local::{Extent, Inspection, Mark, Newer, Remedy, Repaired};
use crate::remote::Remote;
use crate::server_key::ServerKeys;
use crate::{Sealed, StoreMetrics};
pub use append_mode::{MODE_MARKERS, MarkMemory, StoreMark};
pub use batch::Batch;
pub(crate) use e_tags::ETags;
pub use size_limit::is_too_large;
pub(crate) use size_limit::{AtMost, TooLarge, too_large_in};
pub use transfer::{Transfer, Unreadable};
pub use types::{AppendMode, Backend, ListedObject, Put, StoreStats};
pub(crate) use upload::Upload;

/// A handle on an object store; cloning shares it.
#[derive(Clone)]
pub struct Store(Arc<Shared>, DiskUse);

/// The part of a local disk that writes may use.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum DiskUse {
    /// All but the reserve.
    #[default]
    Ordinary,
    /// The reserve too, for writes that free space.
    Reserve,
}

struct Shared {
    objects: Arc<dyn ObjectStore>,
    local: Option<Arc<LocalStore>>,
    remote: Option<Remote>,
    cache: Option<Cache>,
    append_mode: AppendMode,
    e_tags: Arc<ETags>,
    packs: bool,
    /// Held so that receivers of a store that no other process can change wait for ever instead of
    /// seeing a closed channel.
    silent: watch::Sender<u64>,
    part_bytes: usize,
    puts: AtomicU64,
    bytes: AtomicU64,
    /// The keys that seal the sizes of messages.
    sizes: OnceLock<Vec<Secret>>,
    /// A reply to a write named a version: the store keeps removed objects.
    keeps_removed: AtomicBool,
    metrics: Arc<StoreMetrics>,
    /// For measurements only.
    clock: SystemClock,
}

impl Store {
    /// The same store for writes that free space, such as the log entry of an expunge: on a full disk
    /// they may use the reserve.
    #[must_use]
    pub fn freeing(&self) -> Self {
        Store(self.0.clone(), DiskUse::Reserve)
    }

    /// The cache, if the store has one and caches objects of that path.
    fn cache_for(&self, path: &str) -> Option<&Cache> {
        self.0.cache.as_ref().filter(|_| Cache::covers(path))
    }

    /// How writers to this store decide which of them was first.
    pub fn append_mode(&self) -> AppendMode {
        self.0.append_mode
    }

    /// The directory of a local store.
    pub fn directory(&self) -> Option<&std::path::Path> {
        self.0.local.as_deref().map(LocalStore::directory)
    }

    /// Seals the sizes of messages that are written from now on, for nodes that have these keys and
    /// not the account's. A store has one server: only the first ones count.
    pub fn seal_sizes(&self, keys: &ServerKeys) {
        self.0.sizes.get_or_init(|| keys.derived(b"message sizes"));
    }

    /// Whether the store has keys that seal sizes.
    pub fn seals_sizes(&self) -> bool {
        !self.sizes_keys().is_empty()
    }

    /// The keys for sizes: the first one seals, all open.
    pub(crate) fn sizes_keys(&self) -> &[Secret] {
        self.0.sizes.get().map_or(&[], Vec::as_slice)
    }

    /// Whether the store keeps versions of removed objects, as the replies of a bucket to writes show:
    /// a reader of the bucket can restore them. Google's stores do not show it.
    pub fn keeps_removed(&self) -> bool {
        self.0.keeps_removed.load(Ordering::Relaxed)
    }

    /// Whether messages are packed in this store ([`crate::pack`]), because each request takes long.
    pub fn wants_packs(&self) -> bool {
        self.0.packs
    }

    /// Creates the object `path`, unless it exists. Durable when it returns.
    ///
    /// # Errors
    /// `Retry` if the store failed; the write may have happened (see the module).
    pub async fn put_new(&self, path: &str, object: Sealed) -> Result<Put> {
        let location = location(path)?;
        let size = object.len() as u64;
        let mut options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        if self.1 == DiskUse::Reserve {
            options.extensions.insert(Frees);
        }
        let bytes = object.into_bytes();
        let payload = PutPayload::from_bytes(bytes.clone());
        let put = self.0.objects.put_opts(&location, payload, options);
        match self.timed(&self.0.metrics.writes, put).await {
            Ok(put) => {
                self.wrote(size);
                if put.version.is_some_and(|version| version != "null") {
                    self.0.keeps_removed.store(true, Ordering::Relaxed);
                }
                self.0.e_tags.learn(put.e_tag.as_deref(), &bytes);
                if let Some(cache) = self.cache_for(path) {
                    cache.keep_whole(path, bytes).await;
                }
                Ok(Put::Created)
            }
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Exists),
            // Nothing has to be there already, but the bucket.
            Err(e @ object_store::Error::NotFound { .. }) => {
                Err(Error::not_found(format!("there is no place for {path}")).with_source(e))
            }
            Err(e) => Err(error(path, e)),
        }
    }

    /// Creates objects, all in one [`Batch`]. `Created`: all were, and
    /// are durable. `Exists`: some were there already and are unchanged; the others were created.
    ///
    /// # Errors
    /// `Retry` if the store failed; any of the writes may have happened.
    pub async fn put_all_new(&self, objects: &[(String, Sealed)]) -> Result<Put> {
        let batch = self.batch();
        let added = batch.add(objects.to_vec()).await?;
        let finished = batch.finish().await?;
        Ok(if added == Put::Created { finished } else { added })
    }

    /// Writes the object `from` once more, as `to`, which may be the same path; returns it. Durable
    /// when it returns. It may replace what is there, so nothing is written that was not
    /// [confirmed](Store::read_confirmed).
    ///
    /// # Errors
    /// `NotFound` if there is no object `from`; as [`Store::read_confirmed`] and [`Store::put_new`].
    pub async fn put_again(&self, from: &str, to: &str) -> Result<Bytes> {
        let (object, _) = self.put_again_if(from, to, |_| true).await?;
        Ok(object)
    }

    /// As [`Store::put_again`] if `is_sound` accepts the object; whether it was written.
    ///
    /// # Errors
    /// As [`Store::put_again`].
    pub async fn put_again_if(
        &self,
        from: &str,
        to: &str,
        is_sound: impl FnOnce(&Bytes) -> bool,
    ) -> Result<(Bytes, bool)> {
        let object = self.read_confirmed(from).await?;
        let sound = is_sound(&object);
        if sound {
            self.put_new(to, Sealed::new(object.clone())).await?;
        }
        Ok((object, sound))
    }

    /// The whole object `path`.
    ///
    /// # Errors
    /// `Corrupt` if it is [larger](is_too_large) than anything that belongs there, or is damaged;
    /// what the store says.
    pub async fn read(&self, path: &str) -> Result<Bytes> {
        let cache = self.cache_for(path);
        if let Some(cache) = cache
            && let Some(found) = cache.whole(path).await
        {
            return Ok(found);
        }
        let bytes = self.read_checked(path).await?;
        if let Some(cache) = cache {
            cache.keep_whole(path, bytes.clone()).await;
        }
        Ok(bytes)
    }

    /// The bytes `range` of the object `path`.
    ///
    /// # Errors
    /// `Corrupt` if the object is shorter than that: ranges come from what was sealed, so bytes are missing.
    pub async fn read_range(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let location = location(path)?;
        let cache = self.cache_for(path);
        if let Some(cache) = cache
            && let Some(found) = cache.range(path, &range).await
        {
            return Ok(found);
        }
        let blocks = if cache.is_some() { Cache::blocks_of(&range) } else { range.clone() };
        let read = self.0.objects.get_range(&location, blocks.clone());
        match self.timed(&self.0.metrics.reads, read).await {
            Ok(bytes) => {
                if let Some(cache) = cache {
                    cache.keep_blocks(path, blocks.start, bytes.clone()).await;
                }
                let wanted = (range.start - blocks.start) as usize..(range.end - blocks.start) as usize;
                if wanted.end > bytes.len() { Err(cut_short(path)) } else { Ok(bytes.slice(wanted)) }
            }
            Err(e @ object_store::Error::NotFound { .. }) => Err(error(path, e)),
            // Backends have no common error for a range beyond the end.
            Err(e) => match self.0.objects.head(&location).await {
                Ok(meta) if meta.size < range.end => Err(cut_short(path)),
                _ => Err(error(path, e)),
            },
        }
    }

    /// As [`Store::read_range`] for several objects at once, each with an answer of its own, in
    /// order: one question to the readers of the local backend. The caller bounds how many, and how
    /// much.
    pub async fn read_ranges(&self, wanted: Vec<(String, Range<u64>)>) -> Vec<Result<Bytes>> {
        let failed = wanted.clone();
        let read = self.begin_ranges(wanted, |found| found).await;
        read.unwrap_or_else(|e| {
            let why = e.to_string();
            failed.iter().map(|(path, _)| Err(Error::retry(format!("{path}: {why}")))).collect()
        })
    }

    /// As [`Store::read_ranges`], and what `then` makes of it where it may take a millisecond of
    /// processor time: on the thread that read it, if there is one. It begins now, and not when the
    /// future is first polled.
    pub(crate) fn begin_ranges<T: Send + 'static>(
        &self,
        wanted: Vec<(String, Range<u64>)>,
        then: impl FnOnce(Vec<Result<Bytes>>) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        if let Some(local) = &self.0.local {
            let read = local.get_ranges(wanted, move |asked, found| then(check_ranges(asked, found)));
            let store = self.clone();
            return async move {
                store.timed(&store.0.metrics.reads, read).await.map_err(|e| error("several", e))
            }
            .boxed();
        }
        let store = self.clone();
        let task = tokio::spawn(async move {
            let reads = wanted.iter().map(|(path, range)| store.read_range(path, range.clone()));
            let found = futures::future::join_all(reads).await;
            tokio::task::spawn_blocking(move || then(found)).await
        });
        let panicked = |e| Error::internal("reading objects panicked").with_source(e);
        async move { task.await.map_err(panicked)?.map_err(panicked) }.boxed()
    }

    /// The last object below `prefix` (whole path segments), by its path; `None` if there is none.
    ///
    /// # Errors
    /// Errors of the store; `NotFound` if the object was removed meanwhile; `Corrupt` as
    /// [`Store::read`].
    pub async fn last(&self, prefix: &str) -> Result<Option<(String, Bytes)>> {
        if let Some(local) = &self.0.local {
            let last = local.last(&location(prefix)?).await.map_err(|e| error(prefix, e))?;
            if let Some((path, bytes)) = &last {
                size_limit::check(path, bytes.len() as u64, size_limit::most_bytes(path))?;
            }
            return Ok(last);
        }
        let mut listed = self.list(prefix, None);
        let mut last = None;
        while let Some(object) = listed.try_next().await? {
            last = last.max(Some(object.path));
        }
        let Some(path) = last else { return Ok(None) };
        let bytes = self.read(&path).await?;
        Ok(Some((path, bytes)))
    }

    /// The size of the object `path`, in bytes.
    pub async fn size(&self, path: &str) -> Result<u64> {
        Ok(self.0.objects.head(&location(path)?).await.map_err(|e| error(path, e))?.size)
    }

    /// The objects below `prefix` (whole path segments), sorted by path, those after the path `after` only.
    pub fn list(&self, prefix: &str, after: Option<&str>) -> BoxStream<'static, Result<ListedObject>> {
        let parsed = location(prefix).and_then(|p| Ok((p, after.map(location).transpose()?)));
        let (prefix, after) = match parsed {
            Ok(parsed) => parsed,
            Err(e) => return futures::stream::once(async { Err(e) }).boxed(),
        };
        let found = match &after {
            Some(after) => self.0.objects.list_with_offset(Some(&prefix), after),
            None => self.0.objects.list(Some(&prefix)),
        };
        found
            .map(move |meta| {
                let meta = meta.map_err(|e| error(prefix.as_ref(), e))?;
                let modified = Timestamp(meta.last_modified.timestamp_millis());
                Ok(ListedObject { path: meta.location.to_string(), size: meta.size, modified })
            })
            .boxed()
    }

    /// Removes the object `path`; that it is not there is no error.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let location = location(path)?;
        let deleted = self.timed(&self.0.metrics.deletes, self.0.objects.delete(&location)).await;
        if let Some(cache) = self.cache_for(path) {
            cache.forget(path).await;
        }
        match deleted {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(error(path, e)),
        }
    }

    /// Removes objects so that whenever one is gone, those before it in the list are gone too: one
    /// transaction on the local backend, one after the other elsewhere. Those that are not there
    /// are no error.
    pub async fn delete_in_order(&self, paths: Vec<String>) -> Result<()> {
        let Some(local) = &self.0.local else {
            for path in paths {
                self.delete(&path).await?;
            }
            return Ok(());
        };
        let paths: Result<Vec<_>> =
            paths.iter().map(|path| location(path).map(|path| path.to_string())).collect();
        let delete = local.delete_all(paths?);
        self.timed(&self.0.metrics.deletes, delete).await.map_err(|e| error("several", e))
    }

    /// Counts the changes that other processes made to the store. The local backend counts them within
    /// 200 ms; other backends count none.
    pub fn changes(&self) -> watch::Receiver<u64> {
        match &self.0.local {
            Some(local) => local.changes(),
            None => self.0.silent.subscribe(),
        }
    }

    /// Whether [`Store::changes`] counts commits of other processes.
    pub fn notices_commits(&self) -> bool {
        self.0.local.is_some()
    }

    /// Log entries that any process wrote since `mark`; `None` from a backend that cannot list them.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn newer(&self, mark: Mark) -> Result<Option<Newer>> {
        match &self.0.local {
            Some(local) => local.newer(mark).await.map(Some).map_err(|e| error("the changes", e)),
            None => Ok(None),
        }
    }

    /// The time of the last write, by the store's clock; `None` from an empty store, and from a backend
    /// that would have to list everything.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn written_last(&self) -> Result<Option<Timestamp>> {
        match &self.0.local {
            Some(local) => local.written_last().await.map_err(|e| error("the time of the last write", e)),
            None => Ok(None),
        }
    }

    /// Counts of the work of this store since it was opened.
    pub fn stats(&self) -> StoreStats {
        match &self.0.local {
            Some(local) => local.stats(),
            None => StoreStats {
                objects: self.0.puts.load(Ordering::Relaxed),
                bytes: self.0.bytes.load(Ordering::Relaxed),
                ..StoreStats::default()
            },
        }
    }

    /// Times of requests, and counts of failures.
    pub fn metrics(&self) -> &StoreMetrics {
        &self.0.metrics
    }

    /// Does `work` and records its time.
    async fn timed<T>(
        &self,
        histogram: &Histogram,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> object_store::Result<T> {
        use object_store::Error::{AlreadyExists, NotFound};
        let began = self.0.clock.monotonic();
        let done = work.await;
        histogram.observe_time(self.0.clock.monotonic().saturating_sub(began));
        if matches!(&done, Err(e) if !matches!(e, NotFound { .. } | AlreadyExists { .. })) {
            self.0.metrics.failures.increment();
        }
        done
    }

    /// Bytes of one part of an [`Upload`].
    pub(crate) fn part_bytes(&self) -> usize {
        self.0.part_bytes
    }

    /// Starts an object that is written in parts.
    pub(crate) async fn upload(&self, path: &str) -> Result<Upload> {
        let parts = self.0.objects.put_multipart(&location(path)?).await.map_err(|e| error(path, e))?;
        Ok(Upload { store: self.clone(), path: path.to_owned(), size: 0, parts: Some(parts) })
    }

    fn wrote(&self, bytes: u64) {
        self.0.puts.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn location(path: &str) -> Result<Path> {
    Path::parse(path).map_err(|e| Error::invalid(format!("not an object path: {path:?}")).with_source(e))
}

fn check_ranges(wanted: Vec<(String, Range<u64>)>, found: Parts) -> Vec<Result<Bytes>> {
    let checked = wanted.into_iter().zip(found).map(|((path, range), found)| match found {
        Ok(bytes) if bytes.len() as u64 == range.end.saturating_sub(range.start) => Ok(bytes),
        Ok(_) => Err(cut_short(&path)),
        Err(e) => Err(error(&path, e)),
    });
    checked.collect()
}

fn cut_short(path: &str) -> Error {
    Error::corrupt(format!("{path} is shorter than the bytes written to it"))
}

fn error(path: &str, e: object_store::Error) -> Error {
    match e {
        object_store::Error::NotFound { .. } => Error::not_found(format!("no object {path}")),
        object_store::Error::Generic { source, .. } if source.is::<Damaged>() => {
            Error::corrupt(format!("{path} is damaged")).with_source(source)
        }
        e => Error::retry(format!("store: {path}")).with_source(plain(e.into())),
    }
}

/// Whether an error of a store says that its disk is full.
pub fn is_of_full_disk(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(e) = source {
        let is_full = match (e.downcast_ref::<std::io::Error>(), e.downcast_ref::<rusqlite::Error>()) {
            (Some(e), _) => e.kind() == std::io::ErrorKind::StorageFull,
            (_, Some(e)) => e.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            _ => false,
        };
        if is_full {
            return true;
        }
        source = e.source();
    }
    false
}

/// The error without the prefix "Generic local error" of the crate `object_store`.
fn plain(e: Box<dyn StdError + Send + Sync>) -> Box<dyn StdError + Send + Sync> {
    match e.downcast::<object_store::Error>() {
        Ok(e) => match *e {
            object_store::Error::Generic { source, .. } => plain(source),
            e => e.into(),
        },
        Err(e) => e,
    }
}

#[cfg(test)]
mod tests;
