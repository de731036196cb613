//! An object store that misbehaves by a seeded plan: for tests and simulations of everything above the store.
//!
//! It delays, fails before the effect, loses the reply after the effect, and lists late. The same
//! seed and the same calls in the same order give the same faults; delays go through tokio's clock,
//! which tests can stop.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use sealpost_base::SeededRandom;
use tokio::sync::oneshot;

/// How often each fault happens, per thousand calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan {
    /// Calls that fail before they have any effect.
    pub fail: u64,
    /// Writes and deletes that happen but are answered with an error.
    pub lose_reply: u64,
    /// Calls that are delayed, before and after their effect.
    pub delay: u64,
    /// The longest delay.
    pub delay_max: Duration,
    /// Objects that a listing leaves out, as if they had been written a moment later.
    pub late: u64,
}

/// A wrapper around another store. Cloning shares the plan and its progress.
#[derive(Clone)]
pub struct Faulty(Arc<Shared>);

struct Shared {
    inner: Arc<dyn ObjectStore>,
    plan: Plan,
    random: SeededRandom,
    calm: AtomicBool,
    faults: AtomicU64,
    calls: AtomicU64,
    absent: AtomicU64,
    keeps: AtomicBool,
    /// How many more calls there are before nothing has any effect.
    left: AtomicU64,
    /// Of which object the next answer is wrong: a part of its path.
    wrong: Mutex<Option<String>>,
    /// Which listing waits.
    held: Mutex<Option<Hold>>,
}

/// A listing that is to wait.
struct Hold {
    /// How its prefix ends.
    end: String,
    /// So many others of that prefix come before it.
    passes: usize,
    tell: oneshot::Sender<()>,
    goes_on: oneshot::Receiver<()>,
}

/// A listing that waits, so that a test can act right before it. Dropping this lets it continue.
pub struct Held {
    reached: oneshot::Receiver<()>,
    _go_on: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the listing was asked for; for ever if it is not.
    pub async fn reached(&mut self) {
        let _ = (&mut self.reached).await;
    }
}

impl Faulty {
    /// `inner` with the faults of `plan`, chosen by `seed`.
    pub fn new(inner: Arc<dyn ObjectStore>, plan: Plan, seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        Faulty(Arc::new(Shared {
            inner,
            plan,
            random,
            calm: false.into(),
            faults: 0.into(),
            calls: 0.into(),
            absent: 0.into(),
            keeps: false.into(),
            left: u64::MAX.into(),
            wrong: Mutex::default(),
            held: Mutex::default(),
        }))
    }

    /// The next reads find nothing, as in a store that lists an object a moment before it can be
    /// read.
    pub fn give_out_late(&self, reads: u64) {
        self.0.absent.store(reads, Ordering::SeqCst);
    }

    /// Whether all deletes fail, before they have any effect.
    pub fn refuse_deletes(&self, refuses: bool) {
        self.0.keeps.store(refuses, Ordering::SeqCst);
    }

    /// After so many more calls every one fails without any effect, as for a process that was killed there.
    pub fn die_after(&self, calls: u64) {
        self.0.left.store(calls, Ordering::SeqCst);
    }

    /// The next answer with bytes of an object whose path has `part` in it has one wrong bit.
    pub fn mislead(&self, part: &str) {
        *self.0.wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(part.to_owned());
    }

    /// Whether that answer was given.
    pub fn has_misled(&self) -> bool {
        self.0.wrong.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// After `passes` more listings of a prefix with this end, the next one waits until the result
    /// is dropped.
    pub fn hold_listing(&self, end: &str, passes: usize) -> Held {
        let (tell, reached) = oneshot::channel();
        let (go_on, goes_on) = oneshot::channel();
        *self.0.held.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Hold { end: end.to_owned(), passes, tell, goes_on });
        Held { reached, _go_on: go_on }
    }

    /// Ends the faults (`true`) or lets them begin again: to check the final state.
    pub fn calm(&self, calm: bool) {
        self.0.calm.store(calm, Ordering::SeqCst);
    }

    /// Faults so far, delays not counted.
    pub fn faults(&self) -> u64 {
        self.0.faults.load(Ordering::SeqCst)
    }

    /// Calls so far, a listing counted as one.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn chance(&self, per_thousand: u64) -> bool {
        per_thousand > 0 && !self.calm.load(Ordering::SeqCst) && self.random.below(1000) < per_thousand
    }

    fn fault(&self, per_thousand: u64, what: &'static str) -> object_store::Result<()> {
        if !self.chance(per_thousand) {
            return Ok(());
        }
        self.faults.fetch_add(1, Ordering::SeqCst);
        Err(object_store::Error::Generic { store: "faulty", source: what.into() })
    }

    async fn delay(&self) {
        if self.chance(self.plan.delay) && !self.plan.delay_max.is_zero() {
            let micros = self.random.below(self.plan.delay_max.as_micros() as u64 + 1);
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
    }

    /// The answer instead of `bytes`.
    fn answered(&self, location: &Path, bytes: Bytes) -> Bytes {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.is_empty() || !wrong.as_ref().is_some_and(|part| location.as_ref().contains(part)) {
            return bytes;
        }
        *wrong = None;
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes.into()
    }

    /// Waits if this listing is held.
    async fn held(&self, prefix: Option<&Path>) {
        let held = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let ends = |end: &str| prefix.is_some_and(|prefix| prefix.as_ref().ends_with(end));
            held.take_if(|hold| {
                let is_one = ends(&hold.end);
                let passes = is_one && hold.passes > 0;
                hold.passes -= usize::from(passes);
                is_one && !passes
            })
        };
        if let Some(Hold { tell, goes_on, .. }) = held {
            let _ = tell.send(());
            let _ = goes_on.await;
        }
    }

    /// A call without effect: delayed, or failed.
    async fn read<T>(
        &self,
        call: impl Future<Output = object_store::Result<T>> + Send,
    ) -> object_store::Result<T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.delay().await;
        self.alive()?;
        self.fault(self.plan.fail, "planned failure")?;
        call.await
    }

    fn alive(&self) -> object_store::Result<()> {
        let fewer = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        let counted = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        counted.map(drop).map_err(|_| object_store::Error::Generic { store: "faulty", source: "dead".into() })
    }

    /// A call with an effect, whose reply may be lost.
    async fn write<T>(
        &self,
        call: impl Future<Output = object_store::Result<T>> + Send,
    ) -> object_store::Result<T> {
        let done = self.read(call).await?;
        self.delay().await;
        self.fault(self.plan.lose_reply, "planned loss of the reply")?;
        Ok(done)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.0.write(self.0.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let inner = self.0.read(self.0.inner.put_multipart_opts(location, options)).await?;
        Ok(Box::new(FaultyUpload { shared: self.0.clone(), inner }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let later = |reads: u64| reads.checked_sub(1);
        if self.0.absent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later).is_ok() {
            let (path, source) = (location.to_string(), "not yet".into());
            return Err(object_store::Error::NotFound { path, source });
        }
        let head = options.head;
        let mut got = self.0.read(self.0.inner.get_opts(location, options)).await?;
        if !head {
            let (meta, range, attributes) = (got.meta.clone(), got.range.clone(), got.attributes.clone());
            let bytes = self.0.answered(location, got.bytes().await?);
            let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
            got = GetResult { payload, meta, range, attributes };
        }
        Ok(got)
    }

    async fn get_range(&self, location: &Path, range: Range<u64>) -> object_store::Result<Bytes> {
        let bytes = self.0.read(self.0.inner.get_range(location, range)).await?;
        Ok(self.0.answered(location, bytes))
    }

    async fn delete(&self, location: &Path) -> object_store::Result<()> {
        if self.0.keeps.load(Ordering::SeqCst) {
            return Err(object_store::Error::Generic { store: "faulty", source: "no deletes".into() });
        }
        self.0.write(self.0.inner.delete(location)).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let (shared, prefix) = (self.0.clone(), prefix.cloned());
        let inner = self.0.inner.clone();
        faulty_list(shared, prefix.clone(), move || inner.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let (shared, prefix, offset) = (self.0.clone(), prefix.cloned(), offset.clone());
        let inner = self.0.inner.clone();
        faulty_list(shared, prefix.clone(), move || inner.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.read(self.0.inner.list_with_delimiter(prefix)).await
    }

    async fn copy(&self, from: &Path, to: &Path) -> object_store::Result<()> {
        self.0.write(self.0.inner.copy(from, to)).await
    }

    async fn copy_if_not_exists(&self, from: &Path, to: &Path) -> object_store::Result<()> {
        self.0.write(self.0.inner.copy_if_not_exists(from, to)).await
    }
}

fn faulty_list(
    shared: Arc<Shared>,
    prefix: Option<Path>,
    list: impl FnOnce() -> BoxStream<'static, object_store::Result<ObjectMeta>> + Send + 'static,
) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
    shared.calls.fetch_add(1, Ordering::SeqCst);
    if let Err(e) = shared.alive().and_then(|()| shared.fault(shared.plan.fail, "planned failure")) {
        return stream::once(async { Err(e) }).boxed();
    }
    let start = {
        let shared = shared.clone();
        async move {
            shared.held(prefix.as_ref()).await;
            shared.delay().await;
        }
    };
    let kept = move |_: &_| futures::future::ready(!shared.chance(shared.plan.late));
    start.map(move |()| list().filter(kept)).flatten_stream().boxed()
}

struct FaultyUpload {
    shared: Arc<Shared>,
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (shared, part) = (self.shared.clone(), self.inner.put_part(payload));
        async move { shared.write(part).await }.boxed()
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let shared = self.shared.clone();
        shared.write(self.inner.complete()).await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.inner.abort().await
    }
}

impl fmt::Debug for FaultyUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({:?})", self.inner)
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({:?})", self.0.inner)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({})", self.0.inner)
    }
}
