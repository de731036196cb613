//! An account's keys: the root key, what is derived from it, and the public key that deliveries are sealed to.
//!
//! Derivation is HKDF-SHA256 (RFC 5869) with a label per purpose and the account's id, so that no two purposes
//! and no two accounts ever share a key. Secrets are wiped when dropped and can be neither shown nor compared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, Serializable};
use minicbor::{Decode, Decoder, Encode, Encoder};
use sealpost_base::{AccountId, Error, Random};

use crate::cipher::{Secret, derive, leaving_nothing};

/// An account's root key: 32 random bytes that exist only in memory and, sealed, in the account's slots. Clones share them.
#[derive(Clone)]
pub struct RootKey(Arc<Secret>);

impl RootKey {
    /// A new root key.
    pub fn generate(random: &dyn Random) -> Self {
        RootKey(Arc::new(Secret::filled(|key| random.fill(key))))
    }

    /// The key of these bytes, which the caller wipes.
    pub(crate) fn copied(bytes: &[u8]) -> Option<Self> {
        let key = Secret::try_filled(|key| {
            let bytes: &[u8; 32] = bytes.try_into().map_err(drop)?;
            key.copy_from_slice(bytes);
            Ok::<_, ()>(())
        });
        key.ok().map(|key| RootKey(Arc::new(key)))
    }

    /// Whether both are the same key, in constant time.
    pub fn same(&self, other: &RootKey) -> bool {
        crate::cipher::equal(self.0.bytes(), other.0.bytes())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        self.0.bytes()
    }
}

/// For events that carry a share's key: they exist only sealed.
impl<C> Encode<C> for RootKey {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(self.0.bytes())?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for RootKey {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        RootKey::copied(d.bytes()?).ok_or_else(|| minicbor::decode::Error::message("not a root key"))
    }
}

/// Keeps one copy of each account's root key in the process, however many logins open a slot of it. It keeps none alive.
#[derive(Default)]
pub struct Keyring(Mutex<HashMap<AccountId, Weak<Secret>>>);

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

/// The keys derived from an account's root key. Cheap to pass by reference, expensive enough to derive once.
pub struct AccountKeys {
    pub(crate) log: Secret,
    pub(crate) checkpoint: Secret,
    pub(crate) index: Secret,
    pub(crate) private: Box<PrivateKey>,
    public: PublicKey,
}

impl AccountKeys {
    /// Derives the keys of `account`.
    pub fn derive(root: &RootKey, account: AccountId) -> Self {
        let purpose = |label: &[u8]| derive(b"sealpost account keys v1", root.bytes(), &[label, &account.0]);
        let (private, public) = key_pair(&purpose(b"delivery"));
        let (log, checkpoint, index) = (purpose(b"log"), purpose(b"checkpoint"), purpose(b"index"));
        AccountKeys { log, checkpoint, index, private, public }
    }

    /// What a process without the root key seals deliveries to.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

/// An account's X25519 public key (RFC 7748 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct PublicKey(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

impl PublicKey {
    pub(crate) fn to_kem(self) -> sealpost_base::Result<<X25519HkdfSha256 as Kem>::PublicKey> {
        <X25519HkdfSha256 as Kem>::PublicKey::from_bytes(&self.0)
            .map_err(|_| Error::corrupt("an account's public key is not an X25519 key"))
    }
}

/// DeriveKeyPair of DHKEM(X25519, HKDF-SHA256) (RFC 9180 §7.1.3).
pub(crate) fn key_pair(secret: &Secret) -> (Box<PrivateKey>, PublicKey) {
    leaving_nothing(|| {
        let (private, public) = X25519HkdfSha256::derive_keypair(secret.bytes());
        (Box::new(private), PublicKey(public.to_bytes().into()))
    })
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    const ACCOUNT: AccountId = AccountId([3; 16]);

    #[test]
    fn a_keyring_has_one_copy_of_each_key_and_keeps_none() {
        let (ring, random) = (Keyring::default(), SeededRandom::new(1));
        let first = ring.one(ACCOUNT, RootKey::generate(&random));
        let opened_again = RootKey::copied(first.bytes()).unwrap();
        assert!(!Arc::ptr_eq(&first.0, &opened_again.0));
        let again = ring.one(ACCOUNT, opened_again);
        assert!(Arc::ptr_eq(&first.0, &again.0));
        // Another key of the account takes its place.
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
