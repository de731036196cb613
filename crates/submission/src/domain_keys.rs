//! The DKIM keys of the domains that send from here.
//!
//! A domain signs with two keys, RSA and Ed25519. A key is published in DNS before it signs and stays
//! published after it has signed, because servers verify mail some time after it was sent.
//! So each key goes through three stages. Each stage is an object of its own, written once and sealed under
//! the mail key: neither the store nor a backup reveals a key. Format: `docs/format/domain-keys.md`.
//!
//! The signing keys of a domain are read from the store at most once a minute. A key that cannot be opened is
//! logged and does not sign: mail is sent with the signatures of the other keys.

mod change;
mod note;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use lru::LruCache;
use sealpost_base::{Error, Kind, Result, Timestamp, limits};
use sealpost_dns::DnsName;
use sealpost_mailauth::dkim::{Algorithm, SigningKey};
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{ListedObject, Store};
use tokio::time::Instant;

/// How long the signing keys are cached: a node uses a new key so much later at most.
pub const KEY_CACHE_TIME: Duration = Duration::from_secs(60);
/// How long the record of a key stays in DNS after its last signature: mail may be queued for five days
/// (RFC 5321 §4.5.4.1), and is verified when it arrives.
pub const KEY_OVERLAP: Duration = Duration::from_secs(7 * 86_400);
/// The folder of everything that [`DomainKeys`] stores.
pub const ROOT: &str = note::ROOT;
/// The algorithms that a domain signs with.
pub const ALGORITHMS: [Algorithm; 2] = [Algorithm::RsaSha256, Algorithm::Ed25519Sha256];

/// The keys of all domains. Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct DomainKeys(Arc<Inner>);

struct Inner {
    store: Store,
    mail_keys: MailKeys,
    remembered: Mutex<LruCache<DnsName, Remembered>>,
}

struct Remembered {
    keys: Vec<DomainKey>,
    read: Instant,
}

/// A key that signs. Cheap to clone.
#[derive(Clone)]
pub struct DomainKey {
    /// Its domain, as A-labels: `d=`.
    pub domain: DnsName,
    /// `s=`: the record is at `{selector}._domainkey.{domain}`.
    pub selector: String,
    /// Its algorithm.
    pub algorithm: Algorithm,
    key: Arc<SigningKey>,
}

/// A key as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name; the record is at `{selector}._domainkey.{domain}`.
    pub selector: String,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// The text of the TXT record that publishes it, in one piece.
    pub record: String,
    /// Its stage.
    pub stage: Stage,
}

/// The stage of a key. A key goes through the stages in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It does not sign yet: the operator has to publish its record first. With the time of its creation.
    Waiting(Timestamp),
    /// It signs. With the time since when.
    Signing(Timestamp),
    /// It does not sign any more, and its private half is removed. The record stays in DNS for [`KEY_OVERLAP`].
    /// With the time since when.
    Retired(Timestamp),
}

impl DomainKey {
    /// What makes the signature.
    pub fn signer(&self) -> &SigningKey {
        &self.key
    }
}

impl Stage {
    /// Whether its record has to be in DNS.
    pub fn is_published(self, now: Timestamp) -> bool {
        match self {
            Stage::Waiting(_) | Stage::Signing(_) => true,
            Stage::Retired(since) => now.since(since) < KEY_OVERLAP,
        }
    }
}

impl DomainKeys {
    /// The keys in `store`, which `mail_keys` open.
    pub fn new(store: Store, mail_keys: MailKeys) -> Self {
        let domains = NonZeroUsize::new(limits::DKIM_DOMAINS_REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        let remembered = Mutex::new(LruCache::new(domains));
        DomainKeys(Arc::new(Inner { store, mail_keys, remembered }))
    }

    /// The keys that sign mail of `domain` now, in any spelling; none if it has none, or is no domain.
    ///
    /// # Errors
    /// `Retry` if the store does not answer, and the cache has no keys.
    pub async fn signing(&self, domain: &str) -> Result<Vec<DomainKey>> {
        let Some(domain) = DnsName::new(domain) else { return Ok(Vec::new()) };
        let before = self.remembered(&domain);
        if let Some((keys, age)) = &before
            && *age < KEY_CACHE_TIME
        {
            return Ok(keys.clone());
        }
        match (self.read_signing(&domain).await, before) {
            (Ok(keys), _) => {
                let remembered = Remembered { keys: keys.clone(), read: Instant::now() };
                self.lock().put(domain, remembered);
                Ok(keys)
            }
            (Err(e), Some((keys, _))) if e.kind() == Kind::Retry => Ok(keys),
            (Err(e), _) => Err(e),
        }
    }

    /// All keys of `domain`, those that sign first.
    ///
    /// # Errors
    /// `Invalid` if it is no domain, `Corrupt` if a key cannot be opened, and errors of the store.
    pub async fn list(&self, domain: &str) -> Result<Vec<KeyInfo>> {
        let domain = name(domain)?;
        let mut keys = Vec::new();
        for Found { selector, stage } in self.find(&domain).await? {
            let (algorithm, record, stage) = match stage {
                FoundStage::Waiting => {
                    let (key, created) = self.read_key(&domain, &selector).await?;
                    (key.algorithm(), key.record(), Stage::Waiting(created))
                }
                FoundStage::Signing => {
                    let (key, _) = self.read_key(&domain, &selector).await?;
                    let since = self.read_activation(&domain, &selector).await?;
                    (key.algorithm(), key.record(), Stage::Signing(since))
                }
                FoundStage::Retired => {
                    let retired = self.read_retirement(&domain, &selector).await?;
                    (note::algorithm(retired.algorithm)?, retired.record, Stage::Retired(retired.since))
                }
            };
            keys.push(KeyInfo { selector, algorithm, record, stage });
        }
        let rank = |key: &KeyInfo| match key.stage {
            Stage::Signing(_) => 0,
            Stage::Waiting(_) => 1,
            Stage::Retired(_) => 2,
        };
        keys.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.selector.cmp(&a.selector)));
        Ok(keys)
    }

    /// The domains that have keys, in order.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn domains(&self) -> Result<Vec<DnsName>> {
        let mut domains: Vec<DnsName> = Vec::new();
        let mut listed = self.0.store.list(note::ROOT, None);
        while let Some(object) = listed.try_next().await? {
            let domain = object.path.split('/').nth(1).and_then(DnsName::new);
            if let Some(domain) = domain.filter(|domain| domains.last() != Some(domain)) {
                domains.push(domain);
            }
        }
        domains.sort();
        domains.dedup();
        Ok(domains)
    }

    async fn read_signing(&self, domain: &DnsName) -> Result<Vec<DomainKey>> {
        let mut keys = Vec::new();
        for found in self.find(domain).await? {
            if found.stage != FoundStage::Signing {
                continue;
            }
            match self.read_key(domain, &found.selector).await {
                Ok((key, _)) => keys.push(DomainKey {
                    domain: domain.clone(),
                    selector: found.selector,
                    algorithm: key.algorithm(),
                    key: Arc::new(key),
                }),
                // It was retired since the listing.
                Err(e) if e.kind() == Kind::NotFound => {}
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::Invalid) => {
                    tracing::error!(%domain, selector = found.selector, error = %e, "a DKIM key cannot be used");
                }
                Err(e) => return Err(e),
            }
        }
        Ok(keys)
    }

    /// The cached keys of a domain, and their age.
    fn remembered(&self, domain: &DnsName) -> Option<(Vec<DomainKey>, Duration)> {
        let mut remembered = self.lock();
        let found = remembered.get(domain)?;
        Some((found.keys.clone(), found.read.elapsed()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<DnsName, Remembered>> {
        self.0.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an object of that path and size can be one of a domain's keys.
pub fn is_stored(object: &ListedObject) -> bool {
    let mut parts = object.path.split('/');
    let (root, domain, kind, selector) = (parts.next(), parts.next(), parts.next(), parts.next());
    root == Some(note::ROOT)
        && domain.is_some_and(|domain| DnsName::new(domain).is_some())
        && kind.is_some_and(|kind| [note::KEY, note::ACTIVE, note::RETIRED].contains(&kind))
        && selector.is_some()
        && parts.next().is_none()
        && !object.is_too_large()
}

/// A key, by the names of its objects.
struct Found {
    selector: String,
    stage: FoundStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FoundStage {
    Waiting,
    Signing,
    Retired,
}

impl DomainKeys {
    /// The keys of a domain, by selector.
    async fn find(&self, domain: &DnsName) -> Result<Vec<Found>> {
        let mut found: Vec<Found> = Vec::new();
        let mut activated = Vec::new();
        let mut listed = self.0.store.list(&note::folder(domain), None);
        while let Some(object) = listed.try_next().await? {
            let mut parts = object.path.split('/').skip(2);
            let (Some(kind), Some(selector), None) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            if found.len() + activated.len() > limits::DKIM_DOMAIN_OBJECTS {
                return Err(Error::limit(format!("{domain} has too many keys; remove retired ones")));
            }
            let selector = selector.to_owned();
            match kind {
                note::KEY => found.push(Found { selector, stage: FoundStage::Waiting }),
                note::ACTIVE => activated.push(selector),
                note::RETIRED => match found.iter_mut().find(|key| key.selector == selector) {
                    Some(key) => key.stage = FoundStage::Retired,
                    None => found.push(Found { selector, stage: FoundStage::Retired }),
                },
                _ => {}
            }
        }
        for key in &mut found {
            if key.stage == FoundStage::Waiting && activated.contains(&key.selector) {
                key.stage = FoundStage::Signing;
            }
        }
        found.sort_by(|a, b| a.selector.cmp(&b.selector));
        Ok(found)
    }
}

/// Parses a domain.
fn name(domain: &str) -> Result<DnsName> {
    let is_host_name = |name: &DnsName| {
        name.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
    };
    DnsName::new(domain)
        .filter(is_host_name)
        .ok_or_else(|| Error::invalid(format!("{domain:?} is not a domain name, as in example.org")))
}
