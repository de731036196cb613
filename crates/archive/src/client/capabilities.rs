//! [`Capabilities`]: what a server can do (RFC 3501 §7.2.1).

use std::collections::HashSet;

use sealpost_imap::types::Atom;

/// The names of a CAPABILITY response, in upper case.
#[derive(Debug, Clone, Default)]
pub struct Capabilities(HashSet<Box<str>>);

impl Capabilities {
    /// From the response.
    pub fn new(names: &[Atom]) -> Self {
        Capabilities(names.iter().map(|name| name.as_str().to_ascii_uppercase().into()).collect())
    }

    /// Whether it is announced; `name` in upper case.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Non-synchronizing literals of any size (RFC 7888 §4).
    pub fn literal_plus(&self) -> bool {
        self.has("LITERAL+")
    }

    /// Mod-sequences (RFC 7162); QRESYNC includes CONDSTORE.
    pub fn condstore(&self) -> bool {
        self.has("CONDSTORE") || self.has("QRESYNC")
    }

    /// LIST with STATUS of each mailbox (RFC 5819); IMAP4rev2 includes it.
    pub fn list_status(&self) -> bool {
        self.has("LIST-STATUS") || self.has("IMAP4REV2")
    }

    /// SEARCH that answers with a set (RFC 4731).
    pub fn esearch(&self) -> bool {
        self.has("ESEARCH") || self.has("IMAP4REV2")
    }

    /// Attributes that say what a mailbox is for (RFC 6154).
    pub fn special_use(&self) -> bool {
        self.has("SPECIAL-USE") || self.has("IMAP4REV2")
    }

    /// The largest message that APPEND takes (RFC 7889), if the server says the same of all mailboxes.
    pub fn append_limit(&self) -> Option<u64> {
        self.0.iter().find_map(|name| name.strip_prefix("APPENDLIMIT=")?.parse().ok())
    }

    /// Gmail.
    pub fn gmail(&self) -> bool {
        self.has("X-GM-EXT-1")
    }
}
