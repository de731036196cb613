//! The text of a token: `sp_` and 64 characters of base32 (Crockford's alphabet, lower case) holding the slot's id
//! and a 256-bit secret. One word, so that a double click selects it.

use zeroize::Zeroizing;

use crate::cipher::Secret;
use crate::slot::SlotId;
use crate::slot::recovery::{decode_base32, encode_base32};

const PREFIX: &str = "sp_";
const BYTES: usize = 8 + 32;
const CHARS: usize = BYTES * 8 / 5;

pub(super) fn format(id: SlotId, secret: &Secret) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    bytes[..8].copy_from_slice(&id.0);
    bytes[8..].copy_from_slice(secret.bytes());
    let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + CHARS));
    text.push_str(PREFIX);
    encode_base32(&*bytes, &mut text);
    text.make_ascii_lowercase();
    text
}

/// The slot's id and the secret, if `text` is a token.
pub(super) fn parse(text: &[u8]) -> Option<(SlotId, Secret)> {
    let text = text.trim_ascii().strip_prefix(PREFIX.as_bytes())?;
    if text.len() != CHARS {
        return None;
    }
    let mut bytes = Zeroizing::new([0; BYTES]);
    decode_base32(text, &mut *bytes)?;
    let mut id = SlotId([0; 8]);
    id.0.copy_from_slice(&bytes[..8]);
    Some((id, Secret::filled(|secret| secret.copy_from_slice(&bytes[8..]))))
}
