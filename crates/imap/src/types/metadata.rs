//! GETMETADATA, SETMETADATA and their entries, of mailboxes and of the server (RFC 5464).

use std::fmt;

use sealpost_base::limits;

use super::mailbox::Mailbox;
use super::string::Invalid;

/// The name of an entry, in lower case: names are compared without regard to case (RFC 5464 §3.2).
/// Begins with `/private` or `/shared`; at most [`limits::METADATA_ENTRY_BYTES`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry(Box<str>);

/// How far below the entries that it names a GETMETADATA looks (RFC 5464 §4.2.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Depth {
    /// `0`: not at all.
    #[default]
    Zero,
    /// `1`: the entries immediately below them.
    One,
    /// `infinity`
    Infinity,
}

/// `GETMETADATA` (RFC 5464 §4.2)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetMetadata {
    /// The mailbox of the entries; `None`: the server.
    pub mailbox: Option<Mailbox>,
    /// Values of more bytes are left out.
    pub max_size: Option<u64>,
    /// How far below the entries.
    pub depth: Depth,
    /// Which: at least one.
    pub entries: Vec<Entry>,
}

/// `SETMETADATA` (RFC 5464 §4.3)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetMetadata {
    /// The mailbox of the entries; `None`: the server.
    pub mailbox: Option<Mailbox>,
    /// Entries with their new values, at least one; `None` is NIL and removes it.
    pub entries: Vec<(Entry, Option<Vec<u8>>)>,
}

/// The values of the response code METADATA (RFC 5464 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataCode {
    /// `LONGENTRIES`: values were left out, and the longest has this many bytes.
    LongEntries(u64),
    /// `MAXSIZE`: a value is too long, and this many bytes would do.
    MaxSize(u64),
    /// `TOOMANY`
    TooMany,
    /// `NOPRIVATE`
    NoPrivate,
}

impl Entry {
    /// An entry's name. `Err` for a name that RFC 5464 §3.2 does not allow: another first level
    /// than `private` and `shared`, empty levels, `*`, `%`, control characters, anything beyond
    /// ASCII.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        if name.len() > limits::METADATA_ENTRY_BYTES {
            return Err(Invalid("the name of an entry is too long"));
        }
        if !name.bytes().all(|b| matches!(b, 0x20..=0x7e) && !matches!(b, b'*' | b'%')) {
            return Err(Invalid("the name of an entry has a character that is not allowed"));
        }
        let name = name.to_ascii_lowercase();
        let mut levels = name.split('/');
        let (empty, scope) = (levels.next(), levels.next());
        if empty != Some("") || !matches!(scope, Some("private" | "shared")) {
            return Err(Invalid("an entry is below /private or /shared"));
        }
        if levels.any(str::is_empty) {
            return Err(Invalid("the name of an entry has an empty level"));
        }
        Ok(Entry(name.into()))
    }

    /// The name, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it belongs to one user alone.
    pub fn is_private(&self) -> bool {
        self.0.starts_with("/private")
    }

    /// Whether it can have a value: two levels, and four below `vendor` (RFC 5464 §3.2).
    pub fn can_have_value(&self) -> bool {
        let levels = self.0.split('/').count() - 1;
        let vendor = self.0.split('/').nth(2) == Some("vendor");
        levels >= if vendor { 4 } else { 2 }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Depth {
    /// Every depth, with the name it is written with.
    pub const NAMES: [(Depth, &'static str); 3] =
        [(Depth::Zero, "0"), (Depth::One, "1"), (Depth::Infinity, "infinity")];

    /// The name it is written with.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(depth, _)| *depth == self).map_or("0", |(_, name)| name)
    }

    /// The depth called `name`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(depth, _)| *depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_names() {
        for good in ["/shared/comment", "/PRIVATE/Comment", "/private", "/shared/vendor/a/b c"] {
            assert_eq!(Entry::new(good).unwrap().as_str(), good.to_ascii_lowercase());
        }
        let long = format!("/private/{}", "x".repeat(limits::METADATA_ENTRY_BYTES));
        for bad in [
            "",
            "/",
            "comment",
            "/comment",
            "/privates/x",
            "/private/",
            "/private//x",
            "/private/*",
            "/shared/%",
            "/shared/\u{e9}",
            "/shared/a\tb",
            &long,
        ] {
            assert!(Entry::new(bad).is_err(), "{bad}");
        }
        let entry = |name: &str| Entry::new(name).unwrap();
        assert!(!entry("/private").can_have_value() && entry("/shared/x").can_have_value());
        assert!(!entry("/shared/vendor/a").can_have_value() && entry("/shared/vendor/a/b").can_have_value());
    }
}
