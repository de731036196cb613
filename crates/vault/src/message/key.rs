//! The key of a message, and the path of its object.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, ObjectId, Random};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cipher::{ObjectCipher, sha256};

/// The key of one message object: 32 random bytes, never used for another one.
#[derive(Clone, Zeroize, ZeroizeOnDrop, Encode, Decode)]
#[cbor(transparent)]
pub struct MessageKey(#[cbor(n(0), with = "minicbor::bytes")] [u8; 32]);

impl MessageKey {
    /// A new key.
    pub fn generate(random: &dyn Random) -> Self {
        let mut key = MessageKey([0; 32]);
        random.fill(&mut key.0);
        key
    }

    /// The key of these bytes, as [`MessageKey::as_bytes`] gave them.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        MessageKey(bytes)
    }

    /// The secret bytes, for the sealed event that carries them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The path of a message object.
pub fn path(account: AccountId, object: ObjectId) -> String {
    format!("acct/{account}/msg/{object}")
}

pub(super) fn cipher(account: AccountId, object: ObjectId, key: &MessageKey) -> ObjectCipher {
    let context = sha256(&[b"sealpost message v1", &account.0, &object.0]);
    ObjectCipher::new(&[], &key.0, context)
}
