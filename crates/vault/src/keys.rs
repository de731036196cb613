//! An account's keys: the root key, what is derived from it, and the public key that deliveries are sealed to.
//!
//! Derivation is HKDF-SHA256 (RFC 5869) with a label per purpose and the account's id, so that no two purposes
//! and no two accounts ever share a key. Secrets are wiped when dropped and can be neither shown nor compared.

use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, Serializable};
use minicbor::{Decode, Decoder, Encode, Encoder};
use sealpost_base::{AccountId, Error, Random};
use zeroize::Zeroizing;

use crate::cipher::{Secret, derive};

/// An account's root key: 32 random bytes that exist only in memory and, wrapped, in the account's slots.
#[derive(Clone)]
pub struct RootKey(pub(crate) Secret);

impl RootKey {
    /// A new root key.
    pub fn generate(random: &dyn Random) -> Self {
        let mut key = Secret([0; 32]);
        random.fill(&mut key.0);
        RootKey(key)
    }

    /// Whether both are the same key, in constant time.
    pub fn same(&self, other: &RootKey) -> bool {
        crate::cipher::equal(&self.0.0, &other.0.0)
    }
}

/// For events that carry a share's key: they exist only sealed.
impl<C> Encode<C> for RootKey {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0.0)?;
        Ok(())
    }
}

impl<'b, C> Decode<'b, C> for RootKey {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes = d.bytes()?;
        let mut key = Secret([0; 32]);
        if bytes.len() != key.0.len() {
            return Err(minicbor::decode::Error::message("not a root key"));
        }
        key.0.copy_from_slice(bytes);
        Ok(RootKey(key))
    }
}

/// The keys derived from an account's root key. Cheap to pass by reference, expensive enough to derive once.
pub struct AccountKeys {
    pub(crate) log: Secret,
    pub(crate) checkpoint: Secret,
    pub(crate) index: Secret,
    pub(crate) private: <X25519HkdfSha256 as Kem>::PrivateKey,
    public: PublicKey,
}

impl AccountKeys {
    /// Derives the keys of `account`.
    pub fn derive(root: &RootKey, account: AccountId) -> Self {
        let purpose = |label: &[u8]| derive(b"sealpost account keys v1", &root.0.0, &[label, &account.0]);
        // RFC 9180 §7.1.3: DeriveKeyPair of DHKEM(X25519, HKDF-SHA256).
        let (private, public) = X25519HkdfSha256::derive_keypair(&purpose(b"delivery").0);
        let public = PublicKey(public.to_bytes().into());
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

/// The secret bytes of `key`, for wrapping.
pub(crate) fn root_bytes(key: &RootKey) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(key.0.0)
}
