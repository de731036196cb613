//! Which certificates are trusted: those of the authorities that the system trusts, or that a file
//! names, and servers' own that it names. Never all.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sealpost_base::{Error, Result};
use sealpost_files::{SYSTEM_CERTIFICATES, io_error};

use super::pinned::Pinned;

/// Issuers of certificates that are believed, and certificates of servers themselves.
#[derive(Clone)]
pub struct Trust {
    issuers: RootCertStore,
    /// Trusted without an issuer, whatever their names.
    servers: HashSet<CertificateDer<'static>>,
}

impl Trust {
    /// No certificate: for connections without TLS.
    pub fn none() -> Self {
        Trust { issuers: RootCertStore::empty(), servers: HashSet::new() }
    }

    /// Those that the system trusts.
    ///
    /// # Errors
    /// `NotFound` if the system has no such list in a usual place.
    pub fn system() -> Result<Self> {
        let bundle = SYSTEM_CERTIFICATES.iter().find(|path| Path::new(path).is_file());
        let why = "the system's list of trusted certificates was not found; name one with --ca";
        let bundle = Path::new(bundle.ok_or_else(|| Error::not_found(why))?);
        Self::pem(&read(bundle)?).map_err(|e| e.context(bundle.display()))
    }

    /// Those in a PEM file that the user names: issuers, or the certificate of a server itself.
    ///
    /// # Errors
    /// `Invalid` if there is none in it; if it cannot be read.
    pub fn file(path: &Path) -> Result<Self> {
        Self::pinning(&read(path)?).map_err(|e| e.context(path.display()))
    }

    /// Issuers, in a PEM text.
    ///
    /// # Errors
    /// `Invalid` if there is none in it.
    pub fn pem(pem: &[u8]) -> Result<Self> {
        let mut issuers = RootCertStore::empty();
        for certificate in certificates(pem) {
            // A system bundle may hold one that is too old to parse.
            let _ = issuers.add(certificate);
        }
        if issuers.is_empty() {
            return Err(Error::invalid("there is no certificate in it that could be trusted"));
        }
        Ok(Trust { issuers, servers: HashSet::new() })
    }

    /// Issuers in a PEM text, or servers' own certificates: a server that shows one of them, byte
    /// for byte, is trusted if it has its key, even if it is marked as an issuer's or bears another
    /// name.
    ///
    /// # Errors
    /// `Invalid` if there is none in it.
    pub fn pinning(pem: &[u8]) -> Result<Self> {
        Ok(Trust { servers: certificates(pem).collect(), ..Self::pem(pem)? })
    }

    /// A TLS client configuration that trusts them.
    ///
    /// # Errors
    /// `Internal` if the cipher suites do not fit the protocol versions.
    pub fn config(self) -> Result<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::internal("TLS cannot be set up").with_source(e))?;
        let config = if self.servers.is_empty() {
            config.with_root_certificates(self.issuers)
        } else {
            let issuers = WebPkiServerVerifier::builder_with_provider(Arc::new(self.issuers), provider)
                .build()
                .map_err(|e| Error::internal("TLS cannot be set up").with_source(e))?;
            let verifier = Arc::new(Pinned::new(self.servers, issuers));
            config.dangerous().with_custom_certificate_verifier(verifier)
        };
        Ok(Arc::new(config.with_no_client_auth()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| io_error(path, e))
}

fn certificates(pem: &[u8]) -> impl Iterator<Item = CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).flatten()
}
