//! The address books and contact cards of an account.
//!
//! Of those that were deleted, bounded tombstones tell when.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use minicbor::{Decode, Encode};
use sealpost_base::{ModSeq, Position, limits};
use sealpost_vault::Hash;

use super::bounded::Bounded;
use super::messages::MessageNumber;
use crate::contacts::{AddressBookFields, AddressBookId, CARD_ROW_BYTES, CardContent, CardId};

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
    /// No card has changed after this.
    cards_changed: ModSeq,
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
            cards_changed: Position::ZERO,
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

    /// When an address book was made, changed or deleted last.
    pub fn last_change_of_books(&self) -> Position {
        let changed = self.books.values().map(|book| book.changed);
        changed.chain([self.gone_books.last()]).max().unwrap_or_default()
    }

    /// When a card was stored, changed or deleted last.
    pub fn last_change_of_cards(&self) -> Position {
        self.cards_changed.max(self.gone_cards.last())
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

    /// Takes an address book away from a card that is in others too.
    pub(super) fn leave_book(&mut self, card: CardId, book: AddressBookId, position: Position) {
        if let Some(card) = self.cards.get_mut(&card) {
            card.books.retain(|other| *other != book);
            card.changed = position;
            self.cards_changed = self.cards_changed.max(position);
        }
    }

    pub(super) fn insert(&mut self, card: Card, media_bytes: u64) {
        self.cards_changed = self.cards_changed.max(card.changed);
        self.uids.insert((hash_of(&card.uid), card.id));
        self.text_bytes += card.text_bytes();
        self.media_bytes = self.media_bytes.saturating_add(media_bytes);
        self.cards.insert(card.id, card);
    }

    pub(super) fn remove(&mut self, id: CardId, media_bytes: u64) -> Option<Card> {
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
