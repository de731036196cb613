//! Records that the server itself must read without an account's key (account records, aliases): not secret, but
//! authenticated. An HMAC under the server's key binds each to its path, so a record can be neither changed nor
//! put in another's place. Format: `docs/format/keys-and-slots.md`.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use sealpost_base::{Error, Random, Result};
use zeroize::Zeroizing;

use crate::Sealed;
use crate::cipher::{ObjectCipher, Place, Secret, TAG_BYTES, derive, equal, hmac_sha256, sha256};
use crate::owner;

/// "Sealpost record", version 2.
const MAGIC: [u8; 4] = *b"SPR\x02";
const MAC_BYTES: usize = 32;

/// The server's key: 32 random bytes in a file that only the server's user can read.
#[derive(Clone)]
pub struct ServerKey {
    mac: Secret,
    hidden: Secret,
    secret: Secret,
}

impl ServerKey {
    /// A new key that is kept nowhere, for tests.
    pub fn generate(random: &dyn Random) -> Self {
        let secret = Secret::filled(|secret| random.fill(secret));
        Self::new(secret)
    }

    /// The key in the file `path`; made and durable there if there is none. Of several processes that start at once,
    /// one makes it and the others read it.
    ///
    /// # Errors
    /// `Retry` if the file cannot be read or written, `Corrupt` if it is not a key.
    pub fn load_or_create(path: &Path, random: &dyn Random) -> Result<Self> {
        let failed = |e| {
            let e = owner::explained(path, e);
            Error::retry(format!("server key {}", path.display())).with_source(e)
        };
        match read_key(path) {
            Ok(found) => return found.map(Self::new).ok_or_else(|| not_a_key(path)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
        let secret = Secret::filled(|secret| random.fill(secret));
        create_key(path, &secret, random).map_err(failed)?;
        match read_key(path) {
            Ok(found) => found.map(Self::new).ok_or_else(|| not_a_key(path)),
            Err(e) => Err(failed(e)),
        }
    }

    /// A key for another purpose of the server's, named by `label`.
    pub fn purpose(&self, label: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(
            *derive(b"sealpost server purpose v1", self.secret.bytes(), &[label.as_bytes()]).bytes(),
        )
    }

    /// What the sizes of messages are sealed under.
    pub(crate) fn sizes(&self) -> Secret {
        derive(b"sealpost server key v1", self.secret.bytes(), &[b"message sizes"])
    }

    fn new(secret: Secret) -> Self {
        let purpose = |label| derive(b"sealpost server key v1", secret.bytes(), &[label]);
        ServerKey { mac: purpose(b"records"), hidden: purpose(b"hidden records"), secret }
    }

    fn mac_of(&self, path: &str, plaintext: &[u8]) -> [u8; MAC_BYTES] {
        hmac_sha256(&self.mac, &[&MAGIC, &(path.len() as u64).to_be_bytes(), path.as_bytes(), plaintext])
    }
}

/// Authenticates `plaintext` as the record at `path`. It stays readable: nothing secret belongs in it.
pub fn seal_record(key: &ServerKey, path: &str, plaintext: &[u8]) -> Sealed {
    let mut object = Vec::with_capacity(MAGIC.len() + plaintext.len() + MAC_BYTES);
    object.extend_from_slice(&MAGIC);
    object.extend_from_slice(plaintext);
    object.extend_from_slice(&key.mac_of(path, plaintext));
    Sealed::new(object)
}

/// The record at `path`.
///
/// # Errors
/// `Corrupt` for anything but what this server's key authenticated for this path.
pub fn open_record(key: &ServerKey, path: &str, object: &[u8]) -> Result<Vec<u8>> {
    let corrupt = || Error::corrupt(format!("the record {path} is not one of this server's"));
    let body = object.strip_prefix(&MAGIC).ok_or_else(corrupt)?;
    let (plaintext, mac) = body.split_last_chunk::<MAC_BYTES>().ok_or_else(corrupt)?;
    if !equal(&key.mac_of(path, plaintext), mac) {
        return Err(corrupt());
    }
    Ok(plaintext.to_vec())
}

/// Encrypts what a record of `directory` says, for nodes alone. It has to be sealed as a record all the same.
pub fn hide(key: &ServerKey, directory: &str, plaintext: &[u8], random: &dyn Random) -> Vec<u8> {
    let mut hidden = Vec::with_capacity(SALT_BYTES + plaintext.len() + TAG_BYTES);
    hidden.resize(SALT_BYTES, 0);
    random.fill(&mut hidden);
    let cipher = hidden_cipher(key, directory, &hidden);
    hidden.extend_from_slice(plaintext);
    cipher.seal(PLACE, MAGIC, &mut hidden, SALT_BYTES);
    hidden
}

/// What was hidden with [`hide`].
///
/// # Errors
/// `Corrupt` for anything else.
pub fn reveal(key: &ServerKey, directory: &str, hidden: &[u8]) -> Result<Vec<u8>> {
    let corrupt = || Error::corrupt(format!("a record of {directory} that this server did not hide"));
    let (salt, sealed) = hidden.split_at_checked(SALT_BYTES).ok_or_else(corrupt)?;
    let mut plain = sealed.to_vec();
    let opened = hidden_cipher(key, directory, salt).open(PLACE, MAGIC, &mut plain).map_err(|_| corrupt())?;
    plain.truncate(opened);
    Ok(plain)
}

const SALT_BYTES: usize = 32;
/// What hiding adds.
pub const HIDDEN_OVERHEAD_BYTES: usize = SALT_BYTES + TAG_BYTES;
const PLACE: Place = Place { section: 0, number: 0, last: true };

fn hidden_cipher(key: &ServerKey, directory: &str, salt: &[u8]) -> ObjectCipher {
    ObjectCipher::new(salt, key.hidden.bytes(), sha256(&[b"sealpost hidden record v1", directory.as_bytes()]))
}

fn not_a_key(path: &Path) -> Error {
    Error::corrupt(format!("{} is not a server key", path.display()))
}

fn read_key(path: &Path) -> std::io::Result<Option<Secret>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(33));
    File::open(path)?.take(33).read_to_end(&mut bytes)?;
    if bytes.len() != 32 {
        return Ok(None);
    }
    Ok(Some(Secret::filled(|secret| secret.copy_from_slice(&bytes))))
}

/// Written whole under another name first: a key file is complete or absent, whenever the machine stops.
fn create_key(path: &Path, secret: &Secret, random: &dyn Random) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.tmp", random.next_u64()));
    let temporary = path.with_file_name(name);
    let mut file = owner::create(&temporary)?;
    let written = file.write_all(secret.bytes()).and_then(|()| file.sync_all()).and_then(|()| {
        match std::fs::hard_link(&temporary, path) {
            // Another process was first: its key is the key.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    });
    std::fs::remove_file(&temporary)?;
    written?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
