//! Contacts (RFC 9610): address books and cards of the caller's own account.
//!
//! The state of the account has the cards as JSON ([`sealpost_account::contacts`]); methods read them
//! from there, a bounded number at a time, and nothing is indexed. Pictures and sounds are blobs.

mod book_get;
mod book_set;
mod card_copy;
mod card_get;
mod card_query;
mod card_query_changes;
mod card_set;
mod changes;
mod commit;
mod filter;
mod media;
mod object;
mod order;
mod scan;

pub(crate) use book_get::get as get_books;
pub(crate) use book_set::set as set_books;
pub(crate) use card_copy::copy;
pub(crate) use card_get::get as get_cards;
pub(crate) use card_query::query;
pub(crate) use card_query_changes::query_changes;
pub(crate) use card_set::set as set_cards;
pub(crate) use changes::{book_changes, card_changes};
