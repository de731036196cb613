//! What [`AccountState::apply`] makes of damage: UIDs get a new meaning, and entries that were
//! decided on the old one count in part.

use sealpost_base::{MailboxId, Position, limits};
use sealpost_vault::Epoch;
use sealpost_vault::entry::{Generation, Origin};

use super::AccountState;
use super::mailbox::Mailbox;
use crate::event::{Batch, Event};

impl AccountState {
    /// Applies an entry that was decided on UIDs of `generation`.
    pub fn apply_decided_on(
        &mut self,
        generation: Generation,
        position: Position,
        origin: Origin,
        batch: &Batch,
    ) {
        if generation == self.generation {
            self.apply(position, origin, batch);
        } else {
            self.apply_of_another_generation(position, origin, batch);
        }
    }

    /// Who an entry comes from that is sealed under a key of `epoch`. Sessions with an earlier key than
    /// that of an entry before it cannot have read that entry, and append nothing behind it: so what
    /// looks like one was written with an earlier key that was kept, and counts as a delivery does.
    #[must_use]
    pub fn origin_in_epoch(&mut self, origin: Origin, epoch: Epoch) -> Origin {
        match origin {
            Origin::Owner if epoch < self.owner_epoch => Origin::Delivery,
            Origin::Owner => {
                self.owner_epoch = epoch;
                Origin::Owner
            }
            Origin::Delivery | Origin::Renumbering => origin,
        }
    }

    /// Applies those events of an entry that count although it was decided on UIDs of another
    /// generation: its writer did not know of damage that others found, or others did not know
    /// entries that it had read. Events that name messages by UIDs, or would change or delete a
    /// mailbox, do nothing: the UIDs may mean other messages. New messages count; in the inbox, if
    /// there is no such mailbox.
    fn apply_of_another_generation(&mut self, position: Position, origin: Origin, batch: &Batch) {
        let counts = self.decided_on(self.generation.next(), batch);
        self.apply(position, origin, &counts);
    }

    /// What counts of an entry that was decided on UIDs of `generation`: all of it, if that is the
    /// one of now.
    pub fn decided_on(&self, generation: Generation, batch: &Batch) -> Batch {
        if generation == self.generation {
            return batch.clone();
        }
        let events = batch.events.iter().filter_map(|event| self.regardless_of_numbers(event)).collect();
        Batch { at: batch.at, events }
    }

    fn regardless_of_numbers(&self, event: &Event) -> Option<Event> {
        let existing = |id: &MailboxId| self.mailbox(*id).map_or_else(|| self.inbox().id(), Mailbox::id);
        match event {
            Event::Appended { mailbox: to, message, flags } | Event::Replaced { to, message, flags, .. } => {
                let (mailbox, message, flags) = (existing(to), message.clone(), flags.clone());
                Some(Event::Appended { mailbox, message, flags })
            }
            Event::Restored { to, since } => Some(Event::Restored { to: existing(to), since: *since }),
            Event::UidValidityRaised { above, .. } => {
                Some(Event::UidValidityRaised { above: *above, mailbox: None })
            }
            // Its messages are in the share, whose key is here alone.
            Event::Linked { link, .. } => Some(Event::Found { link: link.clone() }),
            Event::MailboxCreated { .. }
            | Event::Subscribed { .. }
            | Event::Delivered { .. }
            | Event::Offered { .. }
            | Event::Found { .. }
            | Event::ObjectPut { .. }
            | Event::Purged { .. }
            // Ids of address books and cards are never given again.
            | Event::AddressBookCreated { .. }
            | Event::AddressBookChanged { .. }
            | Event::AddressBookDeleted { .. }
            | Event::DefaultAddressBookSet { .. }
            | Event::CardStored { .. }
            | Event::CardDeleted { .. }
            | Event::Submitted { .. }
            | Event::SubmissionOutcome { .. }
            | Event::SubmissionRemoved { .. }
            | Event::IdentityStored { .. }
            | Event::IdentityRemoved { .. }
            | Event::HierarchyRenamed { .. } => Some(event.clone()),
            Event::MailboxRenamed { .. }
            | Event::MailboxDeleted { .. }
            | Event::Copied { .. }
            | Event::Moved { .. }
            | Event::FlagsStored { .. }
            | Event::Expunged { .. }
            | Event::RecentTaken { .. }
            | Event::ObjectRemoved { .. }
            | Event::SpecialUsesSet { .. } => None,
        }
    }

    /// What a renumbering does at `position`: what was given out before it, also by entries that
    /// are lost, is not given again. Nothing if that generation has begun already.
    pub fn apply_renumbering(&mut self, position: Position, generation: Generation) {
        self.position = position;
        if generation > self.generation {
            // A lost entry may have made as many mailboxes as there may be; others may have begun
            // generations in between.
            let generations = generation.0 - self.generation.0;
            let lost = generations.saturating_mul(limits::MAILBOXES as u32);
            self.generation = generation;
            self.last_uid_validity = self.last_uid_validity.saturating_add(lost);
            self.next_mailbox = self.next_mailbox.saturating_add(lost);
            self.apply_damage(position);
        }
    }

    /// What replay does with an entry that the account's key does not open: its events are lost.
    /// Every mailbox gets a new UIDVALIDITY, on every node alike.
    pub fn apply_damage(&mut self, position: Position) {
        self.position = position;
        let ids: Vec<_> = self.mailboxes.keys().copied().collect();
        for id in ids {
            let uid_validity = self.next_uid_validity();
            if let Some(mailbox) = self.mailboxes.get_mut(&id) {
                mailbox.uid_validity = uid_validity;
                mailbox.highest_modseq = position;
            }
        }
        self.forget_departed();
        self.contacts.apply_damage(position);
    }

    /// Mailboxes have other ids: what clients know of before is too long ago.
    pub(super) fn forget_departed(&mut self) {
        self.departed.forget_all(self.position);
        self.parents_changed = self.position;
    }
}
