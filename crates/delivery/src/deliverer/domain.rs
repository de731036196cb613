//! A domain: its mail servers by DNS, each with the policy that it is under, tried in order.

use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use sealpost_base::limits::MX_ATTEMPTS;
use sealpost_dns::DnsName;

use super::{Deliverer, Failures};
use crate::envelope::TlsDemand;
use crate::mail_hosts::{MailHosts, bounded_key};
use crate::open::OpenConnection;
use crate::opening::Target;
use crate::outcome::{Failure, Reason, Scope};
use crate::reports::{PolicyUsed, TlsProblem, TlsSession};
use crate::security::{DaneState, HostFacts, dane_state, decide};
use crate::sts::StsState;
use crate::sts::policy::Mode;
use crate::transport::{Connection, Destination, SiteKey};

/// A domain with mail servers.
pub(super) struct Domain {
    pub(super) deliverer: Deliverer,
    pub(super) domain: DnsName,
    pub(super) hosts: MailHosts,
}

impl Domain {
    /// Adds the demands on connections to the key of the site. Domains of one site share connections and
    /// the record of failures. Mail for a domain that enforces a policy must not leave over a connection
    /// that was opened for a domain without one. A domain whose policy excludes its own servers must not
    /// delay mail for other domains.
    pub(super) async fn separate_by_policy(&mut self) {
        let mut key = self.hosts.site.as_str().to_owned();
        if self.hosts.secure && self.deliverer.0.opener.settings.dane {
            key += " dnssec";
        }
        let policy = self.sts_state().await.policy;
        if let Some(policy) = policy.filter(|policy| policy.mode == Mode::Enforce) {
            key += " mta-sts";
            for excluded in self.hosts.hosts.iter().filter(|host| !policy.allows(host)) {
                key += " -";
                key += excluded.as_str();
            }
        }
        self.hosts.site = bounded_key(&key);
    }

    async fn sts_state(&self) -> StsState {
        let inner = &self.deliverer.0;
        let opener = &inner.opener;
        if !opener.settings.mta_sts {
            return StsState::default();
        }
        let dialer = opener.dialer.as_ref();
        inner.sts.state(&self.domain, inner.resolver.as_ref(), dialer, &opener.tls).await
    }

    fn report(&self, host: Option<&DnsName>, policy: PolicyUsed, problem: TlsProblem) {
        let (domain, host) = (self.domain.clone(), host.cloned());
        let session = TlsSession { domain, policy, host, address: None, source: None, result: Err(problem) };
        self.deliverer.0.opener.reports.record(session);
    }

    /// The addresses and the security of a host.
    async fn target(
        &self,
        host: &DnsName,
        sts: &StsState,
        demand: TlsDemand,
    ) -> Result<(Vec<IpAddr>, Target), Failure> {
        let inner = &self.deliverer.0;
        let found = inner.addresses(host, &self.domain).await?;
        let dane = match inner.opener.settings.dane && self.hosts.secure && demand != TlsDemand::Waive {
            true => {
                let port = inner.opener.settings.port;
                dane_state(inner.resolver.as_ref(), host, &found.owner, found.secure, port).await
            }
            false => Ok(DaneState::NotApplicable),
        };
        let dane = dane.inspect_err(|_| {
            self.report(Some(host), PolicyUsed::Tlsa(Vec::new()), TlsProblem::DnssecInvalid);
        })?;
        if dane == DaneState::Unusable {
            self.report(Some(host), PolicyUsed::Tlsa(Vec::new()), TlsProblem::TlsaInvalid);
        }
        let (mx_secure, policy) = (self.hosts.secure, sts.policy.as_ref());
        let facts = HostFacts { domain: &self.domain, host, mx_secure, dane, sts: policy };
        let security = decide(facts, demand).map_err(|(failure, problem)| {
            if let (Some(problem), Some(policy)) = (problem, policy) {
                let lines = policy.to_text().lines().map(str::to_owned).collect();
                self.report(Some(host), PolicyUsed::Sts(lines), problem);
            }
            failure
        })?;
        let target = Target {
            host: host.to_string(),
            name: Some(host.clone()),
            domain: Some(self.domain.clone()),
            security,
            implicit_tls: false,
            credentials: None,
        };
        Ok((found.addresses, target))
    }

    async fn open(&self, demand: TlsDemand) -> Result<OpenConnection, Failure> {
        let inner = &self.deliverer.0;
        let deadline = inner.connect_deadline();
        let sts = self.sts_state().await;
        // Report it here, once for each session, and not at the first use of the policy.
        if let Some(problem) = sts.problem {
            self.report(None, PolicyUsed::Sts(Vec::new()), TlsProblem::Sts(problem));
        }
        let (mut failures, mut attempts) = (Failures::default(), 0);
        for host in &self.hosts.hosts {
            let (addresses, target) = match self.target(host, &sts, demand).await {
                Ok(found) => found,
                Err(failure) => {
                    failures.add(failure);
                    continue;
                }
            };
            for address in addresses {
                if let Err(failure) = inner.check_address(address, &target.host) {
                    failures.add(failure);
                    continue;
                }
                attempts += 1;
                if attempts > MX_ATTEMPTS {
                    return Err(failures.into_failure(self.domain.as_str()));
                }
                let address = SocketAddr::new(address, inner.opener.settings.port);
                match inner.opener.open(&target, address, deadline).await {
                    Ok(connection) => return Ok(connection),
                    Err(failure) => failures.add(failure),
                }
            }
        }
        Err(failures.into_failure(self.domain.as_str()))
    }
}

#[async_trait]
impl Destination for Domain {
    fn site(&self) -> &SiteKey {
        &self.hosts.site
    }

    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let limit = self.deliverer.0.opener.settings.timeouts.connect_total;
        let too_slow = || Failure::new(Reason::TooSlow, self.domain.as_str()).with_scope(Scope::Site);
        // The time of lookups counts as well.
        let open = tokio::time::timeout(limit, self.open(demand)).await;
        Ok(Box::new(open.unwrap_or_else(|_| Err(too_slow()))?))
    }
}
