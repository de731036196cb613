//! How this node delivers, as the operator configures it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sealpost_dns::DnsName;
use sealpost_smtp::types::ClientName;

use crate::public_address::is_public;
use crate::timeouts::Timeouts;

/// Settings of delivery.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name that this node gives itself in EHLO; its addresses should resolve to it and back.
    pub ehlo_name: ClientName,
    /// Names of this server: it never sends mail to them (RFC 5321 §5.1).
    pub own_names: Vec<DnsName>,
    /// Its addresses, for the same purpose.
    pub own_addresses: Vec<IpAddr>,
    /// The address that connections over IPv4 come from; `None` lets the system choose.
    pub source_ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub source_ipv6: Option<Ipv6Addr>,
    /// The address family to use.
    pub family: Family,
    /// The same for single destination domains.
    pub family_of: BTreeMap<DnsName, Family>,
    /// The port of mail servers; 25 except in tests.
    pub port: u16,
    /// The port of web sites with MTA-STS policies; 443 except in tests.
    pub https_port: u16,
    /// Whether DNS may direct mail to loopback and private addresses. Never on the internet: a sender could
    /// reach services behind this node.
    pub allow_private: bool,
    /// Whether TLSA records are used (RFC 7672). They need a resolver that validates.
    pub dane: bool,
    /// Whether MTA-STS policies are used (RFC 8461).
    pub mta_sts: bool,
    /// Mails over one connection.
    pub mails_per_connection: u32,
    /// Bounds on time.
    pub timeouts: Timeouts,
}

impl Settings {
    /// The usual settings for a node that calls itself `ehlo_name`.
    pub fn new(ehlo_name: ClientName) -> Self {
        let own = DnsName::new(&ehlo_name.to_string());
        Settings {
            own_names: own.into_iter().collect(),
            ehlo_name,
            own_addresses: Vec::new(),
            source_ipv4: None,
            source_ipv6: None,
            family: Family::PreferIpv6,
            family_of: BTreeMap::new(),
            port: 25,
            https_port: 443,
            allow_private: false,
            dane: true,
            mta_sts: true,
            mails_per_connection: 100,
            timeouts: Timeouts::default(),
        }
    }

    /// The address family for `domain`.
    pub(crate) fn family_for(&self, domain: &DnsName) -> Family {
        self.family_of.get(domain).copied().unwrap_or(self.family)
    }

    /// The source address for a connection to `address`.
    pub(crate) fn source_for(&self, address: IpAddr) -> Option<IpAddr> {
        match address {
            IpAddr::V4(_) => self.source_ipv4.map(IpAddr::V4),
            IpAddr::V6(_) => self.source_ipv6.map(IpAddr::V6),
        }
    }

    /// Whether `name` is this server.
    pub(crate) fn is_own(&self, name: &DnsName) -> bool {
        self.own_names.contains(name)
    }

    /// Whether DNS may name `address` for mail.
    pub(crate) fn may_reach(&self, address: IpAddr) -> bool {
        self.allow_private || is_public(address)
    }
}

/// The address family of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// IPv6 first, then IPv4.
    #[default]
    PreferIpv6,
    /// IPv4 first, then IPv6.
    PreferIpv4,
    /// IPv4 alone: where IPv6 has no PTR record, large receivers refuse it.
    Ipv4Only,
    /// IPv6 alone.
    Ipv6Only,
}

impl Family {
    /// The families to look up, in order: `true` is IPv6.
    pub(crate) fn order(self) -> &'static [bool] {
        match self {
            Family::PreferIpv6 => &[true, false],
            Family::PreferIpv4 => &[false, true],
            Family::Ipv4Only => &[false],
            Family::Ipv6Only => &[true],
        }
    }
}
