//! Whom to trust.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Whose certificates are good.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Anybody's: the bench sends no real mail and its passwords are for testing.
    Anybody,
    /// Those issued by one of these certificates, in PEM.
    Issuers(Vec<u8>),
}

/// A client's TLS.
///
/// # Errors
/// If there is no certificate in the PEM text.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = match trust {
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth(),
        Trust::Issuers(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                // A bundle of the system may hold one that is too old to be read.
                let _ = roots.add(certificate.context("the certificates to trust")?);
            }
            ensure!(!roots.is_empty(), "there is no certificate to trust");
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    // Every connection pays for its handshake, as those of different clients do.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Believes everybody, but that they hold the key they show.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_trust_is_an_error() {
        assert!(client_config(&Trust::Issuers(b"no certificate here".to_vec())).is_err());
        assert!(client_config(&Trust::Anybody).is_ok());
    }
}
