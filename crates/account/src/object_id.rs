//! What clients call mailboxes, messages and threads, in every protocol: OBJECTID (RFC 8474), and later JMAP.
//!
//! Nothing is stored for it. A mailbox is its account and its UIDVALIDITY, which an account gives once; a message is its
//! sealed object, which every placement points to, or the first one if it was sealed anew for another log; a thread is the message that its messages say they descend from. So
//! all of them stay the same through COPY, MOVE, RENAME, a restore and another node (docs/decisions/0016).
//!
//! Each begins with a letter of its own: no id is taken for one of another kind, for a number or for NIL (RFC 8474 §8.1).

use std::fmt;

use sealpost_base::{AccountId, ObjectId};
use sealpost_mime::Envelope;
use sealpost_vault::Hash;

use crate::event::Message;
use crate::state::Mailbox;

/// MAILBOXID: `F`, the account, `-` and the UIDVALIDITY. Another UIDVALIDITY is another mailbox (RFC 8474 §4).
pub fn mailbox_id(account: AccountId, mailbox: &Mailbox) -> String {
    format!("F{account}-{:x}", mailbox.uid_validity().0)
}

/// EMAILID: `M` and the sealed object that first held it.
pub fn email_id(message: &Message) -> String {
    format!("M{}", message.first_object())
}

/// The object that an EMAILID names; `None` if no message can have that id.
pub fn object_of(email_id: &str) -> Option<ObjectId> {
    let object: ObjectId = email_id.strip_prefix('M')?.parse().ok()?;
    // Ids differ by case (RFC 8474 §7), hex digits do not.
    (email_id[1..] == object.to_string()).then_some(object)
}

/// A thread: `T` and 32 hex digits.
///
/// It is made of the first message that References names, or In-Reply-To if there is no such field, or the message
/// itself: whoever replies keeps the first reference (RFC 5322 §3.6.4), so a conversation has one root. What the message
/// says never changes, so neither does its thread (RFC 8474 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadId([u8; 16]);

impl ThreadId {
    /// The thread of a message with that envelope.
    pub fn of(envelope: &Envelope, message: &Message) -> Self {
        let fields = [&envelope.references, &envelope.in_reply_to, &envelope.message_id];
        let root = fields.into_iter().flatten().find_map(|field| first_id(field));
        let hash = match root {
            Some(root) => Hash::of(root.as_bytes()),
            // A message without a name is a thread of its own.
            None => Hash::of(&message.first_object().0),
        };
        let mut id = [0; 16];
        id.copy_from_slice(&hash.0[..16]);
        ThreadId(id)
    }

    /// The thread of that id; `None` if no thread can have it.
    pub fn parse(id: &str) -> Option<Self> {
        let object: ObjectId = id.strip_prefix('T')?.parse().ok()?;
        (id[1..] == object.to_string()).then_some(ThreadId(object.0))
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", ObjectId(self.0))
    }
}

/// The first `<…>` of a field, without the brackets.
fn first_id(field: &str) -> Option<&str> {
    let (_, rest) = field.split_once('<')?;
    let id = rest.split_once('>')?.0.trim();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Random, SeededRandom, Timestamp};
    use sealpost_vault::message::{Layout, MessageKey};

    use super::*;

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
        }
    }

    fn thread(references: Option<&str>, in_reply_to: Option<&str>, message_id: Option<&str>) -> ThreadId {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let envelope = Envelope {
            references: own(references),
            in_reply_to: own(in_reply_to),
            message_id: own(message_id),
            ..Envelope::default()
        };
        ThreadId::of(&envelope, &message(1))
    }

    #[test]
    fn a_conversation_is_one_thread() {
        let root = thread(None, None, Some("<a@x>"));
        assert_eq!(thread(Some("<a@x>"), Some("<a@x>"), Some("<b@x>")), root);
        assert_eq!(thread(Some("<a@x>\r\n <b@x>"), None, Some("<c@x>")), root);
        assert_eq!(thread(None, Some("Your mail <a@x>"), Some("<d@x>")), root);
        assert_ne!(thread(None, None, Some("<b@x>")), root);
        assert_eq!(thread(Some("garbage <>"), None, Some("<a@x>")), root);
        let nameless = |seed| ThreadId::of(&Envelope::default(), &message(seed));
        assert_eq!(nameless(1), nameless(1));
        assert_ne!(nameless(1), nameless(2));
    }

    #[test]
    fn ids_are_told_apart_and_read_back() {
        let message = message(3);
        let email = email_id(&message);
        assert_eq!(object_of(&email), Some(message.object));
        let sealed_anew = Message { origin: Some(Box::new(message.object)), ..self::message(4) };
        assert_eq!(email_id(&sealed_anew), email, "RFC 8474 §5.1: a copy in another log is the same message");
        assert_eq!(object_of(&email.to_uppercase()), None, "case matters");
        assert_eq!((object_of("M1"), object_of("")), (None, None));
        let thread = ThreadId::of(&Envelope::default(), &message);
        assert_eq!(ThreadId::parse(&thread.to_string()), Some(thread));
        assert_eq!(ThreadId::parse(&email), None);
    }
}
