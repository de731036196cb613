//! What clients call mailboxes, messages and threads, in every protocol: OBJECTID (RFC 8474), and later JMAP.
//!
//! No ids are stored. A mailbox's id is its account and its UIDVALIDITY, which an account assigns
//! once. A message's id is its sealed object, which every placement points to, or the first object
//! if it was sealed again for another log. A thread is a column of the state ([`crate::thread`]).
//! So all of them stay the same through COPY, MOVE, RENAME, a restore and another node
//! (docs/decisions/0016).
//!
//! Each begins with a letter of its own: no id is taken for one of another kind, for a number or
//! for NIL (RFC 8474 §8.1).

use sealpost_base::{AccountId, ObjectId, UidValidity};
use sealpost_vault::Hash;

use crate::contacts::{AddressBookId, CardId};
use crate::event::Message;
use crate::state::Mailbox;

/// MAILBOXID: `F`, the account, `-` and the UIDVALIDITY. Another UIDVALIDITY is another mailbox
/// (RFC 8474 §4).
pub fn mailbox_id(account: AccountId, mailbox: &Mailbox) -> String {
    past_mailbox_id(account, mailbox.uid_validity())
}

/// The MAILBOXID that a mailbox had which had this UIDVALIDITY.
pub fn past_mailbox_id(account: AccountId, validity: UidValidity) -> String {
    format!("F{account}-{:x}", validity.0)
}

/// EMAILID: `M` and the sealed object that first held it.
pub fn email_id(message: &Message) -> String {
    email_id_of(message.first_object())
}

/// The EMAILID of the message that this object first held.
pub fn email_id_of(first_object: ObjectId) -> String {
    format!("M{first_object}")
}

/// The object that an EMAILID names; `None` if no message can have that id.
pub fn object_of(email_id: &str) -> Option<ObjectId> {
    let object: ObjectId = email_id.strip_prefix('M')?.parse().ok()?;
    // Ids differ by case (RFC 8474 §7), hex digits do not.
    (email_id[1..] == object.to_string()).then_some(object)
}

/// The id of a nonexistent parent: a name above mailboxes that no mailbox has, which JMAP shows as
/// a mailbox without messages. `P`, the account, `-` and 16 hex digits made of the name: another
/// name is another parent.
pub fn nonexistent_parent_id(account: AccountId, name: &str) -> String {
    let mut first = [0; 8];
    first.copy_from_slice(&Hash::of(name.as_bytes()).0[..8]);
    format!("P{account}-{:016x}", u64::from_be_bytes(first))
}

/// The id of an address book: `K` and its number.
pub fn address_book_id(book: AddressBookId) -> String {
    format!("K{:x}", book.0)
}

/// The address book that an id names; `None` if none can have it.
pub fn address_book_of(id: &str) -> Option<AddressBookId> {
    number_of(id, 'K').map(AddressBookId)
}

/// The id of a contact card: `C` and its number.
pub fn card_id(card: CardId) -> String {
    format!("C{:x}", card.0)
}

/// The contact card that an id names; `None` if none can have it.
pub fn card_of(id: &str) -> Option<CardId> {
    number_of(id, 'C').map(CardId)
}

/// The number behind that letter, in its one spelling.
fn number_of(id: &str, letter: char) -> Option<u32> {
    let number = u32::from_str_radix(id.strip_prefix(letter)?, 16).ok()?;
    (id[1..] == format!("{number:x}")).then_some(number)
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Random, SeededRandom, Timestamp};
    use sealpost_vault::message::{Layout, MessageKey};

    use super::*;
    use crate::thread::ThreadId;

    fn message(seed: u64) -> Message {
        let random = SeededRandom::new(seed);
        let mut key = [0; 32];
        random.fill(&mut key);
        Message {
            object: ObjectId::random(&random),
            key: MessageKey::generate(&random),
            layout: Layout {
                raw_bytes: 1,
                sealed_raw: 1,
                sealed_text: 0,
                sealed_structure: 0,
                sealed_index: 0,
            },
            received: Timestamp(0),
            origin: None,
            thread: ThreadId(0),
            links: Vec::new(),
        }
    }

    #[test]
    fn ids_are_distinct_and_read_back() {
        let message = message(3);
        let email = email_id(&message);
        assert_eq!(object_of(&email), Some(message.object));
        let sealed_anew = Message { origin: Some(Box::new(message.object)), ..self::message(4) };
        assert_eq!(email_id(&sealed_anew), email, "RFC 8474 §5.1: a copy in another log is the same message");
        assert_eq!(object_of(&email.to_uppercase()), None, "case matters");
        assert_eq!((object_of("M1"), object_of("")), (None, None));
        let parent = |name| nonexistent_parent_id(AccountId([7; 16]), name);
        assert_eq!(parent("a/b"), parent("a/b"));
        assert_ne!(parent("a/b"), parent("a"));
        assert!(object_of(&parent("a")).is_none());
    }
}
