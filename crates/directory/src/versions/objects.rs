//! The objects in the folder of a record: which are authentic versions, and which are noise.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;

use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use sealpost_base::{Kind, Result, Timestamp, limits};
use sealpost_vault::ListedObject;

use super::path::split;
use super::{Newest, Place, READ_AHEAD, Versions};

impl Versions {
    /// The last objects in the folder of a record: the version of each, and the time of its write
    /// by the store's clock.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn written(&self, directory: &str) -> Result<Vec<(u64, Timestamp)>> {
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
    /// Errors of the store.
    pub(crate) async fn is_any_authentic(&self, directory: &str) -> Result<Option<bool>> {
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

    /// Paths of the objects that must be removed from a record whose newest version is `newest`:
    /// earlier versions that no key authenticates, as an interrupted removal leaves them, and
    /// versions for whose content `is_withdrawn` returns true. It reads as many objects as a reader
    /// of the record does.
    ///
    /// # Errors
    /// An error of the store, if none of the readable objects must be removed.
    pub(crate) async fn withdrawn(
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
                let is_removed = match opened {
                    Ok(found) => *version <= newest && is_withdrawn(&found.bytes),
                    Err(e) if e.kind() == Kind::Corrupt => *version < newest,
                    Err(e) if e.kind() == Kind::NotFound => false,
                    Err(e) => {
                        failed = failed.or(Some(e));
                        false
                    }
                };
                if is_removed {
                    withdrawn.push(object.path.clone());
                }
            }
        }
        match failed {
            Some(e) if withdrawn.is_empty() => Err(e),
            Some(error) => {
                tracing::warn!(record = directory, %error, "cannot read all versions of a record");
                Ok(withdrawn)
            }
            None => Ok(withdrawn),
        }
    }

    /// The last authentic version of a record, among at most [`limits::RECORD_NOISE`] planted objects.
    pub(super) async fn last_authentic(&self, directory: &str) -> Result<Option<Newest>> {
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

    /// The first and the last objects of a record with their versions; the two lists may overlap.
    /// Objects too large for a record are left out.
    pub(super) async fn first_and_last(&self, directory: &str) -> Result<(Vec<Place>, VecDeque<Place>)> {
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
            // Noise, and the object before it.
            if last.len() > limits::RECORD_NOISE + 1 {
                last.pop_front();
            }
        }
        Ok((first, last))
    }

    /// The version in a listed object, if it is authentic. An object that was noise within the last
    /// minute is not read again.
    pub(super) async fn unless_noise(
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
    pub(super) async fn authentic(
        &self,
        directory: &str,
        version: u64,
        object: &str,
    ) -> Result<Option<Newest>> {
        let bytes = match self.store.read_confirmed(object).await {
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => return Ok(None),
            bytes => bytes?,
        };
        Ok(self.opened(directory, version, &bytes).ok())
    }

    /// Logs, once per record, that objects behind the version in force are noise.
    pub(super) fn note_noise(&self, directory: &str, version: u64) {
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
}
