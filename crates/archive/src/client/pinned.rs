//! [`Pinned`]: a server's own certificate, named byte for byte, is trusted without an issuer.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Verifies as webpki does, but accepts a server that shows one of the named certificates: its
/// name, dates and CA:TRUE do not matter then. That the server has the certificate's key is
/// verified in any case.
#[derive(Debug)]
pub(super) struct Pinned {
    certificates: HashSet<CertificateDer<'static>>,
    others: Arc<WebPkiServerVerifier>,
}

impl Pinned {
    /// Trusts `certificates`, and those that `others` trusts.
    pub(super) fn new(
        certificates: HashSet<CertificateDer<'static>>,
        others: Arc<WebPkiServerVerifier>,
    ) -> Self {
        Pinned { certificates, others }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.others.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::server::{ClientHello, ResolvesServerCert};
    use rustls::sign::CertifiedKey;
    use rustls::version::{TLS12, TLS13};
    use rustls::{CertificateError, ServerConfig, SupportedProtocolVersion};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::super::Trust;
    use super::*;

    const NAME: &str = "mail.example.org";

    /// A certificate, PEM, and what a server shows of it.
    struct Identity {
        pem: String,
        chain: Vec<CertificateDer<'static>>,
        key: KeyPair,
    }

    /// Signed by itself; an issuer's as Dovecot makes them if `ca`.
    fn own(name: &str, ca: bool) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Identity { pem: certificate.pem(), chain: vec![certificate.der().clone()], key }
    }

    /// A server's for `name`, and its issuer's PEM.
    fn issued(name: &str) -> (Identity, String) {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (Identity { pem: certificate.pem(), chain: vec![certificate.der().clone()], key }, issuer.pem())
    }

    /// Shows a certificate whether or not the key belongs to it.
    #[derive(Debug)]
    struct Shows(Arc<CertifiedKey>);

    impl ResolvesServerCert for Shows {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(self.0.clone())
        }
    }

    /// What a client that trusts `trust` says of a server that shows `chain`, signs with `key`, and
    /// is called [`NAME`].
    async fn handshake(
        trust: &Trust,
        chain: &[CertificateDer<'static>],
        key: &KeyPair,
        version: &'static SupportedProtocolVersion,
    ) -> Result<(), Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = provider.key_provider.load_private_key(key).unwrap();
        let shows = Shows(Arc::new(CertifiedKey::new(chain.to_vec(), key)));
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(shows));
        let (near, far) = tokio::io::duplex(64 * 1024);
        let client = TlsConnector::from(trust.clone().config().unwrap());
        let name = ServerName::try_from(NAME).unwrap();
        let accept = TlsAcceptor::from(Arc::new(server)).accept(far);
        let (connected, _) = tokio::join!(client.connect(name, near), accept);
        connected.map(|_| ()).map_err(|e| e.downcast::<Error>().unwrap())
    }

    async fn verdict(trust: &Trust, shown: &Identity) -> Result<(), Error> {
        let twelve = handshake(trust, &shown.chain, &shown.key, &TLS12).await;
        let thirteen = handshake(trust, &shown.chain, &shown.key, &TLS13).await;
        // Two errors of webpki's are never equal.
        assert_eq!(format!("{twelve:?}"), format!("{thirteen:?}"));
        thirteen
    }

    fn trust(pem: &str) -> Trust {
        Trust::pinning(pem.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_named_certificate_is_trusted_whatever_its_contents() {
        for (name, ca) in [(NAME, true), (NAME, false), ("localhost", true), ("localhost", false)] {
            let shown = own(name, ca);
            assert_eq!(verdict(&trust(&shown.pem), &shown).await, Ok(()), "{name} {ca}");
            let several = own("other", true).pem + &shown.pem;
            assert_eq!(verdict(&trust(&several), &shown).await, Ok(()), "{name} {ca}");
        }
    }

    #[tokio::test]
    async fn a_certificate_that_was_not_named_is_refused() {
        for ca in [true, false] {
            let (named, shown) = (own(NAME, ca), own(NAME, ca));
            assert!(
                matches!(verdict(&trust(&named.pem), &shown).await, Err(Error::InvalidCertificate(_))),
                "{ca}"
            );
            // A certificate sent along in the chain is not the server's.
            let chain = [shown.chain.clone(), named.chain].concat();
            let along = Identity { chain, ..shown };
            assert!(matches!(verdict(&trust(&named.pem), &along).await, Err(Error::InvalidCertificate(_))));
        }
    }

    #[tokio::test]
    async fn the_certificate_is_of_no_use_without_its_key() {
        let (named, thief) = (own(NAME, true), KeyPair::generate().unwrap());
        for version in [&TLS12, &TLS13] {
            let refused = handshake(&trust(&named.pem), &named.chain, &thief, version).await;
            assert_eq!(refused, Err(Error::InvalidCertificate(CertificateError::BadSignature)));
        }
    }

    #[tokio::test]
    async fn issuers_are_believed_as_ever_and_only_for_the_name() {
        let (good, issuer) = issued(NAME);
        assert_eq!(verdict(&trust(&issuer), &good).await, Ok(()));
        let (elsewhere, issuer) = issued("elsewhere.example.org");
        let refused = verdict(&trust(&issuer), &elsewhere).await;
        assert!(matches!(refused, Err(Error::InvalidCertificate(_))), "{refused:?}");
        assert_eq!(verdict(&trust(&elsewhere.pem), &elsewhere).await, Ok(()));
    }

    #[tokio::test]
    async fn only_certificates_that_were_named_are_pinned() {
        // As an issuer of the system's bundle.
        let shown = own(NAME, true);
        let issuers = Trust::pem(shown.pem.as_bytes()).unwrap();
        assert!(matches!(verdict(&issuers, &shown).await, Err(Error::InvalidCertificate(_))));
    }
}
