//! One log entry: sealed by its owner, who has the account's keys, or as a delivery, to the public
//! key alone; and authenticated by the installation.
//!
//! The header (the position of the entry, its key, its predecessor, and the generation of UIDs of
//! its decision) is readable without keys. A MAC under a key of `server.key` covers header and
//! body, so that every process of the installation can distinguish an entry of the log from any
//! other object at its path ([`judge`]); an attacker with write access to the store alone cannot
//! make one. The body is bound to the header as well: an entry that was moved, exchanged or
//! rewritten does not open. Format: `docs/format/log-entry.md`.

use std::fmt;

use hpke::rand_core::{CryptoRng, RngCore};
use minicbor::{Decode, Encode};
use sealpost_base::limits::ENTRY_BYTES;
use sealpost_base::{AccountId, Error, Position, Random, Result};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, equal, sha256};
use crate::keys::{AccountKeys, Epoch, PublicKey};
use crate::{Hash, Sealed, chunk, kem};

mod log_key;

use log_key::KEY_ID_BYTES;
pub use log_key::LogKey;
pub(crate) use log_key::MAC_BYTES;

/// "Sealpost log".
const MAGIC: [u8; 3] = *b"SPL";
/// Version 1 had no MAC.
const VERSION: u8 = 2;
const OWNER: u8 = 1;
const DELIVERY: u8 = 2;
const RENUMBERING: u8 = 3;
/// Up to the hash of the entry before, which is the last of what the seal is bound to.
const FIXED_BYTES: usize = 4 + 1 + 4 + 4 + KEY_ID_BYTES + 16 + 8 + 32;
/// The salt of an owner's entry, or the encapsulated key of a delivery.
const KEY_BYTES: usize = 32;
const HEADER_BYTES: usize = FIXED_BYTES + KEY_BYTES + MAC_BYTES;
const SECTION: u8 = 0;
/// Bytes of a [`Renumbering`].
const RENUMBERING_BYTES: usize = 8 + 8 + 32;

/// Plaintext bytes of an entry that is opened: more than [`ENTRY_BYTES`], the limit of writers, so
/// that the latter can be lowered without making old entries unreadable.
const MAX_BYTES: usize = 4 * ENTRY_BYTES;

/// How often the UIDs of an account were given a new meaning by a [`Renumbering`]. What a command
/// says of UIDs is true in the generation that it was decided on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(transparent)]
pub struct Generation(#[n(0)] pub u32);

impl Generation {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Generation(self.0.saturating_add(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of writer that sealed an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A holder of the account's keys: the entry can be trusted to come from a session of the
    /// account.
    Owner,
    /// A holder of the public key: only deliveries may be in it.
    Delivery,
    /// A node that found damage behind the end of the log, or in it: the entry names the log's
    /// continuation.
    Renumbering,
}

/// Where an entry is, and what it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Whose log.
    pub account: AccountId,
    /// Where in it.
    pub position: Position,
    /// The [`hash`] of the entry before, [`Hash::ZERO`] for the first.
    pub prev: Hash,
    /// What the UIDs in it mean.
    pub generation: Generation,
}

/// The continuation of a log behind damage. Nothing in it is secret, so that every process can read
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renumbering {
    /// From this position on the entries that count are stated here: those that can be read.
    pub from: Position,
    /// How many entries from there up to this one count.
    pub counted: u64,
    /// What [`CountedEntries`] makes of them.
    pub digest: Hash,
}

impl Renumbering {
    /// From `from` on these count.
    pub fn of(from: Position, counted: CountedEntries) -> Self {
        Renumbering { from, counted: counted.count, digest: counted.digest }
    }
}

/// The entries that a [`Renumbering`] counts, as a digest of their positions and hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedEntries {
    /// How many.
    pub count: u64,
    /// Of all of them, in order.
    pub digest: Hash,
}

impl CountedEntries {
    /// None.
    pub const NONE: CountedEntries = CountedEntries { count: 0, digest: Hash::ZERO };

    /// One more.
    #[must_use]
    pub fn with(self, position: Position, hash: &Hash) -> Self {
        let digest = sha256(&[&self.digest.0, &position.0.to_be_bytes(), &hash.0]);
        CountedEntries { count: self.count + 1, digest: Hash(digest) }
    }
}

/// What is at the path of a log entry.
#[derive(Debug)]
pub enum Verdict {
    /// The entry of that position, as a process of this installation wrote it.
    Authentic(Origin, Header),
    /// The same under a key that was retired, which others may have: it is the entry if it was
    /// there when that was retired.
    Retired(Origin, Header),
    /// It says that it is the entry of that position, and is not as it was written, or it was
    /// written under another key: an entry may have been lost with it. Why, for the operator.
    Damaged(String),
    /// Nothing that was ever written as that entry. Why, for the operator.
    Noise(String),
}

/// Whether `object` is the entry at `position` of `account`. Needs no key of the account.
pub fn judge(key: &LogKey, account: AccountId, position: Position, object: &[u8]) -> Verdict {
    let parsed = match Parsed::new(object) {
        Ok(parsed) => parsed,
        Err(e) if is_begun_as(account, position, object) => return Verdict::Damaged(e.to_string()),
        Err(e) => return Verdict::Noise(e.to_string()),
    };
    let Header { account: of, position: at, .. } = parsed.header;
    if of != account || at != position {
        return Verdict::Noise(format!("it says that it is entry {at} of account {of}"));
    }
    let Some(key) = key.called(&parsed.key_id) else {
        let why = "it was written under another server.key than this installation's";
        return Verdict::Damaged(why.to_owned());
    };
    if !equal(&key.mac_of(&object[..FIXED_BYTES + KEY_BYTES], parsed.body), parsed.mac) {
        return Verdict::Damaged("its MAC is wrong".to_owned());
    }
    match key.is_retired {
        true => Verdict::Retired(parsed.origin, parsed.header),
        false => Verdict::Authentic(parsed.origin, parsed.header),
    }
}

/// Whether `object` begins as the entry at `position` of `account` does: then it may be one of
/// which the end is missing.
fn is_begun_as(account: AccountId, position: Position, object: &[u8]) -> bool {
    object.starts_with(&MAGIC)
        && object.get(17..33).is_some_and(|of| of == account.0)
        && object.get(33..41).is_some_and(|at| at == position.0.to_be_bytes())
}

/// Whether `object`, which was [judged](judge), is under the key that everything new is under.
pub fn is_current(key: &LogKey, object: &[u8]) -> bool {
    Parsed::new(object).is_ok_and(|parsed| key.is_current(&parsed.key_id))
}

/// Seals an entry of at most [`ENTRY_BYTES`] with the account's log key.
pub fn seal_owner(
    keys: &AccountKeys,
    key: &LogKey,
    header: &Header,
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    seal_owner_by(chunk::seal_section, keys, key, header, plaintext, random)
}

/// As [`seal_owner`], not compressed: for what holds texts of several senders.
pub fn seal_owner_raw(
    keys: &AccountKeys,
    key: &LogKey,
    header: &Header,
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    seal_owner_by(chunk::seal_section_raw, keys, key, header, plaintext, random)
}

fn seal_owner_by(
    seal_section: impl FnOnce(&ObjectCipher, u8, &[u8], &mut Vec<u8>) -> usize,
    keys: &AccountKeys,
    key: &LogKey,
    header: &Header,
    plaintext: &[u8],
    random: &dyn Random,
) -> Sealed {
    let mut salt = [0; KEY_BYTES];
    random.fill(&mut salt);
    let mut object = begin(OWNER, key, header, keys.epoch());
    let context = context(&object);
    object.extend_from_slice(&salt);
    let cipher = ObjectCipher::new(&salt, keys.log.bytes(), context);
    finish(key, object, |body| {
        seal_section(&cipher, SECTION, plaintext, body);
    })
}

/// Seals an entry to the account's public key: HPKE base mode (RFC 9180 §5.1.1), whose exported
/// secret (§5.3) is the entry's key.
///
/// # Errors
/// `Corrupt` if the public key is none (a point of small order).
pub fn seal_delivery(
    to: &PublicKey,
    key: &LogKey,
    header: &Header,
    plaintext: &[u8],
    random: &dyn Random,
) -> Result<Sealed> {
    let mut object = begin(DELIVERY, key, header, to.epoch());
    let context = context(&object);
    let (encapsulated, secret) = kem::encapsulate(to, &context, EXPORT, random)?;
    object.extend_from_slice(&encapsulated);
    let cipher = ObjectCipher::new(&[], secret.bytes(), context);
    Ok(finish(key, object, |body| {
        chunk::seal_section(&cipher, SECTION, plaintext, body);
    }))
}

/// An entry that names the continuation of a log behind damage. Needs no key of the account.
pub fn seal_renumbering(key: &LogKey, header: &Header, renumbering: &Renumbering) -> Sealed {
    let mut object = begin(RENUMBERING, key, header, Epoch::FIRST);
    object.extend_from_slice(&[0; KEY_BYTES]);
    finish(key, object, |body| {
        body.extend_from_slice(&renumbering.from.0.to_be_bytes());
        body.extend_from_slice(&renumbering.counted.to_be_bytes());
        body.extend_from_slice(&renumbering.digest.0);
    })
}

/// The hash of an entry as it is stored, which the next entry carries.
pub fn hash(object: &[u8]) -> Hash {
    Hash::of(object)
}

/// What `object` says of itself, whether or not that is true: [`judge`] tells.
///
/// # Errors
/// `Corrupt` if it has not the form of an entry.
pub fn header(object: &[u8]) -> Result<(Origin, Header)> {
    Parsed::new(object).map(|parsed| (parsed.origin, parsed.header))
}

/// Of which epoch the key is that an entry says it is sealed under.
///
/// # Errors
/// As [`header`].
pub fn epoch(object: &[u8]) -> Result<Epoch> {
    Parsed::new(object).map(|parsed| parsed.epoch)
}

/// What an entry says that is a [`Renumbering`].
///
/// # Errors
/// `Corrupt` if it is not one.
pub fn renumbering(object: &[u8]) -> Result<Renumbering> {
    let parsed = Parsed::new(object)?;
    let corrupt = || Error::corrupt("a renumbering entry is malformed");
    let body: &[u8; RENUMBERING_BYTES] = parsed.body.try_into().map_err(|_| corrupt())?;
    if parsed.origin != Origin::Renumbering {
        return Err(corrupt());
    }
    Ok(Renumbering {
        from: Position(u64::from_be_bytes(array(&body[..8]))),
        counted: u64::from_be_bytes(array(&body[8..16])),
        digest: Hash(array(&body[16..])),
    })
}

/// Opens the entry at `position` of `account`, which was [judged](judge) to be one; a
/// [`Renumbering`] says nothing in it.
///
/// # Errors
/// `Corrupt` for anything that is not exactly what was sealed for this account and position.
pub fn open(
    keys: &AccountKeys,
    account: AccountId,
    position: Position,
    object: &[u8],
) -> Result<(Origin, Zeroizing<Vec<u8>>)> {
    let parsed = Parsed::new(object)?;
    if parsed.header.account != account || parsed.header.position != position {
        return Err(Error::corrupt(format!("log entry {position}: it is another one")));
    }
    let context = context(&object[..FIXED_BYTES]);
    let keys = keys.in_authentic_epoch(parsed.epoch)?;
    let cipher = match parsed.origin {
        Origin::Owner => ObjectCipher::new(parsed.key, keys.log.bytes(), context),
        Origin::Delivery => {
            let secret = kem::decapsulate(&keys.private, parsed.key, &context, EXPORT)?;
            ObjectCipher::new(&[], secret.bytes(), context)
        }
        Origin::Renumbering => return Err(Error::corrupt("a renumbering is not sealed")),
    };
    let plaintext = chunk::open_section(&cipher, SECTION, parsed.body, MAX_BYTES)
        .map_err(|e| e.context(format!("log entry {position}")))?;
    Ok((parsed.origin, plaintext))
}

const EXPORT: &[u8] = b"sealpost delivery v1";

fn begin(kind: u8, key: &LogKey, header: &Header, epoch: Epoch) -> Vec<u8> {
    let mut object = Vec::with_capacity(512);
    object.extend_from_slice(&MAGIC);
    object.extend_from_slice(&[VERSION, kind]);
    object.extend_from_slice(&epoch.0.to_be_bytes());
    object.extend_from_slice(&header.generation.0.to_be_bytes());
    object.extend_from_slice(&key.current().id);
    object.extend_from_slice(&header.account.0);
    object.extend_from_slice(&header.position.0.to_be_bytes());
    object.extend_from_slice(&header.prev.0);
    object
}

/// The whole entry, of the header up to its MAC and what `seal` appends.
fn finish(key: &LogKey, mut object: Vec<u8>, seal: impl FnOnce(&mut Vec<u8>)) -> Sealed {
    object.extend_from_slice(&[0; MAC_BYTES]);
    seal(&mut object);
    let (header, rest) = object.split_at_mut(FIXED_BYTES + KEY_BYTES);
    let (mac, body) = rest.split_at_mut(MAC_BYTES);
    mac.copy_from_slice(&key.current().mac_of(header, body));
    Sealed::new(object)
}

fn context(fixed: &[u8]) -> [u8; 32] {
    sha256(&[b"sealpost log entry v2", fixed])
}

struct Parsed<'a> {
    origin: Origin,
    /// Of the root key that it is sealed under.
    epoch: Epoch,
    header: Header,
    key_id: [u8; KEY_ID_BYTES],
    key: &'a [u8],
    mac: &'a [u8; MAC_BYTES],
    body: &'a [u8],
}

impl<'a> Parsed<'a> {
    fn new(object: &'a [u8]) -> Result<Self> {
        let Some((header, body)) = object.split_at_checked(HEADER_BYTES) else {
            return Err(Error::corrupt("it ends within the header of a log entry"));
        };
        if header[..3] != MAGIC {
            return Err(Error::corrupt("it is no log entry"));
        }
        if header[3] != VERSION {
            return Err(Error::corrupt("it is a log entry of a version that this program does not know"));
        }
        let origin = match header[4] {
            OWNER => Origin::Owner,
            DELIVERY => Origin::Delivery,
            RENUMBERING => Origin::Renumbering,
            _ => return Err(Error::corrupt("it is a log entry of a kind that this program does not know")),
        };
        let (key, mac) = header[FIXED_BYTES..].split_last_chunk().ok_or_else(|| Error::internal("sizes"))?;
        Ok(Parsed {
            origin,
            epoch: Epoch(u32::from_be_bytes(array(&header[5..9]))),
            key_id: array(&header[13..17]),
            header: Header {
                generation: Generation(u32::from_be_bytes(array(&header[9..13]))),
                account: AccountId(array(&header[17..33])),
                position: Position(u64::from_be_bytes(array(&header[33..41]))),
                prev: Hash(array(&header[41..FIXED_BYTES])),
            },
            key,
            mac,
            body,
        })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

/// Lends a [`Random`] to `hpke`.
pub(crate) struct Rng<'a>(pub(crate) &'a dyn Random);

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
    use crate::server_key::ServerKeys;
    use sealpost_base::{Kind, SeededRandom};

    const ACCOUNT: AccountId = AccountId([3; 16]);
    const AT: Position = Position(9);

    fn header_of(prev: Hash) -> Header {
        Header { account: ACCOUNT, position: AT, prev, generation: Generation(2) }
    }

    fn log_key(seed: u64) -> LogKey {
        LogKey::of(&ServerKeys::generate(&SeededRandom::new(seed)))
    }

    fn sealed(text: &[u8]) -> (AccountKeys, [Sealed; 2], Header) {
        let random = SeededRandom::new(1);
        let keys = AccountKeys::derive(&RootKey::generate(&random), ACCOUNT);
        let header = header_of(Hash::of(b"the entry before"));
        let owner = seal_owner(&keys, &log_key(1), &header, text, &random);
        let delivery = seal_delivery(&keys.public(), &log_key(1), &header, text, &random).unwrap();
        (keys, [owner, delivery], header)
    }

    fn is_authentic(object: &[u8]) -> bool {
        matches!(judge(&log_key(1), ACCOUNT, AT, object), Verdict::Authentic(..))
    }

    #[test]
    fn both_kinds_open_and_carry_the_chain() {
        for size in [0u64, 1, 300, 65536, 65537, 1_000_000] {
            let text: Vec<u8> = (0..size).map(|i| ((i * i) >> 7) as u8).collect();
            let (keys, objects, header) = sealed(&text);
            for (object, expected) in objects.iter().zip([Origin::Owner, Origin::Delivery]) {
                let (found, plain) = open(&keys, ACCOUNT, AT, object.as_ref()).unwrap();
                assert_eq!((found, &plain[..]), (expected, &text[..]));
                let verdict = judge(&log_key(1), ACCOUNT, AT, object.as_ref());
                let Verdict::Authentic(origin, found) = verdict else { panic!("{verdict:?}") };
                assert_eq!((origin, found), (expected, header));
            }
        }
    }

    #[test]
    fn any_change_and_any_other_place_is_refused() {
        let (keys, objects, header) = sealed(b"one event");
        let said = Renumbering { from: Position(3), counted: 2, digest: Hash::of(b"x") };
        let renumbering = seal_renumbering(&log_key(1), &header, &said);
        for object in objects.iter().chain([&renumbering]) {
            let object = object.as_ref();
            assert!(is_authentic(object));
            for bit in 0..object.len() * 8 {
                let mut damaged = object.to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_authentic(&damaged), "bit {bit}");
                if (FIXED_BYTES + KEY_BYTES..HEADER_BYTES).contains(&(bit / 8)) {
                    continue;
                }
                let refused = open(&keys, ACCOUNT, AT, &damaged);
                // RFC 7748 §5: the top bit of an encapsulated key's last byte means nothing, but
                // the key schedule of RFC 9180 §4.1 covers it.
                let epoch = (5..9).contains(&(bit / 8));
                let kind = refused.unwrap_err().kind();
                assert!(kind == Kind::Corrupt || epoch && kind == Kind::Denied, "bit {bit}: {kind:?}");
            }
            for length in 0..object.len() {
                assert!(!is_authentic(&object[..length]));
                assert!(open(&keys, ACCOUNT, AT, &object[..length]).is_err());
            }
            assert!(!is_authentic(&[object, b"x"].concat()));
            assert!(open(&keys, ACCOUNT, AT.next(), object).is_err());
            assert!(open(&keys, AccountId([4; 16]), AT, object).is_err());
            let other = AccountKeys::derive(&RootKey::generate(&SeededRandom::new(2)), ACCOUNT);
            assert!(open(&other, ACCOUNT, AT, object).is_err());
        }
    }

    #[test]
    fn misplaced_entries_are_noise_and_changed_or_short_ones_damage() {
        let (_, [object, _], _) = sealed(b"one event");
        let object = object.as_ref();
        let elsewhere = [(ACCOUNT, AT.next()), (AccountId([4; 16]), AT)];
        for (account, position) in elsewhere {
            assert!(matches!(judge(&log_key(1), account, position, object), Verdict::Noise(_)));
        }
        for short in [&object[..41], &object[..HEADER_BYTES - 1]] {
            assert!(matches!(judge(&log_key(1), ACCOUNT, AT, short), Verdict::Damaged(_)));
        }
        for noise in [&b""[..], b"noise", &object[..40], &[0; 500]] {
            assert!(matches!(judge(&log_key(1), ACCOUNT, AT, noise), Verdict::Noise(_)));
        }
        let changed = [object, b"x"].concat();
        assert!(matches!(judge(&log_key(1), ACCOUNT, AT, &changed), Verdict::Damaged(_)));
        assert!(matches!(judge(&log_key(2), ACCOUNT, AT, object), Verdict::Damaged(_)), "another server.key");
    }

    #[test]
    fn the_continuation_of_a_log_is_read_without_keys() {
        let header = header_of(Hash::ZERO);
        let counted = CountedEntries::NONE.with(Position(3), &Hash::of(b"a")).with(Position(4), &Hash::ZERO);
        let said = Renumbering { from: Position(3), counted: counted.count, digest: counted.digest };
        let object = seal_renumbering(&log_key(1), &header, &said);
        assert_eq!(renumbering(object.as_ref()).unwrap(), said);
        assert!(matches!(
            judge(&log_key(1), ACCOUNT, AT, object.as_ref()),
            Verdict::Authentic(Origin::Renumbering, _)
        ));
        let (_, [owner, _], _) = sealed(&[0; 21]);
        assert!(renumbering(owner.as_ref()).is_err());
    }

    #[test]
    fn a_public_key_of_small_order_is_refused() {
        let header = header_of(Hash::ZERO);
        let sealed = seal_delivery(&PublicKey::NONE, &log_key(1), &header, b"", &SeededRandom::new(1));
        assert_eq!(sealed.err().unwrap().kind(), Kind::Corrupt);
    }

    /// What the MAC costs: `cargo test -p sealpost-vault --release measures_the_cost_of_a_mac -- --ignored
    /// --nocapture`.
    #[test]
    #[ignore = "prints figures"]
    #[allow(clippy::print_stdout, reason = "that is what it is for")]
    fn measures_the_cost_of_a_mac() {
        use sealpost_base::{Clock, SystemClock};
        let (clock, key, times) = (SystemClock::new(), log_key(1), 20_000u32);
        for size in [300usize, 2_000, 64 * 1024] {
            let text: Vec<u8> = (0..size).map(|i| ((i * i) >> 3) as u8 ^ i as u8).collect();
            let (keys, [owner, delivery], header) = sealed(&text);
            let random = SeededRandom::new(1);
            let times = times / (1 + size as u32 / 2_000);
            let time = |what: &str, step: &dyn Fn()| {
                let began = clock.monotonic();
                (0..times).for_each(|_| step());
                let each = (clock.monotonic() - began) / times;
                println!("{size} bytes, {what}: {each:?}");
            };
            let mac = || {
                let object = owner.as_ref();
                std::hint::black_box(key.current().mac_of(&object[..FIXED_BYTES], &object[HEADER_BYTES..]));
            };
            time("the MAC alone", &mac);
            time("verify", &|| assert!(is_authentic_by(&key, owner.as_ref())));
            time("seal by the owner, with MAC", &|| {
                std::hint::black_box(seal_owner(&keys, &key, &header, &text, &random));
            });
            time("seal a delivery, with MAC", &|| {
                std::hint::black_box(seal_delivery(&keys.public(), &key, &header, &text, &random).unwrap());
            });
            time("open a delivery", &|| {
                std::hint::black_box(open(&keys, ACCOUNT, AT, delivery.as_ref()).unwrap());
            });
        }
    }

    fn is_authentic_by(key: &LogKey, object: &[u8]) -> bool {
        matches!(judge(key, ACCOUNT, AT, object), Verdict::Authentic(..))
    }
}
