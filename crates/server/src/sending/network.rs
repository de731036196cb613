//! What delivery reaches the world by: names, connections, and certificates that are trusted.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sealpost_base::limits::{DNS_CACHE_BYTES, DNS_LOOKUP_TIME};
use sealpost_base::{Clock, Error, MemoryDivision, Result};
use sealpost_delivery::dial::{Dialer, TcpDialer};
use sealpost_delivery::tls::TlsClient;
use sealpost_dns::Resolver;
use sealpost_dns::cache::CachingResolver;
use sealpost_dns::hickory::{ForwardingResolver, RecursionSettings, RecursiveResolver};
use sealpost_files::{SYSTEM_CERTIFICATES, owner};
use sealpost_session::settings::Sending;
use sealpost_session::settings::sending::{Family, Resolver as ResolverSetting};

/// Bytes of a file that the settings name.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Part of the bound on memory that cached answers of name servers take at most.
const CACHE_SHARE: usize = 64;
/// Where the system names its name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Names, connections, certificates. Cheap to clone.
#[derive(Clone)]
pub struct Network {
    /// DNS.
    pub resolver: Arc<dyn Resolver>,
    /// TCP.
    pub dialer: Arc<dyn Dialer>,
    /// TLS.
    pub tls: TlsClient,
}

impl Network {
    /// The internet, as the settings say.
    ///
    /// # Errors
    /// `Invalid` if a file that they name cannot be used.
    pub fn of(sending: &Sending, memory: &MemoryDivision, clock: &Arc<dyn Clock>) -> Result<Self> {
        let tls = TlsClient::new(trusted(&sending.ca)?)?;
        Ok(Network { resolver: resolver(sending, memory, clock)?, dialer: Arc::new(TcpDialer), tls })
    }
}

fn cached<R: Resolver>(resolver: R, memory: &MemoryDivision, clock: &Arc<dyn Clock>) -> CachingResolver<R> {
    let bytes = DNS_CACHE_BYTES.min(memory.bound / CACHE_SHARE);
    CachingResolver::with_bounds(resolver, clock.clone(), bytes, DNS_LOOKUP_TIME)
}

/// DNS, as the settings say.
///
/// # Errors
/// `Invalid` if a file that they name cannot be used.
pub fn resolver(
    sending: &Sending,
    memory: &MemoryDivision,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Resolver>> {
    let trust_anchor = match sending.trust_anchor.as_os_str().is_empty() {
        true => None,
        false => Some(read("sending.trust_anchor", &sending.trust_anchor)?),
    };
    let forwarding = |servers: &[IpAddr], port| {
        let resolver = ForwardingResolver::new(servers, port, trust_anchor.as_deref())?;
        Ok::<Arc<dyn Resolver>, Error>(Arc::new(cached(resolver, memory, clock)))
    };
    match &sending.resolver {
        ResolverSetting::Recursive => {
            let settings = RecursionSettings {
                roots: roots(&sending.root_hints)?,
                trust_anchor: trust_anchor.clone(),
                ipv6: sending.family != Family::Ipv4Only,
                allow_private: sending.allow_private,
                ..RecursionSettings::default()
            };
            let resolver =
                RecursiveResolver::new(&settings).map_err(|e| e.context("sending.trust_anchor"))?;
            Ok(Arc::new(cached(resolver, memory, clock)))
        }
        ResolverSetting::System => {
            let text = read("sending.resolver", Path::new(RESOLV_CONF))?;
            forwarding(&ForwardingResolver::servers(&text), 53)
        }
        ResolverSetting::Servers(servers) => {
            let addresses: Vec<IpAddr> = servers.iter().map(SocketAddr::ip).collect();
            forwarding(&addresses, servers.first().map_or(53, SocketAddr::port))
        }
    }
}

/// Addresses of root servers, one in each line.
fn roots(path: &Path) -> Result<Vec<IpAddr>> {
    if path.as_os_str().is_empty() {
        return Ok(Vec::new());
    }
    let text = read("sending.root_hints", path)?;
    let lines = text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default().trim());
    let address = |line: &str| {
        let wrong = || format!("sending.root_hints: {}: {line:?} is no address", path.display());
        line.parse().map_err(|_| Error::invalid(wrong()))
    };
    let roots = lines.filter(|line| !line.is_empty()).map(address).collect::<Result<Vec<IpAddr>>>()?;
    match roots.is_empty() {
        true => Err(Error::invalid(format!("sending.root_hints: {} has no address", path.display()))),
        false => Ok(roots),
    }
}

/// The certificate authorities that are trusted.
fn trusted(path: &Path) -> Result<RootCertStore> {
    let is_system = path.as_os_str().is_empty();
    let system = SYSTEM_CERTIFICATES.iter().map(Path::new).find(|path| path.is_file());
    let path = match (is_system, system) {
        (false, _) => path,
        (true, Some(system)) => system,
        (true, None) => {
            tracing::warn!(
                "the system's list of trusted certificates was not found: mail waits where MTA-STS or a smarthost \
                 need a certificate; name a list in sending.ca"
            );
            return Ok(RootCertStore::empty());
        }
    };
    let mut roots = RootCertStore::empty();
    let pem = read("sending.ca", path)?;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let unusable = |e: &dyn std::fmt::Display| {
            Error::invalid(format!("sending.ca: {}: a certificate cannot be used: {e}", path.display()))
        };
        match certificate {
            Ok(certificate) => match roots.add(certificate) {
                // A system's list may have some that are old.
                Err(e) if !is_system => return Err(unusable(&e)),
                _ => {}
            },
            Err(e) => return Err(unusable(&e)),
        }
    }
    match roots.is_empty() {
        true => Err(Error::invalid(format!("sending.ca: {} has no certificate in PEM", path.display()))),
        false => Ok(roots),
    }
}

fn read(key: &str, path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text));
    let unusable = |e| {
        let e = owner::explained(path, e);
        Error::invalid(format!("{key}: {}: {e}", path.display()))
    };
    read.map_err(unusable)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use sealpost_base::SystemClock;

    use super::*;

    #[tokio::test]
    async fn files_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = dir.path().join("file");
            std::fs::write(&path, text).unwrap();
            path
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let wrong = |change: &dyn Fn(&mut Sending)| {
            let mut sending = Sending::default();
            change(&mut sending);
            Network::of(&sending, &MemoryDivision::default(), &clock).map(drop).map_err(|e| e.to_string())
        };
        let missing = wrong(&|s| s.ca = dir.path().join("none")).unwrap_err();
        assert!(missing.contains("sending.ca: ") && missing.contains("none"), "{missing}");
        assert!(wrong(&|s| s.ca = file("text")).unwrap_err().contains("no certificate"));
        assert!(wrong(&|s| s.root_hints = file("ns.example")).unwrap_err().contains("no address"));
        assert!(wrong(&|s| s.root_hints = file("# none\n")).unwrap_err().contains("no address"));
        assert!(wrong(&|s| s.trust_anchor = file("x")).unwrap_err().contains("sending.trust_anchor"));
        assert_eq!(wrong(&|s| s.root_hints = file("192.0.2.1 # one\n\n2001:db8::1\n")), Ok(()));
    }
}
