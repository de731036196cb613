//! Which certificates to trust.

use std::io;
use std::sync::Arc;

use anyhow::Result;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, InvalidMessage, SignatureScheme};

/// Which certificates are trusted.
#[derive(Clone)]
pub enum Trust {
    /// All: the bench sends no real mail and its passwords are for testing.
    Anybody,
    /// Those that this configuration verifies.
    Those(Arc<ClientConfig>),
}

/// A client's TLS.
///
/// # Errors
/// If the cipher suites do not fit the protocol versions.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>> {
    let mut config = match trust {
        Trust::Anybody => {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                .with_no_client_auth()
        }
        Trust::Those(config) => ClientConfig::clone(config),
    };
    // Every connection makes a full handshake, as those of different clients do.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// The error of a handshake, with the remedy.
pub fn explained(error: io::Error) -> io::Error {
    let why = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let hint = match why {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "--ca FILE says whose certificates to believe, --insecure believes any"
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "no TLS is spoken on this port, or only after STARTTLS (--tls)"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {hint}"))
}

/// Trusts every certificate, but verifies that the server holds its key.
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
    use rustls::CertificateError;

    use super::*;

    #[test]
    fn certificate_and_tls_errors_name_the_remedy() {
        let said = |error| explained(io::Error::new(io::ErrorKind::InvalidData, error)).to_string();
        let unknown = said(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert!(unknown.contains("UnknownIssuer: --ca FILE") && unknown.contains("--insecure"), "{unknown}");
        let plain = said(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType));
        assert!(plain.contains("no TLS is spoken on this port"), "{plain}");
        assert!(client_config(&Trust::Anybody).is_ok());
    }
}
