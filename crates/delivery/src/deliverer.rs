//! The real [`Transport`]: routes, mail servers by DNS, policies, connections.

mod domain;
mod literal;
mod relay;

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use sealpost_base::limits::MX_ADDRESSES;
use sealpost_base::{Clock, Random};
use sealpost_dns::{DnsName, LookupError, Resolver, ResolverExt};
use sealpost_smtp::types::{Host, ReversePath};
use tokio::time::Instant;

use crate::dial::Dialer;
use crate::mail_hosts::{bounded_key, dns_failure, mail_hosts};
use crate::opening::Opener;
use crate::outcome::{Failure, Reason, Scope};
use crate::reports::TlsReports;
use crate::routes::{Routes, Smarthost, Via};
use crate::settings::Settings;
use crate::sts::{PolicyStore, Sts};
use crate::tls::TlsClient;
use crate::transport::{Choice, Destination, SiteKey, Transport};
use domain::Domain;
use literal::Literal;
use relay::Relay;

/// Delivers by SMTP.
#[derive(Clone)]
pub struct Deliverer(Arc<Inner>);

/// The parts of a [`Deliverer`].
pub struct Parts {
    /// How this node delivers.
    pub settings: Settings,
    /// The routes.
    pub routes: Routes,
    /// DNS.
    pub resolver: Arc<dyn Resolver>,
    /// TCP.
    pub dialer: Arc<dyn Dialer>,
    /// TLS.
    pub tls: TlsClient,
    /// Policies of MTA-STS.
    pub policies: Arc<dyn PolicyStore>,
    /// Records TLS sessions.
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
                let mut found = Domain { deliverer: self.clone(), hosts: hosts.await?, domain };
                found.separate_by_policy().await;
                Ok(Box::new(found))
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

/// Addresses of a host, and whether DNSSEC validated them.
struct Addresses {
    addresses: Vec<IpAddr>,
    secure: bool,
    /// The name that has them, aliases followed.
    owner: DnsName,
}

impl Inner {
    /// The addresses of `host`, in the order of families configured for `domain`.
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
                // A failed lookup tells more than the absence of one kind of address.
                Err(other) if error.is_negative() => error = other,
                Err(_) => {}
            }
        }
        if found.addresses.is_empty() {
            return Err(dns_failure(&error, host));
        }
        Ok(found)
    }

    /// Whether mail for a domain may go to an `address` from DNS.
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

/// Failures of the servers of a destination. One of them becomes the reported failure.
#[derive(Default)]
struct Failures {
    worst: Option<Failure>,
    count: usize,
}

impl Failures {
    fn add(&mut self, failure: Failure) {
        self.count += 1;
        // A temporary failure outweighs a permanent one, and a reply outweighs silence.
        let weight = |failure: &Failure| (!failure.permanent, failure.reply.is_some());
        if self.worst.as_ref().is_none_or(|worst| weight(&failure) > weight(worst)) {
            self.worst = Some(failure);
        }
    }

    /// The failure of the whole destination.
    fn into_failure(self, domain: &str) -> Failure {
        let failure = self.worst.unwrap_or_else(|| Failure::new(Reason::NoAddress, domain));
        // A failure of this message alone is no failure of the site.
        if failure.scope == Scope::Message { failure } else { failure.with_scope(Scope::Site) }
    }
}
