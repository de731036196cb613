//! The holders of metadata entries, and changes of entries.

use sealpost_base::{MailboxId, Position};

/// The prefix of the names of all metadata objects.
pub(crate) const PREFIX: &str = "meta/";

/// The entry with the special uses of a mailbox (RFC 6154 §4). It is computed from
/// [`crate::state::Mailbox::special_uses`].
pub const SPECIAL_USE: &str = "/private/specialuse";

/// The holder of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// The server, as this account sees it.
    Server,
    /// A mailbox.
    Mailbox(MailboxId),
}

/// A change of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The position of the change.
    pub at: Position,
    /// The holder of the entry.
    pub holder: Holder,
    /// Its name, in lower case.
    pub entry: String,
}

impl Holder {
    /// The prefix of the names of its objects.
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

    /// The holder and the entry of the object with that name.
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
