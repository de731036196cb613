//! Records that the server itself must read without an account's key (account records, aliases):
//! not secret, but authenticated. An HMAC under the server's keys binds each to its path, so a
//! record can be neither changed nor put in another's place. Format:
//! `docs/format/keys-and-slots.md`.

use sealpost_base::{Error, Random, Result};

use crate::Sealed;
use crate::cipher::{ObjectCipher, PiecePosition, Secret, TAG_BYTES, sha256};
use crate::server_key::{KeyId, MAC_BYTES, Macs, Purpose, ServerKeys};

/// "Sealpost record", version 2.
const MAGIC: [u8; 4] = *b"SPR\x02";

const SALT_BYTES: usize = 32;
/// What hiding adds.
pub const HIDDEN_OVERHEAD_BYTES: usize = SALT_BYTES + TAG_BYTES;
const PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };

/// Authenticates records and opens them. Keep one: making it costs some ten hashes a key.
#[derive(Clone)]
pub struct Records {
    macs: Macs,
    /// What hidden records are encrypted under: the first key; they may still be under one of the others.
    hidden: Vec<Secret>,
}

impl Records {
    /// Under these keys.
    pub fn new(keys: &ServerKeys) -> Self {
        Records { macs: keys.macs(Purpose::Record), hidden: keys.derived(b"hidden records") }
    }

    /// Authenticates `plaintext` as the record at `path`. It stays readable: nothing secret belongs in it.
    pub fn seal(&self, path: &str, plaintext: &[u8]) -> Sealed {
        let mut object = Vec::with_capacity(MAGIC.len() + plaintext.len() + MAC_BYTES);
        object.extend_from_slice(&MAGIC);
        object.extend_from_slice(plaintext);
        object.extend_from_slice(&self.macs.sign(&[&MAGIC, &length(path), path.as_bytes(), plaintext]));
        Sealed::new(object)
    }

    /// The record at `path`.
    ///
    /// # Errors
    /// `Corrupt` for anything but what this server authenticated for this path.
    pub fn open(&self, path: &str, object: &[u8]) -> Result<Vec<u8>> {
        self.open_by(path, object).map(|(_, plaintext)| plaintext)
    }

    /// The key that [`Records::seal`] uses.
    pub fn current(&self) -> KeyId {
        self.macs.current()
    }

    /// The same, with the key that authenticates it.
    ///
    /// # Errors
    /// As [`Records::open`].
    pub fn open_by(&self, path: &str, object: &[u8]) -> Result<(KeyId, Vec<u8>)> {
        let corrupt = || Error::corrupt(format!("the record {path} is not one of this server's"));
        let body = object.strip_prefix(&MAGIC).ok_or_else(corrupt)?;
        let (plaintext, mac) = body.split_last_chunk::<MAC_BYTES>().ok_or_else(corrupt)?;
        match self.macs.verify_any(&[&MAGIC, &length(path), path.as_bytes(), plaintext], mac) {
            Some(key) => Ok((key, plaintext.to_vec())),
            None => Err(corrupt()),
        }
    }

    /// Encrypts what a record of `directory` says, for nodes alone. It has to be sealed as a record
    /// all the same.
    pub fn hide(&self, directory: &str, plaintext: &[u8], random: &dyn Random) -> Vec<u8> {
        let mut hidden = Vec::with_capacity(SALT_BYTES + plaintext.len() + TAG_BYTES);
        hidden.resize(SALT_BYTES, 0);
        random.fill(&mut hidden);
        let cipher = hidden_cipher(&self.hidden[0], directory, &hidden);
        hidden.extend_from_slice(plaintext);
        cipher.seal(PLACE, MAGIC, &mut hidden, SALT_BYTES);
        hidden
    }

    /// What was hidden with [`Records::hide`].
    ///
    /// # Errors
    /// `Corrupt` for anything else.
    pub fn reveal(&self, directory: &str, hidden: &[u8]) -> Result<Vec<u8>> {
        let corrupt = || Error::corrupt(format!("a record of {directory} that this server did not hide"));
        let (salt, sealed) = hidden.split_at_checked(SALT_BYTES).ok_or_else(corrupt)?;
        let reveal = |key: &Secret| {
            let mut plain = sealed.to_vec();
            let opened = hidden_cipher(key, directory, salt).open(PLACE, MAGIC, &mut plain).ok()?;
            plain.truncate(opened);
            Some(plain)
        };
        self.hidden.iter().find_map(reveal).ok_or_else(corrupt)
    }
}

/// [`Records::seal`], once.
pub fn seal_record(keys: &ServerKeys, path: &str, plaintext: &[u8]) -> Sealed {
    Records::new(keys).seal(path, plaintext)
}

/// [`Records::open`], once.
///
/// # Errors
/// As [`Records::open`].
pub fn open_record(keys: &ServerKeys, path: &str, object: &[u8]) -> Result<Vec<u8>> {
    Records::new(keys).open(path, object)
}

/// The content of an object that looks like a record, of any writer: only for telling records
/// apart. `None` if it is none.
pub fn unverified_record(object: &[u8]) -> Option<&[u8]> {
    let (plaintext, _) = object.strip_prefix(&MAGIC)?.split_last_chunk::<MAC_BYTES>()?;
    Some(plaintext)
}

fn hidden_cipher(key: &Secret, directory: &str, salt: &[u8]) -> ObjectCipher {
    ObjectCipher::new(salt, key.bytes(), sha256(&[b"sealpost hidden record v1", directory.as_bytes()]))
}

fn length(path: &str) -> [u8; 8] {
    (path.len() as u64).to_be_bytes()
}

#[cfg(test)]
mod tests;
