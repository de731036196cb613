//! The operator's changes to the keys of a domain.

use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::calendar::civil_from_days;
use sealpost_base::{Error, Random, Result, Timestamp};
use sealpost_dns::DnsName;
use sealpost_mailauth::dkim::{Algorithm, SigningKey};
use sealpost_vault::Put;

use super::{ALGORITHMS, DomainKeys, KeyInfo, Stage, name, note};

/// Characters behind the date in a selector: no vowels, so that they spell nothing.
const SUFFIX: &[u8; 16] = b"bcdfghjkmnpqrstv";
/// How many of them a selector has.
const SUFFIX_BYTES: usize = 4;

impl DomainKeys {
    /// Makes the first keys of a domain, which sign from now on: a signature whose record is not in
    /// DNS yet counts as none (RFC 6376 §6.1). Continues after an interruption.
    ///
    /// # Errors
    /// `Invalid` if it is no domain, `Conflict` if it has its keys, and errors of the store.
    pub async fn create(
        &self,
        domain: &str,
        now: Timestamp,
        random: &Arc<dyn Random>,
    ) -> Result<Vec<KeyInfo>> {
        let name = name(domain)?;
        let keys = self.list(domain).await?;
        let signs = |algorithm| keys.iter().any(|key| key.algorithm == algorithm && is_signing(key));
        let missing: Vec<_> = ALGORITHMS.into_iter().filter(|algorithm| !signs(*algorithm)).collect();
        if missing.is_empty() {
            return Err(Error::conflict(format!("{name} has keys already")));
        }
        self.make(&name, &keys, &missing, now, random).await?;
        self.activate(domain, now, random).await
    }

    /// Makes the keys that will follow the signing ones, if there are none yet. Removes keys whose records
    /// need not be in DNS any more. The new keys sign after [`DomainKeys::activate`].
    ///
    /// # Errors
    /// `NotFound` if the domain has no keys, and errors of the store.
    pub async fn rotate(
        &self,
        domain: &str,
        now: Timestamp,
        random: &Arc<dyn Random>,
    ) -> Result<Vec<KeyInfo>> {
        let name = name(domain)?;
        let keys = self.list(domain).await?;
        if !keys.iter().any(is_signing) {
            return Err(no_keys(&name));
        }
        let over = |key: &&KeyInfo| matches!(key.stage, Stage::Retired(_)) && !key.stage.is_published(now);
        for key in keys.iter().filter(over) {
            self.forget(&name, &key.selector).await?;
        }
        self.make(&name, &keys, &ALGORITHMS, now, random).await?;
        self.list(domain).await
    }

    /// Makes the waiting keys sign from now on, and retires those before them.
    ///
    /// # Errors
    /// `NotFound` if none waits, and errors of the store.
    pub async fn activate(
        &self,
        domain: &str,
        now: Timestamp,
        random: &Arc<dyn Random>,
    ) -> Result<Vec<KeyInfo>> {
        let name = name(domain)?;
        let keys = self.list(domain).await?;
        let waiting: Vec<_> = keys.iter().filter(|key| is_waiting(key)).collect();
        if waiting.is_empty() {
            return Err(Error::not_found(format!("no key of {name} waits to sign; rotate them first")));
        }
        for new in &waiting {
            self.write_activation(&name, &new.selector, now, &**random).await?;
        }
        for old in keys.iter().filter(|key| is_signing(key)) {
            if waiting.iter().any(|new| new.algorithm == old.algorithm) {
                self.retire(&name, &old.selector, now, random).await?;
            }
        }
        self.lock().pop(&name);
        self.list(domain).await
    }

    /// Removes all keys of a domain: its mail is not signed any more.
    ///
    /// # Errors
    /// `NotFound` if it has none, and errors of the store.
    pub async fn remove(&self, domain: &str) -> Result<()> {
        let name = name(domain)?;
        let listed = self.0.store.list(&note::folder(&name), None);
        let paths: Vec<String> = listed.map_ok(|object| object.path).try_collect().await?;
        if paths.is_empty() {
            return Err(no_keys(&name));
        }
        self.0.store.delete_in_order(paths).await?;
        self.lock().pop(&name);
        Ok(())
    }

    /// Makes a waiting key for each of `algorithms` that has none.
    async fn make(
        &self,
        domain: &DnsName,
        keys: &[KeyInfo],
        algorithms: &[Algorithm],
        now: Timestamp,
        random: &Arc<dyn Random>,
    ) -> Result<()> {
        for algorithm in algorithms {
            if keys.iter().any(|key| key.algorithm == *algorithm && is_waiting(key)) {
                continue;
            }
            let (algorithm, source) = (*algorithm, random.clone());
            let made = tokio::task::spawn_blocking(move || SigningKey::generate(algorithm, &*source)).await;
            let pkcs8 = made.map_err(|e| Error::internal("making a key panicked").with_source(e))??;
            let selector = selector(algorithm, now, &**random);
            if self.write_key(domain, &selector, &pkcs8, now, &**random).await? == Put::Exists {
                return Err(Error::retry(format!("{domain} has another key {selector}; retry")));
            }
        }
        Ok(())
    }

    /// Retires a key: removes its private half and keeps its published half.
    async fn retire(
        &self,
        domain: &DnsName,
        selector: &str,
        now: Timestamp,
        random: &Arc<dyn Random>,
    ) -> Result<()> {
        let (key, _) = self.read_key(domain, selector).await?;
        self.write_retirement(domain, selector, &key, now, &**random).await?;
        let paths = [note::KEY, note::ACTIVE].map(|kind| note::path(domain, kind, selector));
        self.0.store.delete_in_order(paths.into()).await
    }

    /// Removes all objects of a key.
    async fn forget(&self, domain: &DnsName, selector: &str) -> Result<()> {
        let kinds = [note::ACTIVE, note::KEY, note::RETIRED];
        let paths = kinds.map(|kind| note::path(domain, kind, selector));
        self.0.store.delete_in_order(paths.into()).await
    }
}

fn is_signing(key: &KeyInfo) -> bool {
    matches!(key.stage, Stage::Signing(_))
}

fn is_waiting(key: &KeyInfo) -> bool {
    matches!(key.stage, Stage::Waiting(_))
}

fn no_keys(domain: &DnsName) -> Error {
    Error::not_found(format!("{domain} has no keys; sealpost domain add {domain} makes them"))
}

/// A new name for a key. A domain never uses a name twice, since resolvers cache old records.
fn selector(algorithm: Algorithm, now: Timestamp, random: &dyn Random) -> String {
    let (year, month, day) = civil_from_days(now.seconds().div_euclid(86_400));
    let mut suffix = [0; SUFFIX_BYTES];
    random.fill(&mut suffix);
    let suffix: String =
        suffix.iter().map(|byte| char::from(SUFFIX[usize::from(*byte) % SUFFIX.len()])).collect();
    format!("{}-{year:04}{month:02}{day:02}{suffix}", algorithm.key_type())
}
