//! A connection over TLS to a web server: addresses of its name, TCP, and a certificate that the
//! roots vouch for. Nothing is sent before the certificate is judged. The caller bounds the time.

use std::net::{IpAddr, SocketAddr};

use rustls::pki_types::ServerName;
use sealpost_base::Timestamp;
use sealpost_dns::{DnsName, LookupError, Resolver, ResolverExt};

use crate::dial::{Dialer, Stream};
use crate::public_address::is_public;
use crate::tls::{Judge, TlsClient};

/// Addresses of a web server that are tried.
const ADDRESSES: usize = 4;

/// A web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebHost {
    /// By its name.
    Name(DnsName),
    /// By an address, as a URL may have one.
    Address(IpAddr),
}

/// Which addresses a connection may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any.
    All,
    /// Those of the internet: [`is_public`].
    Public,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectProblem {
    /// The name leads to no address.
    NoAddress,
    /// The name leads to addresses that [`Reach::Public`] excludes, and to no others.
    NotPublic,
    /// DNS gives no answer now.
    Dns,
    /// No address accepts a connection with TLS.
    Unreachable,
    /// The certificate is not good for the name.
    Certificate,
}

impl ConnectProblem {
    /// In words, for logs and for clients.
    pub fn text(self) -> &'static str {
        match self {
            ConnectProblem::NoAddress => "its host name has no address",
            ConnectProblem::NotPublic => {
                "its host is not on the internet: the address is a private or special one"
            }
            ConnectProblem::Dns => "its host name cannot be looked up now",
            ConnectProblem::Unreachable => "no connection with TLS to its host",
            ConnectProblem::Certificate => "the certificate of its host is not valid for the name",
        }
    }
}

/// The means to reach web servers.
#[derive(Clone, Copy)]
pub struct Web<'a> {
    /// DNS.
    pub resolver: &'a dyn Resolver,
    /// TCP.
    pub dialer: &'a dyn Dialer,
    /// TLS.
    pub tls: &'a TlsClient,
}

/// The addresses of `host` that `reach` allows, at most four; at least one.
///
/// # Errors
/// `NoAddress`, `NotPublic` or `Dns`.
pub async fn addresses(
    host: &WebHost,
    resolver: &dyn Resolver,
    reach: Reach,
) -> Result<Vec<IpAddr>, ConnectProblem> {
    let mut found: Vec<IpAddr> = Vec::new();
    let mut is_missing = true;
    match host {
        WebHost::Address(address) => found.push(*address),
        WebHost::Name(name) => {
            let is_none =
                |e: &LookupError| matches!(e, LookupError::NoSuchName { .. } | LookupError::NoData { .. });
            match resolver.ipv4(name).await {
                Ok(answer) => found.extend(answer.records.into_iter().map(IpAddr::V4)),
                Err(error) => is_missing &= is_none(&error),
            }
            match resolver.ipv6(name).await {
                Ok(answer) => found.extend(answer.records.into_iter().map(IpAddr::V6)),
                Err(error) => is_missing &= is_none(&error),
            }
        }
    }
    if found.is_empty() {
        return Err(if is_missing { ConnectProblem::NoAddress } else { ConnectProblem::Dns });
    }
    found.retain(|address| reach == Reach::All || is_public(*address));
    found.truncate(ADDRESSES);
    if found.is_empty() { Err(ConnectProblem::NotPublic) } else { Ok(found) }
}

/// Connects to `host`. The addresses that are checked against `reach` are the ones that are dialled:
/// the name is looked up once.
///
/// # Errors
/// Why not. A certificate that is not valid ends the attempt, whatever other addresses there are.
pub async fn connect(
    host: &WebHost,
    port: u16,
    web: Web<'_>,
    reach: Reach,
    now: Timestamp,
) -> Result<Box<dyn Stream>, ConnectProblem> {
    let name = match host {
        WebHost::Name(name) => {
            ServerName::try_from(name.as_str().to_owned()).map_err(|_| ConnectProblem::NoAddress)?
        }
        WebHost::Address(address) => ServerName::IpAddress((*address).into()),
    };
    for address in addresses(host, web.resolver, reach).await? {
        let Ok(dialed) = web.dialer.dial(SocketAddr::new(address, port), None).await else { continue };
        let Ok(secured) = web.tls.handshake(dialed.stream, &name).await else { continue };
        let names = std::slice::from_ref(&name);
        return match web.tls.verify(&Judge::Roots, &secured.certificates, names, now) {
            Ok(()) => Ok(secured.stream),
            Err(_) => Err(ConnectProblem::Certificate),
        };
    }
    Err(ConnectProblem::Unreachable)
}
