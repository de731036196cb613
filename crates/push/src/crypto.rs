//! The ciphers of Web Push: ECDH and ECDSA on P-256, HKDF, AES-128-GCM. The only module of this crate
//! that names `ring`.
//!
//! Private keys of one message and of signatures come from `ring`'s own source of randomness: the
//! library takes no other.

use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use ring::{aead, digest, hkdf};
use sealpost_base::limits::PUSH_BYTES;
use sealpost_base::{Error, Random, Result};
use zeroize::Zeroizing;

use crate::subscription::ClientKeys;

/// Bytes of a point on P-256, uncompressed.
pub(crate) const POINT_BYTES: usize = 65;
/// Bytes of the salt of a message.
const SALT_BYTES: usize = 16;
/// The record size in the header: more than any record here has (RFC 8291 §4).
const RECORD_SIZE: u32 = 4096;
/// Messages are padded to a multiple of this, so that their length says little (RFC 8291 §7).
const PADDED_BYTES: usize = 128;

/// `plain` as a body with the content coding `aes128gcm`, for the client with these keys.
///
/// # Errors
/// `Invalid` if the client's key is not a point on the curve; `Limit` if `plain` is too long.
pub(crate) fn encrypt(plain: &[u8], keys: &ClientKeys, random: &dyn Random) -> Result<Vec<u8>> {
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt);
    let (own, shared) = agree(keys)?;
    seal(plain, keys, &own, &shared, &salt)
}

/// Whether messages can be encrypted for these keys: the point is on the curve.
pub(crate) fn is_usable(keys: &ClientKeys) -> bool {
    agree(keys).is_ok()
}

/// A new public key, and the secret that it has in common with the client's.
fn agree(keys: &ClientKeys) -> Result<([u8; POINT_BYTES], Zeroizing<[u8; 32]>)> {
    let failed = |_| Error::internal("cannot make a key on P-256");
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).map_err(failed)?;
    let public = private.compute_public_key().map_err(failed)?;
    let own = public.as_ref().try_into().map_err(|_| Error::internal("a key on P-256 has 65 bytes"))?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, &keys.point[..]);
    let mut shared = Zeroizing::new([0; 32]);
    agree_ephemeral(private, &peer, |secret| shared.copy_from_slice(secret))
        .map_err(|_| Error::invalid("p256dh is not a point on P-256"))?;
    Ok((own, shared))
}

/// Derives the key of a message and seals it (RFC 8291 §3.4, RFC 8188 §2).
fn seal(
    plain: &[u8],
    keys: &ClientKeys,
    own: &[u8; POINT_BYTES],
    shared: &[u8; 32],
    salt: &[u8; SALT_BYTES],
) -> Result<Vec<u8>> {
    if plain.len() > PUSH_BYTES {
        return Err(Error::limit("a push is longer than a push service takes"));
    }
    let mut combined = Zeroizing::new([0; 32]);
    expand(&keys.secret, shared, &[b"WebPush: info\0", &keys.point, own], &mut *combined)?;
    let (mut key, mut nonce) = (Zeroizing::new([0; 16]), [0; 12]);
    expand(salt, &*combined, &[b"Content-Encoding: aes128gcm\0"], &mut *key)?;
    expand(salt, &*combined, &[b"Content-Encoding: nonce\0"], &mut nonce)?;
    // RFC 8188 §2: the delimiter of the last record, then padding.
    let mut record = Vec::with_capacity(RECORD_SIZE as usize);
    record.extend_from_slice(plain);
    record.push(2);
    record.resize(padded(plain.len()), 0);
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, &*key).map_err(|_| broken())?;
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let key = aead::LessSafeKey::new(key);
    key.seal_in_place_append_tag(nonce, aead::Aad::empty(), &mut record).map_err(|_| broken())?;
    let mut body = Vec::with_capacity(SALT_BYTES + 5 + POINT_BYTES + record.len());
    body.extend_from_slice(salt);
    body.extend_from_slice(&RECORD_SIZE.to_be_bytes());
    body.push(POINT_BYTES as u8);
    body.extend_from_slice(own);
    body.extend_from_slice(&record);
    Ok(body)
}

/// Bytes of a record with its delimiter and padding.
fn padded(plain: usize) -> usize {
    (plain + 1).next_multiple_of(PADDED_BYTES).min(PUSH_BYTES + 1)
}

fn broken() -> Error {
    Error::internal("a push cannot be encrypted")
}

/// HKDF-SHA256 (RFC 5869).
fn expand(salt: &[u8], secret: &[u8], info: &[&[u8]], out: &mut [u8]) -> Result<()> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let expanded = pseudorandom.expand(info, Length(out.len())).and_then(|okm| okm.fill(out));
    expanded.map_err(|_| broken())
}

/// The first bytes of SHA-256, for names that say nothing.
pub(crate) fn digest<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; N];
    out.copy_from_slice(&context.finish().as_ref()[..N]);
    out
}

/// A key that signs with ES256 (RFC 7518 §3.4).
pub(crate) struct SigningKey(EcdsaKeyPair);

impl SigningKey {
    /// A new one, in PKCS #8.
    pub(crate) fn generate() -> Result<Zeroizing<Vec<u8>>> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| Error::internal("cannot make a key on P-256"))?;
        Ok(Zeroizing::new(made.as_ref().to_vec()))
    }

    /// Reads PKCS #8.
    pub(crate) fn from_pkcs8(der: &[u8]) -> Result<Self> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
            .map(SigningKey)
            .map_err(|error| {
                Error::corrupt("not a key for signatures of pushes").with_source(error.to_string())
            })
    }

    /// The public key, an uncompressed point.
    pub(crate) fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// The signature of `message`: r and s.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let signature = self.0.sign(&SystemRandom::new(), message);
        Ok(signature.map_err(|_| Error::internal("cannot sign a push"))?.as_ref().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as VerifyingKey};
    use sealpost_base::{Kind, SeededRandom};
    use sealpost_testkit::web_push::Device;

    use super::*;

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text.replace([' ', '\n'], "")).unwrap()
    }

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        decode(text).try_into().unwrap()
    }

    /// The receiver of RFC 8291 §5.
    fn receiver() -> (ClientKeys, Device) {
        let private = bytes("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94");
        let device = Device::new(private, bytes("BTBZMqHH6r4Tts7J_aSIgg"));
        (ClientKeys { point: device.point, secret: device.secret }, device)
    }

    #[test]
    fn the_example_of_the_rfc_is_sealed_and_opened() {
        let (keys, device) = receiver();
        let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        assert_eq!(keys.point[..], decode(point));
        let expected = decode(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w
             EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
        );
        let plain = b"When I grow up, I want to be a watermelon";
        assert_eq!(device.decrypt(&expected).unwrap(), plain);
        // RFC 8291 appendix A: the secret that both private keys lead to.
        let shared: [u8; 32] = bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let own = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
        let salt: [u8; 16] = bytes("DGv6ra1nlYgDCS1FRnbzlw");
        let body = seal(plain, &keys, &bytes(own), &shared, &salt).unwrap();
        // The example has no padding: all but the tag and the padding is the same.
        let same = SALT_BYTES + 5 + POINT_BYTES + plain.len() + 1;
        assert_eq!(body[..same], expected[..same]);
        assert_eq!(device.decrypt(&body).unwrap(), plain);
    }

    #[test]
    fn messages_of_any_length_fit_a_push_service() {
        let random = SeededRandom::new(1);
        let (keys, device) = receiver();
        for length in [0, 1, 126, 127, 128, 500, PUSH_BYTES - 1, PUSH_BYTES] {
            let plain = vec![b'x'; length];
            let body = encrypt(&plain, &keys, &random).unwrap();
            assert!(body.len() <= 4096, "{length}: {}", body.len());
            assert_eq!(device.decrypt(&body).unwrap(), plain);
            let mut damaged = body.clone();
            *damaged.last_mut().unwrap() ^= 1;
            assert_eq!(device.decrypt(&damaged), None);
        }
        let size = |length| encrypt(&vec![b'x'; length], &keys, &random).unwrap().len();
        assert_eq!(size(10), size(100));
        let too_long = encrypt(&vec![0; PUSH_BYTES + 1], &keys, &random);
        assert!(too_long.is_err_and(|e| e.kind() == Kind::Limit));
        let other = Device::new([9; 32], keys.secret);
        assert_eq!(other.decrypt(&encrypt(b"x", &keys, &random).unwrap()), None);
    }

    #[test]
    fn points_that_are_not_on_the_curve_are_refused() {
        let (mut keys, _) = receiver();
        assert!(is_usable(&keys));
        keys.point[40] ^= 1;
        assert!(!is_usable(&keys));
        assert!(encrypt(b"x", &keys, &SeededRandom::new(1)).is_err_and(|e| e.kind() == Kind::Invalid));
        keys.point = Device::new([7; 32], [0; 16]).point;
        assert!(is_usable(&keys));
    }

    #[test]
    fn signatures_verify_under_the_published_key() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        assert_eq!((key.public().len(), key.public()[0]), (POINT_BYTES, 4));
        let signature = key.sign(b"message").unwrap();
        let verifying = VerifyingKey::new(&ECDSA_P256_SHA256_FIXED, key.public());
        assert!(verifying.verify(b"message", &signature).is_ok());
        assert!(verifying.verify(b"other", &signature).is_err());
        assert!(SigningKey::from_pkcs8(b"no key").is_err_and(|e| e.kind() == Kind::Corrupt));
    }
}
