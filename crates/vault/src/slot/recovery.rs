//! The text of a recovery code: 160 random bits and a 20-bit checksum as nine groups of four
//! characters, in Crockford's base32. Written by hand and typed in again: case, spaces and dashes
//! do not matter, `O` is 0, `I` and `L` are 1, and a typing mistake is noticed before the code is
//! tried.

use zeroize::Zeroizing;

use crate::cipher::sha256;

pub(super) const SECRET_BYTES: usize = 20;
const SECRET_CHARS: usize = SECRET_BYTES * 8 / 5;
const CHECK_CHARS: usize = 4;
const CHARS: usize = SECRET_CHARS + CHECK_CHARS;
const GROUP: usize = 4;
pub(super) const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

pub(super) fn format(secret: &[u8; SECRET_BYTES]) -> Zeroizing<String> {
    let mut code = Zeroizing::new(String::with_capacity(CHARS));
    encode_base32(secret, &mut code);
    checksum(secret).iter().for_each(|&c| code.push(char::from(c)));
    let mut text = Zeroizing::new(String::with_capacity(CHARS + CHARS / GROUP));
    for (i, c) in code.chars().enumerate() {
        if i > 0 && i % GROUP == 0 {
            text.push('-');
        }
        text.push(c);
    }
    text
}

/// The secret, if `text` is a recovery code without a mistake.
pub(super) fn parse(text: &[u8]) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
    let mut code = Zeroizing::new([0; CHARS]);
    let mut length = 0;
    for &c in text.iter().filter(|c| !matches!(c, b'-' | b' ' | b'\t' | b'\r' | b'\n')) {
        *code.get_mut(length)? = c;
        length += 1;
    }
    if length != CHARS {
        return None;
    }
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    decode_base32(&code[..SECRET_CHARS], &mut *secret)?;
    let typed = &code[SECRET_CHARS..];
    let right = checksum(&secret);
    let same = typed.iter().zip(right).all(|(&t, r)| value(t).is_some() && value(t) == value(r));
    same.then_some(secret)
}

fn checksum(secret: &[u8; SECRET_BYTES]) -> [u8; CHECK_CHARS] {
    let hash = sha256(&[b"sealpost recovery code v1", secret]);
    let bits = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
    [27, 22, 17, 12].map(|shift| ALPHABET[(bits >> shift & 31) as usize])
}

/// Appends `bytes` (a multiple of five) in base32.
fn encode_base32(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(5) {
        let bits = group.iter().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        (0..8).rev().for_each(|i| out.push(char::from(ALPHABET[(bits >> (5 * i) & 31) as usize])));
    }
}

/// Fills `out` (a multiple of five bytes) from base32 of exactly that length.
fn decode_base32(text: &[u8], out: &mut [u8]) -> Option<()> {
    if text.len() * 5 != out.len() * 8 {
        return None;
    }
    for (group, bytes) in text.chunks(8).zip(out.chunks_mut(5)) {
        let mut bits = 0u64;
        for &c in group {
            bits = bits << 5 | u64::from(value(c)?);
        }
        bytes.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(())
}

pub(super) fn value(c: u8) -> Option<u8> {
    let c = match c.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        other => other,
    };
    ALPHABET.iter().position(|&a| a == c).map(|i| i as u8)
}
