//! The chunks of contacts: one with the address books, and blocks of cards. An account whose contacts
//! were never touched has none.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use sealpost_base::{Position, limits};

use super::Restore;
use crate::contacts::{AddressBookId, CardId};
use crate::state::AccountState;
use crate::state::bounded::Bounded;
use crate::state::contacts::{AddressBook, Card, Contacts};

/// Cards in one chunk, by their numbers.
const CARDS_PER_CHUNK: u32 = 128;

/// What there is of contacts besides the cards and the tombstones.
#[derive(Encode, Decode)]
pub(super) struct ContactsHead {
    #[n(0)]
    books: Vec<AddressBook>,
    #[n(1)]
    default: AddressBookId,
    #[n(2)]
    next_book: u32,
    #[n(3)]
    next_card: u32,
    /// Tombstones up to these positions are forgotten: of cards, of address books.
    #[n(4)]
    gone_floors: [Position; 2],
}

impl AccountState {
    pub(super) fn contacts_head(&self) -> ContactsHead {
        let contacts = &self.contacts;
        ContactsHead {
            books: contacts.books().cloned().collect(),
            default: contacts.default,
            next_book: contacts.next_book,
            next_card: contacts.next_card,
            gone_floors: [contacts.gone_cards.floor(), contacts.gone_books.floor()],
        }
    }

    /// The blocks that have cards.
    pub(super) fn card_blocks(&self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.contacts.cards().map(|card| card.id.0 / CARDS_PER_CHUNK).collect();
        blocks.dedup();
        blocks
    }

    pub(super) fn card_block(&self, block: u32) -> Vec<&Card> {
        let first = block.saturating_mul(CARDS_PER_CHUNK);
        let block = CardId(first)..=CardId(first.saturating_add(CARDS_PER_CHUNK - 1));
        self.contacts.cards.range(block).map(|(_, card)| card).collect()
    }
}

impl Restore {
    /// `None` if the head contradicts itself.
    pub(super) fn contacts(&mut self, head: ContactsHead) -> Option<()> {
        let count = head.books.len();
        let books: BTreeMap<_, _> = head.books.into_iter().map(|book| (book.id, book)).collect();
        let is_whole = self.state.contacts.is_untouched()
            && books.len() == count
            && count <= limits::ADDRESS_BOOKS
            && books.values().all(|book| book.fields.check().is_ok())
            && books.contains_key(&head.default)
            && books.keys().all(|id| (1..head.next_book).contains(&id.0));
        let [gone_cards, gone_books] = head.gone_floors.map(Bounded::restore);
        let mut contacts = Contacts::default();
        (contacts.books, contacts.default) = (books, head.default);
        (contacts.next_book, contacts.next_card) = (head.next_book, head.next_card);
        (contacts.gone_cards, contacts.gone_books) = (gone_cards, gone_books);
        is_whole.then(|| self.state.contacts = contacts)
    }

    /// `None` if a card does not fit the others, or refers to a missing medium.
    pub(super) fn cards(&mut self, cards: Vec<Card>) -> Option<()> {
        for mut card in cards {
            let messages = &mut self.state.messages;
            let media: Vec<_> =
                card.media.iter().copied().filter(|number| messages.retain(*number)).collect();
            if media.len() < card.media.len() {
                if !self.lenient {
                    return None;
                }
                // The card stays, without what is lost of it.
                card.media = media;
            }
            let media_bytes = self.state.bytes_of(&card.media);
            if !self.state.contacts.restore_push(card, media_bytes) {
                return None;
            }
        }
        Some(())
    }
}
