//! Shared mailboxes: links to them, and their own logs' records about them.
//!
//! A shared mailbox has a log of its own (`docs/decisions/0010-sharing.md`): an account without passwords,
//! whose inbox has the messages. Accounts that see it have a [`Link`] under their name for it. The rights are
//! in the share's own state, so that they are the same for all users; a link alone gives no rights.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, MailboxId, Result, limits};
use sealpost_vault::RootKey;

use crate::acl::Acl;
use crate::event::Event;
use crate::name::INBOX;
use crate::rights::Rights;
use crate::state::{AccountState, Mailbox};

pub use crate::share_link::{Link, UnacceptedLinks};
pub use crate::share_name::{OTHERS, check_own, is_of_others, name_for_others};

const ABOUT: &str = "share/about";
const ACL: &str = "share/acl";
/// Own shares without a name, by id.
const UNLINKED: &str = "share/unlinked/";
/// Identity keys of accounts that this one offered a mailbox to, by id.
const PINNED: &str = "share/identity/";
/// Later keys of shares than those in their links, by id.
const KEY: &str = "share/key/";
/// In a share: an account with its present key has lost its rights, and no other key exists yet.
const REKEY_DUE: &str = "share/rekey";
/// Own shares whose objects are being deleted permanently, by id.
const GIVEN_UP: &str = "share/given-up/";

/// The record of a share about itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct About {
    /// The owner's account.
    #[n(0)]
    pub owner: AccountId,
    /// The name of that account.
    #[n(1)]
    pub owner_name: String,
    /// The owner's name for the mailbox.
    #[n(2)]
    pub name: String,
    /// Whether the mailbox was deleted: no user has rights any more.
    #[n(3)]
    pub closed: bool,
}

impl About {
    /// The event that records it in the share's log.
    pub fn event(&self) -> Event {
        Event::ObjectPut { name: ABOUT.to_owned(), value: minicbor::to_vec(self).unwrap_or_default() }
    }
}

impl Acl {
    /// The event that makes it the list of a share, in the share's log.
    pub fn event(&self) -> Event {
        Event::ObjectPut { name: ACL.to_owned(), value: minicbor::to_vec(self).unwrap_or_default() }
    }
}

impl AccountState {
    /// The share's record about itself. `None` if this is an account, or the share is incomplete.
    pub fn about(&self) -> Option<About> {
        minicbor::decode(self.object(ABOUT)?).ok()
    }

    /// The rights of users of this share. An unreadable list gives no rights.
    pub fn acl(&self) -> Acl {
        self.object(ACL).and_then(|bytes| minicbor::decode(bytes).ok()).unwrap_or_default()
    }

    /// The rights of an account to this share.
    pub fn rights_of(&self, account: AccountId) -> Rights {
        match self.about() {
            Some(about) if about.closed => Rights::NONE,
            Some(about) if about.owner == account => Rights::ALL,
            Some(_) => self.acl().rights_of(account),
            None => Rights::NONE,
        }
    }

    /// The mailboxes that are links, by name.
    pub fn links(&self) -> impl Iterator<Item = (&Mailbox, &Link)> {
        self.mailboxes().filter_map(|mailbox| Some((mailbox, mailbox.link()?)))
    }

    /// The account's own shares without a name: in creation, partly cancelled, or deleted recently.
    pub fn unlinked_shares(&self) -> impl Iterator<Item = Link> + '_ {
        self.objects(UNLINKED).filter_map(|(_, value)| minicbor::decode(value).ok())
    }

    /// The account's own shares whose objects are being deleted: nothing links to them.
    pub fn given_up_shares(&self) -> Vec<AccountId> {
        self.objects(GIVEN_UP).filter_map(|(name, _)| name.strip_prefix(GIVEN_UP)?.parse().ok()).collect()
    }

    /// The identity key of another account when this one first offered it a mailbox.
    pub fn pinned_identity(&self, account: AccountId) -> Option<[u8; 32]> {
        self.object(&format!("{PINNED}{account}"))?.try_into().ok()
    }

    /// The event that stores the identity key of another account; `None` if there are too many.
    pub fn pin_identity(&self, account: AccountId, key: &[u8; 32]) -> Option<Event> {
        let event = Event::ObjectPut { name: format!("{PINNED}{account}"), value: key.to_vec() };
        let is_room = self.objects(PINNED).count() < limits::PINNED_IDENTITIES;
        (is_room && crate::ops::check_objects(self, std::slice::from_ref(&event)).is_ok()).then_some(event)
    }

    /// The newest known key of the share of a link: the one in the link, or a later one from the share's
    /// record.
    pub fn share_root(&self, link: &Link) -> RootKey {
        let later = self.object(&format!("{KEY}{}", link.share));
        let later = later.and_then(|key| minicbor::decode::<RootKey>(key).ok());
        later.filter(|later| !link.root.follows(later)).unwrap_or_else(|| link.root.clone())
    }

    /// Whether this share is due for a new key: an account that has the present one may no longer read it.
    pub fn is_rekey_due(&self) -> bool {
        self.object(REKEY_DUE).is_some()
    }

    /// The link of that mailbox.
    pub fn link(&self, mailbox: MailboxId) -> Option<&Link> {
        self.any_mailbox(mailbox)?.link()
    }
}

/// Checks that a mailbox can become a share, and that the account may have another one. Called before
/// anything is created, so that a refused command leaves nothing.
///
/// # Errors
/// `NotFound` if there is no such mailbox, `Invalid` for the inbox, `Limit` for too many links or shares.
pub fn check_can_be_shared(state: &AccountState, mailbox: MailboxId) -> Result<()> {
    check_can_be_linked(state, mailbox)?;
    let linked = state.links().filter(|(_, link)| link.owner.is_none()).count();
    let kept = state.objects(UNLINKED).count() + state.objects(GIVEN_UP).count();
    if linked + kept >= limits::SHARES {
        let most = limits::SHARES;
        return Err(Error::limit(format!(
            "an account makes at most {most} shared mailboxes; deleted ones count while they are kept"
        )));
    }
    Ok(())
}

/// Checks that the messages of a mailbox can be in a share.
///
/// # Errors
/// As [`check_can_be_shared`], which checks more.
pub(crate) fn check_can_be_linked(state: &AccountState, mailbox: MailboxId) -> Result<()> {
    let mailbox = state.mailbox(mailbox).ok_or_else(|| Error::not_found("the mailbox is gone"))?;
    if mailbox.name() == INBOX {
        return Err(Error::invalid(
            "the inbox cannot be shared: mail is delivered to it sealed for its owner",
        ));
    }
    if state.links().count() >= limits::LINKS {
        return Err(Error::limit(format!("an account has at most {} shared mailboxes", limits::LINKS)));
    }
    Ok(())
}

/// The event that records a share of this account without a name: one in creation, or deleted recently.
pub fn unlinked(link: &Link) -> Event {
    let name = format!("{UNLINKED}{}", link.share);
    Event::ObjectPut { name, value: minicbor::to_vec(link).unwrap_or_default() }
}

/// The event that gives the inbox of a new share a UIDVALIDITY above those that its name had (RFC 3501
/// §2.3.1.1).
pub fn numbered_above(share: &AccountState, above: u32) -> Event {
    Event::UidValidityRaised { above, mailbox: Some(share.inbox().id()) }
}

/// The event by which a log records the UIDVALIDITY of a share: a later mailbox with the share's name gets a
/// greater one.
pub fn noted(share: &AccountState) -> Event {
    Event::UidValidityRaised { above: share.last_uid_validity(), mailbox: None }
}

/// The event by which an account stores a later key of a share than that in its link.
pub fn later_key(share: AccountId, root: &RootKey) -> Event {
    Event::ObjectPut { name: format!("{KEY}{share}"), value: minicbor::to_vec(root).unwrap_or_default() }
}

/// The event that records in a share whether a new key is due.
pub fn rekey_due(is_due: bool) -> Event {
    let name = REKEY_DUE.to_owned();
    match is_due {
        true => Event::ObjectPut { name, value: Vec::new() },
        false => Event::ObjectRemoved { name },
    }
}

/// The events that remove a link. A link to an own share is kept, with the newest key, until the share is
/// deleted permanently.
pub fn removed(state: &AccountState, mailbox: MailboxId, link: &Link) -> Vec<Event> {
    let mut events = vec![Event::MailboxDeleted { mailbox }];
    if link.owner.is_none() {
        let root = state.share_root(link);
        events.push(unlinked(&Link { root, ..link.clone() }));
    }
    events.extend(key_forgotten(state, link.share));
    events
}

/// The event that removes a stored later key of a share, if there is one.
fn key_forgotten(state: &AccountState, share: AccountId) -> Option<Event> {
    let name = format!("{KEY}{share}");
    state.object(&name).is_some().then_some(Event::ObjectRemoved { name })
}

/// The events that cancel a share without a name, before its objects are deleted: a process that is creating
/// it can no longer link to it.
pub fn given_up(share: AccountId) -> Vec<Event> {
    vec![forgotten(share), Event::ObjectPut { name: format!("{GIVEN_UP}{share}"), value: Vec::new() }]
}

/// The event that removes the record of a cancelled share after its objects were deleted.
pub fn deleted(share: AccountId) -> Event {
    Event::ObjectRemoved { name: format!("{GIVEN_UP}{share}") }
}

/// The event that removes the record of a share that now has a name.
pub fn forgotten(share: AccountId) -> Event {
    Event::ObjectRemoved { name: format!("{UNLINKED}{share}") }
}
