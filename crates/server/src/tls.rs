//! TLS: certificates from files or self-signed, replaced while the server runs, and one
//! configuration that costs little memory per connection.
//!
//! The configuration never changes; the certificate it presents does. A certificate that cannot be
//! loaded at the start is an error; one that cannot be loaded later leaves the old one in place and
//! is logged, because a half-written renewal must not stop the server. TLS 1.2 and 1.3 only (RFC
//! 8314 §4.1, RFC 8996).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use sealpost_base::{Error, Result, Timestamp};

use pair::cannot_read;
pub(crate) use pair::load as load_pair;
use sealpost_session::settings::TlsSource;

mod pair;
mod self_signed;

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
    seen: Mutex<FileStamps>,
}

/// Modification time and length of both files; either changes when a certificate is renewed.
type FileStamps = [(SystemTime, u64); 2];

impl Tls {
    /// Loads, or for [`TlsSource::SelfSigned`] makes, the certificate; `None` if TLS is off. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// `Invalid` if a file is missing, may not be read or is not what it should be, or the key is
    /// not the certificate's; `Retry` if the disk fails. The message names the file and says what
    /// to do.
    pub fn load(source: &TlsSource, hostname: &str) -> Result<Option<Self>> {
        let (certificate, key) = match source {
            TlsSource::Off => return Ok(None),
            TlsSource::Files { certificate, key } => (certificate.clone(), key.clone()),
            TlsSource::SelfSigned { directory } => self_signed::ensure(directory, hostname)?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let seen = look(&certificate, &key)?;
        let loaded = pair::load(&certificate, &key, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(loaded))));
        let config = server_config(provider, Arc::clone(&current))?;
        Ok(Some(Tls { config, current, files: Some(Files { certificate, key, seen: Mutex::new(seen) }) }))
    }

    /// A self-signed certificate that lives only as long as the value; for tests and trials.
    pub fn ephemeral(hostname: &str) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pem = self_signed::generate(hostname)?;
        let loaded = pair::parse(pem.certificate.as_bytes(), pem.key.as_bytes(), &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(loaded))));
        let config = server_config(provider, Arc::clone(&current))?;
        Ok(Tls { config, current, files: None })
    }

    /// What a handshake needs. Shared and constant; it always presents the newest certificate.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// The same for HTTP, which offers its protocols (RFC 7301); those of mail have none.
    pub fn http_config(&self) -> Arc<ServerConfig> {
        let mut config = (*self.config).clone();
        config.alpn_protocols = sealpost_http::APPLICATION_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Arc::new(config)
    }

    /// The certificate presented now, in DER, leaf only; clients that pin a self-signed one want it.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.current.get().cert.first().cloned().unwrap_or_else(|| CertificateDer::from(Vec::new()))
    }

    /// What is wrong with the time in which the certificate is valid, for the log: clients refuse
    /// it. Nothing, most of the time.
    pub fn out_of_date(&self, now: Timestamp) -> Option<String> {
        let (certificate, provider) = (self.current.get(), self.config.crypto_provider());
        let wrong = pair::out_of_date(&certificate.cert, provider, now)?;
        Some(match &self.files {
            Some(files) => format!("the certificate in {} {wrong}", files.certificate.display()),
            None => format!("the certificate {wrong}"),
        })
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
        let loaded = pair::load(&files.certificate, &files.key, self.config.crypto_provider())?;
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
    // An attacker could replay early data, and a mail command must run once.
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

fn look(certificate: &Path, key: &Path) -> Result<FileStamps> {
    let one = |path: &Path| -> Result<_> {
        let metadata = std::fs::metadata(path).map_err(|e| cannot_read(path, e))?;
        Ok((metadata.modified().map_err(|e| cannot_read(path, e))?, metadata.len()))
    };
    Ok([one(certificate)?, one(key)?])
}

/// A configuration with a throw-away certificate.
#[cfg(test)]
pub(crate) fn self_signed_for_tests() -> Arc<ServerConfig> {
    Arc::clone(Tls::ephemeral("localhost").expect("a certificate can be made").config())
}

#[cfg(test)]
pub(crate) mod tests;
