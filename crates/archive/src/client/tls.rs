//! Whose certificates are good: those of the authorities that the system trusts, or that a file names. Never anybody's.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sealpost_base::{Error, Result};

use crate::io_error;

/// Where systems keep the certificates that they trust.
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Issuers of certificates that are believed.
#[derive(Clone)]
pub struct Trust(RootCertStore);

impl Trust {
    /// Nobody: for connections without TLS.
    pub fn nobody() -> Self {
        Trust(RootCertStore::empty())
    }

    /// Those that the system trusts.
    ///
    /// # Errors
    /// `NotFound` if the system has no such list in a usual place.
    pub fn system() -> Result<Self> {
        let bundle = SYSTEM_BUNDLES.iter().find(|path| Path::new(path).is_file());
        let why = "the system's list of trusted certificates was not found; name one with --ca";
        Self::file(Path::new(bundle.ok_or_else(|| Error::not_found(why))?))
    }

    /// Those in a file, PEM.
    ///
    /// # Errors
    /// `Invalid` if there is none in it; if it cannot be read.
    pub fn file(path: &Path) -> Result<Self> {
        let pem = std::fs::read(path).map_err(|e| io_error(path, e))?;
        Self::pem(&pem).map_err(|e| e.context(path.display()))
    }

    /// Those in a PEM text.
    ///
    /// # Errors
    /// `Invalid` if there is none in it.
    pub fn pem(pem: &[u8]) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem).flatten() {
            // A bundle of the system may hold one that is too old to be read.
            let _ = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err(Error::invalid("there is no certificate in it that could be trusted"));
        }
        Ok(Trust(roots))
    }

    /// A client's TLS that believes them.
    ///
    /// # Errors
    /// `Internal` if the cipher suites do not fit the protocol versions.
    pub fn config(self) -> Result<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::internal("TLS cannot be set up").with_source(e))?;
        Ok(Arc::new(config.with_root_certificates(self.0).with_no_client_auth()))
    }
}
