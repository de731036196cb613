//! What events do to the address books and contact cards of an account.
//!
//! Media of deleted or replaced cards stay for the grace period, as expunged messages do.

use std::collections::BTreeSet;

use sealpost_base::{ObjectId, Timestamp, Uid, limits};

use super::contacts::{AddressBook, Card};
use super::flags::FlagTable;
use super::links::NOWHERE;
use super::messages::MessageNumber;
use super::{AccountState, Applied, Tombstone};
use crate::contacts::{AddressBookFields, AddressBookId, CardContent, CardId};
use crate::event::Message;

impl AccountState {
    /// The picture or sound of a card that this object holds, while the card has it.
    pub fn card_medium(&self, object: ObjectId) -> Option<Message> {
        let numbers = self.contacts.cards().flat_map(|card| &card.media);
        let mut media = numbers.filter(|number| self.messages.object(**number) == Some(object));
        media.next().and_then(|number| self.messages.get(*number))
    }

    /// The cards that have it.
    pub fn cards_with_medium(&self, object: ObjectId) -> impl Iterator<Item = CardId> {
        let has =
            move |card: &&Card| card.media.iter().any(|number| self.messages.object(*number) == Some(object));
        self.contacts.cards().filter(has).map(|card| card.id)
    }

    /// The pictures and sounds of a card.
    pub fn media_of(&self, card: &Card) -> Vec<Message> {
        card.media.iter().filter_map(|number| self.messages.get(*number)).collect()
    }

    pub(super) fn create_address_book(&mut self, fields: &AddressBookFields) -> Applied {
        let contacts = &mut self.contacts;
        let id = AddressBookId(contacts.next_book);
        if fields.check().is_err() || contacts.books.len() >= limits::ADDRESS_BOOKS || id.0 == u32::MAX {
            return Applied::Nothing;
        }
        contacts.next_book += 1;
        let (created, changed) = (self.position, self.position);
        contacts.books.insert(id, AddressBook { id, fields: fields.clone(), created, changed });
        Applied::AddressBook(id)
    }

    pub(super) fn change_address_book(&mut self, id: AddressBookId, fields: &AddressBookFields) -> Applied {
        match self.contacts.books.get_mut(&id) {
            Some(book) if book.fields != *fields && fields.check().is_ok() => {
                book.fields = fields.clone();
                book.changed = self.position;
                Applied::AddressBook(id)
            }
            _ => Applied::Nothing,
        }
    }

    pub(super) fn set_default_address_book(&mut self, id: AddressBookId) -> Applied {
        let contacts = &mut self.contacts;
        if contacts.default == id || !contacts.books.contains_key(&id) {
            return Applied::Nothing;
        }
        // Both have another `isDefault` now.
        for changed in [contacts.default, id] {
            if let Some(book) = contacts.books.get_mut(&changed) {
                book.changed = self.position;
            }
        }
        contacts.default = id;
        Applied::AddressBook(id)
    }

    pub(super) fn delete_address_book(&mut self, id: AddressBookId, at: Timestamp) -> Applied {
        if self.contacts.default == id {
            return Applied::Nothing;
        }
        let Some(book) = self.contacts.books.remove(&id) else { return Applied::Nothing };
        self.contacts.gone_books.push([self.position.0, book.created.0, u64::from(id.0)]);
        let cards = self.contacts.cards().filter(|card| card.books.contains(&id));
        let cards: Vec<(CardId, bool)> = cards.map(|card| (card.id, card.books.len() == 1)).collect();
        for (card, is_orphan) in cards {
            if is_orphan {
                self.delete_card(card, at);
            } else {
                self.contacts.leave_book(card, id, self.position);
            }
        }
        Applied::AddressBook(id)
    }

    pub(super) fn store_card(
        &mut self,
        card: Option<CardId>,
        content: &CardContent,
        at: Timestamp,
    ) -> Applied {
        let contacts = &self.contacts;
        let old = card.and_then(|id| contacts.cards.get(&id));
        let is_taken = contacts.with_uid(&content.uid).is_some_and(|other| Some(other.id) != card);
        if card.is_some() != old.is_some()
            || is_taken
            || content.check().is_err()
            || content.books.iter().any(|book| !contacts.books.contains_key(book))
            || !contacts.has_room(card, content)
            || contacts.next_card == u32::MAX
        {
            return Applied::Nothing;
        }
        let old = old.map(|old| (old.created, old.media.clone()));
        let (created, before) = old.unwrap_or((self.position, Vec::new()));
        let media = self.take_media(&content.media, &before);
        self.contacts.next_card += u32::from(card.is_none());
        let id = card.unwrap_or(CardId(self.contacts.next_card - 1));
        self.contacts.remove(id, self.bytes_of(&before));
        self.release_media(&before, &media, at);
        let books: BTreeSet<AddressBookId> = content.books.iter().copied().collect();
        let media_bytes = self.bytes_of(&media);
        let card = Card {
            id,
            uid: content.uid.clone(),
            books: books.into_iter().collect(),
            json: content.json.clone(),
            created,
            changed: self.position,
            media,
        };
        self.contacts.insert(card, media_bytes);
        Applied::Card(id)
    }

    pub(super) fn delete_card(&mut self, id: CardId, at: Timestamp) -> Applied {
        let Some(media) = self.contacts.cards.get(&id).map(|card| card.media.clone()) else {
            return Applied::Nothing;
        };
        let bytes = self.bytes_of(&media);
        let Some(card) = self.contacts.remove(id, bytes) else { return Applied::Nothing };
        self.release_media(&media, &[], at);
        self.contacts.gone_cards.push([self.position.0, card.created.0, u64::from(id.0)]);
        Applied::Card(id)
    }

    /// The numbers of these media; those of them that the card has had keep theirs.
    fn take_media(&mut self, media: &[Message], before: &[MessageNumber]) -> Vec<MessageNumber> {
        let mut taken: Vec<MessageNumber> = Vec::new();
        for message in media {
            let has = |number: &&MessageNumber| self.messages.object(**number) == Some(message.object);
            if taken.iter().any(|number| has(&number)) {
                continue;
            }
            let number = match before.iter().find(has).copied() {
                Some(known) => self.messages.retain(known).then_some(known),
                None => self.messages.add(message, self.position).inspect(|number| self.map_message(*number)),
            };
            taken.extend(number);
        }
        taken
    }

    /// A card has these media no more, but for those that are kept.
    fn release_media(&mut self, media: &[MessageNumber], kept: &[MessageNumber], at: Timestamp) {
        for number in media {
            if kept.contains(number) {
                self.messages.release(*number);
                continue;
            }
            let flags = self.flags.retain(FlagTable::EMPTY);
            self.tombstones.push(&Tombstone { message: *number, mailbox: NOWHERE, uid: Uid::MIN, flags, at });
        }
    }

    pub(super) fn bytes_of(&self, media: &[MessageNumber]) -> u64 {
        media.iter().map(|number| self.messages.size(*number)).sum()
    }
}
