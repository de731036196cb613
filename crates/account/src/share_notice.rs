//! Notices of a user's own log: the rights to other owners' mailboxes as the user knows them, and how they
//! changed (RFC 9670 §3).
//!
//! `share/rights/{share}` has the rights that were known last; `share/notices` has the latest notices,
//! and what became of those before. Both are written when the user's session looks: rights are in the
//! logs of the shares, and no other node needs a key.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Timestamp, UidValidity, limits};

use crate::event::Event;
use crate::rights::Rights;
use crate::state::AccountState;

const NOTICES: &str = "share/notices";
const KNOWN: &str = "share/rights/";
/// Bytes of a name that a notice has.
const NAME_BYTES: usize = 255;

/// Another owner's mailbox as the user knows it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KnownShare {
    /// The owner's account.
    #[n(0)]
    pub owner: AccountId,
    /// What that account is called.
    #[n(1)]
    pub owner_name: String,
    /// What its owner calls the mailbox.
    #[n(2)]
    pub name: String,
    /// The UIDVALIDITY of the mailbox, which its id has.
    #[n(3)]
    uid_validity: u32,
    /// The user's rights.
    #[n(4)]
    pub rights: Rights,
}

/// One change of rights.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ShareNotice {
    /// The number of the change that made it.
    #[n(0)]
    pub id: u64,
    /// When it was made, in milliseconds.
    #[n(1)]
    created: i64,
    /// The log of the mailbox.
    #[n(2)]
    pub share: AccountId,
    /// The mailbox; its rights are those after the change, or before it if there are none after it.
    #[n(3)]
    pub mailbox: KnownShare,
    /// The rights before.
    #[n(4)]
    pub old: Option<Rights>,
    /// The rights after.
    #[n(5)]
    pub new: Option<Rights>,
}

/// The latest notices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct ShareNotices {
    /// How many changes there were: notices that were made or removed.
    #[n(0)]
    pub changes: u64,
    /// The notices, oldest first.
    #[n(1)]
    pub notices: Vec<ShareNotice>,
    /// Notices that are gone: the number of the change, and the notice; oldest first.
    #[n(2)]
    gone: Vec<(u64, u64)>,
}

/// What became of notices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoticeChanges {
    /// They are new.
    pub created: Vec<u64>,
    /// They were there, and are gone.
    pub destroyed: Vec<u64>,
}

impl KnownShare {
    /// A mailbox with these rights.
    pub fn new(owner: (AccountId, &str), name: &str, validity: UidValidity, rights: Rights) -> Self {
        let (owner, owner_name) = owner;
        let leaf = name.rsplit_once('/').map_or(name, |(_, leaf)| leaf);
        let end = leaf.floor_char_boundary(NAME_BYTES);
        let (owner_name, name) = (owner_name.to_owned(), leaf[..end].to_owned());
        KnownShare { owner, owner_name, name, uid_validity: validity.0.get(), rights }
    }

    /// The UIDVALIDITY of the mailbox; `None` if it was stored as none.
    pub fn uid_validity(&self) -> Option<UidValidity> {
        std::num::NonZeroU32::new(self.uid_validity).map(UidValidity)
    }

    /// The event that remembers it, in the user's own log.
    pub fn event(&self, share: AccountId) -> Event {
        let value = minicbor::to_vec(self).unwrap_or_default();
        Event::ObjectPut { name: format!("{KNOWN}{share}"), value }
    }
}

impl ShareNotice {
    /// When it was made.
    pub fn created(&self) -> Timestamp {
        Timestamp(self.created)
    }
}

impl ShareNotices {
    /// Adds a notice; the oldest one goes if there are too many.
    pub fn add(
        &mut self,
        share: AccountId,
        mailbox: KnownShare,
        rights: (Option<Rights>, Option<Rights>),
        now: Timestamp,
    ) {
        self.changes += 1;
        let (old, new) = rights;
        self.notices.push(ShareNotice { id: self.changes, created: now.0, share, mailbox, old, new });
        while self.notices.len() > limits::SHARE_NOTICES {
            let oldest = self.notices[0].id;
            self.remove(oldest);
        }
    }

    /// Removes a notice; whether there was one with that id.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.notices.len();
        self.notices.retain(|notice| notice.id != id);
        if self.notices.len() == before {
            return false;
        }
        self.changes += 1;
        self.gone.push((self.changes, id));
        let extra = self.gone.len().saturating_sub(limits::SHARE_NOTICES);
        self.gone.drain(..extra);
        true
    }

    /// What became of notices since there were so many changes; `None` if that is too long ago, or
    /// has not been yet.
    pub fn since(&self, changes: u64) -> Option<NoticeChanges> {
        let kept = u64::try_from(self.gone.len()).unwrap_or(u64::MAX);
        let is_all_known = kept < limits::SHARE_NOTICES as u64
            || self.gone.first().is_some_and(|(first, _)| *first <= changes + 1);
        if changes > self.changes || !is_all_known {
            return None;
        }
        let created = self.notices.iter().map(|notice| notice.id).filter(|id| *id > changes);
        let gone = self.gone.iter().filter(|(change, id)| *change > changes && *id <= changes);
        Some(NoticeChanges { created: created.collect(), destroyed: gone.map(|(_, id)| *id).collect() })
    }

    /// The event that records them, in the user's own log.
    pub fn event(&self) -> Event {
        Event::ObjectPut { name: NOTICES.to_owned(), value: minicbor::to_vec(self).unwrap_or_default() }
    }
}

/// The event that forgets another owner's mailbox, in the user's own log, if it is known there: its end
/// makes no notice then.
pub fn forgotten(state: &AccountState, share: AccountId) -> Option<Event> {
    let name = format!("{KNOWN}{share}");
    state.object(&name).is_some().then_some(Event::ObjectRemoved { name })
}

impl AccountState {
    /// The notices of this account.
    pub fn share_notices(&self) -> ShareNotices {
        self.object(NOTICES).and_then(|bytes| minicbor::decode(bytes).ok()).unwrap_or_default()
    }

    /// The mailboxes of other owners as this account knew them last, by their logs.
    pub fn known_shares(&self) -> impl Iterator<Item = (AccountId, KnownShare)> + '_ {
        self.objects(KNOWN).filter_map(|(name, value)| {
            Some((name.strip_prefix(KNOWN)?.parse().ok()?, minicbor::decode(value).ok()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn known() -> KnownShare {
        let validity = UidValidity(NonZeroU32::MIN);
        KnownShare::new((AccountId([7; 16]), "alice@x"), "a/Team", validity, Rights::LOOKUP)
    }

    fn add(notices: &mut ShareNotices) -> u64 {
        notices.add(AccountId([1; 16]), known(), (None, Some(Rights::LOOKUP)), Timestamp(5));
        notices.changes
    }

    #[test]
    fn changes_since_any_change_are_exact() {
        let mut notices = ShareNotices::default();
        let (first, second) = (add(&mut notices), add(&mut notices));
        assert!(notices.remove(first) && !notices.remove(first));
        let changes = |since| notices.since(since).map(|found| (found.created, found.destroyed));
        assert_eq!(changes(0), Some((vec![second], vec![])));
        assert_eq!(changes(1), Some((vec![second], vec![first])));
        assert_eq!(changes(2), Some((vec![], vec![first])));
        assert_eq!(changes(3), Some((vec![], vec![])));
        assert_eq!(changes(4), None);
        assert_eq!(minicbor::decode::<ShareNotices>(&minicbor::to_vec(&notices).unwrap()).unwrap(), notices);
    }

    #[test]
    fn the_oldest_notices_go() {
        let mut notices = ShareNotices::default();
        for _ in 0..3 * limits::SHARE_NOTICES {
            add(&mut notices);
        }
        assert_eq!(notices.notices.len(), limits::SHARE_NOTICES);
        assert_eq!(notices.gone.len(), limits::SHARE_NOTICES);
        assert_eq!(notices.since(1), None, "too long ago");
        let now = notices.changes;
        assert_eq!(notices.since(now), Some(NoticeChanges::default()));
        let last = notices.gone[0].0 - 1;
        assert_eq!(notices.since(last).unwrap().created.len(), limits::SHARE_NOTICES - 1);
        assert_eq!(notices.since(last - 1), None);
    }

    #[test]
    fn a_full_list_fits_an_object() {
        let mut notices = ShareNotices::default();
        let (owner, name) = ("o".repeat(320), "n".repeat(1000));
        for _ in 0..2 * limits::SHARE_NOTICES {
            let validity = UidValidity(NonZeroU32::MAX);
            let known = KnownShare::new((AccountId([7; 16]), &owner), &name, validity, Rights::ALL);
            notices.changes = notices.changes.max(1 << 40);
            notices.add(
                AccountId([1; 16]),
                known,
                (Some(Rights::ALL), Some(Rights::ALL)),
                Timestamp(1 << 50),
            );
        }
        assert!(minicbor::to_vec(&notices).unwrap().len() < limits::ACCOUNT_OBJECT_BYTES);
    }
}
