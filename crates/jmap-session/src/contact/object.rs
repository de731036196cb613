//! Address books and cards of the state as clients see them.

use sealpost_account::contacts::{AddressBookFields, AddressBookId, CardId};
use sealpost_account::object_id::{address_book_id, address_book_of, card_id, card_of};
use sealpost_account::state;
use sealpost_jmap::GivenId;
use sealpost_jmap::contact::{AddressBook, AddressBookRights};
use sealpost_jmap::id::{CreatedIds, Id};
use sealpost_jmap::mailbox::SortOrder;
use serde_json::{Map, Value};

/// Property of a card that is of the account, beside `id`.
pub(super) const BOOK_IDS: &str = "addressBookIds";

/// The id of an address book.
pub(super) fn id_of_book(book: AddressBookId) -> Id {
    Id::new(address_book_id(book)).expect("hexadecimal digits are safe characters")
}

/// The id of a card.
pub(super) fn id_of_card(card: CardId) -> Id {
    Id::new(card_id(card)).expect("hexadecimal digits are safe characters")
}

/// The address book that a client names.
pub(super) fn named_book(given: &GivenId, created: &CreatedIds) -> Option<AddressBookId> {
    given.resolve(created).and_then(|id| address_book_of(id.as_str()))
}

/// The card that a client names.
pub(super) fn named_card(given: &GivenId, created: &CreatedIds) -> Option<CardId> {
    given.resolve(created).and_then(|id| card_of(id.as_str()))
}

/// An address book with all of its properties.
pub(super) fn address_book(book: &state::AddressBook, default: AddressBookId) -> AddressBook {
    let AddressBookFields { name, description, sort_order, is_subscribed } = book.fields.clone();
    let is_default = book.id == default;
    AddressBook {
        id: Some(id_of_book(book.id).into()),
        name: Some(name),
        description: Some(description),
        sort_order: Some(SortOrder::new(sort_order).unwrap_or_default()),
        is_default: Some(is_default),
        is_subscribed: Some(is_subscribed),
        // RFC 9610 §2: null as address books are not shared.
        share_with: Some(None),
        my_rights: Some(AddressBookRights {
            may_read: true,
            may_write: true,
            may_share: false,
            may_delete: !is_default,
        }),
    }
}

/// A card with all of its properties. What was stored is JSON, as it was checked then; a card of
/// which the text is damaged has its id alone.
pub(super) fn card(card: &state::Card) -> Map<String, Value> {
    let mut object: Map<String, Value> = serde_json::from_str(&card.json).unwrap_or_default();
    let books = card.books.iter().map(|book| (address_book_id(*book), Value::Bool(true)));
    object.insert(BOOK_IDS.to_owned(), Value::Object(books.collect()));
    object.insert("id".to_owned(), Value::String(card_id(card.id)));
    object
}
