//! What is recorded about an account: everything the server must know without the account's key.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Result, Timestamp};
use sealpost_vault::slot::{Opened, Slot, SlotId, SlotKind, SlotList, SlotTrust, StretchMemory};
use sealpost_vault::{EarlierKeys, Epoch, Identity, PublicKey, RootKey};

use sealpost_vault::record::unverified_record;

use super::{AccountName, Sending};

/// The vacation response that an account has now: names the object with its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct VacationMark {
    /// Counts its changes.
    #[n(0)]
    pub number: u64,
    /// Random, so that two writers of the same number have two objects.
    #[n(1)]
    pub unique: u64,
}

/// One version of an account's record.
#[derive(Clone, Encode, Decode)]
#[cbor(map)]
pub struct AccountRecord {
    /// The account, under any name.
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
    /// The slots with its root key; empty once the account is deleted permanently.
    #[n(6)]
    pub slots: Vec<Slot>,
    /// When it was removed; its mail is kept for the retention period after that.
    #[n(7)]
    pub removed: Option<Timestamp>,
    /// Whether its mail is deleted permanently, or about to be; it cannot be restored.
    #[n(8)]
    pub purged: bool,
    /// Since when logins fail; its mail still arrives.
    #[n(9)]
    pub suspended: Option<Timestamp>,
    /// The root keys of earlier epochs; `None` in the first one.
    #[n(10)]
    pub earlier: Option<Box<EarlierKeys>>,
    /// Which slots its owner's key knows; `None` until a version that makes lists has seen it.
    #[n(11)]
    pub slot_list: Option<Box<SlotList>>,
    /// By what others recognize its public key; `None` as with `slot_list`.
    #[n(12)]
    pub identity: Option<Box<Identity>>,
    /// Messages it may hold; `None`: any number.
    #[n(20)]
    pub quota_messages: Option<u64>,
    /// Mailboxes it may have.
    #[n(21)]
    pub quota_mailboxes: Option<u64>,
    /// Bytes of metadata it may hold.
    #[n(22)]
    pub quota_annotations: Option<u64>,
    /// What the operator decided about its sending; `None`: nothing.
    #[n(24)]
    pub sending: Option<Box<Sending>>,
    /// Its vacation response; `None` until it has had one.
    #[n(25)]
    pub vacation: Option<VacationMark>,
    /// Which version of the record this is; part of its path and not stored again.
    #[cbor(skip)]
    pub version: u64,
}

/// Whether slots of that kind are revoked one by one, without the account's key.
pub(super) fn is_revocable(kind: SlotKind) -> bool {
    matches!(kind, SlotKind::Token | SlotKind::Grant | SlotKind::WebLogin)
}

/// The account in an object of `accounts/…` of any writer: only for telling stores apart.
pub fn unverified_account(object: &[u8]) -> Option<AccountId> {
    let record: AccountRecord = minicbor::decode(unverified_record(object)?).ok()?;
    Some(record.id)
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

/// One login that can be revoked by itself, as a list shows it: an app password, an OAuth grant or
/// a web login. The secret itself is known to its owner alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppPassword {
    /// Names it, for revoking; also the visible first part of the token.
    pub id: SlotId,
    /// Which of the three.
    pub kind: SlotKind,
    /// What its owner calls it.
    pub label: String,
    /// When it was made.
    pub created: Option<Timestamp>,
}

/// A slot as reports name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its id.
    pub id: SlotId,
    /// What opens it.
    pub kind: SlotKind,
    /// What its owner calls it.
    pub label: Option<String>,
}

impl SlotInfo {
    /// That of `slot`.
    pub fn of(slot: &Slot) -> Self {
        let label = slot.label().map(|label| label.replace(char::is_control, "?"));
        SlotInfo { id: slot.id(), kind: slot.kind(), label }
    }
}

impl fmt::Display for SlotInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SlotKind::Password => write!(f, "password slot {}", self.id),
            SlotKind::Recovery => write!(f, "recovery code {}", self.id),
            SlotKind::Token => {
                write!(f, "app password {} ({})", self.id, self.label.as_deref().unwrap_or("no label"))
            }
            SlotKind::Grant => {
                write!(f, "OAuth grant {} ({})", self.id, self.label.as_deref().unwrap_or("no client name"))
            }
            SlotKind::WebLogin => write!(f, "web login {}", self.id),
        }
    }
}

/// What of a record was changed by a process that has `server.key` and not the account's root key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgery {
    /// Deliveries are sealed to another key than the account's.
    DeliveryKey,
    /// This slot was changed, was planted, or was withdrawn and restored.
    Slot(SlotInfo),
    /// The list of slots is not as it was made.
    SlotList,
    /// Others recognize another account than this one by the record.
    Identity,
}

impl fmt::Display for Forgery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forgery::DeliveryKey => f.write_str(
                "the record has another public key than the account: its owner cannot read mail that was delivered since \
                 then, and the owner of that key can",
            ),
            Forgery::Slot(slot) => write!(f, "the {slot} was planted, changed, or withdrawn and restored"),
            Forgery::Identity => f.write_str(
                "the record has another identity than the account: other accounts offer it no shared mailboxes, or offer them to a thief",
            ),
            Forgery::SlotList => f.write_str(
                "the list of its slots was changed: passwords and app passwords that were withdrawn may be back",
            ),
        }
    }
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

    /// Opens slots of this account, apart from the record: its root key with those of earlier
    /// epochs, if the secret opens the slot. As [`Slot::open`] this may block for long.
    pub fn opener(&self) -> impl Fn(&Slot, &[u8]) -> Option<Opened> + Send + 'static {
        let open = self.opener_in();
        move |slot, secret| open(slot, secret, &mut StretchMemory::default())
    }

    /// The same, in memory that the caller keeps ([`Slot::open_in`]).
    pub fn opener_in(&self) -> impl Fn(&Slot, &[u8], &mut StretchMemory) -> Option<Opened> + Send + 'static {
        let (id, earlier) = (self.id, self.earlier.clone());
        move |slot, secret, memory| {
            let opened = slot.open_in(id, secret, memory)?;
            match &earlier {
                None => Some(opened),
                Some(earlier) => {
                    let root = earlier.before(&opened.root, id).ok()?;
                    Some(Opened { root, ..opened })
                }
            }
        }
    }

    /// What of this record, whose root key is `root`, a process without that key has changed: it
    /// has `server.key` and writes to the store. The slot that was opened counts too if the key
    /// that it publishes is not that of its secret.
    pub fn forgeries(&self, root: &RootKey, opened: Option<(&Slot, bool)>) -> Vec<Forgery> {
        let mut found = Vec::new();
        if root.delivery_key(self.id) != self.public {
            found.push(Forgery::DeliveryKey);
        }
        if self.identity.as_deref().is_some_and(|identity| *identity != Identity::of(root, self.id)) {
            found.push(Forgery::Identity);
        }
        let list = self.slot_list.as_deref();
        if list.is_some_and(|list| !list.is_authentic(root, self.id)) {
            found.push(Forgery::SlotList);
        }
        let is_foreign = |slot: &Slot| opened.is_some_and(|(of, is_own)| !is_own && of == slot);
        let is_unlisted = |slot: &Slot| list.is_some_and(|list| !list.has(slot.id()));
        let forged = |slot: &&Slot| {
            slot.trust(root, self.id) == SlotTrust::Forged || is_foreign(slot) || is_unlisted(slot)
        };
        found.extend(self.slots.iter().filter(forged).map(|slot| Forgery::Slot(SlotInfo::of(slot))));
        found
    }

    /// Refuses a login with the slot that was opened if this record was forged to the harm of that
    /// login: deliveries go to another key, or the slot itself is not as it was made. What else was
    /// forged is logged.
    ///
    /// # Errors
    /// `Corrupt` with the remedy.
    pub fn check_forgeries(&self, root: &RootKey, slot: &Slot, is_own_key: bool) -> Result<()> {
        for forgery in self.forgeries(root, Some((slot, is_own_key))) {
            let remedy = "a process with server.key and without the account's key changed the record: see \
                          \"What an attacker can do\" in the guide to keys";
            match forgery {
                Forgery::Slot(other) if other.id != slot.id() => {
                    tracing::error!(account = %self.name, "{}; {remedy}", Forgery::Slot(other));
                }
                forgery => {
                    return Err(Error::corrupt(format!("the account {}: {forgery}; {remedy}", self.name)));
                }
            }
        }
        Ok(())
    }

    /// Slots of which no tag says that a process with the root key `root` made them, or which are
    /// not on the list of slots.
    pub fn unverified(&self, root: &RootKey) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !self.is_verified(root, slot))
    }

    /// Whether a slot has a right tag and is on the list of slots, if there is one.
    pub fn is_verified(&self, root: &RootKey, slot: &Slot) -> bool {
        let is_listed = |list: &SlotList| list.is_authentic(root, self.id) && list.has(slot.id());
        slot.trust(root, self.id) == SlotTrust::Verified && self.slot_list.as_deref().is_none_or(is_listed)
    }

    /// Whether there is no list of slots or no identity yet, or a slot on the list was withdrawn
    /// since.
    pub fn is_list_due(&self) -> bool {
        self.identity.is_none()
            || self.slot_list.as_deref().is_none_or(|list| list.has_withdrawn(&self.slots))
    }

    /// Makes the identity, and the list of slots again, for the version of the record that is about
    /// to be written: those that were on it, and `added`. Without a list, all but those with a
    /// wrong tag; if the list was changed, `added` alone, because nothing tells what was on it.
    /// Returns its number.
    pub(super) fn list_slots(&mut self, root: &RootKey, added: Option<SlotId>) -> u64 {
        let before = self.slot_list.take();
        let id = self.id;
        self.identity = Some(Box::new(Identity::of(root, id)));
        let is_kept = |slot: &&Slot| {
            Some(slot.id()) == added
                || match before.as_deref() {
                    Some(list) => list.is_authentic(root, id) && list.has(slot.id()),
                    None => slot.trust(root, id) != SlotTrust::Forged,
                }
        };
        let kept = self.slots.iter().filter(is_kept).map(Slot::id);
        // Versions only grow, whatever list was before.
        let number = self.version.saturating_add(1);
        self.slot_list = Some(Box::new(SlotList::of(root, id, number, kept)));
        number
    }

    /// Removes all OAuth grants and web logins; which.
    pub(super) fn take_logins(&mut self) -> Vec<SlotId> {
        let is_login = |slot: &Slot| matches!(slot.kind(), SlotKind::Grant | SlotKind::WebLogin);
        self.slots.extract_if(.., |slot| is_login(slot)).map(|slot| slot.id()).collect()
    }

    /// Its app passwords, oldest first.
    pub fn app_passwords(&self) -> impl Iterator<Item = AppPassword> + '_ {
        self.revocable().filter(|login| login.kind == SlotKind::Token)
    }

    /// Its app passwords, OAuth grants and web logins, oldest first.
    pub fn revocable(&self) -> impl Iterator<Item = AppPassword> + '_ {
        self.slots.iter().filter(|slot| is_revocable(slot.kind())).map(|slot| AppPassword {
            id: slot.id(),
            kind: slot.kind(),
            label: slot.label().unwrap_or_default().to_owned(),
            created: slot.created(),
        })
    }

    /// Whether a recovery code was made for it.
    pub fn has_recovery(&self) -> bool {
        self.slots.iter().any(|slot| slot.kind() == SlotKind::Recovery)
    }
}
