//! MTA-STS policies in the file `mta-sts` of the data directory.
//!
//! A policy that is forgotten protects against nothing until it is fetched again (RFC 8461 §10.2), so
//! they survive a restart. All are in memory, the most recently used ones within their limits; the
//! file is written again a moment after one is added. Format: `docs/format/sending-files.md`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lru::LruCache;
use minicbor::{Decode, Encode};
use sealpost_base::limits::{STS_POLICIES, STS_POLICIES_BYTES};
use sealpost_base::{Error, Result};
use sealpost_delivery::sts::{PolicyStore, StoredPolicy};
use sealpost_dns::DnsName;
use sealpost_files::owner;

use crate::blocking::blocking;

/// The file, in the data directory.
const FILE: &str = "mta-sts";
/// "Sealpost MTA-STS policies", version 1.
const MAGIC: [u8; 4] = *b"SPT\x01";
/// Bytes of a policy besides its text.
const POLICY_BYTES: usize = 512;

/// Policies, the least recently used first.
#[derive(Encode, Decode)]
struct Policies(#[n(0)] Vec<(String, StoredPolicy)>);

/// The policies that this node knows.
pub(super) struct PolicyFile {
    path: PathBuf,
    known: Mutex<Known>,
    dirty: AtomicBool,
}

struct Known {
    policies: LruCache<DnsName, StoredPolicy>,
    bytes: usize,
}

impl PolicyFile {
    /// As the file in `data` says. One that cannot be read is reported and created again.
    pub(super) async fn load(data: &Path) -> Self {
        let path = data.join(FILE);
        let read = {
            let path = path.clone();
            blocking(move || read(&path)).await
        };
        let policies = read.unwrap_or_else(|error| {
            tracing::warn!(%error, "the MTA-STS policies of this node cannot be read; starting with none");
            Vec::new()
        });
        let known = Known { policies: LruCache::new(STS_POLICIES), bytes: 0 };
        let file = PolicyFile { path, known: Mutex::new(known), dirty: AtomicBool::new(false) };
        for (domain, policy) in policies {
            if let Some(domain) = DnsName::new(&domain) {
                file.known().put(domain, policy);
            }
        }
        file
    }

    /// Writes what is not in the file.
    pub(super) async fn save(&self) {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return;
        }
        let bytes = {
            let known = self.known();
            let all = known.policies.iter().rev();
            let policies = all.map(|(domain, policy)| (domain.to_string(), policy.clone())).collect();
            minicbor::to_vec(Policies(policies)).unwrap_or_default()
        };
        let path = self.path.clone();
        if let Err(error) = blocking(move || write(&path, &[&MAGIC[..], &bytes].concat())).await {
            self.dirty.store(true, Ordering::Release);
            tracing::warn!(%error, "cannot write the MTA-STS policies of this node; this is tried again");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn put(&mut self, domain: DnsName, policy: StoredPolicy) {
        let bytes = |policy: &StoredPolicy| policy.text.len() + policy.id.len() + POLICY_BYTES;
        self.bytes += bytes(&policy);
        if let Some((_, gone)) = self.policies.push(domain, policy) {
            self.bytes -= bytes(&gone);
        }
        while self.bytes > STS_POLICIES_BYTES
            && let Some((_, gone)) = self.policies.pop_lru()
        {
            self.bytes -= bytes(&gone);
        }
    }
}

#[async_trait]
impl PolicyStore for PolicyFile {
    async fn load(&self, domain: &DnsName) -> Result<Option<StoredPolicy>> {
        Ok(self.known().policies.get(domain).cloned())
    }

    async fn save(&self, domain: &DnsName, policy: &StoredPolicy) -> Result<()> {
        self.known().put(domain.clone(), policy.clone());
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<(String, StoredPolicy)>> {
    let most = STS_POLICIES_BYTES as u64 * 2;
    let bytes = match std::fs::metadata(path).and_then(|found| match found.len() > most {
        true => Err(std::io::Error::other("it is too large")),
        false => std::fs::read(path),
    }) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes.map_err(|e| failed(path, e))?,
    };
    let wrong = || Error::corrupt(format!("{} is damaged", path.display()));
    let rest = bytes.strip_prefix(&MAGIC).ok_or_else(wrong)?;
    minicbor::decode::<Policies>(rest).map(|policies| policies.0).map_err(|e| wrong().with_source(e))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let written = owner::create_anew(&temporary).and_then(|mut file| {
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_data()?;
        std::fs::rename(&temporary, path)
    });
    written.map_err(|e| failed(path, e))
}

fn failed(path: &Path, e: std::io::Error) -> Error {
    Error::retry(path.display().to_string()).with_source(owner::explained(path, e))
}

#[cfg(test)]
mod tests {
    use sealpost_base::Timestamp;

    use super::*;

    fn policy(text: &str) -> StoredPolicy {
        StoredPolicy { id: "1".to_owned(), text: text.to_owned(), fetched: Timestamp(7) }
    }

    #[tokio::test]
    async fn policies_survive_a_restart_and_damage_costs_no_start() {
        let (data, name) = (tempfile::tempdir().unwrap(), DnsName::new("a.example").unwrap());
        let file = PolicyFile::load(data.path()).await;
        PolicyStore::save(&file, &name, &policy("version: STSv1")).await.unwrap();
        file.save().await;
        let again = PolicyFile::load(data.path()).await;
        let kept = PolicyStore::load(&again, &name).await.unwrap();
        assert_eq!(kept, Some(policy("version: STSv1")));
        std::fs::write(data.path().join(FILE), b"SPT\x01garbage").unwrap();
        let none = PolicyFile::load(data.path()).await;
        assert_eq!(PolicyStore::load(&none, &name).await.unwrap(), None);
    }

    #[tokio::test]
    async fn policies_take_bounded_memory() {
        let data = tempfile::tempdir().unwrap();
        let file = PolicyFile::load(data.path()).await;
        let large = policy(&"x".repeat(64 * 1024));
        let name = |n: usize| DnsName::new(&format!("d{n}.example")).unwrap();
        for n in 0..STS_POLICIES_BYTES / (64 * 1024) + 10 {
            PolicyStore::save(&file, &name(n), &large).await.unwrap();
        }
        assert!(file.known().bytes <= STS_POLICIES_BYTES);
        assert_eq!(PolicyStore::load(&file, &name(0)).await.unwrap(), None);
        for n in 0..STS_POLICIES.get() + 10 {
            PolicyStore::save(&file, &name(n), &policy("")).await.unwrap();
        }
        assert_eq!(file.known().policies.len(), STS_POLICIES.get());
        let counted = STS_POLICIES.get() * (POLICY_BYTES + 1);
        assert_eq!(file.known().bytes, counted, "nothing is counted twice");
    }
}
