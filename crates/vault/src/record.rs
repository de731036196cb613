//! Records that the server itself must read without an account's key (account records, aliases): not secret, but
//! authenticated. An HMAC under the server's keys binds each to its path, so a record can be neither changed nor
//! put in another's place. Format: `docs/format/keys-and-slots.md`.

use sealpost_base::{Error, Result};

use crate::Sealed;
use crate::server_key::{KeyId, MAC_BYTES, Macs, Purpose, ServerKeys};

/// "Sealpost record", version 1.
const MAGIC: [u8; 4] = *b"SPR\x01";

/// Authenticates records and opens them. Keep one: making it costs some ten hashes a key.
#[derive(Clone)]
pub struct Records(Macs);

impl Records {
    /// Under these keys.
    pub fn new(keys: &ServerKeys) -> Self {
        Records(keys.macs(Purpose::Record))
    }

    /// Authenticates `plaintext` as the record at `path`. It stays readable: nothing secret belongs in it.
    pub fn seal(&self, path: &str, plaintext: &[u8]) -> Sealed {
        let mut object = Vec::with_capacity(MAGIC.len() + plaintext.len() + MAC_BYTES);
        object.extend_from_slice(&MAGIC);
        object.extend_from_slice(plaintext);
        object.extend_from_slice(&self.0.sign(&[&MAGIC, &length(path), path.as_bytes(), plaintext]));
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
        self.0.current()
    }

    /// The same, with the key that authenticates it.
    ///
    /// # Errors
    /// As [`Records::open`].
    pub fn open_by(&self, path: &str, object: &[u8]) -> Result<(KeyId, Vec<u8>)> {
        let corrupt = || Error::corrupt(format!("the record {path} is not one of this server's"));
        let body = object.strip_prefix(&MAGIC).ok_or_else(corrupt)?;
        let (plaintext, mac) = body.split_last_chunk::<MAC_BYTES>().ok_or_else(corrupt)?;
        match self.0.verify_any(&[&MAGIC, &length(path), path.as_bytes(), plaintext], mac) {
            Some(key) => Ok((key, plaintext.to_vec())),
            None => Err(corrupt()),
        }
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

fn length(path: &str) -> [u8; 8] {
    (path.len() as u64).to_be_bytes()
}

#[cfg(test)]
mod tests;
