//! Secrets that only the holder of a private key learns: HPKE base mode (RFC 9180 §5.1.1), of which
//! the exported secret (§5.3) alone is used.

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable, setup_receiver, setup_sender};
use sealpost_base::{Error, Random, Result};

use crate::cipher::{Secret, wiping_stack};
use crate::entry::Rng;
use crate::keys::{PrivateKey, PublicKey};

/// Bytes of an encapsulated key.
pub(crate) const ENCAPSULATED_BYTES: usize = 32;

/// A new secret, bound to `context`, and what the holder of the private key of `to` needs to learn it.
///
/// # Errors
/// `Corrupt` if the public key is none (a point of small order).
pub(crate) fn encapsulate(
    to: &PublicKey,
    context: &[u8],
    label: &[u8],
    random: &dyn Random,
) -> Result<([u8; ENCAPSULATED_BYTES], Secret)> {
    let to = to.to_kem()?;
    wiping_stack(|| {
        let (encapsulated, sender) = setup_sender::<AesGcm256, HkdfSha256, X25519HkdfSha256, _>(
            &OpModeS::Base,
            &to,
            context,
            &mut Rng(random),
        )
        .map_err(|_| Error::corrupt("a public key is not an X25519 key"))?;
        let secret = Secret::try_filled(|secret| sender.export(label, secret));
        let secret = secret.map_err(|_| Error::internal("HPKE export failed"))?;
        Ok((encapsulated.to_bytes().into(), secret))
    })
}

/// The secret that [`encapsulate`] made.
///
/// # Errors
/// `Corrupt` for what cannot be an encapsulated key; another secret for one of another key or context.
pub(crate) fn decapsulate(
    private: &PrivateKey,
    encapsulated: &[u8],
    context: &[u8],
    label: &[u8],
) -> Result<Secret> {
    let corrupt = |_| Error::corrupt("an encapsulated key does not open");
    let encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated).map_err(corrupt)?;
    wiping_stack(|| {
        let receiver = setup_receiver::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            private,
            &encapsulated,
            context,
        )
        .map_err(corrupt)?;
        Secret::try_filled(|secret| receiver.export(label, secret)).map_err(corrupt)
    })
}
