//! The private half of a key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use rsa::PrivateKey;
use rsa::pkcs8::EncodePrivateKey as _;
use rsa::rand_core::{TryCryptoRng, TryRng, UnwrapErr};
use sealpost_base::{Error, Random, Result};
use zeroize::Zeroizing;

use super::Algorithm;

/// Bits of generated RSA keys: every receiver verifies them (RFC 8301 §3.2), and they fit into DNS.
const RSA_BITS: usize = 2048;

/// The bytes before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410 §7).
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A key that signs. It has no Debug, and its PKCS #8 form is handed out in memory that is wiped.
pub struct SigningKey(Kind);

enum Kind {
    Rsa(Box<RsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl SigningKey {
    /// Generates a key in PKCS #8 form in DER, which [`SigningKey::from_pkcs8`] reads. An RSA key
    /// takes up to a second of processor time.
    ///
    /// # Errors
    /// Internal, if the library refuses to make one.
    pub fn generate(algorithm: Algorithm, random: &dyn Random) -> Result<Zeroizing<Vec<u8>>> {
        match algorithm {
            Algorithm::RsaSha256 => {
                let key = PrivateKey::new(&mut UnwrapErr(RandomSource(random)), RSA_BITS)
                    .map_err(|error| Error::internal("cannot make an RSA key").with_source(error))?;
                let der = key
                    .to_pkcs8_der()
                    .map_err(|error| Error::internal("cannot encode an RSA key").with_source(error))?;
                Ok(Zeroizing::new(der.as_bytes().to_vec()))
            }
            Algorithm::Ed25519Sha256 => {
                let mut seed = Zeroizing::new([0; 32]);
                random.fill(seed.as_mut());
                Ok(Zeroizing::new([&ED25519_PKCS8[..], &seed[..]].concat()))
            }
        }
    }

    /// Reads a key from PKCS #8 in DER.
    ///
    /// # Errors
    /// Invalid, if it is no RSA key of 2048 to 4096 bits and no Ed25519 key.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self> {
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(SigningKey(Kind::Ed25519(Box::new(pair))));
        }
        RsaKeyPair::from_pkcs8(der).map(|pair| SigningKey(Kind::Rsa(Box::new(pair)))).map_err(|rejected| {
            Error::invalid(format!(
                "not a DKIM key (PKCS #8, Ed25519 or RSA of 2048 to 4096 bits): {rejected}"
            ))
        })
    }

    /// How it signs.
    pub fn algorithm(&self) -> Algorithm {
        match self.0 {
            Kind::Rsa(_) => Algorithm::RsaSha256,
            Kind::Ed25519(_) => Algorithm::Ed25519Sha256,
        }
    }

    /// The text of the TXT record that publishes it, in one piece; DNS has it in strings of at most
    /// 255 bytes.
    pub fn record(&self) -> String {
        let public = match &self.0 {
            Kind::Rsa(pair) => subject_public_key_info(pair.public_key().as_ref()),
            Kind::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
        };
        format!("v=DKIM1; k={}; p={}", self.algorithm().key_type(), STANDARD.encode(public))
    }

    /// The signature over `signed`.
    ///
    /// # Errors
    /// Internal: the key is of no use.
    pub(super) fn sign(&self, signed: &[u8]) -> Result<Vec<u8>> {
        match &self.0 {
            Kind::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed, &mut signature)
                    .map_err(|_| Error::internal("cannot sign with an RSA key"))?;
                Ok(signature)
            }
            // RFC 8463 §3: the hash is signed.
            Kind::Ed25519(pair) => {
                Ok(pair.sign(digest::digest(&digest::SHA256, signed).as_ref()).as_ref().to_vec())
            }
        }
    }
}

/// [`Random`] as the RSA library wants it.
struct RandomSource<'a>(&'a dyn Random);

impl TryRng for RandomSource<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        self.0.fill(out);
        Ok(())
    }
}

impl TryCryptoRng for RandomSource<'_> {}

/// RSAPublicKey in the SubjectPublicKeyInfo that verifiers expect in `p=`.
fn subject_public_key_info(key: &[u8]) -> Vec<u8> {
    /// SEQUENCE { OID rsaEncryption, NULL } (RFC 3279 §2.3.1).
    const RSA_ENCRYPTION: [u8; 15] =
        [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let bits = [&[0], key].concat();
    let content = [&RSA_ENCRYPTION, element(0x03, &bits).as_slice()].concat();
    element(0x30, &content)
}

/// A DER element of up to 64 KiB.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut out = vec![tag];
    match (high, low) {
        (0, 0..=0x7f) => out.push(low),
        (0, _) => out.extend([0x81, low]),
        _ => out.extend([0x82, high, low]),
    }
    out.extend_from_slice(content);
    out
}
