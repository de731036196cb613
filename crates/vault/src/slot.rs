//! Slots: the ways to an account's root key, one for each secret.
//!
//! From its secret a slot derives a pair of keys. It publishes the public one, and the root key is
//! sealed to that: so a root key can be sealed to every slot of an account without any of the
//! secrets ([`Slot::reseal`]). A password slot stretches its secret with Argon2id; token and
//! recovery slots, grants and web logins hold secrets of their own making, too long to guess, and
//! need none. Changing a
//! password replaces a slot, never the mail. Every slot is bound to its account, its id and its
//! kind.
//!
//! The record that slots are in carries a MAC of `server.key`, which others may have. So a slot has
//! a *tag* too, under a key of the root key, over all that it says of itself: a new root key is
//! sealed to slots with a right tag alone (`docs/decisions/0070-authentic-slots.md`). Format:
//! `docs/format/keys-and-slots.md`.

mod list;
mod recovery;
mod token;

use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
pub use list::SlotList;
use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Random, Result, Timestamp, limits};
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, PiecePosition, Secret, TAG_BYTES, derive, equal, sha256, wiping_stack};
use crate::kem::{self, ENCAPSULATED_BYTES};
use crate::keys::{PrivateKey, key_pair};
use crate::{PublicKey, RootKey};

/// Names a slot of an account; in a token, it says which slot the token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct SlotId(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 8]);

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What kind of secret opens a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum SlotKind {
    /// A password chosen by a person.
    #[n(0)]
    Password,
    /// A generated secret for one program (an app password).
    #[n(1)]
    Token,
    /// A generated code to be kept on paper.
    #[n(2)]
    Recovery,
    /// A generated secret inside the tokens of one OAuth client: its user consented.
    #[n(3)]
    Grant,
    /// A generated secret in the cookie of one browser.
    #[n(4)]
    WebLogin,
}

/// The cost of Argon2id (RFC 9106), stored with the slot so that it can be raised for new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct PasswordParams {
    /// Memory in KiB.
    #[n(0)]
    pub memory_kib: u32,
    /// Passes over the memory.
    #[n(1)]
    pub passes: u32,
    /// Lanes.
    #[n(2)]
    pub lanes: u32,
}

impl Default for PasswordParams {
    /// 19 MiB, two passes, one lane.
    fn default() -> Self {
        MAX_PARAMS
    }
}

/// The most a stored slot may ask for, which is what every slot is made with: so much memory is
/// acquired for a login, and a forged slot must not take more.
const MAX_PARAMS: PasswordParams = PasswordParams { memory_kib: 19 * 1024, passes: 2, lanes: 1 };
/// The encapsulated key, the root key and its tag.
const SEALED_BYTES: usize = ENCAPSULATED_BYTES + 32 + TAG_BYTES;

/// What a slot's tag says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotTrust {
    /// A process that had the root key made the slot as it is, or saw its secret open it.
    Verified,
    /// There is no tag: an earlier version made the slot, or a process without the root key.
    Unverified,
    /// The tag is not that of the slot as it is: a process without the root key changed it.
    Forged,
}

/// The secret of a grant's slot: tokens of OAuth carry it, sealed.
#[derive(Clone)]
pub struct SlotSecret(Secret);

impl SlotSecret {
    /// The one of these bytes, which the caller wipes; `None` unless there are 32.
    pub fn copied(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == 32).then(|| SlotSecret(Secret::filled(|secret| secret.copy_from_slice(bytes))))
    }

    /// Its bytes. A caller that copies them wipes the copy.
    pub fn bytes(&self) -> &[u8; 32] {
        self.0.bytes()
    }
}

/// What a secret found in a slot.
pub struct Opened {
    /// The root key.
    pub root: RootKey,
    /// Whether the public key that the slot publishes is that of the secret.
    pub is_own_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
struct SlotTag(#[cbor(n(0), with = "minicbor::bytes")] [u8; 32]);

/// One way to an account's root key.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct Slot {
    #[n(0)]
    id: SlotId,
    #[n(1)]
    kind: SlotKind,
    #[cbor(n(2), with = "minicbor::bytes")]
    salt: [u8; 32],
    #[n(3)]
    params: Option<PasswordParams>,
    /// Its private half comes of the secret.
    #[n(4)]
    public: PublicKey,
    /// The root key, sealed to `public`.
    #[cbor(n(5), with = "minicbor::bytes")]
    sealed: [u8; SEALED_BYTES],
    #[n(6)]
    label: Option<String>,
    #[n(7)]
    created: Option<Timestamp>,
    /// Over all but `sealed`, under a key of the root key.
    #[n(8)]
    tag: Option<SlotTag>,
}

impl Slot {
    /// A slot that the password `secret` opens. Blocks the thread for as long as Argon2 takes.
    pub fn password(
        root: &RootKey,
        account: AccountId,
        secret: &[u8],
        params: PasswordParams,
        random: &dyn Random,
    ) -> Slot {
        let slot = Slot::empty(SlotKind::Password, Some(params), random);
        slot.made(root, account, secret, random)
    }

    /// A slot that opens with the token returned with it, and with nothing else. The token says
    /// that it is of the account called `name`.
    pub fn token(
        root: &RootKey,
        account: AccountId,
        name: &str,
        random: &dyn Random,
    ) -> (Slot, Zeroizing<String>) {
        let slot = Slot::empty(SlotKind::Token, None, random);
        let secret = Secret::filled(|secret| random.fill(secret));
        let text = token::APP_PASSWORD.format(name, slot.id, &secret);
        (slot.made(root, account, secret.bytes(), random), text)
    }

    /// A slot that opens with the text returned with it, the cookie of a web login, and with nothing
    /// else. The text says that it is of the account called `name`.
    pub fn web_login(
        root: &RootKey,
        account: AccountId,
        name: &str,
        random: &dyn Random,
    ) -> (Slot, Zeroizing<String>) {
        let slot = Slot::empty(SlotKind::WebLogin, None, random);
        let secret = Secret::filled(|secret| random.fill(secret));
        let text = token::WEB_LOGIN.format(name, slot.id, &secret);
        (slot.made(root, account, secret.bytes(), random), text)
    }

    /// A slot that opens with the secret returned with it, and with nothing else.
    pub fn grant(root: &RootKey, account: AccountId, random: &dyn Random) -> (Slot, SlotSecret) {
        let slot = Slot::empty(SlotKind::Grant, None, random);
        let secret = SlotSecret(Secret::filled(|secret| random.fill(secret)));
        (slot.made(root, account, secret.bytes(), random), secret)
    }

    /// A slot that opens with the recovery code returned with it, and with nothing else.
    pub fn recovery(root: &RootKey, account: AccountId, random: &dyn Random) -> (Slot, Zeroizing<String>) {
        let slot = Slot::empty(SlotKind::Recovery, None, random);
        let mut secret = Zeroizing::new([0; recovery::SECRET_BYTES]);
        random.fill(&mut *secret);
        let text = recovery::format(&secret);
        (slot.made(root, account, &*secret, random), text)
    }

    /// A slot that nothing opens, at the cost of a password slot: for names that are no account, so
    /// that time does not tell them apart.
    pub fn decoy(params: PasswordParams, random: &dyn Random) -> Slot {
        Slot::empty(SlotKind::Password, Some(params), random)
    }

    /// The same slot with what its owner calls it and when it was made.
    #[must_use]
    pub fn labelled(mut self, label: Option<String>, created: Timestamp) -> Slot {
        self.label = label;
        self.created = Some(created);
        self.tag = None;
        self
    }

    /// The same slot with a tag, as the last step of making it; or of one whose secret has just
    /// opened it and is that of the public key that it publishes ([`Opened::is_own_key`]).
    #[must_use]
    pub fn tagged(mut self, root: &RootKey, account: AccountId) -> Slot {
        self.tag = Some(self.tag_under(root, account));
        self
    }

    /// What its tag says of it, to a process that has the root key.
    pub fn trust(&self, root: &RootKey, account: AccountId) -> SlotTrust {
        match &self.tag {
            None => SlotTrust::Unverified,
            Some(tag) if equal(&tag.0, &self.tag_under(root, account).0) => SlotTrust::Verified,
            Some(_) => SlotTrust::Forged,
        }
    }

    /// Whether there is a tag, right or wrong.
    pub fn has_tag(&self) -> bool {
        self.tag.is_some()
    }

    fn tag_under(&self, root: &RootKey, account: AccountId) -> SlotTag {
        let created = self.created.map_or([0; 9], |at| {
            let mut bytes = [1; 9];
            bytes[1..].copy_from_slice(&at.0.to_be_bytes());
            bytes
        });
        let has_label = [u8::from(self.label.is_some())];
        let label = self.label.as_deref().unwrap_or_default().as_bytes();
        let context = self.context(account);
        // Of fixed length but for the label, which is last.
        let parts: [&[u8]; 6] = [&context, &self.salt, self.public.bytes(), &created, &has_label, label];
        SlotTag(root.tag_slots(account, b"sealpost slot tag v1", &parts))
    }

    /// The slot's id.
    pub fn id(&self) -> SlotId {
        self.id
    }

    /// What kind of secret opens it.
    pub fn kind(&self) -> SlotKind {
        self.kind
    }

    /// What its owner calls it.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// When it was made.
    pub fn created(&self) -> Option<Timestamp> {
        self.created
    }

    /// The root key, if `secret` (a password, a token, a recovery code or a cookie as its owner has
    /// it, or the bytes of a [`SlotSecret`]) opens this slot of `account`, and whether the slot publishes the key of that secret.
    ///
    /// Costs the same whether it does or not. A password slot blocks the thread for as long as
    /// Argon2 takes and uses the memory that its parameters say.
    pub fn open(&self, account: AccountId, secret: &[u8]) -> Option<Opened> {
        self.open_in(account, secret, &mut StretchMemory::default())
    }

    /// As [`Slot::open`], in memory that the caller keeps: one slot after the other can be tried in
    /// it, and what is found be used before it is overwritten and given back, which takes a tenth
    /// of the time of it all.
    pub fn open_in(&self, account: AccountId, secret: &[u8], memory: &mut StretchMemory) -> Option<Opened> {
        let parsed;
        let secret: &[u8] = match self.kind {
            SlotKind::Password => secret,
            SlotKind::Token | SlotKind::WebLogin => {
                let form = if self.kind == SlotKind::Token { token::APP_PASSWORD } else { token::WEB_LOGIN };
                let (id, key) = form.parse(secret)?;
                if id != self.id {
                    return None;
                }
                parsed = Zeroizing::new(key.bytes().to_vec());
                &parsed
            }
            SlotKind::Grant if secret.len() == 32 => secret,
            SlotKind::Grant => return None,
            SlotKind::Recovery => {
                parsed = Zeroizing::new(recovery::parse(secret)?.to_vec());
                &parsed
            }
        };
        let (private, public) = self.keys(account, secret, memory)?;
        let root = self.unseal(account, &private)?;
        Some(Opened { root, is_own_key: equal(public.bytes(), self.public.bytes()) })
    }

    /// The same slot with another root key of `account` in it, which its secret opens from now on,
    /// without a tag. Needs no secret.
    ///
    /// # Errors
    /// `Corrupt` if the slot's public key is none.
    pub fn reseal(&self, root: &RootKey, account: AccountId, random: &dyn Random) -> Result<Slot> {
        let (encapsulated, secret) = kem::encapsulate(&self.public, &self.context(account), EXPORT, random)?;
        let cipher = ObjectCipher::new(&[], secret.bytes(), self.context(account));
        let mut sealed = Zeroizing::new(Vec::with_capacity(SEALED_BYTES));
        sealed.extend_from_slice(&encapsulated);
        sealed.extend_from_slice(root.bytes());
        cipher.seal(PLACE, HEADER, &mut sealed, ENCAPSULATED_BYTES);
        let mut slot = self.clone();
        slot.sealed.copy_from_slice(&sealed);
        slot.tag = None;
        Ok(slot)
    }

    fn unseal(&self, account: AccountId, private: &PrivateKey) -> Option<RootKey> {
        let (encapsulated, sealed) = self.sealed.split_at(ENCAPSULATED_BYTES);
        let context = self.context(account);
        let secret = kem::decapsulate(private, encapsulated, &context, EXPORT).ok()?;
        let mut root = Zeroizing::new(sealed.to_vec());
        let opened = ObjectCipher::new(&[], secret.bytes(), context).open(PLACE, HEADER, &mut root).ok()?;
        RootKey::copied(&root[..opened])
    }

    fn empty(kind: SlotKind, params: Option<PasswordParams>, random: &dyn Random) -> Slot {
        let (mut id, mut salt) = (SlotId([0; 8]), [0; 32]);
        random.fill(&mut id.0);
        random.fill(&mut salt);
        let (public, sealed) = (PublicKey::NONE, [0; SEALED_BYTES]);
        Slot { id, kind, salt, params, public, sealed, label: None, created: None, tag: None }
    }

    fn made(mut self, root: &RootKey, account: AccountId, secret: &[u8], random: &dyn Random) -> Slot {
        // Parameters out of bounds are the caller's constant, not input: fall back to the default
        // rather than fail.
        let memory = &mut StretchMemory::default();
        let keys = self.keys(account, secret, memory).or_else(|| {
            self.params = Some(PasswordParams::default());
            self.keys(account, secret, memory)
        });
        self.public = keys.expect("the default parameters are within bounds").1;
        self.reseal(root, account, random).expect("a key that was just derived is one")
    }

    /// The pair of keys that comes of `secret`; `None` if the slot's parameters are out of bounds.
    fn keys(
        &self,
        account: AccountId,
        secret: &[u8],
        memory: &mut StretchMemory,
    ) -> Option<(Box<PrivateKey>, PublicKey)> {
        let stretched = match self.kind {
            SlotKind::Password => Some(memory.stretch(secret, &self.salt, self.params?)?),
            SlotKind::Token | SlotKind::Recovery | SlotKind::Grant | SlotKind::WebLogin => None,
        };
        let secret = stretched.as_ref().map_or(secret, |s| s.bytes());
        let context = self.context(account);
        Some(key_pair(&derive(&self.salt, secret, &[b"sealpost slot keys v2", &context])))
    }

    /// What the slot is bound to.
    fn context(&self, account: AccountId) -> [u8; 32] {
        let params = self.params.unwrap_or(PasswordParams { memory_kib: 0, passes: 0, lanes: 0 });
        sha256(&[
            b"sealpost slot v2",
            &account.0,
            &self.id.0,
            &[self.kind as u8],
            &params.memory_kib.to_be_bytes(),
            &params.passes.to_be_bytes(),
            &params.lanes.to_be_bytes(),
        ])
    }
}

const EXPORT: &[u8] = b"sealpost slot v2";
const PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };
const HEADER: [u8; 4] = [0; 4];

/// The name of the account that an app password says it is of; `None` if `text` is none.
pub fn account_of_app_password(text: &[u8]) -> Option<String> {
    token::APP_PASSWORD.account_of(text)
}

/// The name of the account and the slot that the cookie of a web login says it is of; `None` if
/// `text` is none.
pub fn named_in_web_login(text: &[u8]) -> Option<(String, SlotId)> {
    let (slot, _) = token::WEB_LOGIN.parse(text)?;
    Some((token::WEB_LOGIN.account_of(text)?, slot))
}

/// The slots of `slots` that `secret` may open at a login: the token's own slot if it is a token of
/// this account, else the password slots, of which an account has one: a record that was forged may
/// have any number, and no more than [`limits::LOGIN_SLOTS`] are tried. Recovery codes are not for
/// logging in.
pub fn for_login<'a>(slots: &'a [Slot], secret: &[u8]) -> Vec<&'a Slot> {
    if let Some((id, _)) = token::APP_PASSWORD.parse(secret)
        && let Some(slot) = slots.iter().find(|s| s.kind == SlotKind::Token && s.id == id)
    {
        return vec![slot];
    }
    slots.iter().filter(|s| s.kind == SlotKind::Password).take(limits::LOGIN_SLOTS).collect()
}

/// The memory that Argon2 works in, none until it does; overwritten when dropped.
#[derive(Default)]
pub struct StretchMemory(Zeroizing<Vec<Block>>);

impl StretchMemory {
    fn stretch(&mut self, secret: &[u8], salt: &[u8], params: PasswordParams) -> Option<Secret> {
        let PasswordParams { memory_kib, passes, lanes } = params;
        if memory_kib > MAX_PARAMS.memory_kib || passes > MAX_PARAMS.passes || lanes > MAX_PARAMS.lanes {
            return None;
        }
        let params = Params::new(memory_kib, passes, lanes, Some(32)).ok()?;
        let blocks = params.block_count();
        if self.0.len() < blocks {
            // The earlier buffer is freed first: both together would exceed the reservation.
            self.0 = Zeroizing::default();
            self.0 = Zeroizing::new(vec![Block::new(); blocks]);
        }
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let memory = &mut self.0[..blocks];
        let stretch = |out: &mut [u8; 32]| {
            wiping_stack(|| argon2.hash_password_into_with_memory(secret, salt, out, memory))
        };
        Secret::try_filled(stretch).ok()
    }
}

#[cfg(test)]
mod tests;
