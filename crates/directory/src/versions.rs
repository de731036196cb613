//! Records as sequences of versions: read the newest, write the next, remove the old ones.
//!
//! Where the store creates conditionally, a writer creates the next version if it is absent.
//! Elsewhere the writers agree on the next version by ballots, as writers of a log do
//! ([`DiskPaxos`]).
//!
//! An attacker with write access to the store can plant objects in the folder of a record. Where
//! the store creates conditionally, readers skip them: the last authentic version is in force, and
//! the next one is written behind the planted objects. Planting achieves no more than the removal
//! of later versions, which a node detects that has read them ([`Watermarks`]).
//!
//! Each version of the record of an account is written twice ([`repeat`]).

mod objects;
mod path;
mod repeat;
mod write;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use lru::LruCache;
use sealpost_base::{Clock, Error, Kind, Random, Result, limits};
use sealpost_journal::{DiskPaxos, EntryName};
use sealpost_vault::record::Records;
use sealpost_vault::server_key::{KeyId, ServerKeys};
use sealpost_vault::{AppendMode, ListedObject, Store};

use self::path::{path, place, split};
use self::repeat::is_repeated;
use super::noise::Noise;
use super::remembered::Remembered;
use crate::watermarks::Watermarks;

/// The store and the key that authenticates its records.
#[derive(Clone)]
pub(super) struct Versions {
    store: Store,
    records: Arc<Records>,
    random: Arc<dyn Random>,
    /// The ballots of records that were read lately.
    chains: Arc<Mutex<LruCache<String, DiskPaxos>>>,
    remembered: Arc<Remembered>,
    /// Whether remembered versions may answer a read.
    lately: bool,
    /// The latest version of each record that this node has read.
    pub(super) watermarks: Watermarks,
    /// Counts attempts of this process to write.
    written: Arc<AtomicU64>,
    /// Objects that are no version of any record.
    noise: Arc<Noise>,
    /// Records whose noise was logged.
    noisy: Arc<Mutex<BTreeSet<String>>>,
}

/// A moment in the history of the store. Two moments differ if a record may have changed between
/// them.
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
    /// The key that authenticates it.
    pub(super) key: KeyId,
}

/// An object in the folder of a record, and the version in its name.
type Place = (u64, ListedObject);

/// Objects read at once.
const READ_AHEAD: usize = 16;
/// How often an object is read before it counts as noise.
const READ_ATTEMPTS: usize = 3;
/// The pause before the next read of a record whose newest version is listed and missing.
const ABSENT_PAUSE: Duration = Duration::from_millis(10);
/// Records that are rebuilt if they are lost.
const MADE_ANEW: &str = "usage/";
/// Records whose ballots this process remembers: that all readers see their newest version.
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

    /// The same, with reads from memory if the store is remote; `None` for a local store, where
    /// reads are cheap.
    pub(super) fn lately(&self) -> Option<Self> {
        self.store.wants_packs().then(|| Versions { lately: true, ..self.clone() })
    }

    /// This moment; `None` where the store does not report writes of other processes.
    pub(super) fn moment(&self) -> Option<StoreMoment> {
        let by_us = self.written.load(Ordering::Acquire);
        self.store.notices_commits().then(|| StoreMoment { by_others: *self.store.changes().borrow(), by_us })
    }

    /// Seals the content of a record of `directory` for nodes: readers of the store learn its
    /// length only.
    pub(super) fn hide(&self, directory: &str, plaintext: &[u8]) -> Vec<u8> {
        self.records.hide(directory, plaintext, &*self.random)
    }

    /// The content that [`Versions::hide`] sealed.
    ///
    /// # Errors
    /// `Corrupt` if `hidden` is no output of [`Versions::hide`] for `directory`.
    pub(super) fn reveal(&self, directory: &str, hidden: &[u8]) -> Result<Vec<u8>> {
        self.records.reveal(directory, hidden)
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// The newest version of the record `directory`; `None` if it has none.
    ///
    /// # Errors
    /// `Corrupt` if the server key authenticates none of its versions; `Retry` if this node has read
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

    /// As [`Versions::newest`], of a record that can be rebuilt: a version older than one that this
    /// node has read counts as none. Also the version behind which the next one is written.
    ///
    /// # Errors
    /// As [`Versions::newest`].
    pub(super) async fn newest_unless_back(&self, directory: &str) -> Result<(Option<Newest>, u64)> {
        // Before the read, because other writers may write a later version meanwhile.
        let known = self.watermarks.version_of(directory).unwrap_or(0);
        let version = |newest: &Option<Newest>| newest.as_ref().map_or(0, |newest| newest.version);
        let mut newest = self.read_authentic(directory).await?;
        if version(&newest) < known && !self.store.notices_commits() {
            // One reply of a remote store may be wrong.
            newest = self.read_authentic(directory).await?;
        }
        let found = version(&newest);
        if found >= known {
            let _ = self.watermarks.record(directory, (found > 0).then_some(found));
            return Ok((newest, found));
        }
        // Logs that the record went back.
        let _ = self.watermarks.record(directory, newest.map(|newest| newest.version));
        // Where writers agree by ballots, the next version follows the existing one.
        let is_conditional = self.store.append_mode() == AppendMode::Conditional;
        Ok((None, if is_conditional { known } else { found }))
    }

    /// As [`Versions::newest`], of a record that others begin, and whose content is worth less than waiting:
    /// with noise alone, and no version that this node has seen, it has none. If the caller decides about
    /// missing ones ([`Watermarks::is_readers_matter`]), it has none whatever this node has seen.
    ///
    /// # Errors
    /// As [`Versions::newest`].
    pub(super) async fn newest_despite_noise(&self, directory: &str) -> Result<Option<Newest>> {
        match self.newest(directory).await {
            Err(e)
                if e.kind() == Kind::Corrupt
                    && self.store.append_mode() == AppendMode::Conditional
                    && (Watermarks::is_readers_matter(directory)
                        || self.watermarks.version_of(directory).is_none())
                    && self.is_any_authentic(directory).await? == Some(false) =>
            {
                self.note_noise(directory, 0);
                Ok(None)
            }
            newest => newest,
        }
    }

    async fn read_newest(&self, directory: &str) -> Result<Option<Newest>> {
        if directory.starts_with(MADE_ANEW) {
            return Ok(self.newest_unless_back(directory).await?.0);
        }
        // Before the read: another task of this process may write a later version meanwhile.
        let before = self.watermarks.version_of(directory);
        let newest = self.read_authentic(directory).await?;
        let version = |newest: &Option<Newest>| newest.as_ref().map(|newest| newest.version);
        if Watermarks::is_readers_matter(directory) {
            version(&newest).inspect(|version| self.watermarks.saw_record(directory, *version));
            return Ok(newest);
        }
        match self.watermarks.record_since(directory, before, version(&newest)) {
            // One reply of a remote store may be wrong.
            Err(_) if !self.store.notices_commits() => {
                let newest = self.read_authentic(directory).await?;
                self.watermarks.record_since(directory, before, version(&newest))?;
                Ok(newest)
            }
            checked => checked.map(|()| newest),
        }
    }

    /// Whether a version that was found is to be read again before it counts as older than `seen`, because one
    /// reply of a remote store may be wrong.
    pub(super) fn is_doubtful(&self, seen: Option<u64>, found: Option<&Newest>) -> bool {
        seen > found.map(|found| found.version) && !self.store.notices_commits()
    }

    async fn read_authentic(&self, directory: &str) -> Result<Option<Newest>> {
        match self.read_newest_once(directory).await {
            // One reply of a remote store may be wrong.
            Err(e) if e.kind() == Kind::Corrupt && !self.store.notices_commits() => {
                // If it is damaged, the caller reports it.
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
        // The next one has the same content: it is damaged, or not written yet.
        if is_repeated(directory, newest.version, &newest.bytes) {
            newest.version = newest.version.saturating_add(1);
        }
        Ok(Some(newest))
    }

    /// The version of a record in an object. The seal binds a record to its version, whatever else
    /// is in the name of the object.
    fn opened(&self, directory: &str, version: u64, object: &[u8]) -> Result<Newest> {
        if version > limits::RECORD_VERSIONS {
            let path = path(directory, version);
            return Err(Error::corrupt(format!("{path} is numbered beyond all versions of a record")));
        }
        let (key, bytes) = self.records.open_by(&path(directory, version), object)?;
        Ok(Newest { version, bytes, key })
    }

    async fn last(&self, directory: &str) -> Result<Option<(EntryName, Bytes)>> {
        let mut absent = None;
        for _ in 0..limits::RECORD_ATTEMPTS {
            match self.store.last(directory).await {
                // Newer ones were written and this one removed between listing and reading.
                Err(e) if e.kind() == Kind::NotFound => {
                    absent = Some(e);
                    // Some stores list an object a moment before they return it.
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
            && self.store.serves_reads().await
        {
            // Earlier versions may be readable.
            return Err(Error::corrupt(format!(
                "{directory}: the store lists an object and does not return it"
            ))
            .with_source(absent));
        }
        Err(Error::retry(format!("the record {directory} changes too quickly to be read")))
    }

    fn chain(&self, directory: &str) -> DiskPaxos {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (entries, ballots) = (directory.to_owned(), directory.to_owned());
            DiskPaxos::new(self.store.clone(), entries, ballots, self.random.clone())
        };
        chains.get_or_insert(directory.to_owned(), new).clone()
    }

    /// The newest version of every record below `root`, by path, each with its directory. A record
    /// that cannot be read is an error of its own and does not end the stream.
    pub(super) fn all(&self, root: &str) -> BoxStream<'static, (String, Result<Newest>)> {
        self.all_where(root, |_| true)
    }

    /// The same for the records whose directory passes `wanted`: others are not read.
    pub(super) fn all_where(
        &self,
        root: &str,
        wanted: impl Fn(&str) -> bool + Send + 'static,
    ) -> BoxStream<'static, (String, Result<Newest>)> {
        struct Walk<F> {
            wanted: F,
            versions: Versions,
            listed: BoxStream<'static, Result<ListedObject>>,
            last: Option<String>,
        }
        let walk = Walk { wanted, versions: self.clone(), listed: self.store.list(root, None), last: None };
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
                // The versions of one record are adjacent in the list.
                if walk.last.as_ref() == Some(&directory) {
                    continue;
                }
                walk.last = Some(directory.clone());
                if !(walk.wanted)(&directory) {
                    continue;
                }
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
