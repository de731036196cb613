//! What an account is known by to others: a signature, under a key of its root key, of the key that
//! deliveries and offers are sealed to.
//!
//! The record of a delivery key carries a MAC of `server.key`, so a thief of that file can put
//! another delivery key there. A signature shows that the account's own key made it, to others that
//! know the account's *identity key*: they keep the one that they saw first. The identity key is
//! derived from the first epoch's root key, so it stays when the account gets another root key.
//! Format: `docs/format/keys-and-slots.md`.

use minicbor::{Decode, Encode};
use sealpost_base::AccountId;

use crate::cipher::{derive, sign, verify};
use crate::{PublicKey, RootKey};

/// An account's identity key, and its signature of the account's delivery key.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct Identity {
    #[cbor(n(0), with = "minicbor::bytes")]
    key: [u8; 32],
    #[cbor(n(1), with = "minicbor::bytes")]
    signature: [u8; 64],
}

impl Identity {
    /// The one of `account`, whose root key is `root`.
    pub fn of(root: &RootKey, account: AccountId) -> Self {
        let seed = derive(b"sealpost account keys v1", root.first(), &[b"identity", &account.0]);
        let (key, signature) = sign(&seed, &signed(account, &root.delivery_key(account)));
        Identity { key, signature }
    }

    /// The identity key: an Ed25519 public key (RFC 8032).
    pub fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Whether the account with this identity key made that delivery key.
    pub fn vouches_for(&self, account: AccountId, delivery: &PublicKey) -> bool {
        verify(&self.key, &signed(account, delivery), &self.signature)
    }
}

fn signed(account: AccountId, delivery: &PublicKey) -> Vec<u8> {
    let epoch = delivery.epoch().0.to_be_bytes();
    [b"sealpost delivery key v1", &account.0[..], &epoch, delivery.bytes()].concat()
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    const ACCOUNT: AccountId = AccountId([3; 16]);

    #[test]
    fn an_identity_signs_the_accounts_key_of_every_epoch() {
        let random = SeededRandom::new(1);
        let (root, thief) = (RootKey::generate(&random), RootKey::generate(&random));
        let identity = Identity::of(&root, ACCOUNT);
        assert!(identity == Identity::of(&root, ACCOUNT), "a record is not written for nothing");
        assert!(identity.vouches_for(ACCOUNT, &root.delivery_key(ACCOUNT)));
        assert!(!identity.vouches_for(ACCOUNT, &thief.delivery_key(ACCOUNT)));
        assert!(!identity.vouches_for(AccountId([4; 16]), &root.delivery_key(ACCOUNT)));
        let next = root.next(&random).unwrap();
        let later = Identity::of(&next, ACCOUNT);
        assert_eq!(later.key(), identity.key());
        assert!(later.vouches_for(ACCOUNT, &next.delivery_key(ACCOUNT)));
        assert!(!later.vouches_for(ACCOUNT, &root.delivery_key(ACCOUNT)), "each signs one key");
        let forged = Identity { key: Identity::of(&thief, ACCOUNT).key, ..identity.clone() };
        assert!(!forged.vouches_for(ACCOUNT, &root.delivery_key(ACCOUNT)));
        let bytes = minicbor::to_vec(&identity).unwrap();
        assert!(minicbor::decode::<Identity>(&bytes).unwrap() == identity);
    }
}
