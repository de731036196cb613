//! MTA-STS (RFC 8461): the web site of a domain names the servers that may get its mail.
//!
//! This module fetches a policy when the domain's TXT record has a new id, and uses the stored policy
//! until it expires, even if DNS and the web site fail. So an active attacker gains nothing by suppressing
//! them.

pub(crate) mod fetch;
pub mod policy;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use minicbor::{Decode, Encode};
use sealpost_base::limits::{STS_FETCH_TIME, STS_POLICIES};
use sealpost_base::{Clock, Result, Timestamp};
use sealpost_dns::{DnsName, Resolver, ResolverExt};

pub use policy::{Mode, MxPattern, Policy};

use crate::dial::Dialer;
use crate::tls::TlsClient;

/// Pause after a failed fetch (RFC 8461 §3.3).
const FETCH_PAUSE: Duration = Duration::from_secs(300);

/// A stored policy.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StoredPolicy {
    /// The id of the TXT record that led to it.
    #[n(0)]
    pub id: String,
    /// The text; see [`Policy::to_text`].
    #[n(1)]
    pub text: String,
    /// When it was fetched.
    #[n(2)]
    pub fetched: Timestamp,
}

/// Stores policies. It should be durable: a lost policy protects no mail until it is fetched again.
#[async_trait]
pub trait PolicyStore: Send + Sync {
    /// The stored policy of `domain`.
    ///
    /// # Errors
    /// If the store fails; the policy is fetched then.
    async fn load(&self, domain: &DnsName) -> Result<Option<StoredPolicy>>;

    /// Stores `policy` in place of the one before.
    ///
    /// # Errors
    /// If the store fails; the policy is used all the same.
    async fn save(&self, domain: &DnsName, policy: &StoredPolicy) -> Result<()>;
}

/// Stores policies in memory, at most [`STS_POLICIES`].
#[derive(Debug)]
pub struct PoliciesInMemory(Mutex<LruCache<DnsName, StoredPolicy>>);

impl Default for PoliciesInMemory {
    fn default() -> Self {
        PoliciesInMemory(Mutex::new(LruCache::new(STS_POLICIES)))
    }
}

#[async_trait]
impl PolicyStore for PoliciesInMemory {
    async fn load(&self, domain: &DnsName) -> Result<Option<StoredPolicy>> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(domain).cloned())
    }

    async fn save(&self, domain: &DnsName, policy: &StoredPolicy) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(domain.clone(), policy.clone());
        Ok(())
    }
}

/// Why mail for a domain is sent without its policy, in the terms of RFC 8460 §4.3.2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StsProblem {
    /// The web site cannot be reached or serves no policy.
    FetchError,
    /// Its certificate fails verification.
    WebPkiInvalid,
    /// Its response is no valid policy.
    Invalid,
}

/// The known state of a domain's policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StsState {
    /// The policy to apply.
    pub policy: Option<Policy>,
    /// Why there is none, or why it is an old one.
    pub problem: Option<StsProblem>,
}

/// Finds and stores policies.
pub(crate) struct Sts {
    pub store: Arc<dyn PolicyStore>,
    pub clock: Arc<dyn Clock>,
    pub https_port: u16,
    /// Domains whose last fetch failed, and when, by the monotonic clock.
    failed: Mutex<LruCache<DnsName, (Duration, StsProblem)>>,
}

impl Sts {
    pub fn new(store: Arc<dyn PolicyStore>, clock: Arc<dyn Clock>, https_port: u16) -> Self {
        Sts { store, clock, https_port, failed: Mutex::new(LruCache::new(STS_POLICIES)) }
    }

    /// The policy of `domain`.
    pub async fn state(
        &self,
        domain: &DnsName,
        resolver: &dyn Resolver,
        dialer: &dyn Dialer,
        tls: &TlsClient,
    ) -> StsState {
        let kept = self.kept(domain).await;
        let id = match domain.below("_mta-sts") {
            Some(name) => {
                resolver.txt(&name).await.ok().and_then(|answer| policy::record_id(&answer.records))
            }
            None => None,
        };
        // RFC 8461 §3.1: without a record, a stored policy still holds.
        let Some(id) = id else { return kept.map(|(policy, _)| policy).into() };
        let old = match kept {
            Some((policy, stored)) if stored.id == id && !self.is_aging(&policy, &stored) => {
                return Some(policy).into();
            }
            kept => kept.map(|(policy, _)| policy),
        };
        if let Some(problem) = self.failed_lately(domain) {
            return StsState { policy: old, problem: Some(problem) };
        }
        let fetch = fetch::fetch(domain, self.https_port, resolver, dialer, tls, self.clock.now());
        let fetched =
            tokio::time::timeout(STS_FETCH_TIME, fetch).await.unwrap_or(Err(StsProblem::FetchError));
        match fetched {
            Ok(policy) => {
                self.keep(domain, id, &policy).await;
                Some(policy).into()
            }
            Err(problem) => {
                let now = self.clock.monotonic();
                self.failed().put(domain.clone(), (now, problem));
                StsState { policy: old, problem: Some(problem) }
            }
        }
    }

    /// The stored policy, if it has not expired.
    async fn kept(&self, domain: &DnsName) -> Option<(Policy, StoredPolicy)> {
        // The store logs its failures; here they count as no policy.
        let stored = self.store.load(domain).await.ok()??;
        let policy = Policy::parse(stored.text.as_bytes())?;
        let age = self.clock.now().since(stored.fetched);
        (age < policy.max_age).then_some((policy, stored))
    }

    async fn keep(&self, domain: &DnsName, id: String, policy: &Policy) {
        let stored = StoredPolicy { id, text: policy.to_text(), fetched: self.clock.now() };
        // The policy applies even if it could not be stored.
        let _ = self.store.save(domain, &stored).await;
    }

    /// RFC 8461 §3.3: fetch a policy again before it expires.
    fn is_aging(&self, policy: &Policy, stored: &StoredPolicy) -> bool {
        self.clock.now().since(stored.fetched) > policy.max_age / 2
    }

    fn failed_lately(&self, domain: &DnsName) -> Option<StsProblem> {
        let now = self.clock.monotonic();
        let (when, problem) = *self.failed().get(domain)?;
        (now.saturating_sub(when) < FETCH_PAUSE).then_some(problem)
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, LruCache<DnsName, (Duration, StsProblem)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Option<Policy>> for StsState {
    fn from(policy: Option<Policy>) -> Self {
        StsState { policy, problem: None }
    }
}
