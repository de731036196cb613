//! A device that pushes are encrypted for (RFC 8291): its keys, and how it decrypts.
//!
//! The curve is a second implementation ([`p256`]): the server's library makes a key for one message
//! only, and a device keeps its key for years. A mistake in either one fails the tests.

mod p256;

use ring::{aead, hkdf};

/// Bytes of the header of a message: salt, record size, length of the key, key (RFC 8188 §2.1).
const HEADER_BYTES: usize = 16 + 4 + 1 + 65;

/// A device.
pub struct Device {
    private: [u8; 32],
    /// Its public key, an uncompressed point.
    pub point: [u8; 65],
    /// The secret that authenticates messages to it.
    pub secret: [u8; 16],
}

impl Device {
    /// The device with this private key, which must be below the order of the curve.
    pub fn new(private: [u8; 32], secret: [u8; 16]) -> Self {
        Device { private, point: p256::public(&private), secret }
    }

    /// The message in a body with the content coding `aes128gcm`; `None` if it is not for this device,
    /// or is damaged.
    pub fn decrypt(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (header, sealed) = body.split_at_checked(HEADER_BYTES)?;
        let (salt, rest) = header.split_at(16);
        // RFC 8291 §4: one record, and the key is a point.
        let record_size = u32::from_be_bytes(rest[..4].try_into().ok()?);
        if sealed.len() > record_size as usize || rest[4] != 65 {
            return None;
        }
        let peer: &[u8; 65] = rest[5..].try_into().ok()?;
        let shared = p256::shared(&self.private, peer)?;
        let mut combined = [0; 32];
        derive(&self.secret, &shared, &[b"WebPush: info\0", &self.point, peer], &mut combined)?;
        let (mut key, mut nonce) = ([0; 16], [0; 12]);
        derive(salt, &combined, &[b"Content-Encoding: aes128gcm\0"], &mut key)?;
        derive(salt, &combined, &[b"Content-Encoding: nonce\0"], &mut nonce)?;
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key).ok()?);
        let mut record = sealed.to_vec();
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let plain = key.open_in_place(nonce, aead::Aad::empty(), &mut record).ok()?;
        let end = plain.iter().rposition(|byte| *byte != 0)?;
        // RFC 8291 §4: a device discards what does not end with this delimiter.
        (plain[end] == 2).then(|| plain[..end].to_vec())
    }
}

fn derive(salt: &[u8], secret: &[u8], info: &[&[u8]], out: &mut [u8]) -> Option<()> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    extracted.expand(info, Length(out.len())).and_then(|okm| okm.fill(out)).ok()
}
