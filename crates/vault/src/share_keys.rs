//! The newest root key of a shared mailbox, sealed to each account that may open it.
//!
//! A share has no slots. The accounts with rights to it have its first key in their own logs; a
//! later one is in the record of the share, sealed to their public keys, so that one write of the
//! record gives it to all of them and to no others. The keys of earlier epochs are beside it, sealed
//! under the newest one. Format: `docs/format/keys-and-slots.md`.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Random, Result};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, PiecePosition, TAG_BYTES, sha256};
use crate::kem::{self, ENCAPSULATED_BYTES};
use crate::{AccountKeys, EarlierKeys, Epoch, PublicKey, RootKey};

/// Bytes of a sealed root key.
const SEALED_BYTES: usize = ENCAPSULATED_BYTES + 32 + TAG_BYTES;
const EXPORT: &[u8] = b"sealpost share key v1";
const PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };
const HEADER: [u8; 4] = [0; 4];

/// The keys of a share in its record.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct ShareKeys {
    #[n(0)]
    sealed: Vec<SealedKey>,
    #[n(1)]
    earlier: EarlierKeys,
}

/// The newest root key, for one account.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
struct SealedKey {
    #[n(0)]
    account: AccountId,
    /// Of which epoch the account's public key is that it is sealed to.
    #[n(1)]
    epoch: u32,
    #[cbor(n(2), with = "minicbor::bytes")]
    key: [u8; SEALED_BYTES],
}

impl ShareKeys {
    /// `root`, a key of `share` of a later epoch than the first, for these accounts.
    ///
    /// # Errors
    /// `Invalid` for a key of the first epoch, which has none before it; `Corrupt` if a public key is none.
    pub fn seal(
        share: AccountId,
        root: &RootKey,
        to: &[(AccountId, PublicKey)],
        random: &dyn Random,
    ) -> Result<Self> {
        let none = || Error::invalid("the first key of a shared mailbox is not in its record");
        let earlier = EarlierKeys::of(root, share, random).ok_or_else(none)?;
        let sealed = to.iter().map(|(account, public)| SealedKey::of(share, root, *account, public, random));
        Ok(ShareKeys { sealed: sealed.collect::<Result<_>>()?, earlier })
    }

    /// The same for one more account, or for another public key of it. `root` is the key that they are of.
    ///
    /// # Errors
    /// `Corrupt` if the public key is none.
    pub fn seal_also(
        &self,
        share: AccountId,
        root: &RootKey,
        account: AccountId,
        public: &PublicKey,
        random: &dyn Random,
    ) -> Result<Self> {
        let mut keys = self.clone();
        keys.sealed.retain(|sealed| sealed.account != account);
        keys.sealed.push(SealedKey::of(share, root, account, public, random)?);
        Ok(keys)
    }

    /// The newest root key of `share`, with the earlier ones, by the keys of `account`; `None` if it
    /// is not sealed to that account.
    ///
    /// # Errors
    /// `Denied` if it is sealed to a later key of the account than these; `Corrupt` if what is sealed
    /// to the account does not open.
    pub fn open(&self, share: AccountId, account: AccountId, keys: &AccountKeys) -> Result<Option<RootKey>> {
        let Some(sealed) = self.sealed.iter().find(|sealed| sealed.account == account) else {
            return Ok(None);
        };
        let of = Epoch(sealed.epoch);
        let context = context(share, self.epoch(), account, of);
        let (encapsulated, body) = sealed.key.split_at(ENCAPSULATED_BYTES);
        let secret = kem::decapsulate(&keys.in_authentic_epoch(of)?.private, encapsulated, &context, EXPORT)?;
        let mut root = Zeroizing::new(body.to_vec());
        let opened = ObjectCipher::new(&[], secret.bytes(), context).open(PLACE, HEADER, &mut root)?;
        let newest = RootKey::copied(&root[..opened]).ok_or_else(|| Error::corrupt("not a root key"))?;
        self.earlier.before(&newest, share).map(Some)
    }

    /// Of which epoch the newest key is.
    pub fn epoch(&self) -> Epoch {
        self.earlier.epoch()
    }
}

impl SealedKey {
    fn of(
        share: AccountId,
        root: &RootKey,
        account: AccountId,
        public: &PublicKey,
        random: &dyn Random,
    ) -> Result<Self> {
        let context = context(share, root.epoch(), account, public.epoch());
        let (encapsulated, secret) = kem::encapsulate(public, &context, EXPORT, random)?;
        let mut sealed = Zeroizing::new(Vec::with_capacity(SEALED_BYTES));
        sealed.extend_from_slice(&encapsulated);
        sealed.extend_from_slice(root.bytes());
        let cipher = ObjectCipher::new(&[], secret.bytes(), context);
        cipher.seal(PLACE, HEADER, &mut sealed, ENCAPSULATED_BYTES);
        let mut key = [0; SEALED_BYTES];
        key.copy_from_slice(&sealed);
        Ok(SealedKey { account, epoch: public.epoch().0, key })
    }
}

/// Shows for whom it is, never the key.
impl fmt::Debug for ShareKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accounts: Vec<_> = self.sealed.iter().map(|sealed| sealed.account).collect();
        write!(f, "ShareKeys(epoch {}, for {accounts:?})", self.epoch().0)
    }
}

/// What a sealed key is bound to.
fn context(share: AccountId, epoch: Epoch, account: AccountId, of: Epoch) -> [u8; 32] {
    sha256(&[EXPORT, &share.0, &epoch.0.to_be_bytes(), &account.0, &of.0.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Kind, SeededRandom};

    use super::*;

    const SHARE: AccountId = AccountId([9; 16]);
    const OWNER: AccountId = AccountId([1; 16]);
    const READER: AccountId = AccountId([2; 16]);
    const FORMER: AccountId = AccountId([3; 16]);

    #[test]
    fn the_newest_key_opens_for_those_it_is_sealed_to() {
        let random = SeededRandom::new(1);
        let (owner, reader, former) =
            (RootKey::generate(&random), RootKey::generate(&random), RootKey::generate(&random));
        let first = RootKey::generate(&random);
        let to = [(OWNER, owner.delivery_key(OWNER)), (READER, reader.delivery_key(READER))];
        assert_eq!(ShareKeys::seal(SHARE, &first, &to, &random).unwrap_err().kind(), Kind::Invalid);
        let newest = first.next(&random).unwrap();
        let keys = ShareKeys::seal(SHARE, &newest, &to, &random).unwrap();
        assert_eq!(keys.epoch(), Epoch(2));
        let open = |account, root: &RootKey| keys.open(SHARE, account, &AccountKeys::derive(root, account));
        for (account, root) in [(OWNER, &owner), (READER, &reader)] {
            let opened = open(account, root).unwrap().unwrap();
            assert!(opened.same(&newest) && opened.follows(&first));
        }
        assert!(open(FORMER, &former).unwrap().is_none());
        assert_eq!(open(READER, &former).err().unwrap().kind(), Kind::Corrupt);
        // By the key of the account in a later epoch too, which has the earlier one.
        assert!(open(READER, &reader.next(&random).unwrap()).unwrap().unwrap().same(&newest));
        let other = keys.open(OWNER, READER, &AccountKeys::derive(&reader, READER));
        assert!(other.is_err(), "of this share alone");
        let more = keys.seal_also(SHARE, &newest, FORMER, &former.delivery_key(FORMER), &random).unwrap();
        let opened = more.open(SHARE, FORMER, &AccountKeys::derive(&former, FORMER)).unwrap().unwrap();
        assert!(opened.same(&newest));
        // Another public key of an account takes the place of the one before.
        let later = reader.next(&random).unwrap();
        let again = more.seal_also(SHARE, &newest, READER, &later.delivery_key(READER), &random).unwrap();
        let opened = |root| again.open(SHARE, READER, &AccountKeys::derive(root, READER));
        assert!(opened(&later).unwrap().unwrap().same(&newest));
        assert_eq!(opened(&reader).err().unwrap().kind(), Kind::Denied, "it has to log in again");
        let bytes = minicbor::to_vec(&keys).unwrap();
        assert_eq!(minicbor::decode::<ShareKeys>(&bytes).unwrap(), keys);
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let random = SeededRandom::new(1);
        let (reader, first) = (RootKey::generate(&random), RootKey::generate(&random));
        let newest = first.next(&random).unwrap();
        let keys = ShareKeys::seal(SHARE, &newest, &[(READER, reader.delivery_key(READER))], &random);
        let bytes = minicbor::to_vec(keys.unwrap()).unwrap();
        let account = AccountKeys::derive(&reader, READER);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let Ok(keys) = minicbor::decode::<ShareKeys>(&flipped) else { continue };
            let opened = keys.open(SHARE, READER, &account);
            assert!(!matches!(opened, Ok(Some(root)) if !root.same(&newest)), "bit {bit}");
        }
    }
}
