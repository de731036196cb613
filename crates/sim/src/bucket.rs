//! The store of a history: in memory, with all faults that may happen between a node and an object
//! store.
//!
//! Its only guarantee: an acknowledged write is seen by every request that begins after that. A
//! write that is under way, or whose reply was an error, may happen now, later, twice or never.
//! With [`AppendMode::Conditional`] creates are serialized. With [`AppendMode::Siblings`] a create
//! overwrites, and a write that was not acknowledged may be seen by one reader and not by the next.
//! Lists come in pages, each of its own moment. An answer to a read may have a wrong bit, but not
//! the same one twice in a row: that would be damage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use sealpost_base::{AccountId, Random, SeededRandom, limits};
use sealpost_journal::log_entry;
use sealpost_vault::AppendMode;
use tokio::time::{Instant, sleep};

use crate::node::Gate;
use crate::plan::Plan;

/// Objects of one page of a list.
const PAGE: usize = 5;
/// Where the store's time begins, in seconds since 1970.
pub const EPOCH_SECONDS: u64 = 1_700_000_000;

/// The bucket itself. Cloning shares it.
#[derive(Clone)]
pub struct Bucket(Arc<Shared>);

/// Checks whether a bucket was dropped.
pub struct Left(Weak<Shared>);

impl Left {
    /// Whether anything still has it.
    pub fn is_in_use(&self) -> bool {
        self.0.strong_count() > 0
    }
}

struct Shared {
    plan: Plan,
    random: SeededRandom,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calm: bool,
    objects: BTreeMap<String, Object>,
    /// The bit that was wrong last, of objects by their paths.
    wrong: HashMap<String, (usize, u8)>,
    /// Everything that was ever written below a `log` folder.
    archive: Vec<(String, Bytes)>,
    /// Objects written by an attacker without a key.
    planted: BTreeSet<String>,
    faults: u64,
    requests: u64,
}

struct Object {
    bytes: Bytes,
    /// By the store's clock.
    modified: Duration,
    /// All readers see it.
    whole: bool,
    /// The object that other readers see.
    before: Option<Box<Object>>,
}

/// The fate of a write.
struct Fate {
    before: Duration,
    after: Duration,
    fails: bool,
    sticks: bool,
    reply_lost: bool,
    again: Option<Duration>,
}

enum Write {
    Put { bytes: Bytes, create: bool },
    Delete,
}

impl Bucket {
    /// An empty bucket.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let (random, began) = (SeededRandom::new(seed), Instant::now());
        Bucket(Arc::new(Shared { plan, random, began, state: Mutex::default() }))
    }

    /// The bucket as one node reaches it.
    pub fn seen_by(&self, gate: Gate, hole: Hole) -> Access {
        Access { bucket: self.clone(), gate, hole }
    }

    /// A random log entry that all readers see, and whether it is the last one of its log.
    pub fn some_entry(&self) -> Option<(String, bool)> {
        let state = self.lock();
        let is_entry = |path: &&String| path.contains("/log/") && !state.planted.contains(*path);
        let paths: Vec<&String> = state.objects.keys().filter(is_entry).collect();
        let position = |path: &str| path.rsplit('/').next().map(|name| name[..16].to_owned());
        let last = paths.last().and_then(|path| position(path));
        let whole: Vec<&&String> = paths.iter().filter(|path| state.objects[**path].whole).collect();
        let chosen = self.0.random.below(whole.len().max(1) as u64) as usize;
        whole.get(chosen).map(|path| ((**path).clone(), position(path) == last))
    }

    /// An attacker who can write to the store and has no key plants an object beside the log of
    /// `account`: at the next position or far behind, as the manifest of a checkpoint, or as a
    /// mark.
    pub fn plant(&self, account: AccountId) {
        let (random, mut state) = (&self.0.random, self.lock());
        if state.calm {
            return;
        }
        let (log, manifests) = (format!("acct/{account}/log/"), format!("acct/{account}/manifest/"));
        let entries = state.objects.keys().filter(|path| path.starts_with(&log));
        let positions =
            entries.filter(|path| !state.planted.contains(*path)).filter_map(|path| log_entry(path));
        let next = 1 + positions.map(|(_, position)| position.0).max().unwrap_or(0);
        let far = next + 2 * limits::LOG_GAP + random.below(1 << 40);
        let path = match random.below(7) {
            0 => format!("{log}{next:016x}"),
            1 => format!("{log}{far:016x}"),
            2 => format!("{manifests}{:016x}", next - random.below(next.min(3))),
            3 => format!("{manifests}{far:016x}"),
            4 => format!("{manifests}s{next:016x}-{:016x}", random.next_u64()),
            5 => format!("{manifests}k{:016x}", random.next_u64()),
            _ => format!("{log}{:016x}", 0),
        };
        // Anything, or an object that is valid at another path.
        let others: Vec<&Object> = state.objects.values().filter(|object| object.whole).collect();
        let bytes = match others.get(random.below(2 * others.len().max(1) as u64) as usize) {
            Some(other) => other.bytes.clone(),
            None => Bytes::from_static(b"SPM\x01"),
        };
        if !state.objects.contains_key(&path) {
            state.faults += 1;
            state.planted.insert(path.clone());
            let modified = self.0.began.elapsed();
            state.objects.insert(path, Object { bytes, modified, whole: true, before: None });
        }
    }

    /// Checks later whether the bucket was dropped.
    pub fn left(&self) -> Left {
        Left(Arc::downgrade(&self.0))
    }

    /// Ends all faults and delays.
    pub fn calm(&self) {
        self.lock().calm = true;
    }

    /// Faults so far, delays not counted.
    pub fn faults(&self) -> u64 {
        self.lock().faults
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Everything that was ever written below a `log` folder: path and content, in the order in
    /// which it came.
    pub fn archive(&self) -> Vec<(String, Bytes)> {
        self.lock().archive.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&self, per_thousand: u64) -> bool {
        per_thousand > 0 && self.0.random.below(1000) < per_thousand
    }

    fn delay(&self) -> Duration {
        if self.lock().calm || self.chance(500) {
            return Duration::ZERO;
        }
        Duration::from_micros(self.0.random.below(self.0.plan.delay.as_micros() as u64 + 1))
    }

    fn faulty(&self, per_thousand: u64) -> bool {
        let mut state = self.lock();
        let faulty = !state.calm && self.chance(per_thousand);
        state.faults += u64::from(faulty);
        faulty
    }

    fn fate(&self) -> Fate {
        let plan = &self.0.plan;
        let again = self.faulty(plan.repeat).then(|| {
            let longest = if self.0.random.below(2) == 0 { 1_000 } else { 3 * 3600 * 1000 };
            Duration::from_millis(self.0.random.below(longest))
        });
        Fate {
            before: self.delay(),
            after: self.delay(),
            fails: self.faulty(plan.fail),
            sticks: self.faulty(plan.stick),
            reply_lost: self.faulty(plan.lose_reply),
            again,
        }
    }

    /// Completes even if its caller no longer waits for it.
    async fn write(&self, path: &Path, write: Write) -> object_store::Result<()> {
        self.lock().requests += 1;
        let fate = self.fate();
        let (bucket, path, write) = (self.clone(), path.to_string(), Arc::new(write));
        if let Some(again) = fate.again {
            let (bucket, path, write) = (bucket.clone(), path.clone(), write.clone());
            tokio::spawn(async move {
                sleep(again).await;
                // Its result is not reported.
                let _ = bucket.take_effect(&path, &write, Duration::ZERO, false).await;
            });
        }
        let request = tokio::spawn(async move {
            sleep(fate.before).await;
            if fate.fails {
                return Err(failure("failed before it had an effect"));
            }
            bucket.take_effect(&path, &write, fate.after, fate.sticks).await?;
            if fate.reply_lost { Err(failure("the reply was lost")) } else { Ok(()) }
        });
        request.await.unwrap_or_else(|_| Err(failure("the store ended")))
    }

    async fn take_effect(
        &self,
        path: &str,
        write: &Write,
        after: Duration,
        sticks: bool,
    ) -> object_store::Result<()> {
        let Write::Put { bytes, create } = write else {
            self.lock().objects.remove(path);
            sleep(after).await;
            return Ok(());
        };
        let modified = self.0.began.elapsed();
        let serialized = self.0.plan.append_mode == AppendMode::Conditional;
        {
            let mut state = self.lock();
            let before = state.objects.get(path);
            if serialized && *create && before.is_some() {
                let source = "exists".into();
                return Err(object_store::Error::AlreadyExists { path: path.to_owned(), source });
            }
            let same = before.is_some_and(|before| before.whole && before.bytes == *bytes);
            let before = match state.objects.remove(path) {
                Some(before) if before.whole => Some(Box::new(before)),
                Some(unfinished) => unfinished.before,
                None => None,
            };
            if path.contains("/log/") {
                state.archive.push((path.to_owned(), bytes.clone()));
            }
            let object = Object { bytes: bytes.clone(), modified, whole: serialized || same, before };
            state.objects.insert(path.to_owned(), object);
        }
        sleep(after).await;
        if sticks {
            return Err(failure("stuck half-way"));
        }
        match self.lock().objects.get_mut(path) {
            Some(object) if object.bytes == *bytes => (object.whole, object.before) = (true, None),
            // Another write began meanwhile: readers that do not see that one see this one.
            Some(object) if !object.whole => {
                let bytes = bytes.clone();
                object.before = Some(Box::new(Object { bytes, modified, whole: true, before: None }));
            }
            _ => {}
        }
        Ok(())
    }

    async fn read<T>(&self, read: impl FnOnce(&Self) -> object_store::Result<T>) -> object_store::Result<T> {
        self.lock().requests += 1;
        sleep(self.delay()).await;
        if self.faulty(self.0.plan.fail) {
            return Err(failure("failed"));
        }
        let done = read(self);
        sleep(self.delay()).await;
        done
    }

    /// The object as this request sees it.
    fn sees<'a>(&self, object: &'a Object, calm: bool) -> Option<&'a Object> {
        let sees = object.whole || (!calm && self.0.random.below(2) == 0);
        if sees { Some(object) } else { object.before.as_deref() }
    }

    fn find(&self, path: &Path) -> object_store::Result<(ObjectMeta, Bytes)> {
        let state = self.lock();
        let object = state.objects.get(path.as_ref()).and_then(|object| self.sees(object, state.calm));
        match object {
            Some(object) => Ok((meta(path.clone(), object), object.bytes.clone())),
            None => {
                let source = "no such object".into();
                Err(object_store::Error::NotFound { path: path.to_string(), source })
            }
        }
    }

    /// The answer for the `bytes` of an object: not always the same.
    fn answered(&self, path: &Path, bytes: Bytes) -> Bytes {
        if bytes.is_empty() || !self.faulty(self.0.plan.wrong) {
            return bytes;
        }
        let mut bytes = bytes.to_vec();
        let at = self.0.random.below(bytes.len() as u64) as usize;
        let mut bit = 1 << self.0.random.below(8);
        let mut state = self.lock();
        if state.wrong.get(path.as_ref()) == Some(&(at, bit)) {
            bit = bit.rotate_left(1);
        }
        state.wrong.insert(path.to_string(), (at, bit));
        bytes[at] ^= bit;
        bytes.into()
    }

    /// One page of the objects below `prefix` after `after`; whether there may be more.
    fn page(&self, prefix: &str, after: &str) -> (Vec<ObjectMeta>, Option<String>) {
        let state = self.lock();
        let range = (std::ops::Bound::Excluded(after.to_owned()), std::ops::Bound::Unbounded);
        let below = state.objects.range(range).take_while(|(path, _)| path.starts_with(prefix));
        let mut next = None;
        let mut found = Vec::new();
        for (path, object) in below.take(PAGE) {
            next = Some(path.clone());
            if let Some(object) = self.sees(object, state.calm)
                && let Ok(location) = Path::parse(path)
            {
                found.push(meta(location, object));
            }
        }
        (found, next)
    }
}

fn meta(location: Path, object: &Object) -> ObjectMeta {
    let modified = UNIX_EPOCH + Duration::from_secs(EPOCH_SECONDS) + object.modified;
    let size = object.bytes.len() as u64;
    ObjectMeta { location, last_modified: modified.into(), size, e_tag: None, version: None }
}

fn failure(what: &'static str) -> object_store::Error {
    object_store::Error::Generic { store: "sim", source: what.into() }
}

/// An object that one node does not see as it is, for a while.
#[derive(Clone, Default)]
pub struct Hole(Arc<Mutex<Option<(String, SeenAs)>>>);

/// How it sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenAs {
    /// Not at all.
    Absent,
    /// Without its end.
    Short,
    /// With a wrong bit, always the same one.
    Wrong,
    /// Requests for it fail.
    Unreadable,
}

impl Hole {
    /// From now on.
    pub fn open(&self, path: String, seen: SeenAs) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((path, seen));
    }

    /// It sees everything.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn of(&self, path: &Path) -> Option<SeenAs> {
        let hole = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hole.as_ref().filter(|(at, _)| at == path.as_ref()).map(|(_, seen)| *seen)
    }
}

/// The bucket as one node reaches it: nothing passes while the node stands still.
#[derive(Clone)]
pub struct Access {
    bucket: Bucket,
    gate: Gate,
    hole: Hole,
}

impl Access {
    async fn through<T>(&self, request: impl Future<Output = T>) -> T {
        self.gate.pass().await;
        let done = request.await;
        self.gate.pass().await;
        done
    }
}

#[async_trait]
impl ObjectStore for Access {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let create = matches!(options.mode, PutMode::Create);
        let write = Write::Put { bytes: payload.into(), create };
        self.through(self.bucket.write(location, write)).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(object_store::Error::NotImplemented)
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let found = self.through(self.bucket.read(|bucket| bucket.find(location))).await;
        let (meta, bytes) = found?;
        let mut bytes = self.bucket.answered(location, bytes);
        match self.hole.of(location) {
            None => {}
            Some(SeenAs::Absent) => {
                let source = "no such object".into();
                return Err(object_store::Error::NotFound { path: location.to_string(), source });
            }
            Some(SeenAs::Unreadable) => return Err(failure("unreadable for a while")),
            Some(SeenAs::Short) => bytes.truncate(bytes.len() - bytes.len() / 4),
            Some(SeenAs::Wrong) => {
                let mut wrong = bytes.to_vec();
                let last = wrong.len().saturating_sub(1);
                wrong[last] ^= 1;
                bytes = wrong.into();
            }
        }
        let len = bytes.len() as u64;
        let range = match options.range {
            None => 0..len,
            Some(GetRange::Bounded(range)) => range.start.min(len)..range.end.min(len),
            Some(GetRange::Offset(from)) => from.min(len)..len,
            Some(GetRange::Suffix(last)) => len.saturating_sub(last)..len,
        };
        let part = bytes.slice(range.start as usize..range.end as usize);
        let payload = GetResultPayload::Stream(stream::once(async { Ok(part) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn delete(&self, location: &Path) -> object_store::Result<()> {
        self.through(self.bucket.write(location, Write::Delete)).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.list_with_offset(prefix, &Path::default())
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let prefix = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let access = self.clone();
        let pages = stream::try_unfold(Some(offset.to_string()), move |after| {
            let (access, prefix) = (access.clone(), prefix.clone());
            async move {
                let Some(after) = after else { return Ok(None) };
                // Objects before the folder are not in it.
                let after = after.max(prefix.clone());
                let read = access.bucket.read(|bucket| Ok(bucket.page(&prefix, &after)));
                let (mut found, next) = access.through(read).await?;
                found.retain(|meta| access.hole.of(&meta.location) != Some(SeenAs::Absent));
                Ok::<_, object_store::Error>(Some((stream::iter(found.into_iter().map(Ok)), next)))
            }
        });
        pages.try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> object_store::Result<ListResult> {
        Err(object_store::Error::NotImplemented)
    }

    async fn copy(&self, _: &Path, _: &Path) -> object_store::Result<()> {
        Err(object_store::Error::NotImplemented)
    }

    async fn copy_if_not_exists(&self, _: &Path, _: &Path) -> object_store::Result<()> {
        Err(object_store::Error::NotImplemented)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sim")
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sim")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_acknowledged_write_is_seen_below_a_stuck_one() {
        let plan = Plan { append_mode: AppendMode::Siblings, ..Plan::new(1) };
        let bucket = Bucket::new(plan, 1);
        let put = |text: &'static [u8]| Write::Put { bytes: Bytes::from_static(text), create: true };
        let (first, second) = (put(b"first"), put(b"second"));
        let late = async {
            sleep(Duration::from_secs(1)).await;
            bucket.take_effect("a", &second, Duration::ZERO, true).await
        };
        let slow = bucket.take_effect("a", &first, Duration::from_secs(2), false);
        let (acknowledged, stuck) = tokio::join!(slow, late);
        assert!(acknowledged.is_ok() && stuck.is_err());
        let seen = (0..100).map(|_| bucket.find(&Path::from("a")).map(|(_, bytes)| bytes));
        let seen: Vec<_> = seen.collect::<object_store::Result<_>>().unwrap();
        assert!(
            seen.contains(&Bytes::from_static(b"first")) && seen.contains(&Bytes::from_static(b"second"))
        );
    }
}
