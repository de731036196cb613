//! The real [`Transport`]: routes, mail servers by DNS, policies, connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use sealpost_base::limits::{MX_ADDRESSES, MX_ATTEMPTS};
use sealpost_base::{Clock, Random};
use sealpost_dns::{DnsName, LookupError, Resolver, ResolverExt};
use sealpost_smtp::types::{Host, ReversePath};
use tokio::time::Instant;

use crate::dial::Dialer;
use crate::envelope::TlsDemand;
use crate::mail_hosts::{MailHosts, bounded_key, dns_failure, mail_hosts};
use crate::open::OpenConnection;
use crate::opening::{Opener, Target};
use crate::outcome::{Failure, Reason, Scope, TlsMode};
use crate::reports::{PolicyUsed, TlsProblem, TlsReports, TlsSession};
use crate::routes::{Routes, Smarthost, SmarthostTls, Via};
use crate::security::{DaneState, HostFacts, Need, Security, dane_state, decide, server_name};
use crate::settings::Settings;
use crate::sts::{PolicyStore, Sts, StsState};
use crate::tls::TlsClient;
use crate::transport::{Choice, Connection, Destination, SiteKey, Transport};

/// Delivers by SMTP.
#[derive(Clone)]
pub struct Deliverer(Arc<Inner>);

/// What a [`Deliverer`] is made of.
pub struct Parts {
    /// How this node delivers.
    pub settings: Settings,
    /// Which mail takes which way.
    pub routes: Routes,
    /// DNS.
    pub resolver: Arc<dyn Resolver>,
    /// TCP.
    pub dialer: Arc<dyn Dialer>,
    /// TLS.
    pub tls: TlsClient,
    /// Policies of MTA-STS.
    pub policies: Arc<dyn PolicyStore>,
    /// Takes note of TLS sessions.
    pub reports: Arc<dyn TlsReports>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for the order of servers.
    pub random: Arc<dyn Random>,
}

struct Inner {
    routes: Routes,
    resolver: Arc<dyn Resolver>,
    random: Arc<dyn Random>,
    sts: Sts,
    opener: Opener,
}

impl Deliverer {
    /// A deliverer of these parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { settings, routes, resolver, dialer, tls, policies, reports, clock, random } = parts;
        let sts = Sts::new(policies, clock.clone(), settings.https_port);
        let opener = Opener { settings, dialer, tls, clock, reports };
        Deliverer(Arc::new(Inner { routes, resolver, random, sts, opener }))
    }

    async fn direct(&self, destination: &Host) -> Result<Box<dyn Destination>, Failure> {
        let literal = |address: IpAddr| -> Box<dyn Destination> {
            let site = SiteKey::new(&destination.to_string());
            Box::new(Literal { deliverer: self.clone(), address, site })
        };
        match destination {
            Host::Ipv4(address) => Ok(literal(IpAddr::V4(*address))),
            Host::Ipv6(address) => Ok(literal(IpAddr::V6(*address))),
            Host::Literal(_) => Err(Failure::new(Reason::BadDestination, destination.to_string())),
            Host::Domain(_) => {
                let domain = destination.as_domain().and_then(DnsName::new);
                let bad = || Failure::new(Reason::BadDestination, destination.to_string());
                let domain = domain.ok_or_else(bad)?;
                let (inner, settings) = (&self.0, &self.0.opener.settings);
                let hosts = mail_hosts(inner.resolver.as_ref(), inner.random.as_ref(), &domain, |host| {
                    settings.is_own(host)
                });
                Ok(Box::new(Domain { deliverer: self.clone(), hosts: hosts.await?, domain }))
            }
        }
    }

    fn smarthost(&self, smarthost: Arc<Smarthost>) -> Box<dyn Destination> {
        let site = bounded_key(&format!("smarthost:{}:{}", smarthost.host, smarthost.port));
        Box::new(Relay { deliverer: self.clone(), smarthost, site })
    }
}

#[async_trait]
impl Transport for Deliverer {
    async fn resolve(
        &self,
        sender: &ReversePath,
        destination: &Host,
        choice: Choice,
    ) -> Option<Result<Box<dyn Destination>, Failure>> {
        match (self.0.routes.via(sender, destination), choice) {
            (Via::Direct | Via::DirectThen(_), Choice::First) => Some(self.direct(destination).await),
            (Via::Smarthost(smarthost), Choice::First) | (Via::DirectThen(smarthost), Choice::Second) => {
                Some(Ok(self.smarthost(smarthost)))
            }
            (Via::Direct | Via::Smarthost(_), Choice::Second) => None,
        }
    }
}

/// Addresses of a host, and what DNSSEC says of them.
struct Addresses {
    addresses: Vec<IpAddr>,
    secure: bool,
    /// The name that has them, aliases followed.
    owner: DnsName,
}

impl Inner {
    /// The addresses of `host` in the order in which `domain` wants them.
    async fn addresses(&self, host: &DnsName, domain: &DnsName) -> Result<Addresses, Failure> {
        let mut found = Addresses { addresses: Vec::new(), secure: true, owner: host.clone() };
        let mut error = LookupError::NoData { secure: false };
        for &ipv6 in self.opener.settings.family_for(domain).order() {
            let answer = match ipv6 {
                true => self.resolver.ipv6(host).await.map(|a| (to_ip(a.records), a.secure, a.owner)),
                false => self.resolver.ipv4(host).await.map(|a| (to_ip(a.records), a.secure, a.owner)),
            };
            match answer {
                Ok((addresses, secure, owner)) => {
                    found.addresses.extend(addresses.into_iter().take(MX_ADDRESSES));
                    (found.secure, found.owner) = (found.secure && secure, owner);
                }
                // A failure says more than that there is no address of one kind.
                Err(other) if error.is_negative() => error = other,
                Err(_) => {}
            }
        }
        if found.addresses.is_empty() {
            return Err(dns_failure(&error, host));
        }
        Ok(found)
    }

    /// Whether mail for a domain may go to `address` because DNS says so.
    fn check_address(&self, address: IpAddr, host: &str) -> Result<(), Failure> {
        if self.opener.settings.own_addresses.contains(&address) {
            return Err(Failure::new(Reason::MailLoop, host));
        }
        match self.opener.settings.may_reach(address) {
            true => Ok(()),
            false => Err(Failure::new(Reason::PrivateAddress, format!("{host} at {address}"))),
        }
    }

    fn connect_deadline(&self) -> Instant {
        Instant::now() + self.opener.settings.timeouts.connect_total
    }
}

fn to_ip<A: Into<IpAddr>>(addresses: Vec<A>) -> Vec<IpAddr> {
    addresses.into_iter().map(Into::into).collect()
}

/// Failures of the servers of a destination, of which one is reported.
#[derive(Default)]
struct Failures {
    worst: Option<Failure>,
    count: usize,
}

impl Failures {
    fn add(&mut self, failure: Failure) {
        self.count += 1;
        // What may pass counts more than what is for good, and what a server said more than silence.
        let weight = |failure: &Failure| (!failure.permanent, failure.reply.is_some());
        if self.worst.as_ref().is_none_or(|worst| weight(&failure) > weight(worst)) {
            self.worst = Some(failure);
        }
    }

    /// The failure of the whole destination.
    fn into_failure(self, domain: &str) -> Failure {
        let failure = self.worst.unwrap_or_else(|| Failure::new(Reason::NoAddress, domain));
        // What only this message demands says nothing about the site.
        if failure.scope == Scope::Message { failure } else { failure.with_scope(Scope::Site) }
    }
}

/// A domain with mail servers.
struct Domain {
    deliverer: Deliverer,
    domain: DnsName,
    hosts: MailHosts,
}

impl Domain {
    async fn sts_state(&self) -> StsState {
        let inner = &self.deliverer.0;
        let opener = &inner.opener;
        if !opener.settings.mta_sts {
            return StsState::default();
        }
        let dialer = opener.dialer.as_ref();
        let state = inner.sts.state(&self.domain, inner.resolver.as_ref(), dialer, &opener.tls).await;
        if let Some(problem) = state.problem {
            self.report(None, PolicyUsed::Sts(Vec::new()), TlsProblem::Sts(problem));
        }
        state
    }

    fn report(&self, host: Option<&DnsName>, policy: PolicyUsed, problem: TlsProblem) {
        let (domain, host) = (self.domain.clone(), host.cloned());
        let session = TlsSession { domain, policy, host, address: None, result: Err(problem) };
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
        // Lookups count as well.
        let open = tokio::time::timeout(limit, self.open(demand)).await;
        Ok(Box::new(open.unwrap_or_else(|_| Err(too_slow()))?))
    }
}

/// An address literal (RFC 5321 §4.1.3): no DNS, no policy.
struct Literal {
    deliverer: Deliverer,
    address: IpAddr,
    site: SiteKey,
}

#[async_trait]
impl Destination for Literal {
    fn site(&self) -> &SiteKey {
        &self.site
    }

    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let inner = &self.deliverer.0;
        let host = self.site.as_str().to_owned();
        inner.check_address(self.address, &host).map_err(|failure| failure.with_scope(Scope::Site))?;
        if demand == TlsDemand::Require {
            // RFC 8689 §4.2.1: nothing can prove that the address is the right server.
            return Err(Failure::new(Reason::MxNotAuthenticated, host));
        }
        let security = Security {
            need: Need::Nothing,
            mode: TlsMode::Opportunistic,
            names: Vec::new(),
            policy: PolicyUsed::None,
            require_tls: false,
        };
        let target =
            Target { host, name: None, domain: None, security, implicit_tls: false, credentials: None };
        let address = SocketAddr::new(self.address, inner.opener.settings.port);
        let opened = inner.opener.open(&target, address, inner.connect_deadline()).await;
        Ok(Box::new(opened.map_err(|failure| failure.with_scope(Scope::Site))?))
    }
}

/// A smarthost.
struct Relay {
    deliverer: Deliverer,
    smarthost: Arc<Smarthost>,
    site: SiteKey,
}

impl Relay {
    fn security(&self, demand: TlsDemand) -> Security {
        let names = match &self.smarthost.host {
            Host::Ipv4(address) => Some(IpAddr::V4(*address).into()),
            Host::Ipv6(address) => Some(IpAddr::V6(*address).into()),
            host => host.as_domain().and_then(DnsName::new).as_ref().and_then(server_name),
        };
        let require_tls = demand == TlsDemand::Require;
        let (need, mode) = match self.smarthost.tls {
            SmarthostTls::StartTls | SmarthostTls::Implicit => (Need::Roots, TlsMode::Required),
            _ if require_tls => (Need::Roots, TlsMode::Required),
            SmarthostTls::None => (Need::Clear, TlsMode::None),
            SmarthostTls::Opportunistic => (Need::Nothing, TlsMode::Opportunistic),
        };
        Security { need, mode, names: names.into_iter().collect(), policy: PolicyUsed::None, require_tls }
    }

    async fn open(&self, demand: TlsDemand) -> Result<OpenConnection, Failure> {
        let inner = &self.deliverer.0;
        let deadline = inner.connect_deadline();
        let host = &self.smarthost.host;
        let addresses = match (host, host.as_domain().and_then(DnsName::new)) {
            (Host::Ipv4(address), _) => vec![IpAddr::V4(*address)],
            (Host::Ipv6(address), _) => vec![IpAddr::V6(*address)],
            (_, Some(name)) => inner.addresses(&name, &name).await.map_err(waiting)?.addresses,
            (_, None) => return Err(Failure::new(Reason::BadDestination, host.to_string())),
        };
        let target = Target {
            host: host.to_string(),
            name: None,
            domain: None,
            security: self.security(demand),
            implicit_tls: self.smarthost.tls == SmarthostTls::Implicit,
            credentials: self.smarthost.credentials.clone(),
        };
        let mut failures = Failures::default();
        for address in addresses.into_iter().take(MX_ATTEMPTS) {
            let address = SocketAddr::new(address, self.smarthost.port);
            match inner.opener.open(&target, address, deadline).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => failures.add(failure),
            }
        }
        Err(waiting(failures.into_failure(&target.host)))
    }
}

/// A smarthost that cannot be used is the operator's to repair: mail waits, unless the message itself is the cause.
fn waiting(mut failure: Failure) -> Failure {
    failure.permanent &= failure.scope == Scope::Message;
    failure
}

#[async_trait]
impl Destination for Relay {
    fn site(&self) -> &SiteKey {
        &self.site
    }

    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let limit = self.deliverer.0.opener.settings.timeouts.connect_total;
        let too_slow = || Failure::new(Reason::TooSlow, self.site.as_str()).with_scope(Scope::Site);
        let open = tokio::time::timeout(limit, self.open(demand)).await;
        Ok(Box::new(open.unwrap_or_else(|_| Err(too_slow()))?))
    }
}
