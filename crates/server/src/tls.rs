//! TLS: certificates from files or self-signed, replaced while the server runs, and one configuration that costs
//! little memory per connection.
//!
//! The configuration never changes; the certificate it presents does. A certificate that cannot be loaded at the
//! start is an error; one that cannot be loaded later leaves the old one in place and says so in the log, for a
//! half-written renewal must not take the server down. TLS 1.2 and 1.3 only (RFC 8314 §4.1, RFC 8996).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use sealpost_base::{Error, Result};

use crate::settings::TlsSource;

mod self_signed;

/// Largest certificate or key file that is read, in bytes.
const PEM_FILE_BYTES: u64 = 1024 * 1024;

/// The server's certificate and the configuration that presents it.
pub struct Tls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
    files: Option<Files>,
}

/// Where the certificate was loaded from, and how the files looked then.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    seen: Mutex<Seen>,
}

/// Modification time and length of both files; either changes when a certificate is renewed.
type Seen = [(SystemTime, u64); 2];

impl Tls {
    /// Loads, or for [`TlsSource::SelfSigned`] makes, the certificate; `None` if TLS is off. Blocks on the disk.
    ///
    /// # Errors
    /// `Invalid` if a file is not what it should be or the key is not the certificate's; `NotFound`, `Denied` or
    /// `Retry` if it cannot be read or written. The message names the file.
    pub fn load(source: &TlsSource, hostname: &str) -> Result<Option<Self>> {
        let (certificate, key) = match source {
            TlsSource::Off => return Ok(None),
            TlsSource::Files { certificate, key } => (certificate.clone(), key.clone()),
            TlsSource::SelfSigned { directory } => self_signed::ensure(directory, hostname)?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let seen = look(&certificate, &key)?;
        let loaded = load_pair(&certificate, &key, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(loaded))));
        let config = server_config(provider, Arc::clone(&current))?;
        Ok(Some(Tls { config, current, files: Some(Files { certificate, key, seen: Mutex::new(seen) }) }))
    }

    /// A self-signed certificate that lives only as long as the value; for tests and trials.
    pub fn ephemeral(hostname: &str) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pem = self_signed::generate(hostname)?;
        let loaded = parse_pair(pem.certificate.as_bytes(), pem.key.as_bytes(), &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(loaded))));
        let config = server_config(provider, Arc::clone(&current))?;
        Ok(Tls { config, current, files: None })
    }

    /// What a handshake needs. Shared and constant; it always presents the newest certificate.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// The certificate presented now, in DER, leaf only; clients that pin a self-signed one want it.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.current.get().cert.first().cloned().unwrap_or_else(|| CertificateDer::from(Vec::new()))
    }

    /// Loads the certificate again if its files changed since; says whether it did. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Tls::load`]; the old certificate stays in use, and the next call tries again.
    pub fn reload_if_changed(&self) -> Result<bool> {
        let Some(files) = &self.files else { return Ok(false) };
        let mut seen = files.seen.lock().unwrap_or_else(|e| e.into_inner());
        let now = look(&files.certificate, &files.key)?;
        if now == *seen {
            return Ok(false);
        }
        let loaded = load_pair(&files.certificate, &files.key, self.config.crypto_provider())?;
        self.current.set(loaded);
        *seen = now;
        Ok(true)
    }
}

/// The certificate in use; what makes it replaceable under a constant [`ServerConfig`].
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(|e| e.into_inner()))
    }

    fn set(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(|e| e.into_inner()) = Arc::new(key);
    }
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

/// Sessions resume by encrypted tickets that the client keeps: no table here that clients could fill.
fn server_config(provider: Arc<CryptoProvider>, certificate: Arc<Current>) -> Result<Arc<ServerConfig>> {
    let failed = |e: rustls::Error| Error::internal("cannot set up TLS").with_source(e);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(failed)?;
    // Mail clients open one connection after the other rather than many at once.
    config.send_tls13_tickets = 1;
    // Early data could be replayed by whoever recorded it, and a mail command must run once.
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

fn look(certificate: &Path, key: &Path) -> Result<Seen> {
    let one = |path: &Path| {
        let metadata = std::fs::metadata(path).map_err(|e| cannot("read", path, e))?;
        Ok((metadata.modified().map_err(|e| cannot("read", path, e))?, metadata.len()))
    };
    Ok([one(certificate)?, one(key)?])
}

fn load_pair(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let (certificate_pem, key_pem) = (read_pem(certificate)?, zeroize::Zeroizing::new(read_pem(key)?));
    parse_pair(&certificate_pem, &key_pem, provider)
        .map_err(|e| e.context(format!("certificate {} with key {}", certificate.display(), key.display())))
}

fn read_pem(path: &Path) -> Result<Vec<u8>> {
    let length = std::fs::metadata(path).map_err(|e| cannot("read", path, e))?.len();
    if length > PEM_FILE_BYTES {
        return Err(Error::invalid(format!("{} is too large for a PEM file", path.display())));
    }
    std::fs::read(path).map_err(|e| cannot("read", path, e))
}

fn parse_pair(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| Error::invalid("the certificate file is not valid PEM").with_source(e.to_string()))?;
    if chain.is_empty() {
        return Err(Error::invalid("the certificate file holds no certificate"));
    }
    // The parser's message is kept, the bytes it looked at are not: they are the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|e| Error::invalid("the key file holds no private key in PEM").with_source(e.to_string()))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => Error::invalid("the key does not belong to the certificate"),
        other => Error::invalid("the certificate or its key cannot be used").with_source(other),
    })
}

/// Whether the key is that of another certificate.
fn keys_differ(certificate: &[u8], key: &[u8]) -> bool {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok).collect();
    let Ok(key) = PrivateKeyDer::from_pem_slice(key) else { return false };
    let pair = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider());
    matches!(pair, Err(rustls::Error::InconsistentKeys(_)))
}

fn cannot(verb: &str, path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot {verb} {}", path.display());
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(message),
        std::io::ErrorKind::PermissionDenied => Error::denied(message),
        _ => Error::retry(message),
    }
    .with_source(error)
}

/// A configuration with a throw-away certificate.
#[cfg(test)]
pub(crate) fn self_signed_for_tests() -> Arc<ServerConfig> {
    Arc::clone(Tls::ephemeral("localhost").expect("a certificate can be made").config())
}

#[cfg(test)]
pub(crate) mod tests;
