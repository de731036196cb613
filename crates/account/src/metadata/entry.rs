//! Whose an entry is, and that it changed.

use sealpost_base::{MailboxId, Position};

/// What all metadata objects' names begin with.
pub(crate) const PREFIX: &str = "meta/";

/// The entry that says what a mailbox is for (RFC 6154 §4). It is computed from
/// [`crate::state::Mailbox::special_uses`].
pub const SPECIAL_USE: &str = "/private/specialuse";

/// Whose entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// The server's, as this account sees it.
    Server,
    /// A mailbox's.
    Mailbox(MailboxId),
}

/// A change of an entry, distinguished by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Position,
    /// Whose entry.
    pub holder: Holder,
    /// Its name, in lower case.
    pub entry: String,
}

impl Holder {
    /// What the names of its objects begin with.
    pub(crate) fn prefix(self) -> String {
        match self {
            Holder::Server => format!("{PREFIX}server"),
            Holder::Mailbox(id) => format!("{PREFIX}{:08x}", id.0),
        }
    }

    pub(super) fn object(self, entry: &str) -> String {
        let mut name = self.prefix();
        name.extend(entry.chars().map(|c| c.to_ascii_lowercase()));
        name
    }

    /// Whose the object of that name is, and which entry.
    pub(crate) fn of_object(name: &str) -> Option<(Holder, &str)> {
        let rest = name.strip_prefix(PREFIX)?;
        let (holder, entry) = rest.split_at(rest.find('/')?);
        let holder = match holder {
            "server" => Holder::Server,
            id => Holder::Mailbox(MailboxId(u32::from_str_radix(id, 16).ok()?)),
        };
        Some((holder, entry))
    }
}
