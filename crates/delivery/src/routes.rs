//! Routes of mail: to the servers of its destination, or to a smarthost.

use std::fmt;
use std::sync::Arc;

use sealpost_base::{Error, Result};
use sealpost_dns::DnsName;
use sealpost_smtp::types::{Host, ReversePath, Secret};

/// Routes in order; the first that matches counts. Without any, all mail goes direct.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// The routes.
    pub routes: Vec<Route>,
}

/// A route for some mail.
#[derive(Debug, Clone)]
pub struct Route {
    /// Domains of its recipients.
    pub destination: Domains,
    /// Domains of its senders. Reports, whose sender is empty, match [`Domains::Any`] alone.
    pub sender: Domains,
    /// The servers that get the mail.
    pub via: Via,
}

/// A set of domains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domains {
    /// All.
    Any,
    /// One.
    One(DnsName),
    /// One and all below it.
    Below(DnsName),
}

impl Domains {
    fn contains(&self, domain: Option<&DnsName>) -> bool {
        match self {
            Domains::Any => true,
            Domains::One(name) => domain == Some(name),
            Domains::Below(name) => domain.is_some_and(|domain| {
                let above = domain.as_str().strip_suffix(name.as_str());
                above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
        }
    }
}

/// The servers that get mail.
#[derive(Debug, Clone)]
pub enum Via {
    /// To the servers of the destination.
    Direct,
    /// To a smarthost.
    Smarthost(Arc<Smarthost>),
    /// To the servers of the destination, and to a smarthost if they refuse this node.
    DirectThen(Arc<Smarthost>),
}

/// A server that takes mail for all destinations.
#[derive(Debug)]
pub struct Smarthost {
    /// Its name or address.
    pub host: Host,
    /// Its port: 465 with [`SmarthostTls::Implicit`], 587 or 25 otherwise.
    pub port: u16,
    /// How connections are secured.
    pub tls: SmarthostTls,
    /// The credentials that it requires.
    pub credentials: Option<Credentials>,
}

/// How connections to a smarthost are secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmarthostTls {
    /// Not at all: for a server on this machine.
    None,
    /// STARTTLS if offered, with any certificate.
    Opportunistic,
    /// STARTTLS, with a certificate for its name from a trusted authority.
    StartTls,
    /// TLS from the first byte (RFC 8314 §3.3), with such a certificate.
    Implicit,
}

impl SmarthostTls {
    /// Whether the server is known to be the right one.
    pub fn is_verified(self) -> bool {
        matches!(self, SmarthostTls::StartTls | SmarthostTls::Implicit)
    }
}

/// User and password for AUTH.
#[derive(Clone)]
pub struct Credentials {
    /// User.
    pub user: String,
    /// Password.
    pub password: Secret,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?}, ..)", self.user)
    }
}

impl Smarthost {
    /// A smarthost.
    ///
    /// # Errors
    /// `Invalid` if credentials would be sent to a server that is not verified.
    pub fn new(host: Host, port: u16, tls: SmarthostTls, credentials: Option<Credentials>) -> Result<Self> {
        if credentials.is_some() && !tls.is_verified() {
            return Err(Error::invalid(format!(
                "the smarthost {host} has credentials; set its tls to starttls or implicit"
            )));
        }
        if let Host::Literal(_) = host {
            return Err(Error::invalid(format!("{host} is not a host name or an IP address")));
        }
        Ok(Smarthost { host, port, tls, credentials })
    }
}

impl Routes {
    /// The route for mail of `sender` to `destination`.
    pub fn via(&self, sender: &ReversePath, destination: &Host) -> Via {
        let domain = |host: &Host| host.as_domain().and_then(DnsName::new);
        let sender = match sender {
            ReversePath::Null => None,
            ReversePath::Mailbox(mailbox) => domain(&mailbox.host),
        };
        let destination = domain(destination);
        let matching = self.routes.iter().find(|route| {
            route.destination.contains(destination.as_ref()) && route.sender.contains(sender.as_ref())
        });
        matching.map_or(Via::Direct, |route| route.via.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DnsName {
        DnsName::new(text).unwrap()
    }

    fn smarthost(host: &str) -> Arc<Smarthost> {
        let host = Host::domain(host).unwrap();
        Arc::new(Smarthost::new(host, 587, SmarthostTls::StartTls, None).unwrap())
    }

    fn chosen(routes: &Routes, sender: &str, destination: &str) -> String {
        let sender = match sender {
            "" => ReversePath::Null,
            domain => ReversePath::Mailbox(sealpost_smtp::types::Mailbox {
                local: sealpost_smtp::types::LocalPart::new("a").unwrap(),
                host: Host::domain(domain).unwrap(),
            }),
        };
        match routes.via(&sender, &Host::domain(destination).unwrap()) {
            Via::Direct => "direct".to_owned(),
            Via::Smarthost(smarthost) => smarthost.host.to_string(),
            Via::DirectThen(smarthost) => format!("direct, {}", smarthost.host),
        }
    }

    #[test]
    fn the_first_matching_route_counts() {
        let route = |destination, sender, via| Route { destination, sender, via };
        let routes = Routes {
            routes: vec![
                route(Domains::One(name("a.example")), Domains::Any, Via::Direct),
                route(Domains::Below(name("example")), Domains::Any, Via::Smarthost(smarthost("one"))),
                route(Domains::Any, Domains::One(name("b.org")), Via::DirectThen(smarthost("two"))),
            ],
        };
        for (sender, destination, expected) in [
            ("c.org", "a.example", "direct"),
            ("b.org", "x.example", "one"),
            ("b.org", "EXAMPLE", "one"),
            ("b.org", "notexample", "direct, two"),
            ("B.ORG", "c.org", "direct, two"),
            ("", "c.org", "direct"),
            ("c.org", "c.org", "direct"),
        ] {
            assert_eq!(chosen(&routes, sender, destination), expected, "{sender} to {destination}");
        }
    }

    #[test]
    fn credentials_go_to_verified_servers_only() {
        let credentials = || Some(Credentials { user: "u".into(), password: Secret::new("p") });
        let host = || Host::domain("smart.example").unwrap();
        assert!(Smarthost::new(host(), 587, SmarthostTls::Opportunistic, credentials()).is_err());
        let smarthost = Smarthost::new(host(), 465, SmarthostTls::Implicit, credentials()).unwrap();
        assert!(!format!("{smarthost:?}").contains("\"p\""));
    }
}
