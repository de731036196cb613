//! One log entry, sealed: by its owner, who has the account's keys, or as a delivery, to the public key alone.
//!
//! The header (what sealed it, and the hash of the entry before) is readable without keys, so that anybody who
//! holds the bucket can verify the chain. The body is bound to header, account and position: an entry that was
//! moved, exchanged or rewritten does not open. Format: `docs/format/log-entry.md`.

use hpke::aead::AesGcm256;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::rand_core::{CryptoRng, RngCore};
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable, setup_receiver, setup_sender};
use sealpost_base::limits::ENTRY_BYTES;
use sealpost_base::{AccountId, Error, Position, Random, Result};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, Secret, sha256};
use crate::keys::{AccountKeys, PublicKey};
use crate::{Hash, Sealed, chunk};

/// "Sealpost log", version 1.
const MAGIC: [u8; 4] = *b"SPL\x01";
const OWNER: u8 = 1;
const DELIVERY: u8 = 2;
/// Magic, kind, hash of the entry before.
const FIXED_BYTES: usize = 4 + 1 + 32;
/// The salt of an owner's entry, or the encapsulated key of a delivery.
const HEADER_BYTES: usize = FIXED_BYTES + 32;
const SECTION: u8 = 0;

/// Plaintext bytes of an entry that is opened: more than [`ENTRY_BYTES`], which whoever seals keeps to, so that the
/// limit can be lowered without making old entries unreadable.
const MAX_BYTES: usize = 4 * ENTRY_BYTES;

/// Who sealed an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Somebody with the account's keys: the entry can be trusted to come from a session of the account.
    Owner,
    /// Somebody who knows the public key: only deliveries may be in it.
    Delivery,
}

/// Seals an entry of at most [`ENTRY_BYTES`] with the account's log key.
///
/// `prev` is the [`hash`] of the entry before, [`Hash::ZERO`] for the first.
pub fn seal_owner(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    prev: &Hash,
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    let mut salt = [0; 32];
    random.fill(&mut salt);
    let mut object = header(OWNER, prev);
    let context = context(&object, account, position);
    object.extend_from_slice(&salt);
    let cipher = ObjectCipher::new(&salt, &keys.log.0, context);
    chunk::seal_section(&cipher, SECTION, plaintext, &mut object);
    Sealed::new(object)
}

/// Seals an entry to the account's public key: HPKE base mode (RFC 9180 §5.1.1), whose exported secret (§5.3) is
/// the entry's key.
///
/// # Errors
/// `Corrupt` if the public key is none (a point of small order).
pub fn seal_delivery(
    to: &PublicKey,
    account: AccountId,
    position: Position,
    prev: &Hash,
    plaintext: &[u8],
    random: &dyn Random,
) -> Result<Sealed> {
    let mut object = header(DELIVERY, prev);
    let context = context(&object, account, position);
    let (encapsulated, sender) = setup_sender::<AesGcm256, HkdfSha256, X25519HkdfSha256, _>(
        &OpModeS::Base,
        &to.to_kem()?,
        &context,
        &mut Rng(random),
    )
    .map_err(|_| Error::corrupt("an account's public key is not an X25519 key"))?;
    let mut secret = Secret([0; 32]);
    sender.export(EXPORT, &mut secret.0).map_err(|_| Error::internal("HPKE export failed"))?;
    object.extend_from_slice(&encapsulated.to_bytes());
    let cipher = ObjectCipher::new(&[], &secret.0, context);
    chunk::seal_section(&cipher, SECTION, plaintext, &mut object);
    Ok(Sealed::new(object))
}

/// The hash of an entry as it is stored, which the next entry carries.
pub fn hash(object: &[u8]) -> Hash {
    Hash::of(object)
}

/// The hash of the entry before `object`, as its header has it. Needs no keys; [`open`] authenticates it.
pub fn prev(object: &[u8]) -> Result<Hash> {
    Ok(Header::parse(object)?.prev)
}

/// Who sealed `object`, as its header has it. Needs no keys; [`open`] authenticates it.
pub fn origin(object: &[u8]) -> Result<Origin> {
    Ok(Header::parse(object)?.origin)
}

/// Opens the entry at `position` of `account`.
///
/// # Errors
/// `Corrupt` for anything that is not exactly what was sealed for this account and position.
pub fn open(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    object: &[u8],
) -> Result<(Origin, Zeroizing<Vec<u8>>)> {
    let header = Header::parse(object)?;
    let context = context(&object[..FIXED_BYTES], account, position);
    let cipher = match header.origin {
        Origin::Owner => ObjectCipher::new(header.key, &keys.log.0, context),
        Origin::Delivery => ObjectCipher::new(&[], &decapsulate(keys, header.key, &context)?.0, context),
    };
    let plaintext = chunk::open_section(&cipher, SECTION, header.body, MAX_BYTES)
        .map_err(|e| e.context(format!("log entry {position}")))?;
    Ok((header.origin, plaintext))
}

const EXPORT: &[u8] = b"sealpost delivery v1";

fn decapsulate(keys: &AccountKeys, encapsulated: &[u8], context: &[u8]) -> Result<Secret> {
    let corrupt = |_| Error::corrupt("a delivery's encapsulated key does not open");
    let encapsulated = <X25519HkdfSha256 as Kem>::EncappedKey::from_bytes(encapsulated).map_err(corrupt)?;
    let receiver = setup_receiver::<AesGcm256, HkdfSha256, X25519HkdfSha256>(
        &OpModeR::Base,
        &keys.private,
        &encapsulated,
        context,
    )
    .map_err(corrupt)?;
    let mut secret = Secret([0; 32]);
    receiver.export(EXPORT, &mut secret.0).map_err(corrupt)?;
    Ok(secret)
}

fn header(kind: u8, prev: &Hash) -> Vec<u8> {
    let mut header = Vec::with_capacity(512);
    header.extend_from_slice(&MAGIC);
    header.push(kind);
    header.extend_from_slice(&prev.0);
    header
}

fn context(fixed: &[u8], account: AccountId, position: Position) -> [u8; 32] {
    sha256(&[b"sealpost log entry v1", fixed, &account.0, &position.0.to_be_bytes()])
}

struct Header<'a> {
    origin: Origin,
    prev: Hash,
    key: &'a [u8],
    body: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(object: &'a [u8]) -> Result<Self> {
        let Some((header, body)) = object.split_at_checked(HEADER_BYTES) else {
            return Err(Error::corrupt("a log entry ends within its header"));
        };
        if header[..4] != MAGIC {
            return Err(Error::corrupt("not a log entry, or of a version this program does not know"));
        }
        let origin = match header[4] {
            OWNER => Origin::Owner,
            DELIVERY => Origin::Delivery,
            _ => return Err(Error::corrupt("a log entry of a kind this program does not know")),
        };
        let mut prev = Hash::ZERO;
        prev.0.copy_from_slice(&header[5..FIXED_BYTES]);
        Ok(Header { origin, prev, key: &header[FIXED_BYTES..], body })
    }
}

/// Lends a [`Random`] to `hpke`.
struct Rng<'a>(&'a dyn Random);

impl RngCore for Rng<'_> {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.fill(out);
    }
}

impl CryptoRng for Rng<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RootKey;
    use sealpost_base::{Kind, SeededRandom};

    const ACCOUNT: AccountId = AccountId([3; 16]);
    const AT: Position = Position(9);

    fn sealed(text: &[u8]) -> (AccountKeys, [Sealed; 2], Hash) {
        let random = SeededRandom::new(1);
        let keys = AccountKeys::derive(&RootKey::generate(&random), ACCOUNT);
        let prev = Hash::of(b"the entry before");
        let owner = seal_owner(&keys, ACCOUNT, AT, &prev, text, &random);
        let delivery = seal_delivery(&keys.public(), ACCOUNT, AT, &prev, text, &random).unwrap();
        (keys, [owner, delivery], prev)
    }

    #[test]
    fn both_kinds_open_and_carry_the_chain() {
        for size in [0u64, 1, 300, 65536, 65537, 1_000_000] {
            let text: Vec<u8> = (0..size).map(|i| ((i * i) >> 7) as u8).collect();
            let (keys, objects, before) = sealed(&text);
            for (object, expected) in objects.iter().zip([Origin::Owner, Origin::Delivery]) {
                let (found, plain) = open(&keys, ACCOUNT, AT, object.as_ref()).unwrap();
                assert_eq!((found, &plain[..]), (expected, &text[..]));
                assert_eq!(prev(object.as_ref()).unwrap(), before);
                assert_eq!(origin(object.as_ref()).unwrap(), expected);
            }
        }
    }

    #[test]
    fn any_change_and_any_other_place_is_refused() {
        let (keys, objects, _) = sealed(b"one event");
        for object in &objects {
            let object = object.as_ref();
            for bit in 0..object.len() * 8 {
                let mut damaged = object.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let refused = open(&keys, ACCOUNT, AT, &damaged);
                // RFC 7748 §5: the top bit of an encapsulated key's last byte means nothing, but the key schedule
                // of RFC 9180 §4.1 covers it.
                assert_eq!(refused.unwrap_err().kind(), Kind::Corrupt, "bit {bit}");
            }
            for length in 0..object.len() {
                assert!(open(&keys, ACCOUNT, AT, &object[..length]).is_err());
            }
            assert!(open(&keys, ACCOUNT, AT, &[object, b"x"].concat()).is_err());
            assert!(open(&keys, ACCOUNT, AT.next(), object).is_err());
            assert!(open(&keys, AccountId([4; 16]), AT, object).is_err());
            let other = AccountKeys::derive(&RootKey::generate(&SeededRandom::new(2)), ACCOUNT);
            assert!(open(&other, ACCOUNT, AT, object).is_err());
        }
    }

    #[test]
    fn a_public_key_of_small_order_is_refused() {
        let sealed = seal_delivery(&PublicKey([0; 32]), ACCOUNT, AT, &Hash::ZERO, b"", &SeededRandom::new(1));
        assert_eq!(sealed.err().unwrap().kind(), Kind::Corrupt);
    }
}
