//! A certificate chain and its key, read from PEM files (RFC 7468); errors name the file and the
//! remedy.
//!
//! The libraries say "no items found" or "failed to parse"; what matters is that a key has a
//! passphrase, or that the chain begins with the wrong certificate. No message repeats bytes of a
//! file: they may be the key.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};
use sealpost_base::{Error, Result, Timestamp};
use sealpost_files::owner;
use sealpost_mime::header::date::civil_from_days;
use zeroize::Zeroizing;

/// Largest certificate or key file that is read, in bytes.
const PEM_FILE_BYTES: u64 = 1024 * 1024;
/// The beginning of a line that begins something in PEM, and the end of that line.
const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// How algorithms of keys are called that do not work here, by the object identifier that is in the key.
const ALGORITHMS: &[(&[u8], &str)] = &[
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23], "P-521 (secp521r1)"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x21], "P-224 (secp224r1)"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a], "secp256k1"),
    (&[0x06, 0x09, 0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01], "Brainpool"),
    (&[0x06, 0x03, 0x2b, 0x65, 0x71], "Ed448"),
    (&[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01], "DSA"),
    (&[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a], "RSA-PSS"),
];
/// `rsaEncryption` (RFC 8017 §A.1).
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// Those that do.
const WORKING: &str = "keys that work are ECDSA on P-256 or P-384, Ed25519, and RSA from 2048 to 4096 bits";

/// Reads the pair from its files.
///
/// # Errors
/// `Invalid`, saying which file is wrong and what to do; `Retry` if the disk fails.
pub(crate) fn load(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let (certificate_pem, key_pem) = (read_pem(certificate)?, Zeroizing::new(read_pem(key)?));
    if labels(&certificate_pem).iter().any(|label| is_key(label))
        && chain_of(&certificate_pem).is_ok_and(|chain| chain.is_empty())
        && chain_of(&key_pem).is_ok_and(|chain| !chain.is_empty())
    {
        let (certificate, key) = (certificate.display(), key.display());
        return Err(Error::invalid(format!(
            "{certificate} has a private key and {key} a certificate: exchange the two in the configuration"
        )));
    }
    parse(&certificate_pem, &key_pem, provider).map_err(|e| match e {
        Wrong::Certificate(why) => Error::invalid(format!("{}: {why}", certificate.display())),
        Wrong::Key(why) => Error::invalid(format!("{}: {why}", key.display())),
        Wrong::Pair(why) => {
            Error::invalid(format!("certificate {} with key {}: {why}", certificate.display(), key.display()))
        }
    })
}

/// The pair in the texts of two files.
pub(super) fn parse(
    certificate: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Wrong> {
    let chain =
        chain_of(certificate).map_err(|e| Wrong::Certificate(format!("this is not valid PEM: {e}")))?;
    if chain.is_empty() {
        return Err(Wrong::Certificate(no_certificate(certificate)));
    }
    // The parser's message is kept, its input is not: that is the key.
    let der = PrivateKeyDer::from_pem_slice(key).map_err(|e| Wrong::Key(no_key(key, &e.to_string())))?;
    if is_encrypted(key) {
        return Err(Wrong::Key(ENCRYPTED.to_owned()));
    }
    let signing = provider
        .key_provider
        .load_private_key(der.clone_key())
        .map_err(|_| Wrong::Key(unusable_key(&der)))?;
    let pair = CertifiedKey::new(chain, signing);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(_)) => Err(Wrong::Pair(mismatch(&pair))),
        Err(e) => Err(Wrong::Certificate(format!("the first certificate cannot be used: {e}"))),
    }
}

/// Which file is wrong, and how.
#[derive(Debug)]
pub(super) enum Wrong {
    Certificate(String),
    Key(String),
    Pair(String),
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Self {
        let (Wrong::Certificate(why) | Wrong::Key(why) | Wrong::Pair(why)) = wrong;
        Error::invalid(why)
    }
}

/// Whether the key is that of another certificate.
pub(super) fn keys_differ(certificate: &[u8], key: &[u8]) -> bool {
    let provider = rustls::crypto::ring::default_provider();
    matches!(parse(certificate, key, &provider), Err(Wrong::Pair(_)))
}

/// Since when the first certificate is not valid any more, or when it will be; `None` if it is valid now.
pub(super) fn out_of_date(
    chain: &[CertificateDer<'static>],
    provider: &CryptoProvider,
    now: Timestamp,
) -> Option<String> {
    let leaf = ParsedCertificate::try_from(chain.first()?).ok()?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.seconds()).ok()?));
    // No issuer is trusted, but the dates are checked first.
    let (nobody, algorithms) = (RootCertStore::empty(), provider.signature_verification_algorithms.all);
    let checked =
        rustls::client::verify_server_cert_signed_by_trust_anchor(&leaf, &nobody, &[], now, algorithms);
    match checked {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(format!("expired on {}: mail programs reject it; renew it", day(not_after)))
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => {
            Some(format!("is not valid before {}: mail programs reject it; check the clock", day(not_before)))
        }
        _ => None,
    }
}

fn day(time: UnixTime) -> String {
    let (year, month, day) = civil_from_days(i64::try_from(time.as_secs() / 86_400).unwrap_or(i64::MAX));
    format!("{year:04}-{month:02}-{day:02}")
}

/// The whole file.
///
/// # Errors
/// As [`cannot_read`]; `Invalid` if it is too large.
pub(super) fn read_pem(path: &Path) -> Result<Vec<u8>> {
    let length = std::fs::metadata(path).map_err(|e| cannot_read(path, e))?.len();
    if length > PEM_FILE_BYTES {
        return Err(Error::invalid(format!("{} is too large for a PEM file", path.display())));
    }
    std::fs::read(path).map_err(|e| cannot_read(path, e))
}

/// `Invalid` for what only a change of files, permissions or settings mends; `Retry` for a disk that fails.
pub(super) fn cannot_read(path: &Path, error: std::io::Error) -> Error {
    let shown = path.display();
    if error.kind() == ErrorKind::PermissionDenied
        && let Some((obstacle, of)) = owner::obstacle(path)
    {
        return Error::invalid(format!(
            "cannot read {shown}: permission denied: {} belongs to {of}; give the user of this server access (a deploy hook of certbot's, \
             a group, or LoadCredential= in the systemd unit: docs/guide/install.md#certificates)",
            obstacle.display()
        ));
    }
    let message = format!("cannot read {shown}");
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::PermissionDenied => Error::invalid(message),
        _ => Error::retry(message),
    }
    .with_source(error)
}

fn chain_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}

/// What the file has, by its labels: `PRIVATE KEY`, `CERTIFICATE`.
fn labels(pem: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(pem);
    let labels = text.lines().filter_map(|line| line.trim().strip_prefix(BEGIN)?.strip_suffix(DASHES));
    labels.map(str::to_owned).collect()
}

fn is_key(label: &str) -> bool {
    label.ends_with("PRIVATE KEY")
}

const ENCRYPTED: &str = "the key is encrypted with a passphrase: write it without one (openssl pkey -in KEY \
                         -out NEW-KEY), readable only by the server's user";

/// RFC 7468 §11; and the way of OpenSSL's from before (RFC 1421 §4.6.1.1).
fn is_encrypted(pem: &[u8]) -> bool {
    labels(pem).iter().any(|label| label == "ENCRYPTED PRIVATE KEY")
        || String::from_utf8_lossy(pem)
            .lines()
            .any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED"))
}

/// Why there is no certificate in a file.
fn no_certificate(pem: &[u8]) -> String {
    let found = labels(pem);
    let has = |wanted: &str| found.iter().any(|label| label.contains(wanted));
    if has("PKCS7") || has("CMS") {
        return "this is PKCS#7: write its certificates as PEM (openssl pkcs7 -print_certs -in FILE)"
            .to_owned();
    }
    if has("CERTIFICATE REQUEST") {
        return "this is a certificate request, not the certificate issued for it".to_owned();
    }
    if has("TRUSTED CERTIFICATE") {
        return "this is OpenSSL's own format: write it as a certificate (openssl x509 -in FILE)".to_owned();
    }
    if found.iter().any(|label| is_key(label)) {
        return "it has a private key, but no certificate".to_owned();
    }
    match binary(pem) {
        Some(what) => what.to_owned(),
        None if found.is_empty() => {
            "it has no certificate in PEM (a line -----BEGIN CERTIFICATE-----)".to_owned()
        }
        None => format!("it has no certificate, but {}", found.join(", ")),
    }
}

/// Why there is no private key in a file, which the parser called `why`.
fn no_key(pem: &[u8], why: &str) -> String {
    if is_encrypted(pem) {
        return ENCRYPTED.to_owned();
    }
    let found = labels(pem);
    let has = |wanted: &str| found.iter().any(|label| label.contains(wanted));
    if has("OPENSSH PRIVATE KEY") {
        return "this is an SSH key: a certificate has a key of its own".to_owned();
    }
    if has("DSA PRIVATE KEY") {
        return format!("this is a DSA key, which TLS does not use any more; {WORKING}");
    }
    if has("PUBLIC KEY") {
        return "this is the public key; the private one is needed".to_owned();
    }
    if found.iter().any(|label| is_key(label)) {
        return format!("the private key in it is not valid PEM: {why}");
    }
    if has("CERTIFICATE") {
        return "it has a certificate, but no private key".to_owned();
    }
    match binary(pem) {
        Some(what) => what.to_owned(),
        None => "it has no private key in PEM (a line -----BEGIN PRIVATE KEY-----)".to_owned(),
    }
}

/// What a file is that is no text: a DER `SEQUENCE`, of which PKCS#12 has the version 3 first (RFC 7292 §4).
fn binary(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [] => Some("the file is empty"),
        [0x30, rest @ ..] => {
            let content = match rest {
                [length, ..] if length & 0x80 == 0 => &rest[1..],
                [length, ..] => rest.get(1 + usize::from(length & 0x7f)..)?,
                [] => return None,
            };
            Some(match content.starts_with(&[0x02, 0x01, 0x03]) {
                true => {
                    "this is PKCS#12 (.p12, .pfx): extract certificate and key (openssl pkcs12 -in FILE \
                     -nodes)"
                }
                false => {
                    "this is DER, and not PEM: convert it (openssl x509 -inform der -in FILE, openssl pkey -inform der -in FILE)"
                }
            })
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("this is UTF-16 text: write it as plain ASCII"),
        _ => None,
    }
}

/// Why a private key cannot be used, by what its algorithm is.
fn unusable_key(key: &PrivateKeyDer<'_>) -> String {
    let der = key.secret_der();
    let has = |identifier: &[u8]| der.windows(identifier.len()).any(|bytes| bytes == identifier);
    match ALGORITHMS.iter().find(|(identifier, _)| has(identifier)) {
        Some((_, name)) => format!("a key of {name} cannot be used here; {WORKING}"),
        None if matches!(key, PrivateKeyDer::Pkcs1(_)) || has(RSA) => {
            format!("this RSA key cannot be used; {WORKING}")
        }
        None => format!("this key is damaged, or cannot be used here; {WORKING}"),
    }
}

/// Why key and certificate are not of each other.
fn mismatch(pair: &CertifiedKey) -> String {
    let is_of_key = |certificate: &CertificateDer<'static>| {
        CertifiedKey::new(vec![certificate.clone()], pair.key.clone()).keys_match().is_ok()
    };
    match pair.cert.iter().position(is_of_key) {
        // RFC 8446 §4.4.2.
        Some(at) => format!(
            "the server's own certificate must come first in the file, then those of its issuers; it is \
             number {}",
            at + 1
        ),
        None => "the key does not belong to the certificate".to_owned(),
    }
}
