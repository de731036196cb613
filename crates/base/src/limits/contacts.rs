//! Limits on address books and contact cards.

/// Address books of an account.
pub const ADDRESS_BOOKS: usize = 100;
/// Bytes of the name of an address book (RFC 9610 §2).
pub const ADDRESS_BOOK_NAME_BYTES: usize = 255;
/// Bytes of the description of an address book.
pub const ADDRESS_BOOK_DESCRIPTION_BYTES: usize = 4096;
/// Contact cards of an account.
pub const CARDS: usize = 50_000;
/// Bytes of one contact card as JSON, without its pictures and sounds.
pub const CARD_BYTES: usize = 64 * 1024;
/// Bytes of all contact cards of an account, which are in memory while it is loaded.
pub const CARDS_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of the uid of a contact card.
pub const CARD_UID_BYTES: usize = 1024;
/// Pictures and sounds of one contact card that are stored with it.
pub const CARD_MEDIA: usize = 16;
/// Bytes of one of them.
pub const CARD_MEDIA_BYTES: u64 = 5_000_000;
/// Languages that a contact card is localized to.
pub const CARD_LANGUAGES: usize = 32;
/// Bytes of the changes of contact cards that one log entry takes; more are several entries.
pub const CARDS_ENTRY_BYTES: usize = 512 * 1024;
/// Bytes of each key by which a contact card is sorted: of longer names the beginnings decide.
pub const CARD_SORT_BYTES: usize = 64;
