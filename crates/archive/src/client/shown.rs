//! [`ShownCertificate`]: the certificate of a server that is not trusted, for the user to accept or
//! refuse.
//!
//! It is obtained by a handshake that is always refused: nothing is ever sent over such a
//! connection. That the server has the key of its certificate is verified once it is trusted, by
//! [`super::Trust::pinning`].

use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use sealpost_base::{Error, Result};
use sealpost_mime::encode::base64_text;

use super::{Connection, Server};

/// The certificate that a server shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCertificate(CertificateDer<'static>);

impl ShownCertificate {
    /// The one that `server` shows.
    ///
    /// # Errors
    /// As [`Connection::open`]; `NotFound` if it shows none.
    pub async fn of(server: &Server) -> Result<Self> {
        let shown = Arc::new(Refusing::default());
        let tls = shown.clone().config()?;
        let refused = Connection::reach(&Server { tls, ..server.clone() }).await;
        let shown = shown.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (shown, refused) {
            (Some(shown), _) => Ok(ShownCertificate(shown)),
            (None, Err(e)) => Err(e),
            (None, Ok(())) => Err(Error::not_found("the server shows no certificate")),
        }
    }

    /// Its SHA-256 (FIPS 180-4), as programs show it: pairs of hexadecimal digits with colons between.
    pub fn fingerprint(&self) -> String {
        let hash = digest(&SHA256, &self.0);
        hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// It in PEM, in lines of 64 characters (RFC 7468 §2, §5).
    pub fn pem(&self) -> String {
        let text = base64_text(&self.0);
        let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
        format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    }
}

/// Whether the server was refused because of its certificate.
pub fn is_untrusted(error: &Error) -> bool {
    let io = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let tls = io.and_then(|io| io.get_ref()?.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// Trusts no certificate, and records the one shown.
#[derive(Debug, Default)]
struct Refusing(Mutex<Option<CertificateDer<'static>>>);

impl Refusing {
    fn config(self: Arc<Self>) -> Result<Arc<ClientConfig>> {
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::internal("TLS cannot be set up").with_source(e))?;
        let config = config.dangerous().with_custom_certificate_verifier(self);
        Ok(Arc::new(config.with_no_client_auth()))
    }
}

impl ServerCertVerifier for Refusing {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end_entity.clone().into_owned());
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(CertificateError::BadSignature.into())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::ServerConfig;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::super::{Security, Trust};
    use super::*;
    use crate::pull::tests::server::{Box_, Script};

    /// A server that greets over TLS; its certificate, PEM, and the bytes it received over TLS.
    async fn greeting() -> (u16, String, tokio::task::JoinHandle<Vec<u8>>) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let said = tokio::spawn(async move {
            let mut said = Vec::new();
            for _ in 0..3 {
                let (tcp, _) = listener.accept().await.unwrap();
                if let Ok(mut tls) = acceptor.accept(tcp).await {
                    // The write fails if the client has refused and disconnected.
                    let _ = tls.write_all(b"* OK ready\r\n").await;
                    let _ = tls.read_to_end(&mut said).await;
                }
            }
            said
        });
        (port, certificate.pem(), said)
    }

    #[tokio::test]
    async fn a_shown_certificate_is_trusted_only_once_pinned() {
        let (port, pem, said) = greeting().await;
        let like = Script::start(Box_::with(0), "", &[]).await.server();
        let other = CertificateParams::new(["x".to_owned()]).unwrap();
        let other = other.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let server = |trust: &str| Server {
            port,
            security: Security::Implicit,
            tls: Trust::pinning(trust.as_bytes()).unwrap().config().unwrap(),
            ..like.clone()
        };
        let refused = Connection::reach(&server(&other)).await.unwrap_err();
        assert!(is_untrusted(&refused), "{refused}");
        let shown = ShownCertificate::of(&server(&other)).await.unwrap();
        assert_eq!(shown.pem().lines().collect::<String>(), pem.lines().map(str::trim).collect::<String>());
        assert_eq!(shown.fingerprint().len(), 32 * 3 - 1);
        Connection::reach(&server(&shown.pem())).await.unwrap();
        assert_eq!(said.await.unwrap(), b"s1 LOGOUT\r\n", "nothing is said before it is believed");
    }

    #[test]
    fn other_errors_are_no_certificates() {
        assert!(
            !is_untrusted(&Error::invalid("x"))
                && !is_untrusted(&Error::retry("x").with_source(std::io::Error::other("y")))
        );
    }
}
