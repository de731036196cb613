//! Passwords and tokens on their way to a slot.

use sealpost_base::{Error, Result, limits};
use unicode_normalization::{UnicodeNormalization, is_nfc};
use zeroize::Zeroizing;

/// A password, token or recovery code as it was typed, wiped from memory when dropped. It can be
/// neither shown nor compared.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes a secret in the form in which slots see it: UTF-8 in NFC (RFC 8265 §4.2.2), so that it does not
    /// matter whose keyboard composed the accents; other bytes as they are.
    ///
    /// # Errors
    /// `Invalid` if it is empty or has a NUL (RFC 4616 §2), `Limit` if it is longer than
    /// [`limits::SECRET_BYTES`].
    pub fn new(secret: &[u8]) -> Result<Self> {
        if secret.len() > limits::SECRET_BYTES {
            return Err(Error::limit(format!("a password has at most {} bytes", limits::SECRET_BYTES)));
        }
        if secret.is_empty() || secret.contains(&0) {
            return Err(Error::invalid("a password is not empty and has no NUL"));
        }
        Ok(Secret(match std::str::from_utf8(secret) {
            Ok(text) if !is_nfc(text) => compose(text),
            _ => Zeroizing::new(secret.to_vec()),
        }))
    }

    /// The secret itself.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// NFC at most triples the bytes (UAX #15 §9), so the buffer never grows and leaves no copy behind.
fn compose(text: &str) -> Zeroizing<Vec<u8>> {
    let mut composed = Zeroizing::new(Vec::with_capacity(3 * text.len()));
    let mut utf8 = [0; 4];
    for c in text.nfc() {
        composed.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
    }
    composed
}

#[cfg(test)]
mod tests {
    use sealpost_base::Kind;

    use super::*;

    #[test]
    fn the_same_password_however_it_was_typed() {
        assert_eq!(Secret::new("pässword".as_bytes()).unwrap().bytes(), "pässword".as_bytes());
        assert_eq!(Secret::new("pa\u{308}ssword".as_bytes()).unwrap().bytes(), "pässword".as_bytes());
        assert_eq!(Secret::new(b"\xff\xfe").unwrap().bytes(), b"\xff\xfe");
    }

    #[test]
    fn invalid_secrets_are_refused() {
        let kind = |secret: &[u8]| Secret::new(secret).err().map(|e| e.kind());
        assert_eq!(kind(b""), Some(Kind::Invalid));
        assert_eq!(kind(b"a\0b"), Some(Kind::Invalid));
        assert_eq!(kind(&[b'a'; limits::SECRET_BYTES + 1]), Some(Kind::Limit));
    }
}
