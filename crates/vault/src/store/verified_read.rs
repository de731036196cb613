//! Reads that one wrong answer does not mislead.
//!
//! A reply may be complete and wrong: a bit that flipped in a machine's memory, a body that a proxy
//! cut short and gave a new length. Opening a sealed object shows that; but a process without the
//! key, one that writes an object once more or one that takes its hash would make a passing fault
//! permanent. Where ETags are MD5s (S3, Garage, versity and most others, as long as an object was
//! written in one piece and the bucket does not encrypt with keys of a KMS) every whole reply is
//! compared with its ETag, without another request. Elsewhere, and after a mismatch, two
//! consecutive replies must be equal.

use std::ops::Range;

use bytes::Bytes;
use object_store::GetOptions;
use sealpost_base::{Error, Kind, Result};

use super::size_limit::{AtMost, check, is_too_large, most_bytes, too_large, too_large_in};
use super::{Store, location};
use crate::Hash;

/// How many replies are requested after the first one until two consecutive ones are equal.
const MORE_ANSWERS: usize = 4;
impl Store {
    /// The object `path` as the store has it now, independent of the cache: from a remote store, a
    /// reply that matches its ETag, or that arrived twice. For a caller that cannot open the
    /// object, and relies on it.
    ///
    /// # Errors
    /// What the store says; `Retry` if it gives another answer each time; `Corrupt` as [`Store::read`].
    pub async fn read_confirmed(&self, path: &str) -> Result<Bytes> {
        if self.0.local.is_some() {
            return self.read(path).await;
        }
        let first = match self.fetch(path).await {
            Err(e) if is_too_large(&e) => self.fetch(path).await,
            first => first,
        };
        match first? {
            (bytes, Some(true)) => Ok(bytes),
            (bytes, _) => self.read_alike(path, bytes).await,
        }
    }

    /// The bytes `range` of the object `path`: of a remote store an answer that was given twice,
    /// because ETags tell nothing of parts.
    ///
    /// # Errors
    /// As [`Store::read_range`]; `Retry` if the store gives another answer each time.
    pub async fn read_range_confirmed(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let mut before = None;
        for _ in 0..=MORE_ANSWERS {
            let answer = self.read_range(path, range.clone()).await;
            let said = match &answer {
                Ok(bytes) => Some(Hash::of(bytes)),
                Err(e) if e.kind() == Kind::Corrupt => None,
                Err(_) => return answer,
            };
            if self.0.local.is_some() || before.replace(said) == Some(said) {
                return answer;
            }
        }
        Err(inconstant(path))
    }

    /// What `open` makes of the object `path`. If it cannot make anything of it, the cache forgets
    /// the object, and what the store has is [confirmed](Store::read_confirmed) before it is called
    /// damaged.
    ///
    /// # Errors
    /// What `open` says of the object as the store has it; what the store says.
    pub async fn read_opened<T>(&self, path: &str, open: impl Fn(&Bytes) -> Result<T>) -> Result<T> {
        match open(&self.read(path).await?) {
            Err(e) if e.kind() == Kind::Corrupt && self.0.local.is_none() => {
                // If it is damaged, the caller reports it.
                tracing::debug!(path, error = %e, "an object could not be opened; reading it again");
            }
            opened => return opened,
        }
        self.forget(path).await;
        let object = self.read_confirmed(path).await?;
        let opened = open(&object)?;
        if let Some(cache) = self.cache_for(path) {
            cache.keep_whole(path, object).await;
        }
        Ok(opened)
    }

    /// What was read of the object `path` could not be opened: the cache forgets it. Whether
    /// reading it again may help.
    pub(crate) async fn forget(&self, path: &str) -> bool {
        if let Some(cache) = self.cache_for(path) {
            cache.forget(path).await;
        }
        self.0.local.is_none()
    }

    /// The whole object from the store. An answer that does not fit its ETag is not taken before it
    /// was given twice.
    pub(super) async fn read_checked(&self, path: &str) -> Result<Bytes> {
        match self.fetch(path).await? {
            (bytes, Some(false)) => self.read_alike(path, bytes).await,
            (bytes, _) => Ok(bytes),
        }
    }

    /// Reads until an answer fits its ETag, or is the same as the one before; the first one was `before`.
    async fn read_alike(&self, path: &str, mut before: Bytes) -> Result<Bytes> {
        for _ in 0..MORE_ANSWERS {
            let (bytes, fits) = self.fetch(path).await?;
            let alike = bytes == before;
            if !alike {
                tracing::warn!(path, "the store returned two different answers for one object");
            }
            if alike || fits == Some(true) {
                return Ok(bytes);
            }
            before = bytes;
        }
        Err(inconstant(path))
    }

    /// One answer, and whether it fits its ETag.
    async fn fetch(&self, path: &str) -> Result<(Bytes, Option<bool>)> {
        let (location, most) = (location(path)?, most_bytes(path));
        let mut options = GetOptions::default();
        if let Some(most) = most {
            options.extensions.insert(AtMost(most));
        }
        let read = async {
            let got = self.0.objects.get_opts(&location, options).await?;
            let (size, e_tag) = (got.meta.size, got.meta.e_tag.clone());
            let is_read = most.is_none_or(|most| size <= most);
            Ok((size, if is_read { got.bytes().await? } else { Bytes::new() }, e_tag))
        };
        let (size, bytes, e_tag) = match self.timed(&self.0.metrics.reads, read).await {
            Ok(answer) => answer,
            Err(e) => {
                return Err(match too_large_in(&e) {
                    Some(why) => too_large(path, why),
                    None => self.failed_read(path, &location, e).await,
                });
            }
        };
        check(path, size, most)?;
        let fits = self.0.e_tags.fits(e_tag.as_deref(), &bytes).await;
        Ok((bytes, fits))
    }
}

fn inconstant(path: &str) -> Error {
    Error::retry(format!("{path}: the store returns a different answer each time"))
}

#[cfg(test)]
mod tests;
