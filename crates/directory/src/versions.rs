//! Records as sequences of versions: read the newest, write the next, forget the old ones.
//!
//! Where the store creates conditionally, a version is created if it is absent. Elsewhere whoever
//! changes a record agrees with the others on its next version as writers of a log do
//! ([`DiskPaxos`]).
//!
//! Whoever can write to the store can plant objects in the folder of a record. Where the store
//! creates conditionally they are passed over: the last authentic version counts, and the next one
//! goes behind what is in its place. It is no more than removing later versions would do, which a
//! node notices that has seen them ([`Watermarks`]).
//!
//! The record of an account holds its keys, and is one object of a few hundred bytes. So there each
//! version is written twice, as two versions that say the same, and the first one says that the
//! next repeats it: one of them may be damaged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use futures::stream::{self, BoxStream};
use lru::LruCache;
use sealpost_base::{Clock, Error, Kind, Position, Random, Result, Timestamp, limits};
use sealpost_journal::{Append, DiskPaxos, EntryName};
use sealpost_vault::record::Records;
use sealpost_vault::server_key::{KeyId, ServerKeys};
use sealpost_vault::{AppendMode, Hash, ListedObject, Put, Sealed, Store};

use super::noise::Noise;
use super::remembered::Remembered;
use crate::watermarks::Watermarks;

/// The store and the key that authenticates its records.
#[derive(Clone)]
pub(super) struct Versions {
    store: Store,
    records: Arc<Records>,
    random: Arc<dyn Random>,
    /// What is known of records that were read lately.
    chains: Arc<Mutex<LruCache<String, DiskPaxos>>>,
    remembered: Arc<Remembered>,
    /// Whether what is remembered answers.
    lately: bool,
    /// How far records had come.
    pub(super) watermarks: Watermarks,
    /// Counts what this process tried to write.
    written: Arc<AtomicU64>,
    /// What is no version of any record.
    noise: Arc<Noise>,
    /// Records beside which noise was reported.
    noisy: Arc<Mutex<BTreeSet<String>>>,
}

/// A moment of the store's; another one is different if a record may have changed between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreMoment {
    by_others: u64,
    by_us: u64,
}

/// The newest version of a record.
#[derive(Clone)]
pub(super) struct Newest {
    pub(super) version: u64,
    pub(super) bytes: Vec<u8>,
    /// What authenticates it.
    pub(super) key: KeyId,
}

/// An object in the folder of a record, and the version that its name says.
type Place = (u64, ListedObject);

/// Versions of a record that are kept: the one in force, and the one before for a reader that is
/// just about to read it.
const KEPT_VERSIONS: u64 = 2;
/// Objects read at once.
const READ_AHEAD: usize = 16;
/// How often an object is read again before it is taken for no version.
const READ_ATTEMPTS: usize = 3;
/// Random bytes behind a record; half of them are something else if the next version
/// [repeats](is_repeated) this one.
const NONCE_BYTES: usize = 16;
/// Records whose versions are written twice.
const TWICE: &str = "accounts/";
/// Before a record is looked for again whose newest version is listed and not there.
const ABSENT_PAUSE: Duration = Duration::from_millis(10);
/// Records that are made anew if they are lost.
const MADE_ANEW: &str = "usage/";
/// Records of which this process remembers that everybody sees their newest version.
const CHAINS: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

impl Versions {
    pub(super) fn new(store: Store, key: ServerKeys, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let chains = Arc::new(Mutex::new(LruCache::new(CHAINS)));
        let noise = Arc::new(Noise::new(clock.clone()));
        let remembered = Arc::new(Remembered::new(clock));
        Versions {
            store,
            records: Arc::new(Records::new(&key)),
            random,
            chains,
            remembered,
            lately: false,
            watermarks: Watermarks::default(),
            written: Arc::default(),
            noise,
            noisy: Arc::default(),
        }
    }

    /// The same, answered from memory where the store is behind a network; `None` where it is not,
    /// and asking is cheap.
    pub(super) fn lately(&self) -> Option<Self> {
        self.store.wants_packs().then(|| Versions { lately: true, ..self.clone() })
    }

    /// This moment; `None` where the store does not tell of what others write.
    pub(super) fn seen(&self) -> Option<StoreMoment> {
        let by_us = self.written.load(Ordering::Acquire);
        self.store.tells().then(|| StoreMoment { by_others: *self.store.changes().borrow(), by_us })
    }

    /// What a record of `directory` says, for nodes alone: readers of the store learn its length.
    pub(super) fn hide(&self, directory: &str, plaintext: &[u8]) -> Vec<u8> {
        self.records.hide(directory, plaintext, &*self.random)
    }

    /// What [`Versions::hide`] was given.
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub(super) fn reveal(&self, directory: &str, hidden: &[u8]) -> Result<Vec<u8>> {
        self.records.reveal(directory, hidden)
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The newest version of the record `directory`; `None` if there never was one.
    ///
    /// # Errors
    /// `Corrupt` if none is one that this server's key authenticated; `Retry` if this node has seen
    /// a later one.
    pub(super) async fn newest(&self, directory: &str) -> Result<Option<Newest>> {
        if self.lately
            && let Some(newest) = self.remembered.find(directory)
        {
            return Ok(Some(newest));
        }
        let asked = self.remembered.now();
        let newest = self.read_newest(directory).await?;
        if self.lately
            && let Some(newest) = &newest
        {
            self.remembered.keep(directory, newest, asked);
        }
        Ok(newest)
    }

    /// As [`Versions::newest`], of a record that can be made anew: one that is older than one that
    /// this node has seen counts as none. Also the version behind which the next one goes.
    ///
    /// # Errors
    /// As [`Versions::newest`].
    pub(super) async fn newest_unless_back(&self, directory: &str) -> Result<(Option<Newest>, u64)> {
        // Before it is read: what others write meanwhile is later.
        let known = self.watermarks.version_of(directory).unwrap_or(0);
        let version = |newest: &Option<Newest>| newest.as_ref().map_or(0, |newest| newest.version);
        let mut newest = self.read_authentic(directory).await?;
        if version(&newest) < known && !self.store.tells() {
            // One answer of a remote store may be wrong.
            newest = self.read_authentic(directory).await?;
        }
        let found = version(&newest);
        if found >= known {
            let _ = self.watermarks.record(directory, (found > 0).then_some(found));
            return Ok((newest, found));
        }
        // Reports it.
        let _ = self.watermarks.record(directory, newest.map(|newest| newest.version));
        // Where writers agree by ballots the next version is the one after what is there.
        let is_conditional = self.store.append_mode() == AppendMode::Conditional;
        Ok((None, if is_conditional { known } else { found }))
    }

    async fn read_newest(&self, directory: &str) -> Result<Option<Newest>> {
        if directory.starts_with(MADE_ANEW) {
            return Ok(self.newest_unless_back(directory).await?.0);
        }
        let newest = self.read_authentic(directory).await?;
        let version = |newest: &Option<Newest>| newest.as_ref().map(|newest| newest.version);
        match self.watermarks.record(directory, version(&newest)) {
            // One answer of a remote store may be wrong.
            Err(_) if !self.store.tells() => {
                let newest = self.read_authentic(directory).await?;
                self.watermarks.record(directory, version(&newest))?;
                Ok(newest)
            }
            checked => checked.map(|()| newest),
        }
    }

    async fn read_authentic(&self, directory: &str) -> Result<Option<Newest>> {
        match self.read_newest_once(directory).await {
            // One answer of a remote store may be wrong.
            Err(e) if e.kind() == Kind::Corrupt && !self.store.tells() => {
                // If it stays so, whoever asked says what is damaged.
                tracing::debug!(directory, error = %e, "a record could not be opened; reading it again");
                self.read_newest_once(directory).await
            }
            read => read,
        }
    }

    async fn read_newest_once(&self, directory: &str) -> Result<Option<Newest>> {
        let is_conditional = self.store.append_mode() == AppendMode::Conditional;
        let last = match is_conditional {
            true => self.last(directory).await,
            false => self.chain(directory).last().await,
        };
        let opened = match last {
            Ok(None) => return Ok(None),
            Ok(Some((place, object))) => self.opened(directory, place.position.0, &object),
            Err(e) => Err(e),
        };
        let mut newest = match opened {
            Ok(newest) => newest,
            Err(e) if is_conditional && e.kind() == Kind::Corrupt => {
                let found = self.last_authentic(directory).await?.ok_or(e)?;
                self.note_noise(directory, found.version);
                found
            }
            Err(e) => return Err(e),
        };
        // The next one would say the same: it is damaged, or not written yet.
        if is_repeated(directory, newest.version, &newest.bytes) {
            newest.version = newest.version.saturating_add(1);
        }
        Ok(Some(newest))
    }

    /// The version of a record that an object is. Whatever its name has beside it, a record is
    /// bound to its version.
    fn opened(&self, directory: &str, version: u64, object: &[u8]) -> Result<Newest> {
        if version > limits::RECORD_VERSIONS {
            let path = path(directory, version);
            return Err(Error::corrupt(format!("{path} is numbered beyond all versions of a record")));
        }
        let (key, bytes) = self.records.open_by(&path(directory, version), object)?;
        Ok(Newest { version, bytes, key })
    }

    /// The last authentic version of a record, among as many objects as may be planted there.
    async fn last_authentic(&self, directory: &str) -> Result<Option<Newest>> {
        let (_, last) = self.first_and_last(directory).await?;
        let last: Vec<_> = last.into_iter().rev().collect();
        for some in last.chunks(READ_AHEAD) {
            let read = try_join_all(
                some.iter().map(|(version, object)| self.unless_noise(directory, *version, object)),
            );
            if let Some(found) = read.await?.into_iter().flatten().next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The last objects in the folder of a record: the version of each, and when it was written by
    /// the store's clock.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn written(&self, directory: &str) -> Result<Vec<(u64, Timestamp)>> {
        let mut written = VecDeque::new();
        let mut listed = self.store.list(directory, None);
        while let Some(object) = listed.next().await {
            let object = object?;
            let Some((_, version)) = split(&object.path).filter(|(d, _)| *d == directory) else { continue };
            written.push_back((version, object.modified));
            if written.len() > 2 * limits::RECORD_NOISE {
                written.pop_front();
            }
        }
        Ok(written.into())
    }

    /// Whether any version of a record is authentic, among its first and its last ones; `None` if
    /// there is no object.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn is_any_authentic(&self, directory: &str) -> Result<Option<bool>> {
        let (first, last) = self.first_and_last(directory).await?;
        let all: Vec<_> = first.into_iter().chain(last).collect();
        for some in all.chunks(READ_AHEAD) {
            let read = try_join_all(
                some.iter().map(|(version, object)| self.unless_noise(directory, *version, object)),
            );
            if read.await?.iter().any(Option::is_some) {
                return Ok(Some(true));
            }
        }
        Ok((!all.is_empty()).then_some(false))
    }

    /// The objects of a record with their versions: the first ones, and the last ones, which may be
    /// the same. What is too large to be one is left out.
    async fn first_and_last(&self, directory: &str) -> Result<(Vec<Place>, VecDeque<Place>)> {
        let (mut first, mut last) = (Vec::new(), VecDeque::new());
        let mut listed = self.store.list(directory, None);
        while let Some(object) = listed.next().await {
            let object = object?;
            let Some((_, version)) = split(&object.path).filter(|(d, _)| *d == directory) else { continue };
            if object.is_too_large() {
                continue;
            }
            if first.len() < limits::RECORD_NOISE {
                first.push((version, object.clone()));
            }
            last.push_back((version, object));
            // Noise, and what is before it.
            if last.len() > limits::RECORD_NOISE + 1 {
                last.pop_front();
            }
        }
        Ok((first, last))
    }

    /// The version that a listed object is, if it is authentic. What was none a minute ago is not read again.
    async fn unless_noise(
        &self,
        directory: &str,
        version: u64,
        object: &ListedObject,
    ) -> Result<Option<Newest>> {
        if self.noise.is_known(object) {
            return Ok(None);
        }
        let found = self.authentic(directory, version, &object.path).await?;
        if found.is_none() {
            self.noise.note(object);
        }
        Ok(found)
    }

    /// The version at the path `object`, if it is authentic.
    async fn authentic(&self, directory: &str, version: u64, object: &str) -> Result<Option<Newest>> {
        let bytes = match self.store.read_confirmed(object).await {
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => return Ok(None),
            bytes => bytes?,
        };
        Ok(self.opened(directory, version, &bytes).ok())
    }

    /// Something that is no version of the record is behind the one that counts. Reports it, once.
    fn note_noise(&self, directory: &str, version: u64) {
        let mut noisy = self.noisy.lock().unwrap_or_else(PoisonError::into_inner);
        if noisy.len() < limits::LOGGED_ERRORS && noisy.insert(directory.to_owned()) {
            tracing::error!(
                record = directory,
                version,
                "objects behind this version of a record are not authentic: they were planted, or later versions are damaged; this \
                 version is used, and \"sealpost check\" names them"
            );
        }
    }

    async fn last(&self, directory: &str) -> Result<Option<(EntryName, Bytes)>> {
        let mut absent = None;
        for _ in 0..limits::RECORD_ATTEMPTS {
            match self.store.last(directory).await {
                // Newer ones were written and this one removed between looking and reading.
                Err(e) if e.kind() == Kind::NotFound => {
                    absent = Some(e);
                    // There are stores that tell of an object a moment before they give it out.
                    tokio::time::sleep(ABSENT_PAUSE).await;
                }
                Err(e) => return Err(e),
                Ok(None) => return Ok(None),
                Ok(Some((path, object))) => {
                    if let Some((_, version)) = split(&path).filter(|(d, _)| *d == directory)
                        && path == self::path(directory, version)
                    {
                        return Ok(Some((place(version), object)));
                    }
                    // Written before the records were moved here from a store without conditional create.
                    let chain = self.chain(directory);
                    let Some(place) = chain.listed_last().await? else {
                        return Err(Error::corrupt(format!("{path} is no record")));
                    };
                    match self.store.read(&chain.path(&place)).await {
                        Err(e) if e.kind() == Kind::NotFound => continue,
                        found => return Ok(Some((place, found?))),
                    }
                }
            }
        }
        if let Some(absent) = absent
            && self.store.gives_out().await
        {
            // Behind it is what can be read.
            return Err(Error::corrupt(format!("{directory}: an object is listed and not given out"))
                .with_source(absent));
        }
        Err(Error::retry(format!("the record {directory} changes too quickly to be read")))
    }

    /// Writes `bytes` as the version after `version`; `false` if somebody else wrote that first.
    /// Old versions are removed as far as possible; what is left goes with the next change.
    ///
    /// # Errors
    /// What the store says; `Retry` when it is unknown whether the version counts.
    pub(super) async fn put_after(&self, directory: &str, version: u64, bytes: &[u8]) -> Result<bool> {
        let twice = directory.starts_with(TWICE) && self.store.append_mode() == AppendMode::Conditional;
        let mut written = self.write(directory, version, bytes, twice).await;
        if let (true, Ok(Some(first))) = (twice, &written) {
            // It counts already.
            let first = *first;
            match self.write(directory, first, bytes, false).await {
                Ok(again) => written = Ok(again.or(Some(first))),
                Err(e) => tracing::debug!(directory, error = %e, "a version of a record is there only once"),
            }
        }
        // Whatever came of it: what is remembered is not the newest any more, or may not be.
        self.remembered.forget(directory);
        self.written.fetch_add(1, Ordering::Release);
        let Some(next) = written? else { return Ok(false) };
        let path = path(directory, next);
        // Whoever stood still before it wrote may have made again what others had made and removed
        // meanwhile. Elsewhere no name is used twice.
        let conditional = self.store.append_mode() == AppendMode::Conditional;
        let _ = self.watermarks.record(directory, Some(next));
        self.watermarks.wrote();
        match self.prune(directory, next).await {
            Ok(newest) if conditional && is_old(next, newest) => Err(passed(&path)),
            Err(e) if conditional => Err(e),
            Err(e) => {
                tracing::debug!(directory, error = %e, "old versions of a record were left");
                Ok(true)
            }
            Ok(_) => Ok(true),
        }
    }

    /// Makes the store forget every version before `version`, the newest: it writes `bytes`, which
    /// are those of that version, once more, unless they are there twice. So whoever stands still
    /// meanwhile finds the two versions that [`Versions::put_after`] relies on, and neither holds
    /// what the earlier ones do.
    ///
    /// # Errors
    /// What the store says; then an older version may be there until the record changes again.
    pub(super) async fn forget_before(&self, directory: &str, version: u64, bytes: &[u8]) -> Result<()> {
        let newest = self.read_newest_once(directory).await?;
        let is_it = |newest: &Newest| {
            newest.bytes.len() == bytes.len() + NONCE_BYTES && newest.bytes.starts_with(bytes)
        };
        let version = match newest.filter(is_it) {
            Some(newest) if self.is_twice(directory, newest.version).await? => {
                self.prune(directory, newest.version).await?;
                newest.version - 1
            }
            Some(newest) => {
                self.put_after(directory, newest.version, bytes).await?;
                newest.version
            }
            None => {
                // Others have changed it since, and have removed what they found.
                self.prune(directory, version.saturating_add(1)).await?;
                version
            }
        };
        let old = |path: &str| split(path).is_some_and(|(d, found)| d == directory && found < version);
        let mut listed = self.store.list(directory, None);
        while let Some(object) = listed.next().await {
            let path = object?.path;
            if old(&path) {
                return Err(Error::retry(format!(
                    "{path}, which holds a secret that was withdrawn, is still there"
                )));
            }
        }
        Ok(())
    }

    /// Whether the version before `version` says the same, because both were written at once.
    async fn is_twice(&self, directory: &str, version: u64) -> Result<bool> {
        let Some(first) = version.checked_sub(1) else { return Ok(false) };
        // If the newest one is missing, the first one counts in its place.
        for version in [first, version] {
            let Some(found) = self.authentic(directory, version, &path(directory, version)).await? else {
                return Ok(false);
            };
            if version == first && !is_repeated(directory, first, &found.bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Objects of a record whose newest version is `newest` that are to go before their time:
    /// earlier versions of which nothing is authentic any more, as a removal that was killed leaves
    /// them, and what `is_withdrawn` says of what an object holds. As many are read as a reader of
    /// the record looks at.
    ///
    /// # Errors
    /// What the store says, if nothing was found among what can be read.
    pub(super) async fn withdrawn(
        &self,
        directory: &str,
        newest: u64,
        is_withdrawn: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<String>> {
        let (first, last) = self.first_and_last(directory).await?;
        let objects: BTreeMap<String, Place> =
            first.into_iter().chain(last).map(|place| (place.1.path.clone(), place)).collect();
        let objects: Vec<Place> = objects.into_values().collect();
        let (mut withdrawn, mut failed) = (Vec::new(), None);
        for some in objects.chunks(READ_AHEAD) {
            let read = some.iter().map(|(_, object)| self.store.read(&object.path));
            for ((version, object), bytes) in some.iter().zip(join_all(read).await) {
                let opened = bytes.and_then(|bytes| self.opened(directory, *version, &bytes));
                let goes = match opened {
                    Ok(found) => *version <= newest && is_withdrawn(&found.bytes),
                    Err(e) if e.kind() == Kind::Corrupt => *version < newest,
                    Err(e) if e.kind() == Kind::NotFound => false,
                    Err(e) => {
                        failed = failed.or(Some(e));
                        false
                    }
                };
                if goes {
                    withdrawn.push(object.path.clone());
                }
            }
        }
        match failed {
            Some(e) if withdrawn.is_empty() => Err(e),
            Some(error) => {
                tracing::warn!(record = directory, %error, "not all versions of a record could be looked at");
                Ok(withdrawn)
            }
            None => Ok(withdrawn),
        }
    }

    /// Writes the version after `version`, behind what is in its place and is no version; `None` if
    /// somebody else was first.
    async fn write(
        &self,
        directory: &str,
        version: u64,
        bytes: &[u8],
        is_repeated: bool,
    ) -> Result<Option<u64>> {
        let mut next = version;
        for _ in 0..=limits::RECORD_NOISE {
            next = next.saturating_add(1);
            if next > limits::RECORD_VERSIONS {
                let last = path(directory, version);
                return Err(Error::corrupt(format!(
                    "{last} is the last version that a record can have: a thief of server.key planted it; remove it"
                )));
            }
            let path = path(directory, next);
            // Two who change a record alike must not take each other's for their own.
            let mut distinct = [bytes, &[0; NONCE_BYTES]].concat();
            self.random.fill(&mut distinct[bytes.len()..]);
            if is_repeated {
                let (random, tag) = distinct[bytes.len()..].split_at_mut(NONCE_BYTES / 2);
                tag.copy_from_slice(&repeated(&path, random));
            }
            let object = self.records.seal(&path, &distinct);
            if object.len() > limits::RECORD_BYTES {
                let most = limits::RECORD_BYTES;
                return Err(Error::limit(format!(
                    "the record {directory} would have more than {most} bytes"
                )));
            }
            if self.store.append_mode() == AppendMode::Siblings {
                let appended = self.chain(directory).append_at(Position(version), object).await?;
                return Ok(matches!(appended, Append::Done(_)).then_some(next));
            }
            if self.put(&path, object).await? {
                return Ok(Some(next));
            }
            // One answer of a remote store may be wrong, and what others wrote must not be passed over.
            for _ in 0..READ_ATTEMPTS {
                if self.authentic(directory, next, &path).await?.is_some() {
                    return Ok(None);
                }
            }
        }
        Err(Error::corrupt(format!(
            "more than {} objects of the record {directory} are not authentic; \"sealpost check\" names them: remove them",
            limits::RECORD_NOISE
        )))
    }

    /// Creates `path`; `false` if somebody else's object is there. A write that failed may have
    /// happened, so the same bytes are put again. What is there already may be these bytes even the
    /// first time, because what is between here and the store repeats requests too.
    async fn put(&self, path: &str, object: Sealed) -> Result<bool> {
        let put = match self.store.put_new(path, object.clone()).await {
            Err(e) if e.kind() == Kind::Retry => self.store.put_new(path, object.clone()).await?,
            put => put?,
        };
        match put {
            Put::Created => Ok(true),
            Put::Exists => match self.store.read_confirmed(path).await {
                Err(e) if e.kind() == Kind::NotFound => match self.store.withholds(path).await? {
                    true => Ok(false),
                    false => Err(passed(path)),
                },
                // What cannot be read is not what was written a moment ago.
                Err(e) if e.kind() == Kind::Corrupt => Ok(false),
                found => Ok(*found? == *object.as_ref()),
            },
        }
    }

    fn chain(&self, directory: &str) -> DiskPaxos {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (entries, ballots) = (directory.to_owned(), directory.to_owned());
            DiskPaxos::new(self.store.clone(), entries, ballots, self.random.clone())
        };
        chains.get_or_insert(directory.to_owned(), new).clone()
    }

    /// Removes old versions, as far as possible; the newest one, which is `written` or later.
    async fn prune(&self, directory: &str, written: u64) -> Result<u64> {
        let mut versions = Vec::new();
        let mut listed = self.store.list(directory, None);
        while let Some(object) = listed.next().await {
            let object = object?;
            let version = split(&object.path).filter(|(d, _)| *d == directory).map(|(_, version)| version);
            versions.extend(version.map(|version| (version, object)));
        }
        let mut newest = written;
        let siblings = self.store.append_mode() == AppendMode::Siblings;
        let later = versions
            .iter()
            .filter(|(version, object)| *version > written && (siblings || !object.is_too_large()));
        for (version, object) in later.take(limits::RECORD_NOISE) {
            // What others plant there is no reason to remove what was written.
            if siblings || self.unless_noise(directory, *version, object).await?.is_some() {
                newest = newest.max(*version);
            }
        }
        let old = versions.into_iter().filter(|(version, _)| is_old(*version, newest));
        for (_, ListedObject { path, .. }) in old {
            if let Err(e) = self.store.delete(&path).await {
                tracing::debug!(path, error = %e, "an old version of a record was left");
            }
        }
        Ok(newest)
    }

    /// Writes the newest version of a record again, as the next ones, until the current key
    /// authenticates all versions that are kept. Whether it had to.
    ///
    /// # Errors
    /// `Corrupt` if none of the keys authenticates it; what the store says.
    pub(super) async fn authenticate_again(&self, directory: &str) -> Result<bool> {
        let mut again = false;
        for _ in 0..limits::RECORD_ATTEMPTS {
            let Some(newest) = self.read_newest(directory).await? else { return Ok(again) };
            if newest.key == self.records.current() && self.are_current(directory).await? {
                return Ok(again);
            }
            let bytes = newest.bytes.len().saturating_sub(NONCE_BYTES);
            again |= self.put_after(directory, newest.version, &newest.bytes[..bytes]).await?;
        }
        Err(Error::retry(format!("too many concurrent changes of the record {directory}; retry")))
    }

    /// Whether the current key authenticates all versions of a record that are there.
    async fn are_current(&self, directory: &str) -> Result<bool> {
        let mut listed = self.store.list(directory, None);
        while let Some(object) = listed.next().await {
            let object = object?;
            let Some((_, version)) = split(&object.path).filter(|(d, _)| *d == directory) else { continue };
            // What no key authenticates stays so.
            if object.is_too_large() {
                continue;
            }
            let bytes = match self.store.read(&object.path).await {
                Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => continue,
                bytes => bytes?,
            };
            let opened = self.opened(directory, version, &bytes);
            if opened.is_ok_and(|newest| newest.key != self.records.current()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The newest version of every record below `root`, by path, each with its directory. A record
    /// that cannot be read is an error of its own and does not end the stream.
    pub(super) fn all(&self, root: &str) -> BoxStream<'static, (String, Result<Newest>)> {
        struct Walk {
            versions: Versions,
            listed: BoxStream<'static, Result<ListedObject>>,
            last: Option<String>,
        }
        let walk = Walk { versions: self.clone(), listed: self.store.list(root, None), last: None };
        stream::unfold(walk, |mut walk| async move {
            loop {
                let directory = match walk.listed.next().await {
                    Some(Ok(object)) => match split(&object.path) {
                        Some((directory, _)) => directory.to_owned(),
                        None => continue,
                    },
                    Some(Err(e)) => return Some(((String::new(), Err(e)), walk)),
                    None => return None,
                };
                // Several versions of one record follow each other in the list.
                if walk.last.as_ref() == Some(&directory) {
                    continue;
                }
                walk.last = Some(directory.clone());
                match walk.versions.newest(&directory).await {
                    Ok(Some(newest)) => return Some(((directory, Ok(newest)), walk)),
                    Ok(None) => {}
                    Err(e) => return Some(((directory, Err(e)), walk)),
                }
            }
        })
        .boxed()
    }
}

/// What the second half of the nonce of a version is that the next one repeats, after that first half.
fn repeated(path: &str, random: &[u8]) -> [u8; NONCE_BYTES / 2] {
    let hash = Hash::of(&[b"sealpost record repeated v1 ", path.as_bytes(), b" ", random].concat());
    let mut tag = [0; NONCE_BYTES / 2];
    tag.copy_from_slice(&hash.0[..NONCE_BYTES / 2]);
    tag
}

/// Whether the version after this one says the same as this one, if it is there.
fn is_repeated(directory: &str, version: u64, bytes: &[u8]) -> bool {
    let nonce = bytes.len().checked_sub(NONCE_BYTES).map(|at| bytes[at..].split_at(NONCE_BYTES / 2));
    directory.starts_with(TWICE)
        && nonce.is_some_and(|(random, tag)| *tag == repeated(&path(directory, version), random))
}

fn path(directory: &str, version: u64) -> String {
    format!("{directory}/{version:016x}")
}

/// Whether a version goes, or went already, when there is that newest one.
fn is_old(version: u64, newest: u64) -> bool {
    version.saturating_add(KEPT_VERSIONS) <= newest
}

fn passed(path: &str) -> Error {
    Error::retry(format!("concurrent update of {path}; outcome unknown, retry"))
}

fn place(version: u64) -> EntryName {
    EntryName::plain(Position(version))
}

fn split(path: &str) -> Option<(&str, u64)> {
    let (directory, name) = path.rsplit_once('/')?;
    Some((directory, EntryName::parse(name)?.position.0))
}
