//! An account's keys: the root key, what is derived from it, and the public key that deliveries are
//! sealed to.
//!
//! Derivation is HKDF-SHA256 (RFC 5869) with a label per purpose and the account's id, so that no
//! two purposes and no two accounts ever share a key. Secrets are wiped when dropped and can be
//! neither shown nor compared.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, Serializable};
use minicbor::{Decode, Decoder, Encode, Encoder};
use sealpost_base::{AccountId, Error, Random, Result};
use zeroize::Zeroizing;

use crate::cipher::{
    ObjectCipher, PiecePosition, Secret, TAG_BYTES, derive, hmac_sha256, sha256, wiping_stack,
};

/// How often an account was given a new root key, from 1. Everything that is sealed says which one
/// it is sealed under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// That of the key that an account begins with.
    pub const FIRST: Epoch = Epoch(1);
    /// The last one that there may be: each makes the record longer.
    pub const LAST: Epoch = Epoch(256);

    /// Begins an object: with `first` if it is sealed under the first key, else with `later` and the epoch.
    pub(crate) fn begin(self, first: [u8; 4], later: [u8; 4], object: &mut Vec<u8>) {
        match self {
            Epoch::FIRST => object.extend_from_slice(&first),
            Epoch(epoch) => {
                object.extend_from_slice(&later);
                object.extend_from_slice(&epoch.to_be_bytes());
            }
        }
    }

    /// The epoch of an object that [`Epoch::begin`] began, and what is behind it; `None` if it
    /// begins otherwise.
    pub(crate) fn begun(first: [u8; 4], later: [u8; 4], object: &[u8]) -> Option<(Epoch, &[u8])> {
        if let Some(rest) = object.strip_prefix(&first) {
            return Some((Epoch::FIRST, rest));
        }
        let (epoch, rest) = object.strip_prefix(&later)?.split_first_chunk()?;
        Some((Epoch(u32::from_be_bytes(*epoch)), rest))
    }
}

/// An account's root key: 32 random bytes that exist only in memory and, sealed, in the account's
/// slots; and the keys of earlier epochs, for what was sealed then. Clones share them.
#[derive(Clone)]
pub struct RootKey(Arc<RootKeys>);

struct RootKeys {
    /// Of the epochs from the first one on; never empty.
    keys: Vec<Secret>,
}

impl RootKey {
    /// A new root key.
    pub fn generate(random: &dyn Random) -> Self {
        Self::of(vec![Secret::filled(|key| random.fill(key))])
    }

    fn of(keys: Vec<Secret>) -> Self {
        RootKey(Arc::new(RootKeys { keys }))
    }

    /// The key of these bytes, which the caller wipes.
    pub(crate) fn copied(bytes: &[u8]) -> Option<Self> {
        Self::all_copied(bytes).filter(|root| root.epoch() == Epoch::FIRST)
    }

    /// The keys of these bytes, the first epoch's first, which the caller wipes.
    fn all_copied(bytes: &[u8]) -> Option<Self> {
        let (keys, rest) = bytes.as_chunks::<32>();
        if keys.is_empty() || keys.len() > Epoch::LAST.0 as usize || !rest.is_empty() {
            return None;
        }
        let copied = keys.iter().map(|bytes| Secret::filled(|key| key.copy_from_slice(bytes)));
        Some(Self::of(copied.collect()))
    }

    /// A new key of the next epoch, which has all that this one has; `None` if there were too many.
    pub fn next(&self, random: &dyn Random) -> Option<Self> {
        let mut keys = self.0.keys.clone();
        keys.push(Secret::filled(|key| random.fill(key)));
        (keys.len() <= Epoch::LAST.0 as usize).then(|| Self::of(keys))
    }

    /// This key, which a slot held alone, as that of the epoch after these `earlier` ones.
    fn after(&self, earlier: &[u8]) -> Option<Self> {
        let earlier = Self::all_copied(earlier)?;
        let keys = [&earlier.0.keys[..], std::slice::from_ref(self.newest())].concat();
        (keys.len() <= Epoch::LAST.0 as usize).then(|| Self::of(keys))
    }

    /// Which epoch it is of.
    pub fn epoch(&self) -> Epoch {
        Epoch(u32::try_from(self.0.keys.len()).unwrap_or(u32::MAX))
    }

    /// Whether both are the same key, in constant time.
    pub fn same(&self, other: &RootKey) -> bool {
        self.epoch() == other.epoch() && crate::cipher::equal(self.bytes(), other.bytes())
    }

    /// Whether `earlier` is one of its keys of earlier epochs.
    pub fn follows(&self, earlier: &RootKey) -> bool {
        let at = self.0.keys.get(earlier.0.keys.len() - 1).filter(|_| earlier.epoch() < self.epoch());
        at.is_some_and(|key| crate::cipher::equal(key.bytes(), earlier.bytes()))
    }

    /// Shows whether this copy of the key, or a clone of it, is in use.
    pub fn watch(&self) -> RootKeyWatch {
        RootKeyWatch(Arc::downgrade(&self.0))
    }

    /// What deliveries to `account` are sealed to while this is its newest key.
    pub fn delivery_key(&self, account: AccountId) -> PublicKey {
        let delivery = derive(b"sealpost account keys v1", self.bytes(), &[b"delivery", &account.0]);
        PublicKey { epoch: self.epoch(), ..key_pair(&delivery).1 }
    }

    /// The MAC under the key for slots of `account`, over `label`, the epoch and `parts`: only
    /// holders of its root key can make one. No label is a prefix of another one.
    pub(crate) fn tag_slots(&self, account: AccountId, label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        let key = derive(b"sealpost account keys v1", self.bytes(), &[b"slots", &account.0]);
        let epoch = self.epoch().0.to_be_bytes();
        hmac_sha256(&key, &[&[label, &epoch], parts].concat())
    }

    fn newest(&self) -> &Secret {
        self.0.keys.last().expect("never empty")
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        self.newest().bytes()
    }

    /// That of the first epoch.
    pub(crate) fn first(&self) -> &[u8; 32] {
        self.0.keys.first().expect("never empty").bytes()
    }
}

/// The root keys of earlier epochs, sealed under the newest one: opening a slot gives all of them,
/// and one of them gives none of the later ones.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct EarlierKeys {
    #[cbor(n(0), with = "minicbor::bytes")]
    salt: [u8; 32],
    #[cbor(n(1), with = "minicbor::bytes")]
    sealed: Vec<u8>,
}

impl EarlierKeys {
    /// Those of `root`, a key of `account`; `None` in the first epoch.
    pub fn of(root: &RootKey, account: AccountId, random: &dyn Random) -> Option<Self> {
        let (newest, earlier) = root.0.keys.split_last()?;
        if earlier.is_empty() {
            return None;
        }
        let mut salt = [0; 32];
        random.fill(&mut salt);
        let mut sealed = Zeroizing::new(Vec::with_capacity(earlier.len() * 32 + TAG_BYTES));
        earlier.iter().for_each(|key| sealed.extend_from_slice(key.bytes()));
        Self::cipher(newest, account, &salt).seal(EARLIER_PLACE, EARLIER_HEADER, &mut sealed, 0);
        Some(EarlierKeys { salt, sealed: sealed.to_vec() })
    }

    /// `newest`, which came out of a slot of `account`, with these.
    ///
    /// # Errors
    /// `Corrupt` if they are not those before it.
    pub fn before(&self, newest: &RootKey, account: AccountId) -> Result<RootKey> {
        let corrupt = || Error::corrupt("the earlier keys of an account do not open under its newest one");
        let mut earlier = Zeroizing::new(self.sealed.clone());
        let cipher = Self::cipher(newest.newest(), account, &self.salt);
        let opened = cipher.open(EARLIER_PLACE, EARLIER_HEADER, &mut earlier).map_err(|_| corrupt())?;
        newest.after(&earlier[..opened]).ok_or_else(corrupt)
    }

    /// Of which epoch the key is that they are sealed under.
    pub fn epoch(&self) -> Epoch {
        Epoch(u32::try_from(self.sealed.len() / 32).unwrap_or(u32::MAX).saturating_add(1))
    }

    fn cipher(newest: &Secret, account: AccountId, salt: &[u8]) -> ObjectCipher {
        let key = derive(b"sealpost account keys v1", newest.bytes(), &[b"earlier", &account.0]);
        ObjectCipher::new(salt, key.bytes(), sha256(&[b"sealpost earlier root keys v1", &account.0]))
    }
}

const EARLIER_PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };
const EARLIER_HEADER: [u8; 4] = [0; 4];

/// Tells whether a root key is in use, and keeps none.
pub struct RootKeyWatch(Weak<RootKeys>);

impl RootKeyWatch {
    /// Whether the key was wiped, with its last holder.
    pub fn is_wiped(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// For events that carry a share's key: they exist only sealed.
impl<C> Encode<C> for RootKey {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> std::result::Result<(), minicbor::encode::Error<W::Error>> {
        let keys = Zeroizing::new(self.0.keys.iter().flat_map(|key| *key.bytes()).collect::<Vec<u8>>());
        e.bytes(&keys)?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for RootKey {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> std::result::Result<Self, minicbor::decode::Error> {
        RootKey::all_copied(d.bytes()?).ok_or_else(|| minicbor::decode::Error::message("not a root key"))
    }
}

/// Keeps one copy of each account's root key in the process, however many logins open a slot of it.
/// It keeps none alive.
#[derive(Default)]
pub struct Keyring(Mutex<HashMap<AccountId, Weak<RootKeys>>>);

impl Keyring {
    /// The copy of `root`, a key of `account`, that others use already; else `root`, from now on.
    pub fn one(&self, account: AccountId, root: RootKey) -> RootKey {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = keys.get(&account).and_then(Weak::upgrade).map(RootKey)
            && known.same(&root)
        {
            return known;
        }
        if keys.len() == keys.capacity() {
            keys.retain(|_, key| key.strong_count() > 0);
        }
        keys.insert(account, Arc::downgrade(&root.0));
        root
    }
}

/// The private half of such a pair; wiped when dropped.
pub(crate) type PrivateKey = <X25519HkdfSha256 as Kem>::PrivateKey;

/// The keys derived from an account's root key, and from those of earlier epochs. Cheap to pass by
/// reference, expensive enough to derive once.
pub struct AccountKeys {
    pub(crate) log: Secret,
    pub(crate) checkpoint: Secret,
    pub(crate) index: Secret,
    pub(crate) uploads: Secret,
    pub(crate) private: Box<PrivateKey>,
    public: PublicKey,
    /// Of the epochs from the first one on: those before this one, or all of a [mail key](crate::mail_key)'s.
    earlier: Vec<AccountKeys>,
    /// Something was met that was sealed in a later epoch.
    outdated: AtomicBool,
}

impl AccountKeys {
    /// Derives the keys of `account`.
    pub fn derive(root: &RootKey, account: AccountId) -> Self {
        let all = root.0.keys.iter().zip(1u32..).map(|(key, epoch)| Self::of_one(key, Epoch(epoch), account));
        let mut earlier: Vec<_> = all.collect();
        let newest = earlier.pop().expect("never empty");
        AccountKeys { earlier, ..newest }
    }

    fn of_one(root: &Secret, epoch: Epoch, account: AccountId) -> Self {
        let purpose = |label: &[u8]| derive(b"sealpost account keys v1", root.bytes(), &[label, &account.0]);
        let (private, public) = key_pair(&purpose(b"delivery"));
        let (log, checkpoint, index) = (purpose(b"log"), purpose(b"checkpoint"), purpose(b"index"));
        let uploads = purpose(b"uploads");
        let public = PublicKey { epoch, ..public };
        AccountKeys {
            log,
            checkpoint,
            index,
            uploads,
            private,
            public,
            earlier: Vec::new(),
            outdated: AtomicBool::new(false),
        }
    }

    /// What a process without the root key seals deliveries to.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Whether something was met that these keys are too old for: the account has a newer key,
    /// which its slots hold.
    pub fn are_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.public.epoch
    }

    /// Those that things of `epoch` are sealed under.
    ///
    /// # Errors
    /// `Corrupt` if there are none: the record may be forged.
    pub(crate) fn in_epoch(&self, epoch: Epoch) -> Result<&AccountKeys> {
        if epoch == self.epoch() {
            return Ok(self);
        }
        let index = (epoch.0 as usize).checked_sub(1);
        let found = index.and_then(|index| self.earlier.get(index));
        found.ok_or_else(|| Error::corrupt(format!("it is sealed under a key of epoch {}", epoch.0)))
    }

    /// As [`AccountKeys::in_epoch`], for what this installation wrote. A later epoch says that
    /// these keys are outdated.
    ///
    /// # Errors
    /// `Denied` for a later epoch, `Corrupt` for one that there is not.
    pub(crate) fn in_authentic_epoch(&self, epoch: Epoch) -> Result<&AccountKeys> {
        match self.in_epoch(epoch) {
            Err(_) if epoch > self.epoch() => {
                self.outdated.store(true, Ordering::Relaxed);
                Err(Error::denied("the account has a newer key: log in again"))
            }
            found => found,
        }
    }

    /// Keys of `account` from one secret for each epoch, the first one's first, of which the one of
    /// `current` seals. Those after it open what other nodes sealed already.
    pub(crate) fn of_epochs(secrets: &[Secret], current: Epoch, account: AccountId) -> Option<Self> {
        let of_one = |(secret, epoch)| Self::of_one(secret, Epoch(epoch), account);
        let all = secrets.iter().zip(1u32..).map(of_one).collect();
        let (current, secret) = (current.0, secrets.get((current.0 as usize).checked_sub(1)?)?);
        Some(AccountKeys { earlier: all, ..of_one((secret, current)) })
    }
}

/// An account's X25519 public key (RFC 7748 §5), and the epoch of the root key that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey {
    bytes: [u8; 32],
    epoch: Epoch,
}

impl PublicKey {
    /// What is in the place of a key that is not made yet.
    pub(crate) const NONE: PublicKey = PublicKey { bytes: [0; 32], epoch: Epoch::FIRST };

    pub(crate) fn to_kem(self) -> Result<<X25519HkdfSha256 as Kem>::PublicKey> {
        <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(&self.bytes)
            .map_err(|_| Error::corrupt("an account's public key is not an X25519 key"))
    }

    /// Which epoch it is of.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The key itself.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

/// 32 bytes, and behind them the epoch unless that is the first.
impl<C> Encode<C> for PublicKey {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> std::result::Result<(), minicbor::encode::Error<W::Error>> {
        match self.epoch {
            Epoch::FIRST => e.bytes(&self.bytes)?,
            Epoch(epoch) => e.bytes(&[&self.bytes[..], &epoch.to_be_bytes()].concat())?,
        };
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for PublicKey {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> std::result::Result<Self, minicbor::decode::Error> {
        let wrong = || minicbor::decode::Error::message("not a public key");
        let (bytes, epoch) = d.bytes()?.split_first_chunk::<32>().ok_or_else(wrong)?;
        let epoch = match epoch {
            [] => Epoch::FIRST,
            epoch => Epoch(u32::from_be_bytes(epoch.try_into().map_err(|_| wrong())?)),
        };
        match (Epoch::FIRST..=Epoch::LAST).contains(&epoch) {
            true => Ok(PublicKey { bytes: *bytes, epoch }),
            false => Err(wrong()),
        }
    }
}

/// DeriveKeyPair of DHKEM(X25519, HKDF-SHA256) (RFC 9180 §7.1.3).
pub(crate) fn key_pair(secret: &Secret) -> (Box<PrivateKey>, PublicKey) {
    wiping_stack(|| {
        let (private, public) = X25519HkdfSha256::derive_keypair(secret.bytes());
        (Box::new(private), PublicKey { bytes: public.to_bytes().into(), epoch: Epoch::FIRST })
    })
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    const ACCOUNT: AccountId = AccountId([3; 16]);

    #[test]
    fn a_keyring_shares_keys_and_keeps_none_alive() {
        let (ring, random) = (Keyring::default(), SeededRandom::new(1));
        let first = ring.one(ACCOUNT, RootKey::generate(&random));
        let opened_again = RootKey::copied(first.bytes()).unwrap();
        assert!(!Arc::ptr_eq(&first.0, &opened_again.0));
        let again = ring.one(ACCOUNT, opened_again);
        assert!(Arc::ptr_eq(&first.0, &again.0));
        // Another key of the account replaces it.
        let other = ring.one(ACCOUNT, RootKey::generate(&random));
        assert!(!other.same(&first));
        let gone = Arc::downgrade(&other.0);
        drop(other);
        assert!(gone.upgrade().is_none());
        for n in 0..10_000u32 {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&n.to_be_bytes());
            drop(ring.one(AccountId(id), first.clone()));
        }
        drop((first, again));
        for n in 0..50_000u32 {
            let mut id = [1; 16];
            id[..4].copy_from_slice(&n.to_be_bytes());
            drop(ring.one(AccountId(id), RootKey::generate(&random)));
        }
        assert!(ring.0.lock().unwrap().len() < 40_000, "keys that nobody has are forgotten");
    }
}
