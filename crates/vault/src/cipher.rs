//! The primitives, all by `ring`: AES-256-GCM, HKDF-SHA256, HMAC-SHA256, SHA-256, Ed25519. Nothing else
//! names `ring`.
//!
//! An [`ObjectCipher`] seals the pieces of one object. Its key is used for that object alone (the
//! key material is random per object, and the derivation binds the object's context), so that
//! nonces can be plain counters.

use std::sync::LazyLock;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ring::{aead, digest, hkdf, hmac};
use sealpost_base::{Error, Result};
use zeroize::Zeroize;

/// Bytes that AES-GCM adds to what it seals.
pub(crate) const TAG_BYTES: usize = 16;

/// The empty salt, prepared: a key for every message that is opened is derived with it.
static NO_SALT: LazyLock<hkdf::Salt> = LazyLock::new(|| hkdf::Salt::new(hkdf::HKDF_SHA256, &[]));

/// Bytes of the stack that [`wipe_stack`] overwrites: more than any derivation here uses.
const STACK_BYTES: usize = 16 * 1024;

/// 32 secret bytes behind one allocation that does not move: wiped when dropped, never shown, and
/// filled in place, so that no copy stays where it was made.
#[derive(Clone)]
pub(crate) struct Secret(Box<[u8; 32]>);

impl Secret {
    /// Those that `fill` leaves in 32 zeros.
    pub fn filled(fill: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut secret = Secret(Box::new([0; 32]));
        fill(&mut secret.0);
        secret
    }

    /// The same, unless `fill` fails.
    pub fn try_filled<E>(
        fill: impl FnOnce(&mut [u8; 32]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let mut secret = Secret(Box::new([0; 32]));
        fill(&mut secret.0)?;
        Ok(secret)
    }

    /// The bytes. A caller that copies them wipes the copy.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Overwrites what calls that have returned left on the stack: `ring` and `hpke` wipe no
/// intermediate of theirs.
#[inline(never)]
pub(crate) fn wipe_stack() {
    std::hint::black_box(&mut [0u8; STACK_BYTES]);
}

/// Runs `work` and wipes the stack that it used.
pub(crate) fn wiping_stack<T>(work: impl FnOnce() -> T) -> T {
    #[inline(never)]
    fn in_own_frame<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    let done = in_own_frame(work);
    wipe_stack();
    done
}

/// The public key of `seed` and its signature of `message` (Ed25519, RFC 8032 §5.1).
pub(crate) fn sign(seed: &Secret, message: &[u8]) -> ([u8; 32], [u8; 64]) {
    wiping_stack(|| {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.bytes()).expect("any 32 bytes are a seed");
        let mut signature = [0; 64];
        signature.copy_from_slice(pair.sign(message).as_ref());
        (array(pair.public_key().as_ref()), signature)
    })
}

/// Whether that is the signature of `message` by the owner of `key`.
pub(crate) fn verify(key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
}

/// SHA-256 over the concatenation of `parts`. Parts of variable length must be last or carry their length.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    array(context.finish().as_ref())
}

/// How a [`Digest`] is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-1, for those who compare with digests that are there already.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// A digest of what comes in pieces, for clients that ask for one. Nothing here depends on it.
pub struct Digest(digest::Context);

impl Digest {
    /// Of nothing yet.
    pub fn new(algorithm: DigestAlgorithm) -> Self {
        Digest(digest::Context::new(match algorithm {
            DigestAlgorithm::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            DigestAlgorithm::Sha256 => &digest::SHA256,
            DigestAlgorithm::Sha512 => &digest::SHA512,
        }))
    }

    /// The next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Of all pieces.
    pub fn finish(self) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

/// A SHA-256 over what comes in pieces.
pub(crate) struct Sha256(digest::Context);

/// Begins one.
pub(crate) fn sha256_of() -> Sha256 {
    Sha256(digest::Context::new(&digest::SHA256))
}

impl Sha256 {
    /// The next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Of all pieces.
    pub fn finish(self) -> [u8; 32] {
        array(self.0.finish().as_ref())
    }
}

/// HMAC-SHA256 under `key` over the concatenation of `parts`.
pub(crate) fn hmac_sha256(key: &Secret, parts: &[&[u8]]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.bytes());
    let mut context = hmac::Context::with_key(&key);
    parts.iter().for_each(|part| context.update(part));
    array(context.sign().as_ref())
}

/// Compares without telling by its timing where two values differ.
pub(crate) fn equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (x, y)| std::hint::black_box(difference | (x ^ y))) == 0
}

/// HKDF-SHA256 (RFC 5869): 32 bytes from `secret`, for the purpose named by the concatenation of `info`.
pub(crate) fn derive(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> Secret {
    wiping_stack(|| {
        let prk = match salt {
            [] => NO_SALT.extract(secret),
            salt => hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret),
        };
        let okm =
            prk.expand(info, hkdf::HKDF_SHA256).expect("one hash is less than the 255 that HKDF can give");
        Secret::filled(|out| okm.fill(out).expect("32 bytes were asked for and 32 are filled"))
    })
}

fn array(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(bytes);
    out
}

/// Where a piece belongs within its object: bound to the piece by its nonce and its associated data.
#[derive(Clone, Copy)]
pub(crate) struct PiecePosition {
    /// The part of the object.
    pub section: u8,
    /// The piece within the section, from 0.
    pub number: u32,
    /// Whether it is the section's last piece; without this a section could be cut short unseen.
    pub last: bool,
}

/// Seals and opens the pieces of one object.
pub(crate) struct ObjectCipher {
    /// Where it is wiped when it is freed, if the process's allocator wipes: `ring` does not.
    key: Box<aead::LessSafeKey>,
    context: [u8; 32],
}

impl ObjectCipher {
    /// A cipher for the one object that `context` names, from key material of that object alone.
    pub fn new(salt: &[u8], secret: &[u8], context: [u8; 32]) -> Self {
        let key = derive(salt, secret, &[b"sealpost object v2", &context]);
        let key =
            aead::UnboundKey::new(&aead::AES_256_GCM, key.bytes()).expect("32 bytes are an AES-256 key");
        ObjectCipher { key: Box::new(aead::LessSafeKey::new(key)), context }
    }

    /// Encrypts `out[from..]` in place and appends the tag.
    pub fn seal(&self, place: PiecePosition, header: [u8; 4], out: &mut Vec<u8>, from: usize) {
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(place), self.aad(place, header), &mut out[from..])
            .expect("a chunk is far below AES-GCM's 64 GiB");
        out.extend_from_slice(tag.as_ref());
    }

    /// Decrypts `sealed` (which ends with the tag) in place and returns how many bytes of plaintext it holds.
    pub fn open(&self, place: PiecePosition, header: [u8; 4], sealed: &mut [u8]) -> Result<usize> {
        match self.key.open_in_place(nonce(place), self.aad(place, header), sealed) {
            Ok(plain) => Ok(plain.len()),
            Err(_) => Err(Error::corrupt(format!(
                "broken seal (section {}, piece {})",
                place.section, place.number
            ))),
        }
    }

    fn aad(&self, place: PiecePosition, header: [u8; 4]) -> aead::Aad<[u8; 42]> {
        let mut aad = [0; 42];
        aad[..32].copy_from_slice(&self.context);
        aad[32] = place.section;
        aad[33] = u8::from(place.last);
        aad[34..38].copy_from_slice(&place.number.to_be_bytes());
        aad[38..].copy_from_slice(&header);
        aead::Aad::from(aad)
    }
}

fn nonce(place: PiecePosition) -> aead::Nonce {
    let mut nonce = [0; aead::NONCE_LEN];
    nonce[0] = place.section;
    nonce[1] = u8::from(place.last);
    nonce[8..].copy_from_slice(&place.number.to_be_bytes());
    aead::Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hkdf_matches_rfc_5869_test_case_1() {
        let salt: Vec<u8> = (0..=0x0c).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let okm = derive(&salt, &[0x0b; 22], &[&info]);
        assert_eq!(okm.0[..8], [0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a]);
        assert_eq!(okm.0[28..], [0xec, 0xc4, 0xc5, 0xbf]);
    }

    #[test]
    fn a_piece_opens_only_in_its_place() {
        let cipher = ObjectCipher::new(b"", &[7; 32], [1; 32]);
        let place = PiecePosition { section: 1, number: 2, last: false };
        let mut sealed = b"text".to_vec();
        cipher.seal(place, [0; 4], &mut sealed, 0);
        let open = |cipher: &ObjectCipher, place, header| cipher.open(place, header, &mut sealed.clone());
        assert_eq!(open(&cipher, place, [0; 4]).unwrap(), 4);
        assert!(open(&cipher, PiecePosition { section: 2, ..place }, [0; 4]).is_err());
        assert!(open(&cipher, PiecePosition { number: 3, ..place }, [0; 4]).is_err());
        assert!(open(&cipher, PiecePosition { last: true, ..place }, [0; 4]).is_err());
        assert!(open(&cipher, place, [1, 0, 0, 0]).is_err());
        assert!(open(&ObjectCipher::new(b"", &[7; 32], [2; 32]), place, [0; 4]).is_err());
        assert!(open(&ObjectCipher::new(b"", &[8; 32], [1; 32]), place, [0; 4]).is_err());
    }
}
