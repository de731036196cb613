//! The certificate of a server without a configured one: created once and kept in the data
//! directory, so that clients need to accept it only once.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use sealpost_base::{Error, Result};
use sealpost_files::owner;
use zeroize::Zeroizing;

use super::pair::{keys_differ, read_pem};

const CERTIFICATE_FILE: &str = "tls-certificate.pem";
const KEY_FILE: &str = "tls-key.pem";

/// A certificate and its key, both PEM.
pub(super) struct Pem {
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

/// The paths of certificate and key in `directory`, which are made if either is missing or they do
/// not belong together. Of several processes that start at once, one makes them and the others wait
/// and read them.
pub(super) fn ensure(directory: &Path, hostname: &str) -> Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
    owner::make_directory(directory).map_err(|e| cannot("make", directory, e))?;
    let lock = File::open(directory).map_err(|e| cannot("open", directory, e))?;
    // Where there are no locks, the files are checked all the same.
    let _ = lock.lock();
    if certificate.exists() && key.exists() {
        if !differ(&certificate, &key) {
            return Ok((certificate, key));
        }
        // The operator may have put them there, and need them.
        for file in [&certificate, &key] {
            std::fs::rename(file, file.with_extension("old")).map_err(|e| cannot("rename", file, e))?;
        }
    }
    let pem = generate(hostname)?;
    // The key is written first: a crash in between leaves an incomplete pair, and the next start
    // creates both again.
    let _ = std::fs::remove_file(&certificate);
    write_private(&key, pem.key.as_bytes())?;
    write_private(&certificate, pem.certificate.as_bytes())?;
    Ok((certificate, key))
}

/// A new P-256 key and a certificate for `hostname`, `localhost` and the loopback addresses.
pub(super) fn generate(hostname: &str) -> Result<Pem> {
    let failed = |e: rcgen::Error| Error::invalid(format!("no certificate for {hostname:?}")).with_source(e);
    let mut names = vec![hostname.to_owned(), "localhost".into(), "127.0.0.1".into(), "::1".into()];
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, hostname);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Pem { certificate: certificate.pem(), key: Zeroizing::new(key.serialize_pem()) })
}

/// Whether both can be read, and the key is not the certificate's.
fn differ(certificate: &Path, key: &Path) -> bool {
    let (Ok(certificate), Ok(key)) = (read_pem(certificate), read_pem(key).map(Zeroizing::new)) else {
        return false;
    };
    keys_differ(&certificate, &key)
}

/// Writes a file that only its owner can read, in one step: a reader sees all of it or the file before.
fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let _ = std::fs::remove_file(&temporary);
    let write = || {
        let mut file = owner::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(|e| cannot("write", path, e))
}

/// Of files in the data directory.
fn cannot(verb: &str, path: &Path, error: std::io::Error) -> Error {
    Error::retry(format!("cannot {verb} {}", path.display())).with_source(owner::explained(path, error))
}
