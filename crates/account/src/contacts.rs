//! Contacts as events and the state have them: address books (RFC 9610 §2), and in each the cards of
//! persons, companies and groups (RFC 9553).
//!
//! A card is kept as the JSON text that a client wrote, and nothing here reads it: who stores one says
//! its uid and its address books as well. Pictures and sounds are objects of their own, stored as
//! messages are ([`crate::Ingest`]), and the text says where each belongs.
//!
//! An account begins with one address book, which is the default one.

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, limits};

use crate::event::Message;

/// An address book: its number in order of creation, never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct AddressBookId(#[n(0)] pub u32);

/// A contact card: its number in order of creation, never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct CardId(#[n(0)] pub u32);

/// What a client sets of an address book (RFC 9610 §2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AddressBookFields {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// A longer description.
    #[n(1)]
    pub description: Option<String>,
    /// Where clients show it among the others.
    #[n(2)]
    pub sort_order: u32,
    /// Whether clients show it without being asked.
    #[n(3)]
    pub is_subscribed: bool,
}

/// What a contact card has.
#[derive(Debug, Clone, Encode, Decode)]
pub struct CardContent {
    /// Names it everywhere; no two cards of an account have the same (RFC 9610 §3).
    #[n(0)]
    pub uid: String,
    /// The address books it is in, at least one.
    #[n(1)]
    pub books: Vec<AddressBookId>,
    /// All of its properties but those above that are of the account, as JSON.
    #[n(2)]
    pub json: String,
    /// Pictures and sounds that the text refers to.
    #[n(3)]
    pub media: Vec<Message>,
}

/// What a card takes beside its text, in bytes.
pub(crate) const CARD_ROW_BYTES: usize = 256;

impl AddressBookFields {
    /// Those of the address book that an account begins with.
    pub(crate) fn first() -> Self {
        AddressBookFields {
            name: "Contacts".to_owned(),
            description: None,
            sort_order: 0,
            is_subscribed: true,
        }
    }

    /// Whether an address book can have them (RFC 9610 §2).
    ///
    /// # Errors
    /// `Invalid` or `Limit`, which say why not.
    pub fn check(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::invalid("an address book has a name"));
        }
        if self.name.len() > limits::ADDRESS_BOOK_NAME_BYTES {
            let most = limits::ADDRESS_BOOK_NAME_BYTES;
            return Err(Error::limit(format!("the name of an address book has at most {most} bytes")));
        }
        let description = self.description.as_ref().map_or(0, String::len);
        if description > limits::ADDRESS_BOOK_DESCRIPTION_BYTES {
            let most = limits::ADDRESS_BOOK_DESCRIPTION_BYTES;
            return Err(Error::limit(format!("the description of an address book has at most {most} bytes")));
        }
        Ok(())
    }
}

impl CardContent {
    /// Whether a card can have it, by itself.
    ///
    /// # Errors
    /// `Invalid` or `Limit`, which say why not.
    pub fn check(&self) -> Result<()> {
        if self.uid.is_empty() || self.uid.len() > limits::CARD_UID_BYTES {
            let most = limits::CARD_UID_BYTES;
            return Err(Error::invalid(format!("the uid of a card has 1 to {most} bytes")));
        }
        if self.books.is_empty() || self.books.len() > limits::ADDRESS_BOOKS {
            return Err(Error::invalid("a card is in one address book at least"));
        }
        if self.json.len() > limits::CARD_BYTES {
            return Err(Error::limit(format!("a card has at most {} bytes", limits::CARD_BYTES)));
        }
        if self.media.len() > limits::CARD_MEDIA {
            let most = limits::CARD_MEDIA;
            return Err(Error::limit(format!("a card has at most {most} pictures and sounds")));
        }
        Ok(())
    }

    /// About what it takes in the state without its media, in bytes.
    pub fn memory(&self) -> usize {
        CARD_ROW_BYTES + self.uid.len() + self.json.len()
    }
}
