//! How stores are opened.

use std::path::Path as FilePath;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Clock, Error, Random, Result, SystemClock};
use tokio::sync::watch;

use super::{AppendMode, Backend, DiskUse, Shared, Store};
use crate::cache::Cache;
use crate::local::LocalStore;
use crate::probe::{self, Conditions};
use crate::remote::{Azure, Gcs, Remote, RetryPolicy, S3};

/// S3 and its kin want parts of at least 5 MiB, all of one size.
const REMOTE_PART_BYTES: usize = 5 * 1024 * 1024;

impl Store {
    /// A store in memory, for tests.
    pub fn memory() -> Self {
        Self::new(Arc::new(InMemory::new()), None, CHUNK_BYTES, Backend::default())
    }

    /// The local store in `dir`, which is created if absent. Several processes may open one directory.
    pub async fn local(dir: &FilePath) -> Result<Self> {
        Self::opened(dir, LocalStore::open).await
    }

    /// Opens the local store in `dir` for reading. Without write access (a read-only mount, a
    /// directory that this user may only read) every write fails.
    pub async fn local_to_read(dir: &FilePath) -> Result<Self> {
        Self::opened(dir, LocalStore::open_to_read).await
    }

    async fn opened(dir: &FilePath, open: fn(&FilePath) -> Result<LocalStore>) -> Result<Self> {
        let dir = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || open(&dir)).await;
        let local =
            Arc::new(opened.map_err(|e| Error::internal("opening a store panicked").with_source(e))??);
        Ok(Self::over_local(local))
    }

    /// A local store that was opened.
    pub(crate) fn over_local(local: Arc<LocalStore>) -> Self {
        Self::new(local.clone(), Some(local), CHUNK_BYTES, Backend::default())
    }

    /// A store over any backend that has conditional create.
    pub fn over(inner: Arc<dyn ObjectStore>) -> Self {
        Self::with(inner, Backend::default())
    }

    /// A store over a backend of which that is known.
    pub fn with(inner: Arc<dyn ObjectStore>, backend: Backend) -> Self {
        Self::new(inner, None, REMOTE_PART_BYTES, backend)
    }

    /// A bucket of S3 or its kin. What the server's conditional writes are worth is found out
    /// first, by a few requests.
    ///
    /// # Errors
    /// `Invalid` if there can be no such bucket; `Retry` if the server does not answer as it should.
    pub async fn s3(s3: &S3, retry_policy: RetryPolicy, random: Arc<dyn Random>) -> Result<Self> {
        Self::bucket(s3.connect(retry_policy, random.clone())?, random).await
    }

    /// A bucket of Google Cloud Storage; as [`Store::s3`].
    ///
    /// # Errors
    /// As [`Store::s3`].
    pub async fn gcs(gcs: &Gcs, retry_policy: RetryPolicy, random: Arc<dyn Random>) -> Result<Self> {
        Self::bucket(gcs.connect(retry_policy, random.clone())?, random).await
    }

    /// A container of Azure Blob Storage; as [`Store::s3`].
    ///
    /// # Errors
    /// As [`Store::s3`].
    pub async fn azure(azure: &Azure, retry_policy: RetryPolicy, random: Arc<dyn Random>) -> Result<Self> {
        Self::bucket(azure.connect(retry_policy, random.clone())?, random).await
    }

    async fn bucket(remote: Remote, random: Arc<dyn Random>) -> Result<Self> {
        let store = Self::remote(remote.clone(), AppendMode::Conditional);
        let found = probe::conditions(&store, &*random, probe::Effort::Quick).await;
        let opened = match found? {
            Conditions::Kept => return Ok(store),
            Conditions::Ignored | Conditions::Raced => Self::remote(remote, AppendMode::Siblings),
            Conditions::Refused => Self::remote(remote.without_conditions(), AppendMode::Siblings),
        };
        opened.0.keeps_removed.store(store.keeps_removed(), Ordering::Relaxed);
        Ok(opened)
    }

    pub(crate) fn remote(remote: Remote, append_mode: AppendMode) -> Self {
        let mut store = Self::new(Arc::new(remote.clone()), None, REMOTE_PART_BYTES, Backend { append_mode });
        if let Some(shared) = Arc::get_mut(&mut store.0) {
            shared.metrics = remote.metrics();
            shared.e_tags = remote.e_tags();
            shared.remote = Some(remote);
            shared.packs = true;
        }
        store
    }

    /// The same store, with a cache in `dir` of at most `bytes` on the disk, if it is a remote one
    /// that is not in use yet. Without a cache, if the directory cannot be used: that is logged.
    ///
    /// # Errors
    /// `Internal` for mistakes in this program.
    pub async fn cached(mut self, dir: &FilePath, bytes: u64, clock: Arc<dyn Clock>) -> Result<Self> {
        let (dir, metrics) = (dir.to_owned(), self.0.metrics.clone());
        if self.0.remote.is_none() {
            return Ok(self);
        }
        let opened = tokio::task::spawn_blocking(move || Cache::open(&dir, bytes, clock, metrics)).await;
        let cache = match opened.map_err(|e| Error::internal("opening a cache panicked").with_source(e))? {
            Ok(cache) => cache,
            Err(e) => {
                tracing::warn!(error = %e, "the cache cannot be used: all reads go to the bucket");
                return Ok(self);
            }
        };
        match Arc::get_mut(&mut self.0) {
            Some(shared) => shared.cache = Some(cache),
            None => return Err(Error::internal("a store in use cannot get a cache")),
        }
        Ok(self)
    }

    /// Removes the cache that [`Store::cached`] has left in `dir`, if there is one, after the
    /// setting was turned off.
    pub async fn remove_cache(dir: &FilePath) {
        let dir = dir.to_owned();
        // Files that cannot be removed take space, and nothing else.
        let _ = tokio::task::spawn_blocking(move || Cache::remove(&dir)).await;
    }

    /// The same store, as if it were remote: messages are packed. It must not be in use yet.
    pub fn packing(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.packs = true;
        }
        self
    }

    /// The same store, writing without conditions; `None` if the backend always uses them.
    pub(crate) fn without_conditions(&self) -> Option<Self> {
        let remote = self.0.remote.as_ref()?.without_conditions();
        Some(Self::remote(remote, AppendMode::Siblings))
    }

    fn new(
        objects: Arc<dyn ObjectStore>,
        local: Option<Arc<LocalStore>>,
        part_bytes: usize,
        backend: Backend,
    ) -> Self {
        let silent = watch::Sender::new(0);
        let (metrics, clock) =
            (local.as_ref().map(|local| local.metrics()).unwrap_or_default(), SystemClock::new());
        let (puts, bytes, keeps_removed) = (0.into(), 0.into(), false.into());
        let append_mode = backend.append_mode;
        let (remote, cache) = (None, None);
        let shared = Shared {
            objects,
            local,
            remote,
            cache,
            append_mode,
            e_tags: Arc::default(),
            packs: false,
            silent,
            part_bytes,
            puts,
            bytes,
            keeps_removed,
            sizes: OnceLock::new(),
            metrics,
            clock,
        };
        Store(Arc::new(shared), DiskUse::Ordinary)
    }
}
