//! Threads: which messages belong together (RFC 8621 §3).
//!
//! A message's identifiers (its own and those that it refers to), each hashed together with its
//! base subject, are its **links**. Its thread is the known thread of one of its links
//! (`state/links_known.rs`), and else the one that its oldest reference founds, or the message
//! itself. So messages that refer to each other get the same thread in any order of arrival, unless
//! two threads have begun before the message that joins them arrives: an assigned thread never
//! changes (RFC 8474 §5.2).
//!
//! The node that delivers a message cannot read the account: events carry the links, and
//! [`AccountState::apply`] decides.
//!
//! [`AccountState::apply`]: crate::state::AccountState::apply

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_base::ObjectId;
use sealpost_mime::Envelope;
use sealpost_mime::header::thread::ThreadFields;
use sealpost_vault::Hash;

/// A thread: in every protocol `T` and 16 hexadecimal digits. Also a link: the thread that an
/// identifier founds.
///
/// The first 64 bits of a hash: of a million threads two are the same by chance in one account out
/// of thirty million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct ThreadId(#[n(0)] pub(crate) u64);

impl ThreadId {
    /// The thread of a message without any identifier, which is stored as that object: one of its own.
    pub fn of_object(object: ObjectId) -> Self {
        first_bits(&object.0)
    }

    /// The thread of that id; `None` if no thread can have it.
    pub fn parse(id: &str) -> Option<Self> {
        let digits = id.strip_prefix('T')?;
        let thread = ThreadId(u64::from_str_radix(digits, 16).ok()?);
        // Ids differ by case (RFC 8474 §7), hex digits do not.
        (thread.to_string() == id).then_some(thread)
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{:016x}", self.0)
    }
}

/// What the event that stores a message carries of its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threading {
    /// The thread that it founds or that its oldest reference founds: its thread, unless a link is known.
    pub thread: ThreadId,
    /// What may join it to others: its own link, then those of its references, the latest first. At most
    /// [`sealpost_base::limits::THREAD_LINKS`]; none if its thread is decided.
    pub links: Vec<ThreadId>,
}

impl Threading {
    /// That of a message with this envelope, which is stored as that object.
    pub fn of(envelope: &Envelope, object: ObjectId) -> Self {
        let fields = ThreadFields::of(envelope);
        let subject = Hash::of(&fields.subject);
        let link = |id: &String| first_bits(&[&subject.0, id.as_bytes()].concat());
        let links: Vec<_> =
            fields.message_id.iter().chain(fields.references.iter().rev()).map(link).collect();
        // A message without any identifier is a thread of its own.
        let thread = links.last().copied().unwrap_or_else(|| ThreadId::of_object(object));
        Threading { thread, links }
    }

    /// That of a message whose thread is decided.
    pub fn decided(thread: ThreadId) -> Self {
        Threading { thread, links: Vec::new() }
    }
}

fn first_bits(bytes: &[u8]) -> ThreadId {
    let mut first = [0; 8];
    first.copy_from_slice(&Hash::of(bytes).0[..8]);
    ThreadId(u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threading(references: &str, in_reply_to: &str, message_id: &str) -> Threading {
        let own = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let envelope = Envelope {
            references: own(references),
            in_reply_to: own(in_reply_to),
            message_id: own(message_id),
            subject: own("Re: plan"),
            ..Envelope::default()
        };
        Threading::of(&envelope, ObjectId([1; 16]))
    }

    #[test]
    fn the_oldest_reference_founds_the_thread() {
        let root = threading("", "", "<a@x>");
        assert_eq!(root.links, [root.thread]);
        assert_eq!(threading("<a@x>", "<a@x>", "<b@x>").thread, root.thread);
        assert_eq!(threading("<a@x>\r\n <b@x>", "", "<c@x>").thread, root.thread);
        assert_eq!(threading("", "Your mail <a@x>", "<d@x>").thread, root.thread);
        assert_ne!(threading("", "", "<b@x>").thread, root.thread);
        assert_eq!(threading("garbage <>", "", "<a@x>").thread, root.thread);
        let links = threading("<a@x> <b@x>", "", "<c@x>").links;
        assert_eq!(links[1], threading("", "", "<b@x>").thread, "the latest reference is looked for first");
        assert_eq!((links.len(), links[2]), (3, root.thread));
    }

    #[test]
    fn a_message_without_identifiers_is_a_thread_of_its_own() {
        let nameless = |byte| Threading::of(&Envelope::default(), ObjectId([byte; 16]));
        assert_eq!(nameless(1), nameless(1));
        assert_ne!(nameless(1).thread, nameless(2).thread);
        assert!(nameless(1).links.is_empty());
    }

    #[test]
    fn ids_are_read_back() {
        let thread = ThreadId(0xab);
        assert_eq!(thread.to_string(), "T00000000000000ab");
        assert_eq!(ThreadId::parse(&thread.to_string()), Some(thread));
        let wrong = ["T00000000000000AB", "T0ab", "M00000000000000ab", "T+0000000000000ab", "T"];
        assert!(wrong.iter().all(|id| ThreadId::parse(id).is_none()));
    }
}
