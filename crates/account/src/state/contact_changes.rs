//! What became of contact cards and address books since a position.

use sealpost_base::Position;

use super::AccountState;
use super::changes::ChangeCollector;
use super::contacts::Contacts;
use super::sync_point::{Changes, SyncPoint};
use crate::contacts::{AddressBookId, CardId};

impl AccountState {
    /// The changes of contact cards after `since`, up to a point before which at most `most` of them
    /// changed, as those of [`AccountState::email_changes`]. `None` if `since` is too long ago.
    pub fn card_changes(&self, since: impl Into<SyncPoint<CardId>>, most: usize) -> Option<Changes<CardId>> {
        let Contacts { cards, gone_cards, .. } = &self.contacts;
        let since = since.into();
        let mut found = ChangeCollector::new(since, most);
        for [at, created, id] in gone_cards.since(since.position)? {
            found.departed(CardId(id as u32), Position(created), Position(at));
        }
        for card in cards.values().filter(|card| card.changed > since.position) {
            found.changed(card.id, card.changed, Some(card.created));
        }
        Some(found.finish(self.position, |_, now| now))
    }

    /// The same for address books; their cards do not count.
    pub fn address_book_changes(
        &self,
        since: impl Into<SyncPoint<AddressBookId>>,
        most: usize,
    ) -> Option<Changes<AddressBookId>> {
        let Contacts { books, gone_books, .. } = &self.contacts;
        let since = since.into();
        let mut found = ChangeCollector::new(since, most);
        for [at, created, id] in gone_books.since(since.position)? {
            found.departed(AddressBookId(id as u32), Position(created), Position(at));
        }
        for book in books.values().filter(|book| book.changed > since.position) {
            found.changed(book.id, book.changed, Some(book.created));
        }
        Some(found.finish(self.position, |_, now| now))
    }
}
