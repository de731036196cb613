//! What an operator decides about sending: the queue, routes, addresses, policies.
//!
//! Plain values, as [`super::Settings`] is; the server makes of them what delivery needs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::IpRange;
pub use super::route::{Domains, Route, Smarthost, SmarthostTls, Via};

/// How this server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// Whether it sends.
    pub enabled: Switch,
    /// Where the queue is.
    pub queue: QueuePlace,
    /// The name in EHLO; `None`: the host name.
    pub ehlo_name: Option<String>,
    /// The address that connections over IPv4 come from; `None`: the system chooses.
    pub source_ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub source_ipv6: Option<Ipv6Addr>,
    /// Which kind of address is used.
    pub family: Family,
    /// The same for single domains.
    pub family_of: Vec<FamilyOf>,
    /// Routes for some mail, the first that matches counts; other mail is sent directly.
    pub routes: Vec<Route>,
    /// The servers that answer DNS queries.
    pub resolver: Resolver,
    /// The file with the trust anchors of DNSSEC; empty: those of the internet.
    pub trust_anchor: PathBuf,
    /// The file with the addresses of root servers; empty: those of the internet.
    pub root_hints: PathBuf,
    /// The file with the certificates that are trusted, in PEM; empty: the system's.
    pub ca: PathBuf,
    /// Whether TLSA records are used (RFC 7672).
    pub dane: bool,
    /// Whether MTA-STS policies are used (RFC 8461).
    pub mta_sts: bool,
    /// Connections to other servers at once.
    pub connections: usize,
    /// Recipients that an account may send to in an hour, unless its record says otherwise.
    pub recipients_per_hour: u32,
    /// The same for a day.
    pub recipients_per_day: u32,
    /// Recipients that an alias forwards to in an hour.
    pub forwards_per_hour: u32,
    /// Addresses of clients that submit without a login.
    pub trusted_clients: Vec<IpRange>,
    /// Whether DNS may lead mail to loopback and private addresses. Never on the internet.
    pub allow_private: bool,
    /// The port of mail servers; 25 but in tests.
    pub port: u16,
}

impl Default for Sending {
    fn default() -> Self {
        Sending {
            enabled: Switch::Auto,
            queue: QueuePlace::Store,
            ehlo_name: None,
            source_ipv4: None,
            source_ipv6: None,
            family: Family::PreferIpv6,
            family_of: Vec::new(),
            routes: Vec::new(),
            resolver: Resolver::Recursive,
            trust_anchor: PathBuf::new(),
            root_hints: PathBuf::new(),
            ca: PathBuf::new(),
            dane: true,
            mta_sts: true,
            connections: 100,
            recipients_per_hour: 200,
            recipients_per_day: 1000,
            forwards_per_hour: 1000,
            trusted_clients: Vec::new(),
            allow_private: false,
            port: 25,
        }
    }
}

impl Sending {
    /// What is wrong with it, if something is: the key and why.
    pub fn check(&self) -> Option<(&'static str, String)> {
        let is_domain = |name: &str| name.parse::<Domains>().is_ok_and(|d| matches!(d, Domains::One(_)));
        if let Some(name) = self.ehlo_name.as_deref().filter(|name| !is_domain(name)) {
            return Some(("sending.ehlo_name", format!("{name:?} is no host name")));
        }
        if self.port == 0 {
            return Some(("sending.port", "mail servers listen on 25".to_owned()));
        }
        let needs_recursion = !self.root_hints.as_os_str().is_empty() && self.resolver != Resolver::Recursive;
        if needs_recursion {
            let why = "only sending.resolver = \"recursive\" begins at the root";
            return Some(("sending.root_hints", why.to_owned()));
        }
        match self.family {
            Family::Ipv4Only if self.source_ipv6.is_some() => {
                Some(("sending.source_ipv6", "sending.family says that IPv6 is not used".to_owned()))
            }
            Family::Ipv6Only if self.source_ipv4.is_some() => {
                Some(("sending.source_ipv4", "sending.family says that IPv4 is not used".to_owned()))
            }
            _ => None,
        }
    }
}

/// Whether the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switch {
    /// If it takes mail from users: a submission or an HTTP listener is configured.
    #[default]
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}

/// Where the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueuePlace {
    /// In the store: another node sends what a lost one has queued.
    #[default]
    Store,
    /// In the data directory, also if the store is a bucket: faster, and lost with the node.
    Local,
}

/// Which kind of address a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// IPv6 first, then IPv4.
    #[default]
    PreferIpv6,
    /// IPv4 first, then IPv6.
    PreferIpv4,
    /// IPv4 alone.
    Ipv4Only,
    /// IPv6 alone.
    Ipv6Only,
}

impl Family {
    /// Each with its word.
    pub const ALL: [(&'static str, Family); 4] = [
        ("prefer-ipv6", Family::PreferIpv6),
        ("prefer-ipv4", Family::PreferIpv4),
        ("ipv4", Family::Ipv4Only),
        ("ipv6", Family::Ipv6Only),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, family)| *family == self).map_or("", |(name, _)| name)
    }
}

/// The kind of address for one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyOf {
    /// The domain, in lower case.
    pub domain: String,
    /// The kind.
    pub family: Family,
}

impl FromStr for FamilyOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [domain, word] = words[..] else {
            return Err(format!("{text:?} is not a domain and a family, such as \"example.org ipv4\""));
        };
        let Ok(Domains::One(domain)) = domain.parse() else {
            return Err(format!("{domain:?} is no domain"));
        };
        let found = Family::ALL.iter().find(|(name, _)| *name == word);
        let unknown = || format!("{word:?} is none of prefer-ipv6, prefer-ipv4, ipv4 and ipv6");
        let (_, family) = found.ok_or_else(unknown)?;
        Ok(FamilyOf { domain, family: *family })
    }
}

impl fmt::Display for FamilyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.domain, self.family.name())
    }
}

/// The servers that answer DNS queries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Resolver {
    /// This server, from the root downwards.
    #[default]
    Recursive,
    /// The servers that `/etc/resolv.conf` names.
    System,
    /// These servers, at most three, all at one port.
    Servers(Vec<SocketAddr>),
}

impl FromStr for Resolver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "recursive" => return Ok(Resolver::Recursive),
            "system" => return Ok(Resolver::System),
            _ => {}
        }
        let server = |item: &str| {
            let item = item.trim();
            let address = item.parse().or_else(|_| item.parse().map(|ip: IpAddr| SocketAddr::new(ip, 53)));
            address.map_err(|_| format!("{item:?} is no address of a name server, such as \"192.0.2.1\""))
        };
        let servers = text.split(',').map(server).collect::<Result<Vec<SocketAddr>, _>>()?;
        if servers.len() > 3 {
            return Err("name at most three name servers".to_owned());
        }
        if servers.iter().any(|server| server.port() != servers[0].port()) {
            return Err("all name servers need the same port".to_owned());
        }
        Ok(Resolver::Servers(servers))
    }
}

impl fmt::Display for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resolver::Recursive => f.write_str("recursive"),
            Resolver::System => f.write_str("system"),
            Resolver::Servers(servers) => {
                let text = |server: &SocketAddr| match server.port() {
                    53 => server.ip().to_string(),
                    _ => server.to_string(),
                };
                f.write_str(&servers.iter().map(text).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_and_families_are_read_as_they_are_written() {
        for text in ["recursive", "system", "192.0.2.1", "192.0.2.1, 2001:db8::1", "127.0.0.1:5300"] {
            assert_eq!(text.parse::<Resolver>().unwrap().to_string(), text);
        }
        for bad in ["", "dns.example", "1.1.1.1,2.2.2.2,3.3.3.3,4.4.4.4", "127.0.0.1:1, 127.0.0.1:2"] {
            assert!(bad.parse::<Resolver>().is_err(), "{bad}");
        }
        let of: FamilyOf = "Example.ORG ipv4".parse().unwrap();
        assert_eq!((of.to_string().as_str(), of.family), ("example.org ipv4", Family::Ipv4Only));
        for bad in ["example.org", "example.org ipv5", "* ipv4", "a b ipv4"] {
            assert!(bad.parse::<FamilyOf>().is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictory_settings_are_named() {
        let wrong = |change: fn(&mut Sending)| {
            let mut sending = Sending::default();
            change(&mut sending);
            sending.check().map_or("", |(key, _)| key)
        };
        assert_eq!(wrong(|_| {}), "");
        assert_eq!(wrong(|s| s.ehlo_name = Some("not a name".to_owned())), "sending.ehlo_name");
        assert_eq!(wrong(|s| s.port = 0), "sending.port");
        let hints = |s: &mut Sending| {
            (s.resolver, s.root_hints) = (Resolver::System, "roots".into());
        };
        assert_eq!(wrong(hints), "sending.root_hints");
        let source = |s: &mut Sending| {
            (s.family, s.source_ipv6) = (Family::Ipv4Only, Some(Ipv6Addr::LOCALHOST));
        };
        assert_eq!(wrong(source), "sending.source_ipv6");
    }
}
