//! Certificates: made, loaded, replaced, refused; and a whole handshake.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sealpost_base::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use sealpost_session::net::Stream;

fn write_pair(directory: &Path, hostname: &str) -> (PathBuf, PathBuf) {
    let pem = self_signed::generate(hostname).unwrap();
    let (certificate, key) = (directory.join("c.pem"), directory.join("k.pem"));
    std::fs::write(&certificate, pem.certificate).unwrap();
    std::fs::write(&key, pem.key.as_bytes()).unwrap();
    (certificate, key)
}

#[test]
fn a_self_signed_certificate_is_created_once_with_private_key() {
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
fn a_changed_certificate_is_loaded_unless_it_is_broken() {
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
    assert_eq!(missing.kind(), Kind::Invalid);
    assert!(missing.to_string().contains("none.pem"), "{missing}");

    let other = tempfile::tempdir().unwrap();
    let (_, other_key) = write_pair(other.path(), "b.example");
    let mismatch = load(&certificate, &other_key);
    assert_eq!(mismatch.kind(), Kind::Invalid);
    assert!(mismatch.to_string().contains("does not belong"), "{mismatch}");

    let swapped = load(&key, &certificate);
    assert!(swapped.kind() == Kind::Invalid && swapped.to_string().contains("exchange the two"));
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n").unwrap();
    let broken = load(&certificate, &key);
    assert!(!broken.to_string().contains("c2VjcmV0") && !broken.to_string().contains("secret"), "{broken}");
}

/// Throwaway keys and certificates, as OpenSSL 3.0 and OpenSSH write them.
fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/testdata").join(name)
}

fn refusal(certificate: &Path, key: &Path) -> String {
    let source = TlsSource::Files { certificate: certificate.into(), key: key.into() };
    let refused = Tls::load(&source, "x").err().unwrap();
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
    refused.to_string()
}

#[test]
fn keys_that_cannot_be_used_say_why_and_which_work() {
    for (key, said) in [
        ("secp521r1.key", "P-521 (secp521r1) cannot be used here; keys that work are ECDSA on P-256"),
        ("sec1-p521.key", "P-521 (secp521r1) cannot be used here"),
        ("secp224r1.key", "P-224 (secp224r1) cannot be used here"),
        ("secp256k1.key", "secp256k1 cannot be used here"),
        ("brainpoolP256r1.key", "Brainpool cannot be used here"),
        ("ed448.key", "Ed448 cannot be used here"),
        ("rsa1024.key", "this RSA key cannot be used; keys that work are"),
        ("rsa1024-pkcs1.key", "this RSA key cannot be used; keys that work are"),
        ("locked.key", "encrypted with a passphrase"),
        ("locked-sec1.key", "encrypted with a passphrase"),
        ("ssh.key", "an SSH key"),
        ("public.pem", "the private one is needed"),
        ("p256-key.der", "this is DER, and not PEM"),
        ("pair.p12", "this is PKCS#12"),
        ("p256.pem", "it has a certificate, but no private key"),
    ] {
        let refused = refusal(&testdata("p256.pem"), &testdata(key));
        assert!(refused.contains(said) && refused.contains(key), "{key}: {refused}");
        assert!(!refused.contains("unexpected") && !refused.contains("no items"), "{key}: {refused}");
    }
}

#[test]
fn errors_name_the_format_of_an_unusable_certificate() {
    for (certificate, said) in [
        ("p256.der", "this is DER, and not PEM"),
        ("pair.p12", "this is PKCS#12"),
        ("chain.p7b", "this is PKCS#7"),
        ("request.pem", "a certificate request"),
        ("trusted.pem", "OpenSSL's own format"),
        ("p256.key", "it has a private key, but no certificate"),
        ("public.pem", "it has no certificate, but PUBLIC KEY"),
    ] {
        let refused = refusal(&testdata(certificate), &testdata("p256.key"));
        assert!(refused.contains(said) && refused.contains(certificate), "{certificate}: {refused}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.pem");
    for (content, said) in
        [(&b""[..], "the file is empty"), (b"hello\n", "no certificate in PEM"), (b"\xff\xfe-\0", "UTF-16")]
    {
        std::fs::write(&file, content).unwrap();
        assert!(refusal(&file, &testdata("p256.key")).contains(said), "{said}");
    }
    assert!(refusal(directory.path(), &testdata("p256.key")).contains("cannot read"));
}

#[test]
fn a_pair_in_one_file_with_any_line_ends_works() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("both.pem");
    let [certificate, key] =
        ["p256.pem", "p256.key"].map(|name| std::fs::read_to_string(testdata(name)).unwrap());
    for both in [format!("{key}{certificate}"), format!("{certificate}{key}").replace('\n', "\r\n")] {
        std::fs::write(&file, both).unwrap();
        Tls::load(&TlsSource::Files { certificate: file.clone(), key: file.clone() }, "x").unwrap();
    }
}

#[test]
fn the_servers_own_certificate_comes_first() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = write_pair(directory.path(), "a.example");
    let own = std::fs::read_to_string(&certificate).unwrap();
    let other = std::fs::read_to_string(testdata("p256.pem")).unwrap();
    std::fs::write(&certificate, format!("{other}{own}")).unwrap();
    let refused = refusal(&certificate, &key);
    assert!(refused.contains("must come first in the file") && refused.contains("number 2"), "{refused}");
    std::fs::write(&certificate, format!("{own}{other}")).unwrap();
    Tls::load(&TlsSource::Files { certificate, key }, "x").unwrap();
}

#[test]
fn an_invalid_certificate_is_reported() {
    let (year, directory) = (31_556_952, tempfile::tempdir().unwrap());
    let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 2, 3);
    let own = rcgen::KeyPair::generate().unwrap();
    let (certificate, key) = (directory.path().join("c.pem"), directory.path().join("k.pem"));
    std::fs::write(&certificate, params.self_signed(&own).unwrap().pem()).unwrap();
    std::fs::write(&key, own.serialize_pem()).unwrap();
    let tls = Tls::load(&TlsSource::Files { certificate, key }, "x").unwrap().unwrap();
    let said = |years: i64| tls.out_of_date(Timestamp::from_seconds(years * year));
    assert_eq!(said(50), None);
    let expired = said(52).unwrap();
    assert!(expired.contains("c.pem expired on 2021-02-03"), "{expired}");
    let early = said(49).unwrap();
    assert!(early.contains("not valid before 2020-01-01"), "{early}");
}

#[test]
fn a_key_without_permission_to_read_names_the_guide() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("privkey.pem");
    std::fs::write(&key, "").unwrap();
    let refused = pair::cannot_read(&key, std::io::ErrorKind::PermissionDenied.into());
    let said = refused.to_string();
    assert_eq!(refused.kind(), Kind::Invalid);
    for part in
        ["privkey.pem belongs to ", "deploy hook", "LoadCredential=", "docs/guide/install.md#certificates"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("change the file owner"), "{said}");
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

#[tokio::test]
async fn a_handshake_that_does_not_come_times_out() {
    let (a, _b) = Stream::pair().unwrap();
    let config = super::self_signed_for_tests();
    let error = a.start_tls(&config, Duration::from_millis(5)).await.err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}
