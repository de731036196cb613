//! What was read from a remote store, kept on this machine's disk: sealed objects never change, so
//! nothing here is ever stale.
//!
//! The cache holds messages, index segments and checkpoint chunks, which are most of a store. It
//! holds no log entries and records, because their readers need to know whether they still exist.
//! Small objects are cached whole when they are written, others as they are read: whole reads
//! whole, ranges as blocks of 64 KiB.
//!
//! Missing, damaged or unwritable blocks are read from the store. A reader waits for this disk only
//! while it keeps up, and for a moment at most: data that the disk cannot take is not cached.

mod disk;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use sealpost_base::limits::{INLINE_OBJECT_BYTES, STORE_CACHE_QUEUE_BYTES};
use sealpost_base::{Clock, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::StoreMetrics;
use disk::{Disk, Job};

/// Bytes of one block of an object that is read by ranges.
const BLOCK_BYTES: u64 = INLINE_OBJECT_BYTES as u64;
/// The number of the block that is the whole object.
const WHOLE: i64 = -1;
/// Larger objects are not kept whole: packs, segments and chunks are smaller.
const WHOLE_BYTES: usize = STORE_CACHE_QUEUE_BYTES;
/// Jobs that wait for the disk.
const QUEUE: usize = 64;
/// How long a reader waits for space in the queue. Readers do not wait for a disk that takes longer
/// for a batch, until it is quick again.
const WRITE_TIMEOUT: Duration = Duration::from_millis(250);

/// The cache. One process at a time has it open.
pub(crate) struct Cache {
    disk: Arc<Disk>,
    jobs: mpsc::Sender<Job>,
    /// Bytes that may wait for the disk.
    queue_bytes: Arc<Semaphore>,
    /// What is on its way to the disk.
    pending: Arc<Pending>,
    metrics: Arc<StoreMetrics>,
}

/// Blocks by their object and number.
#[derive(Default)]
struct Pending {
    kept: Mutex<HashMap<(String, i64), Bytes>>,
    /// Objects that are to be forgotten, and how often: what the disk still has of them is not used.
    forgotten: Mutex<HashMap<String, usize>>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, i64), Bytes>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forgotten(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk has forgotten the object.
    fn forgot(&self, path: &str) {
        let mut forgotten = self.forgotten();
        if let Some(times) = forgotten.get_mut(path) {
            *times -= 1;
            if *times == 0 {
                forgotten.remove(path);
            }
        }
    }
}

impl Cache {
    /// Opens the cache in `dir`, which is created if it is absent, with at most `bytes` on the
    /// disk. A file that is unreadable or larger is created again. Blocks the thread.
    ///
    /// # Errors
    /// `Retry` if the directory cannot be used, or another process has the cache in it open.
    pub fn open(dir: &Path, bytes: u64, clock: Arc<dyn Clock>, metrics: Arc<StoreMetrics>) -> Result<Self> {
        Self::open_patient(dir, bytes, clock, metrics, WRITE_TIMEOUT)
    }

    /// Removes the cache in `dir`, if there is one. Blocks the thread.
    pub fn remove(dir: &Path) {
        disk::remove_from(dir);
    }

    /// As [`Cache::open`], waiting `write_timeout` for space in the queue.
    fn open_patient(
        dir: &Path,
        bytes: u64,
        clock: Arc<dyn Clock>,
        metrics: Arc<StoreMetrics>,
        write_timeout: Duration,
    ) -> Result<Self> {
        let (disk, connection) = Disk::open(dir, bytes, clock, write_timeout)?;
        let disk = Arc::new(disk);
        let (jobs, received) = mpsc::channel(QUEUE);
        let pending = Arc::new(Pending::default());
        let (writer, done) = (disk.clone(), pending.clone());
        let written = move |jobs: Vec<Job>| {
            let forgotten = jobs.iter().filter_map(|job| match job {
                Job::Forget { path } => Some(path),
                _ => None,
            });
            forgotten.for_each(|path| done.forgot(path));
            let mut pending = done.lock();
            for job in jobs {
                if let Job::Keep { path, number, bytes, .. } = job {
                    let key = (path, number);
                    // The same block may have been put there once more.
                    if pending.get(&key).is_some_and(|kept| kept.as_ptr() == bytes.as_ptr()) {
                        pending.remove(&key);
                    }
                }
            }
        };
        disk::spawn_writer(writer, connection, received, written)?;
        let queue_bytes = Arc::new(Semaphore::new(STORE_CACHE_QUEUE_BYTES));
        Ok(Cache { disk, jobs, queue_bytes, pending, metrics })
    }

    /// Whether objects of that path are kept.
    pub fn covers(path: &str) -> bool {
        let mut parts = path.split('/');
        parts.next() == Some("acct")
            && parts.next().is_some()
            && matches!(parts.next(), Some("msg" | "thin" | "idx" | "snap" | "pack"))
            && parts.next().is_some()
    }

    /// What is to be read from the store to have `range`: whole blocks.
    pub fn blocks_of(range: &Range<u64>) -> Range<u64> {
        range.start / BLOCK_BYTES * BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
    }

    /// The whole object, if it is here.
    pub async fn whole(&self, path: &str) -> Option<Bytes> {
        self.count(self.find(path, Vec::new()).await.0)
    }

    /// The bytes `range` of an object, if they are all here.
    pub async fn range(&self, path: &str, range: &Range<u64>) -> Option<Bytes> {
        let aligned = Self::blocks_of(range);
        let numbers: Vec<i64> = (aligned.start / BLOCK_BYTES..aligned.end / BLOCK_BYTES)
            .filter_map(|number| i64::try_from(number).ok())
            .collect();
        let (whole, blocks) = self.find(path, numbers).await;
        let within = |bytes: Bytes, start: u64| {
            let (from, to) = ((range.start - start) as usize, (range.end - start) as usize);
            (to <= bytes.len()).then(|| bytes.slice(from..to))
        };
        let found = match (whole, blocks) {
            (Some(whole), _) => within(whole, 0),
            (None, Some(mut blocks)) if blocks.len() == 1 => within(blocks.remove(0), aligned.start),
            (None, Some(blocks)) => {
                let mut joined = BytesMut::with_capacity(blocks.iter().map(Bytes::len).sum());
                blocks.iter().for_each(|block| joined.extend_from_slice(block));
                within(joined.freeze(), aligned.start)
            }
            (None, None) => None,
        };
        self.count(found)
    }

    /// Keeps a whole object.
    pub async fn keep_whole(&self, path: &str, bytes: Bytes) {
        if bytes.len() <= WHOLE_BYTES {
            self.keep(path, WHOLE, bytes).await;
        }
    }

    /// Keeps what was read of an object from `start` on, where a block begins.
    pub async fn keep_blocks(&self, path: &str, start: u64, mut bytes: Bytes) {
        let mut number = (start / BLOCK_BYTES) as i64;
        while !bytes.is_empty() {
            let block = bytes.split_to(bytes.len().min(BLOCK_BYTES as usize));
            self.keep(path, number, block).await;
            number += 1;
        }
    }

    /// Forgets an object, because it was removed, or because what is kept of it cannot be opened.
    pub async fn forget(&self, path: &str) {
        self.pending.lock().retain(|(kept, _), _| kept != path);
        *self.pending.forgotten().entry(path.to_owned()).or_default() += 1;
        let _ = self.jobs.send(Job::Forget { path: path.to_owned() }).await;
    }

    /// What it takes on the disk, in bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    async fn keep(&self, path: &str, number: i64, bytes: Bytes) {
        let Some((permit, slot)) = self.reserve_queue(bytes.len() as u32).await else { return };
        let key = (path.to_owned(), number);
        self.pending.lock().insert(key, bytes.clone());
        slot.send(Job::Keep { path: path.to_owned(), number, bytes, _permit: permit });
    }

    /// Reserves bytes on their way to the disk, and an entry among the jobs. Readers that are
    /// faster than this disk writes wait here, but not for a disk that is behind.
    async fn reserve_queue(&self, bytes: u32) -> Option<(OwnedSemaphorePermit, mpsc::Permit<'_, Job>)> {
        let both = async {
            let permit = self.queue_bytes.clone().acquire_many_owned(bytes).await.ok()?;
            Some((permit, self.jobs.reserve().await.ok()?))
        };
        let found = timeout(self.disk.lock_timeout(), both).await;
        found.unwrap_or_else(|_| {
            self.disk.mark_behind();
            None
        })
    }

    /// The whole object, or all of its blocks `numbers` (at least one), of which the last one alone
    /// may be short.
    async fn find(&self, path: &str, numbers: Vec<i64>) -> (Option<Bytes>, Option<Vec<Bytes>>) {
        if let Some(whole) = self.pending.lock().get(&(path.to_owned(), WHOLE)) {
            return (Some(whole.clone()), None);
        }
        if self.pending.forgotten().contains_key(path) {
            return (None, None);
        }
        let waiting: Vec<Option<Bytes>> = {
            let pending = self.pending.lock();
            numbers.iter().map(|&number| pending.get(&(path.to_owned(), number)).cloned()).collect()
        };
        let (disk, jobs, path) = (self.disk.clone(), self.jobs.clone(), path.to_owned());
        let found = spawn_blocking(move || {
            let mut reader = disk.reader(&jobs)?;
            if let Some(whole) = reader.block(&path, WHOLE) {
                return Some((Some(whole), None));
            }
            let mut blocks = Vec::new();
            for (number, waiting) in numbers.iter().zip(waiting) {
                let block = waiting.or_else(|| reader.block(&path, *number))?;
                if block.len() as u64 != BLOCK_BYTES && Some(number) != numbers.last() {
                    return None;
                }
                blocks.push(block);
            }
            (!blocks.is_empty()).then_some((None, Some(blocks)))
        });
        found.await.ok().flatten().unwrap_or_default()
    }

    fn count(&self, found: Option<Bytes>) -> Option<Bytes> {
        let counter = if found.is_some() { &self.metrics.cache_hits } else { &self.metrics.cache_misses };
        counter.increment();
        found
    }
}

#[cfg(test)]
mod tests;
