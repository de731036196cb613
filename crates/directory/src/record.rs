//! What is recorded about an account: everything the server must know without the account's key.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Timestamp};
use sealpost_vault::slot::{Slot, SlotId, SlotKind};
use sealpost_vault::{EarlierKeys, Epoch, PublicKey, RootKey};

use super::AccountName;

/// One version of an account's record.
#[derive(Clone, Encode, Decode)]
#[cbor(map)]
pub struct AccountRecord {
    /// The account, whatever it is called.
    #[n(0)]
    pub id: AccountId,
    /// Its name and main address.
    #[n(1)]
    pub name: AccountName,
    /// When it was made.
    #[n(2)]
    pub created: Timestamp,
    /// Bytes of mail it may hold; `None`: any number.
    #[n(3)]
    pub quota: Option<u64>,
    /// What its owner may do.
    #[n(4)]
    pub role: Role,
    /// What deliveries are sealed to.
    #[n(5)]
    pub public: PublicKey,
    /// The ways to its root key; empty once the account is deleted for good.
    #[n(6)]
    pub slots: Vec<Slot>,
    /// When it was removed; its mail is kept for the retention period after that.
    #[n(7)]
    pub removed: Option<Timestamp>,
    /// Whether its mail is deleted for good, or about to be; nothing brings it back.
    #[n(8)]
    pub purged: bool,
    /// Since when nobody may log in; its mail still arrives.
    #[n(9)]
    pub suspended: Option<Timestamp>,
    /// The root keys of earlier epochs; `None` in the first one.
    #[n(10)]
    pub earlier: Option<Box<EarlierKeys>>,
    /// Messages it may hold; `None`: any number.
    #[n(20)]
    pub quota_messages: Option<u64>,
    /// Mailboxes it may have.
    #[n(21)]
    pub quota_mailboxes: Option<u64>,
    /// Bytes of metadata it may hold.
    #[n(22)]
    pub quota_annotations: Option<u64>,
    /// Which version of the record this is; part of its path and not stored again.
    #[cbor(skip)]
    pub version: u64,
}

/// What the owner of an account may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Role {
    /// Read and send mail.
    #[default]
    #[n(0)]
    User,
    /// Manage other accounts too.
    #[n(1)]
    Admin,
}

/// One app password, as a list shows it. The secret itself is known to its owner alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppPassword {
    /// Names it, for revoking; also the visible first part of the token.
    pub id: SlotId,
    /// What its owner calls it.
    pub label: String,
    /// When it was made.
    pub created: Option<Timestamp>,
}

impl AccountRecord {
    /// Whether the account can be used: not removed.
    pub fn is_active(&self) -> bool {
        self.removed.is_none() && !self.purged
    }

    /// Whether logins are let in: neither removed nor suspended.
    pub fn lets_in(&self) -> bool {
        self.is_active() && self.suspended.is_none()
    }

    /// The epoch of its root key.
    pub fn epoch(&self) -> Epoch {
        self.public.epoch()
    }

    /// Opens slots of this account, apart from the record: its root key with those of earlier epochs, if the secret opens the slot. As
    /// [`Slot::open`] this may block for long.
    pub fn opener(&self) -> impl Fn(&Slot, &[u8]) -> Option<RootKey> + Send + 'static {
        let (id, earlier) = (self.id, self.earlier.clone());
        move |slot, secret| {
            let root = slot.open(id, secret)?;
            match &earlier {
                None => Some(root),
                Some(earlier) => earlier.before(&root, id).ok(),
            }
        }
    }

    /// Its app passwords, oldest first.
    pub fn app_passwords(&self) -> impl Iterator<Item = AppPassword> + '_ {
        self.slots.iter().filter(|slot| slot.kind() == SlotKind::Token).map(|slot| AppPassword {
            id: slot.id(),
            label: slot.label().unwrap_or_default().to_owned(),
            created: slot.created(),
        })
    }

    /// Whether a recovery code was made for it.
    pub fn has_recovery(&self) -> bool {
        self.slots.iter().any(|slot| slot.kind() == SlotKind::Recovery)
    }
}
