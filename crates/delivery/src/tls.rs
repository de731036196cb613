//! TLS to mail servers: the handshake, and whether the certificate meets the policy.
//!
//! The handshake accepts any certificate and proves that the peer has its key;
//! [`TlsClient::verify`] judges the certificate afterwards, before the client sends any mail. So an
//! opportunistic connection can be known to be verified as well, and reports can name the failure.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use sealpost_base::{Error, Result, Timestamp};
use sealpost_dns::Tlsa;
use tokio_rustls::TlsConnector;

use crate::dane;
use crate::dial::Stream;
use crate::outcome::Reason;

/// Makes and judges TLS connections. Cheap to clone.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    provider: Arc<CryptoProvider>,
    /// `None` without roots: then no certificate is verified by them.
    roots: Option<Arc<WebPkiServerVerifier>>,
}

/// A connection with TLS.
pub(crate) struct Secured {
    pub stream: Box<dyn Stream>,
    pub certificates: Vec<CertificateDer<'static>>,
    /// Version and cipher suite.
    pub parameters: String,
}

/// The problem of a certificate, in the terms of RFC 8460 §4.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertificateProblem {
    /// It is for other names.
    HostMismatch,
    /// It is expired or not yet valid.
    Expired,
    /// Its issuer is not trusted, or it is invalid for another reason.
    NotTrusted,
    /// It matches no TLSA record.
    DaneMismatch,
}

impl CertificateProblem {
    /// The reason for an operator.
    pub(crate) fn reason(self) -> Reason {
        match self {
            CertificateProblem::DaneMismatch => Reason::DaneMismatch,
            _ => Reason::CertificateInvalid,
        }
    }
}

/// The criterion by which a certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judge<'a> {
    /// The public roots; the certificate has to be for one of the names.
    Roots,
    /// TLSA records (RFC 7672).
    Dane(&'a [Tlsa]),
}

impl TlsClient {
    /// A client that trusts `roots`, which may be empty.
    ///
    /// # Errors
    /// `Internal` if TLS cannot be set up.
    pub fn new(roots: RootCertStore) -> Result<Self> {
        let unusable = |e: TlsError| Error::internal("TLS cannot be set up").with_source(e);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let any = Arc::new(AnyCertificate(provider.clone()));
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(any)
            .with_no_client_auth();
        let verifier = match roots.is_empty() {
            true => None,
            false => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|e| Error::internal("TLS cannot be set up").with_source(e))?,
            ),
        };
        Ok(TlsClient { connector: TlsConnector::from(Arc::new(config)), provider, roots: verifier })
    }

    /// The handshake over `stream` with a server that is expected to be `name`. The caller bounds the time.
    pub(crate) async fn handshake(
        &self,
        stream: Box<dyn Stream>,
        name: &ServerName<'static>,
    ) -> io::Result<Secured> {
        let stream = self.connector.connect(name.clone(), stream).await?;
        let session = stream.get_ref().1;
        let certificates = session.peer_certificates().unwrap_or_default();
        let certificates = certificates.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let version = session.protocol_version().and_then(|version| version.as_str()).unwrap_or("TLS");
        let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let parameters = format!("{} {}", version.replace("TLSv1_", "TLSv1."), suite.unwrap_or("unknown"));
        Ok(Secured { stream: Box::new(stream), certificates, parameters })
    }

    /// Judges the certificates of a server that should be one of `names`, at the time `now`.
    pub(crate) fn verify(
        &self,
        judge: &Judge<'_>,
        certificates: &[CertificateDer<'_>],
        names: &[ServerName<'static>],
        now: Timestamp,
    ) -> Result<(), CertificateProblem> {
        let seconds = u64::try_from(now.seconds()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let Some((leaf, chain)) = certificates.split_first() else {
            return Err(CertificateProblem::NotTrusted);
        };
        match judge {
            Judge::Dane(records) => dane::verify(records, leaf, chain, names, now, &self.provider),
            Judge::Roots => match &self.roots {
                Some(roots) => by_roots(roots, leaf, chain, names, now),
                None => Err(CertificateProblem::NotTrusted),
            },
        }
    }
}

/// Judges by trust anchors. The certificate has to be valid for one of `names`.
pub(crate) fn by_roots(
    roots: &WebPkiServerVerifier,
    leaf: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
    names: &[ServerName<'static>],
    now: UnixTime,
) -> Result<(), CertificateProblem> {
    let mut problem = CertificateProblem::HostMismatch;
    for name in names {
        match roots.verify_server_cert(leaf, chain, name, &[], now) {
            Ok(_) => return Ok(()),
            Err(error) => problem = problem_of(&error),
        }
    }
    Err(problem)
}

fn problem_of(error: &TlsError) -> CertificateProblem {
    match error {
        TlsError::InvalidCertificate(error) => match error {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                CertificateProblem::HostMismatch
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => CertificateProblem::Expired,
            _ => CertificateProblem::NotTrusted,
        },
        _ => CertificateProblem::NotTrusted,
    }
}

/// Accepts any certificate whose key the peer has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
