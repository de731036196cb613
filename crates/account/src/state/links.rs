//! Mailboxes that become links, and links that others give.

use sealpost_base::{AccountId, MailboxId, Timestamp, limits};

use super::{AccountState, Applied, INBOX};
use crate::name;
use crate::share::{Link, UnacceptedLinks, name_for_others};

/// Where messages were that are somewhere else now: the id of no mailbox.
pub(super) const NOWHERE: MailboxId = MailboxId(0);

/// Numbers tried when the name of an offered mailbox is taken.
const NAME_ATTEMPTS: usize = 9;

impl AccountState {
    /// The messages of a mailbox are in a share from now on. The inbox stays: mail is delivered to it.
    pub(super) fn link_mailbox(&mut self, id: MailboxId, link: &Link, at: Timestamp) -> Applied {
        let position = self.position;
        let full = self.links().count() >= limits::LINKS;
        let uids = match self.mailbox(id) {
            Some(mailbox) if mailbox.name != INBOX && !full => mailbox.uids(),
            _ => return Applied::Nothing,
        };
        self.expunge(id, &uids, at);
        // They are in the share: to bring them back as well would double them.
        self.tombstones.retain(|tombstone| {
            if tombstone.mailbox == id && uids.contains(tombstone.uid) {
                tombstone.mailbox = NOWHERE;
            }
            true
        });
        if let Some(mailbox) = self.mailboxes.get_mut(&id) {
            mailbox.link = Some(link.clone());
            mailbox.highest_modseq = position;
            mailbox.properties_changed = position;
            mailbox.vanished = Vec::new();
            mailbox.vanished_floor = position;
            mailbox.keywords = Default::default();
        }
        // Clients call it by what the share is called now.
        self.departed.mailboxes.forget_up_to(position);
        Applied::Done
    }

    /// Makes a link for a share that another user gives. That user can neither replace a mailbox
    /// nor exceed the limits, that of one owner and that of all.
    pub(super) fn take_offer(
        &mut self,
        link: &Link,
        name: &str,
        below: Option<AccountId>,
        unaccepted: Option<UnacceptedLinks>,
    ) -> Applied {
        let known = self.links().any(|(_, known)| known.share == link.share);
        if below.is_none() && unaccepted.is_some_and(|most| self.has_unaccepted(link, most)) {
            return Applied::Nothing;
        }
        let of_owner = self.links().filter(|(_, known)| known.owner.is_some() && known.owner == link.owner);
        if of_owner.count() >= limits::LINKS_OF_ONE {
            return Applied::Nothing;
        }
        if known || self.links().count() >= limits::LINKS || self.mailboxes.len() >= limits::MAILBOXES {
            return Applied::Nothing;
        }
        let wanted = match (&link.owner, below) {
            (Some(owner), None) => name_for_others(owner, name, link.share),
            (None, Some(parent)) => {
                let own = |other: &Link| other.share == parent && other.owner.is_none();
                match self.links().find(|(_, other)| own(other)) {
                    Some((parent, _)) => format!("{}/{name}", parent.name),
                    None => return Applied::Nothing,
                }
            }
            _ => return Applied::Nothing,
        };
        let Some(name) = self.free_name(&wanted) else { return Applied::Nothing };
        let id = self.add_mailbox(name, None);
        if let Some(mailbox) = self.mailboxes.get_mut(&id) {
            mailbox.link = Some(link.clone());
        }
        Applied::Created(id)
    }

    /// Whether this account has too many links of other users that it never subscribed to for one
    /// more: its owner decides what fills the list, and strangers cannot use up the limit for its
    /// own shares.
    fn has_unaccepted(&self, offered: &Link, most: UnacceptedLinks) -> bool {
        let (mut of_one, mut of_all) = (0, 0);
        for (mailbox, link) in self.links() {
            if link.owner.is_some() && !self.is_subscribed(mailbox.name()) {
                of_all += 1;
                of_one += u32::from(link.owner == offered.owner);
            }
        }
        of_one >= most.of_one || of_all >= most.of_all
    }

    /// Makes a link for a share whose former mailbox is unknown.
    pub(super) fn take_found(&mut self, link: &Link) -> Applied {
        let known = self.links().any(|(_, known)| known.share == link.share);
        if known || self.links().count() >= limits::LINKS || self.mailboxes.len() >= limits::MAILBOXES {
            return Applied::Nothing;
        }
        let Some(name) = self.free_name(&format!("Shared {}", link.share)) else { return Applied::Nothing };
        let id = self.add_mailbox(name, None);
        if let Some(mailbox) = self.mailboxes.get_mut(&id) {
            mailbox.link = Some(link.clone());
        }
        Applied::Created(id)
    }

    /// The name `wanted`, or the same with a number if another mailbox has it.
    fn free_name(&self, wanted: &str) -> Option<String> {
        let numbered = (2..=NAME_ATTEMPTS).map(|n| format!("{wanted} {n}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| name::check(name).is_ok() && !self.by_name.contains_key(name))
    }
}
