//! Writes versions of records, and removes old ones.

use std::sync::atomic::Ordering;

use futures::StreamExt;
use sealpost_base::{Error, Kind, Position, Result, limits};
use sealpost_journal::Append;
use sealpost_vault::{AppendMode, ListedObject, Put, Sealed};

use super::path::{is_old, path, split};
use super::repeat::{NONCE_BYTES, TWICE, is_repeated, repeated};
use super::{Newest, READ_ATTEMPTS, Versions};

impl Versions {
    /// Writes `bytes` as the version after `version`; `false` if another writer was first. Removes
    /// old versions as far as possible; the next change removes the rest.
    ///
    /// # Errors
    /// Errors of the store; `Retry` when it is unknown whether the version is in force.
    pub(crate) async fn put_after(&self, directory: &str, version: u64, bytes: &[u8]) -> Result<bool> {
        let twice = directory.starts_with(TWICE) && self.store.append_mode() == AppendMode::Conditional;
        let mut written = self.write(directory, version, bytes, twice).await;
        if let (true, Ok(Some(first))) = (twice, &written) {
            // The record has changed, whether or not the repetition can be written.
            let first = *first;
            match self.write(directory, first, bytes, false).await {
                Ok(again) => written = Ok(again.or(Some(first))),
                Err(e) => tracing::debug!(directory, error = %e, "cannot write a version of a record twice"),
            }
        }
        // Also after a failure: the remembered version may not be the newest any more.
        self.remembered.forget(directory);
        self.written.fetch_add(1, Ordering::Release);
        let Some(next) = written? else { return Ok(false) };
        let path = path(directory, next);
        // A writer that was suspended before its write may have created a version again that others
        // had created and removed meanwhile. With ballots no name is used twice.
        let conditional = self.store.append_mode() == AppendMode::Conditional;
        let _ = self.watermarks.record(directory, Some(next));
        self.watermarks.wrote();
        match self.prune(directory, next).await {
            Ok(newest) if conditional && is_old(next, newest) => Err(passed(&path)),
            Err(e) if conditional => Err(e),
            Err(e) => {
                tracing::debug!(directory, error = %e, "cannot remove old versions of a record");
                Ok(true)
            }
            Ok(_) => Ok(true),
        }
    }

    /// Removes every version before `version`, the newest, from the store. It writes `bytes`, those
    /// of that version, once more unless they are there twice: a writer that is suspended meanwhile
    /// then finds the two versions that [`Versions::put_after`] relies on, and neither holds the
    /// content of the earlier ones.
    ///
    /// # Errors
    /// Errors of the store; then an older version may stay until the record changes again.
    pub(crate) async fn forget_before(&self, directory: &str, version: u64, bytes: &[u8]) -> Result<()> {
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
                // Other writers have changed the record since, and have removed old versions.
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

    /// Writes the newest version of a record again, as the next ones, until the current key
    /// authenticates all versions that are kept. Returns whether it wrote.
    ///
    /// # Errors
    /// `Corrupt` if none of the keys authenticates it; errors of the store.
    pub(crate) async fn authenticate_again(&self, directory: &str) -> Result<bool> {
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

    /// Whether the version before `version` has the same content, because it was written twice.
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

    /// Writes the version after `version`, behind noise in its place; `None` if another writer was
    /// first.
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
            // Of two writers that write equal bytes, neither may take the other's object for its own.
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
            // One reply of a remote store may be wrong, and a version of another writer must count.
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

    /// Creates `path`; `false` if another writer's object is there. A failed write may have
    /// happened, so it puts the same bytes again. Even after the first request the object may hold
    /// these bytes, because HTTP clients and proxies repeat requests.
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
                // An object just written can be read.
                Err(e) if e.kind() == Kind::Corrupt => Ok(false),
                found => Ok(*found? == *object.as_ref()),
            },
        }
    }

    /// Removes old versions, as far as possible. Returns the newest one: `written` or later.
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
            // Planted objects are no reason to remove versions.
            if siblings || self.unless_noise(directory, *version, object).await?.is_some() {
                newest = newest.max(*version);
            }
        }
        let old = versions.into_iter().filter(|(version, _)| is_old(*version, newest));
        for (_, ListedObject { path, .. }) in old {
            if let Err(e) = self.store.delete(&path).await {
                tracing::debug!(path, error = %e, "cannot remove an old version of a record");
            }
        }
        Ok(newest)
    }

    /// Whether the current key authenticates all existing versions of a record.
    async fn are_current(&self, directory: &str) -> Result<bool> {
        let mut listed = self.store.list(directory, None);
        while let Some(object) = listed.next().await {
            let object = object?;
            let Some((_, version)) = split(&object.path).filter(|(d, _)| *d == directory) else { continue };
            // No key authenticates noise.
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
}

fn passed(path: &str) -> Error {
    Error::retry(format!("concurrent update of {path}; outcome unknown, retry"))
}
