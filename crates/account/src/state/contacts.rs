//! The address books and contact cards of an account, what events do to them, and their changes since
//! a position (RFC 8620 §5.2).
//!
//! Of cards and address books that were deleted, bounded tombstones tell when; media of deleted or
//! replaced cards stay for the grace period, as expunged messages do.

mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use minicbor::{Decode, Encode};
use sealpost_base::{ModSeq, ObjectId, Position, Timestamp, Uid, limits};
use sealpost_vault::Hash;

use super::bounded::Bounded;
use super::flags::FlagTable;
use super::links::NOWHERE;
use super::messages::MessageNumber;
use super::{AccountState, Applied, Tombstone};
use crate::contacts::{AddressBookFields, AddressBookId, CARD_ROW_BYTES, CardContent, CardId};
use crate::event::Message;

/// The address book that an account begins with.
const FIRST_BOOK: AddressBookId = AddressBookId(1);

/// An address book.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AddressBook {
    /// Its number.
    #[n(0)]
    pub id: AddressBookId,
    /// What the client set.
    #[n(1)]
    pub fields: AddressBookFields,
    #[n(2)]
    pub(super) created: ModSeq,
    #[n(3)]
    pub(super) changed: ModSeq,
}

/// A contact card.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Card {
    /// Its number.
    #[n(0)]
    pub id: CardId,
    /// Its uid, which no other card has.
    #[n(1)]
    pub uid: String,
    /// The address books that it is in, ascending.
    #[n(2)]
    pub books: Vec<AddressBookId>,
    /// Its properties.
    #[n(3)]
    pub json: String,
    /// Its pictures and sounds.
    #[n(4)]
    pub media: Vec<MessageNumber>,
    #[n(5)]
    pub(super) created: ModSeq,
    /// When it or its address books changed last.
    #[n(6)]
    pub changed: ModSeq,
}

/// All of them.
#[derive(Clone)]
pub struct Contacts {
    pub(super) books: BTreeMap<AddressBookId, AddressBook>,
    pub(super) default: AddressBookId,
    pub(super) next_book: u32,
    pub(super) next_card: u32,
    pub(super) cards: BTreeMap<CardId, Card>,
    /// By the hash of the uid.
    uids: BTreeSet<(u64, CardId)>,
    /// Of uids and texts.
    text_bytes: usize,
    /// Of pictures and sounds.
    media_bytes: u64,
    /// Deleted ones: when, when they were made, their number.
    pub(super) gone_cards: Bounded<3>,
    pub(super) gone_books: Bounded<3>,
}

impl Default for Contacts {
    fn default() -> Self {
        let (created, changed) = (Position::ZERO, Position::ZERO);
        let first = AddressBook { id: FIRST_BOOK, fields: AddressBookFields::first(), created, changed };
        Contacts {
            books: BTreeMap::from([(FIRST_BOOK, first)]),
            default: FIRST_BOOK,
            next_book: FIRST_BOOK.0 + 1,
            next_card: 1,
            cards: BTreeMap::new(),
            uids: BTreeSet::new(),
            text_bytes: 0,
            media_bytes: 0,
            gone_cards: Bounded::default(),
            gone_books: Bounded::default(),
        }
    }
}

fn hash_of(uid: &str) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&Hash::of(uid.as_bytes()).0[..8]);
    u64::from_be_bytes(first)
}

impl Contacts {
    /// The address books, in the order in which they were made.
    pub fn books(&self) -> impl ExactSizeIterator<Item = &AddressBook> {
        self.books.values()
    }

    /// The address book of that number.
    pub fn book(&self, id: AddressBookId) -> Option<&AddressBook> {
        self.books.get(&id)
    }

    /// The default address book.
    pub fn default_book(&self) -> AddressBookId {
        self.default
    }

    /// The cards, in the order in which they were made.
    pub fn cards(&self) -> impl ExactSizeIterator<Item = &Card> {
        self.cards.values()
    }

    /// The cards from there on.
    pub fn cards_from(&self, begin: Bound<CardId>) -> impl Iterator<Item = &Card> {
        self.cards.range((begin, Bound::Unbounded)).map(|(_, card)| card)
    }

    /// Whether an address book was made, changed or deleted after that position, and whether a card was.
    pub fn changed_since(&self, position: Position) -> (bool, bool) {
        let goes = |gone: &Bounded<3>| gone.since(position).is_none_or(|mut gone| gone.next().is_some());
        let books = goes(&self.gone_books) || self.books.values().any(|book| book.changed > position);
        let cards = goes(&self.gone_cards) || self.cards.values().any(|card| card.changed > position);
        (books, cards)
    }

    /// The card of that number.
    pub fn card(&self, id: CardId) -> Option<&Card> {
        self.cards.get(&id)
    }

    /// The card with that uid.
    pub fn with_uid(&self, uid: &str) -> Option<&Card> {
        let hash = hash_of(uid);
        let ids = self.uids.range((hash, CardId(0))..=(hash, CardId(u32::MAX)));
        ids.filter_map(|(_, id)| self.cards.get(id)).find(|card| card.uid == uid)
    }

    /// How many cards there are.
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// Whether there are no cards.
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// Bytes of the texts of all cards.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Bytes that count for the storage quota: texts, pictures and sounds.
    pub fn bytes(&self) -> u64 {
        self.media_bytes.saturating_add(self.text_bytes as u64)
    }

    /// Whether a card is in that address book.
    pub fn has_cards(&self, book: AddressBookId) -> bool {
        self.cards.values().any(|card| card.books.contains(&book))
    }

    /// Whether a card can be stored, replacing `card` or as a new one, within the limits of the account.
    pub fn has_room(&self, card: Option<CardId>, content: &CardContent) -> bool {
        let old = card.and_then(|id| self.cards.get(&id));
        let bytes =
            self.text_bytes - old.map_or(0, Card::text_bytes) + content.uid.len() + content.json.len();
        (old.is_some() || self.cards.len() < limits::CARDS) && bytes <= limits::CARDS_BYTES
    }

    /// About what they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        let gone = self.gone_cards.heap_bytes() + self.gone_books.heap_bytes();
        self.cards.len() * CARD_ROW_BYTES + self.text_bytes + gone
    }

    /// Whether they are as an account begins with: then a checkpoint has nothing of them.
    pub(super) fn is_untouched(&self) -> bool {
        let first = self.books.get(&FIRST_BOOK);
        self.next_book == FIRST_BOOK.0 + 1
            && self.next_card == 1
            && first.is_some_and(|book| book.changed == Position::ZERO)
    }

    /// Entries were lost: what they may have made has numbers that are not given again, and what
    /// clients know of before is too long ago.
    pub(super) fn apply_damage(&mut self, position: Position) {
        self.next_book = self.next_book.saturating_add(limits::ADDRESS_BOOKS as u32);
        self.next_card = self.next_card.saturating_add(limits::CARDS as u32);
        self.gone_cards.forget_up_to(position);
        self.gone_books.forget_up_to(position);
    }

    /// Adds a card as a checkpoint holds it; whether it fits those before it, and the limits.
    pub(super) fn restore_push(&mut self, card: Card, media_bytes: u64) -> bool {
        let last = self.cards.last_key_value().map_or(0, |(last, _)| last.0);
        let is_next = (last + 1..self.next_card).contains(&card.id.0);
        let is_sorted = card.books.is_sorted_by(|a, b| a < b);
        let has_books = !card.books.is_empty() && card.books.iter().all(|book| self.books.contains_key(book));
        let fits = (1..=limits::CARD_UID_BYTES).contains(&card.uid.len())
            && card.json.len() <= limits::CARD_BYTES
            && card.media.len() <= limits::CARD_MEDIA
            && self.cards.len() < limits::CARDS
            && self.text_bytes + card.text_bytes() <= limits::CARDS_BYTES;
        if !is_next || !is_sorted || !has_books || !fits || self.with_uid(&card.uid).is_some() {
            return false;
        }
        self.insert(card, media_bytes);
        true
    }

    fn insert(&mut self, card: Card, media_bytes: u64) {
        self.uids.insert((hash_of(&card.uid), card.id));
        self.text_bytes += card.text_bytes();
        self.media_bytes = self.media_bytes.saturating_add(media_bytes);
        self.cards.insert(card.id, card);
    }

    fn remove(&mut self, id: CardId, media_bytes: u64) -> Option<Card> {
        let card = self.cards.remove(&id)?;
        self.uids.remove(&(hash_of(&card.uid), id));
        self.text_bytes -= card.text_bytes();
        self.media_bytes = self.media_bytes.saturating_sub(media_bytes);
        Some(card)
    }
}

impl Card {
    fn text_bytes(&self) -> usize {
        self.uid.len() + self.json.len()
    }
}

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
        let mut orphans = Vec::new();
        for card in self.contacts.cards.values_mut().filter(|card| card.books.contains(&id)) {
            if card.books.len() == 1 {
                orphans.push(card.id);
            } else {
                card.books.retain(|other| *other != id);
                card.changed = self.position;
            }
        }
        for card in orphans {
            self.delete_card(card, at);
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
