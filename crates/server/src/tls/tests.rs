//! Certificates: made, loaded, replaced, refused; and a whole handshake.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sealpost_base::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::net::Stream;

fn write_pair(directory: &Path, hostname: &str) -> (PathBuf, PathBuf) {
    let pem = self_signed::generate(hostname).unwrap();
    let (certificate, key) = (directory.join("c.pem"), directory.join("k.pem"));
    std::fs::write(&certificate, pem.certificate).unwrap();
    std::fs::write(&key, pem.key.as_bytes()).unwrap();
    (certificate, key)
}

#[test]
fn a_self_signed_certificate_is_made_once_and_only_its_owner_reads_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let source = TlsSource::SelfSigned { directory: directory.path().join("data") };
    let first = Tls::load(&source, "mail.example").unwrap().unwrap();
    let mode = std::fs::metadata(directory.path().join("data/tls-key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = Tls::load(&source, "mail.example").unwrap().unwrap();
    assert_eq!(first.certificate(), again.certificate());
}

#[test]
fn servers_that_start_at_once_have_one_certificate() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let source = TlsSource::SelfSigned { directory: directory.path().join("data") };
        let load = || Tls::load(&source, "mail.example").unwrap().unwrap().certificate();
        let certificates: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(load)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(certificates.iter().all(|one| *one == certificates[0]));
        assert_eq!(load(), certificates[0]);
    }
}

#[test]
fn a_key_of_another_certificate_is_replaced_and_kept() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = |directory: &tempfile::TempDir| TlsSource::SelfSigned { directory: directory.path().into() };
    Tls::load(&source(&one), "mail.example").unwrap();
    Tls::load(&source(&two), "mail.example").unwrap();
    let key = std::fs::read(two.path().join("tls-key.pem")).unwrap();
    std::fs::write(one.path().join("tls-key.pem"), &key).unwrap();
    let new = Tls::load(&source(&one), "mail.example").unwrap().unwrap();
    assert_eq!(Tls::load(&source(&one), "mail.example").unwrap().unwrap().certificate(), new.certificate());
    assert_eq!(std::fs::read(one.path().join("tls-key.old")).unwrap(), key);
}

#[test]
fn a_changed_file_is_loaded_and_a_broken_one_leaves_the_old_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = write_pair(directory.path(), "one.example");
    let tls = Tls::load(&TlsSource::Files { certificate: certificate.clone(), key }, "x").unwrap().unwrap();
    let one = tls.certificate();
    assert!(!tls.reload_if_changed().unwrap());

    std::fs::write(&certificate, "half a certif").unwrap();
    assert_eq!(tls.reload_if_changed().unwrap_err().kind(), Kind::Invalid);
    assert_eq!(tls.certificate(), one);

    write_pair(directory.path(), "two-longer.example");
    assert!(tls.reload_if_changed().unwrap());
    assert_ne!(tls.certificate(), one);
    assert!(!tls.reload_if_changed().unwrap());
}

#[test]
fn errors_name_the_file_and_never_its_contents() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = write_pair(directory.path(), "a.example");
    let load = |certificate: &Path, key: &Path| {
        let source = TlsSource::Files { certificate: certificate.into(), key: key.into() };
        Tls::load(&source, "x").err().unwrap()
    };
    let missing = load(&directory.path().join("none.pem"), &key);
    assert_eq!(missing.kind(), Kind::NotFound);
    assert!(missing.to_string().contains("none.pem"), "{missing}");

    let other = tempfile::tempdir().unwrap();
    let (_, other_key) = write_pair(other.path(), "b.example");
    let mismatch = load(&certificate, &other_key);
    assert_eq!(mismatch.kind(), Kind::Invalid);
    assert!(mismatch.to_string().contains("does not belong"), "{mismatch}");

    let swapped = load(&key, &certificate);
    assert_eq!(swapped.kind(), Kind::Invalid);
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n").unwrap();
    let broken = load(&certificate, &key);
    assert!(!broken.to_string().contains("c2VjcmV0") && !broken.to_string().contains("secret"), "{broken}");
}

/// Accepts the one certificate it was given.
#[derive(Debug)]
pub(crate) struct Pinned(pub(crate) CertificateDer<'static>);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *certificate == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("not the pinned certificate".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A client's configuration that trusts `certificate` and nothing else.
pub(crate) fn client_config(certificate: CertificateDer<'static>) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(certificate)))
        .with_no_client_auth();
    Arc::new(config)
}

#[tokio::test]
async fn a_handshake_bytes_both_ways_and_a_proper_end() {
    let tls = Tls::ephemeral("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(client_config(tls.certificate()));
    let (server, client) = Stream::pair().unwrap();
    let client = tokio::spawn(async move {
        let mut client = connector.connect(ServerName::try_from("localhost").unwrap(), client).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let mut answer = Vec::new();
        // Without close_notify this would be an error (UnexpectedEof).
        client.read_to_end(&mut answer).await.unwrap();
        answer
    });
    let mut server = server.start_tls(tls.config(), Duration::from_secs(10)).await.unwrap();
    assert!(server.is_tls());
    assert_eq!(server.tls_info().unwrap().version, "TLSv1.3");
    let mut ping = [0; 4];
    server.read_exact(&mut ping).await.unwrap();
    server.write_all(b"pong").await.unwrap();
    assert_eq!((server.bytes_in(), server.bytes_out()), (4, 4), "plaintext is what counts");
    server.close().await;
    assert_eq!(client.await.unwrap(), b"pong");
}
