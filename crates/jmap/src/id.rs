//! Ids (RFC 8620 §1.2): those the server gives, those a client gives to what it creates, and what
//! a client sends where an id belongs.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::read::{FromJson, Mismatch};

/// Bytes of an id (RFC 8620 §1.2).
pub const ID_BYTES: usize = 255;

fn is_id(text: &str) -> bool {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=ID_BYTES).contains(&text.len()) && text.bytes().all(safe)
}

macro_rules! id_type {
    ($(#[$meta:meta])* $type:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $type(Box<str>);

        impl $type {
            /// The id, if `text` is 1 to 255 of `A-Z a-z 0-9 - _`.
            pub fn new(text: impl Into<Box<str>>) -> Option<Self> {
                let text = text.into();
                is_id(&text).then_some($type(text))
            }

            /// Its characters.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromJson for $type {
            fn expected() -> String {
                "an id (1 to 255 of A-Z a-z 0-9 - _)".into()
            }

            fn from_json(value: Value) -> Result<Self, Mismatch> {
                match value {
                    Value::String(text) if is_id(&text) => Ok($type(text.into())),
                    other => Err(Mismatch::new(Self::expected(), &other)),
                }
            }
        }
    };
}

id_type!(
    /// An id that the server gave, of any type.
    Id
);
id_type!(
    /// What a client calls an object that it creates, without the `#` (RFC 8620 §5.3).
    CreationId
);

macro_rules! typed_ids {
    ($($(#[$meta:meta])* $type:ident,)*) => {$(
        id_type!($(#[$meta])* $type);

        impl From<$type> for Id {
            fn from(id: $type) -> Id {
                Id(id.0)
            }
        }

        impl From<$type> for GivenId {
            fn from(id: $type) -> GivenId {
                GivenId::Id(id.into())
            }
        }

        impl From<Id> for $type {
            fn from(id: Id) -> $type {
                $type(id.0)
            }
        }
    )*};
}

typed_ids! {
    /// The id of an account.
    AccountId,
    /// The id of a Mailbox.
    MailboxId,
    /// The id of an Email.
    EmailId,
    /// The id of a Thread.
    ThreadId,
    /// The id of a blob.
    BlobId,
    /// The id of an EmailSubmission.
    SubmissionId,
    /// The id of an Identity.
    IdentityId,
    /// The id of an AddressBook.
    AddressBookId,
    /// The id of a ContactCard.
    CardId,
}

/// What a client sent where the id of an object belongs.
///
/// An id that no object can have is no error of the method: /get and /set report it as not found,
/// as they do for an id that no object has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GivenId {
    /// An id, of an object or not.
    Id(Id),
    /// `#` and a creation id: an object that was created earlier in the request.
    Created(CreationId),
    /// A string that is neither, so no object has it.
    Impossible(Box<str>),
}

impl GivenId {
    /// The id that is meant, if an object can have it.
    pub fn resolve<'a>(&'a self, created: &'a CreatedIds) -> Option<&'a Id> {
        match self {
            GivenId::Id(id) => Some(id),
            GivenId::Created(creation) => created.id_of(creation),
            GivenId::Impossible(_) => None,
        }
    }

    /// The id itself, where creation ids mean nothing, as in /get.
    pub fn id(&self) -> Option<&Id> {
        match self {
            GivenId::Id(id) => Some(id),
            GivenId::Created(_) | GivenId::Impossible(_) => None,
        }
    }
}

impl From<String> for GivenId {
    fn from(text: String) -> Self {
        if let Some(creation) = text.strip_prefix('#').and_then(CreationId::new) {
            return GivenId::Created(creation);
        }
        if is_id(&text) { GivenId::Id(Id(text.into())) } else { GivenId::Impossible(text.into()) }
    }
}

impl fmt::Display for GivenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GivenId::Id(id) => f.write_str(id.as_str()),
            GivenId::Created(creation) => write!(f, "#{creation}"),
            GivenId::Impossible(text) => f.write_str(text),
        }
    }
}

impl Serialize for GivenId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromJson for GivenId {
    fn expected() -> String {
        "an id".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        match value {
            Value::String(text) => Ok(GivenId::from(text)),
            other => Err(Mismatch::new(Self::expected(), &other)),
        }
    }
}

/// The ids that the server gave to what a request created (RFC 8620 §3.3, §5.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CreatedIds(BTreeMap<CreationId, Id>);

impl CreatedIds {
    /// With what the request brought along.
    pub fn new(given: BTreeMap<CreationId, Id>) -> Self {
        CreatedIds(given)
    }

    /// Notes a new object; a creation id that is used again means the newest one.
    pub fn insert(&mut self, creation: CreationId, id: Id) {
        self.0.insert(creation, id);
    }

    /// The object that was created under that id.
    pub fn id_of(&self, creation: &CreationId) -> Option<&Id> {
        self.0.get(creation)
    }
}
