//! Records as sequences of versions: read the newest, write the next, forget the old ones.
//!
//! Where the store creates conditionally, a version is created if it is absent. Elsewhere whoever changes a record agrees with
//! the others on its next version as writers of a log do ([`DiskPaxos`]).

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use lru::LruCache;
use sealpost_base::{Clock, Error, Kind, Position, Random, Result, limits};
use sealpost_journal::{Append, DiskPaxos, EntryName};
use sealpost_vault::record::Records;
use sealpost_vault::server_key::{KeyId, ServerKeys};
use sealpost_vault::{AppendMode, Put, Sealed, Store};

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

/// Versions of a record that are kept: the one in force, and the one before for a reader that is just about to
/// read it.
const KEPT_VERSIONS: u64 = 2;
/// Random bytes behind a record, which nobody reads.
const NONCE_BYTES: usize = 16;
/// Records of which this process remembers that everybody sees their newest version.
const CHAINS: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

impl Versions {
    pub(super) fn new(store: Store, key: ServerKeys, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        let chains = Arc::new(Mutex::new(LruCache::new(CHAINS)));
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
        }
    }

    /// The same, answered from memory where the store is behind a network; `None` where it is not, and asking is cheap.
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
    /// `Corrupt` if it is not one that this server's key authenticated: an older one does not take its place.
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

    async fn read_newest(&self, directory: &str) -> Result<Option<Newest>> {
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
        let (place, object) = match self.store.append_mode() {
            AppendMode::Conditional => match self.last(directory).await? {
                Some(found) => found,
                None => return Ok(None),
            },
            AppendMode::Siblings => match self.chain(directory).last().await? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        // Whatever its name has beside it, a record is bound to its version.
        let version = place.position.0;
        let (key, bytes) = self.records.open_by(&path(directory, version), &object)?;
        Ok(Some(Newest { version, bytes, key }))
    }

    async fn last(&self, directory: &str) -> Result<Option<(EntryName, Bytes)>> {
        for _ in 0..limits::RECORD_ATTEMPTS {
            match self.store.last(directory).await {
                // Newer ones were written and this one removed between looking and reading.
                Err(e) if e.kind() == Kind::NotFound => continue,
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
        Err(Error::retry(format!("the record {directory} changes too quickly to be read")))
    }

    /// Writes `bytes` as the version after `version`; `false` if somebody else wrote that first. Old versions are
    /// removed as far as possible; what is left goes with the next change.
    ///
    /// # Errors
    /// What the store says; `Retry` when it is unknown whether the version counts.
    pub(super) async fn put_after(&self, directory: &str, version: u64, bytes: &[u8]) -> Result<bool> {
        let next =
            version.checked_add(1).ok_or_else(|| Error::corrupt("the versions of a record have run out"))?;
        let path = path(directory, next);
        // Two who change a record alike must not take each other's for their own.
        let mut distinct = bytes.to_vec();
        distinct.resize(bytes.len() + NONCE_BYTES, 0);
        self.random.fill(&mut distinct[bytes.len()..]);
        let object = self.records.seal(&path, &distinct);
        let written = self.write(directory, version, &path, object).await;
        // Whatever came of it: what is remembered is not the newest any more, or may not be.
        self.remembered.forget(directory);
        self.written.fetch_add(1, Ordering::Release);
        if !written? {
            return Ok(false);
        }
        // Whoever stood still before it wrote may have made again what others had made and removed meanwhile. Elsewhere no name
        // is used twice.
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

    /// Makes the store forget every version before `version`, the newest: it writes `bytes`, which are those of that version, once
    /// more. So whoever stands still meanwhile finds the two versions that [`Versions::put_after`] relies on, and neither holds what
    /// the earlier ones do.
    ///
    /// # Errors
    /// What the store says; then an older version may be there until the record changes again.
    pub(super) async fn forget_before(&self, directory: &str, version: u64, bytes: &[u8]) -> Result<()> {
        if !self.put_after(directory, version, bytes).await? {
            // Others have changed it since, and have removed what they found.
            self.prune(directory, version.saturating_add(1)).await?;
        }
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

    /// Objects of a record whose newest version is `newest` that are to go before their time: earlier versions of which nothing is
    /// authentic any more, as a removal that was killed leaves them, and what `is_withdrawn` says of what an object holds.
    ///
    /// # Errors
    /// What the store says.
    pub(super) async fn withdrawn(
        &self,
        directory: &str,
        newest: u64,
        is_withdrawn: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<String>> {
        let (mut withdrawn, mut listed) = (Vec::new(), self.store.list(directory, None));
        while let Some(object) = listed.next().await {
            let object = object?.path;
            let Some((_, version)) = split(&object).filter(|(d, _)| *d == directory) else { continue };
            let bytes = match self.store.read(&object).await {
                Err(e) if e.kind() == Kind::NotFound => continue,
                Err(e) if e.kind() == Kind::Corrupt => Bytes::new(),
                bytes => bytes?,
            };
            let goes = match self.records.open_by(&path(directory, version), &bytes) {
                Ok((_, bytes)) => version <= newest && is_withdrawn(&bytes),
                Err(_) => version < newest,
            };
            if goes {
                withdrawn.push(object);
            }
        }
        Ok(withdrawn)
    }

    async fn write(&self, directory: &str, version: u64, path: &str, object: Sealed) -> Result<bool> {
        match self.store.append_mode() {
            AppendMode::Conditional => self.put(path, object).await,
            AppendMode::Siblings => {
                let chain = self.chain(directory);
                Ok(matches!(chain.append_at(Position(version), object).await?, Append::Done(_)))
            }
        }
    }

    /// Creates `path`; `false` if somebody else's object is there. A write that failed may have happened, so the
    /// same bytes are put again. What is there already may be these bytes even the first time, because what is between
    /// here and the store repeats requests too.
    async fn put(&self, path: &str, object: Sealed) -> Result<bool> {
        let put = match self.store.put_new(path, object.clone()).await {
            Err(e) if e.kind() == Kind::Retry => self.store.put_new(path, object.clone()).await?,
            put => put?,
        };
        match put {
            Put::Created => Ok(true),
            Put::Exists => match self.store.read_confirmed(path).await {
                Err(e) if e.kind() == Kind::NotFound => Err(passed(path)),
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
            let path = object?.path;
            let version = split(&path).filter(|(d, _)| *d == directory).map(|(_, version)| version);
            versions.extend(version.map(|version| (version, path)));
        }
        let newest = versions.iter().map(|(version, _)| *version).fold(written, u64::max);
        let old = versions.into_iter().filter(|(version, _)| is_old(*version, newest));
        for (_, path) in old {
            if let Err(e) = self.store.delete(&path).await {
                tracing::debug!(path, error = %e, "an old version of a record was left");
            }
        }
        Ok(newest)
    }

    /// Writes the newest version of a record again, as the next ones, until the current key authenticates all versions that are kept.
    /// Whether it had to.
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
            let object = object?.path;
            let Some((_, version)) = split(&object).filter(|(d, _)| *d == directory) else { continue };
            let bytes = match self.store.read(&object).await {
                Err(e) if e.kind() == Kind::NotFound => continue,
                bytes => bytes?,
            };
            let opened = self.records.open_by(&path(directory, version), &bytes);
            if !opened.is_ok_and(|(key, _)| key == self.records.current()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The newest version of every record below `root`, by path, each with its directory. A record that cannot be
    /// read is an error of its own and does not end the stream.
    pub(super) fn all(&self, root: &str) -> BoxStream<'static, (String, Result<Newest>)> {
        struct Walk {
            versions: Versions,
            listed: BoxStream<'static, Result<sealpost_vault::ListedObject>>,
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
