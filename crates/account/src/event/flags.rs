//! Flags as events have them: by name, the system flags as bits.

use std::fmt;

use minicbor::{Decode, Encode};

/// How [`Event::FlagsStored`](super::Event::FlagsStored) changes flags (RFC 3501 §6.4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FlagAction {
    /// `FLAGS`: these and no others.
    #[n(0)]
    Replace,
    /// `+FLAGS`: these too.
    #[n(1)]
    Add,
    /// `-FLAGS`: without these.
    #[n(2)]
    Remove,
}

/// Flags by name: the system flags as bits, keywords as they were first written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Flags {
    /// The system flags.
    #[n(0)]
    pub system: SystemFlags,
    /// The keywords.
    #[n(1)]
    pub keywords: Vec<String>,
}

impl Flags {
    /// System flags alone.
    pub fn system(system: SystemFlags) -> Self {
        Flags { system, keywords: Vec::new() }
    }
}

/// The system flags of a placement (RFC 3501 §2.3.2), without `\Recent`, which belongs to sessions.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct SystemFlags(#[n(0)] u8);

impl SystemFlags {
    /// No flags.
    pub const NONE: SystemFlags = SystemFlags(0);
    /// `\Seen`
    pub const SEEN: SystemFlags = SystemFlags(1);
    /// `\Answered`
    pub const ANSWERED: SystemFlags = SystemFlags(2);
    /// `\Flagged`
    pub const FLAGGED: SystemFlags = SystemFlags(4);
    /// `\Deleted`
    pub const DELETED: SystemFlags = SystemFlags(8);
    /// `\Draft`
    pub const DRAFT: SystemFlags = SystemFlags(16);

    /// All of them with their IMAP names.
    pub const NAMES: [(SystemFlags, &'static str); 5] = [
        (Self::ANSWERED, "\\Answered"),
        (Self::FLAGGED, "\\Flagged"),
        (Self::DELETED, "\\Deleted"),
        (Self::SEEN, "\\Seen"),
        (Self::DRAFT, "\\Draft"),
    ];

    /// Whether all of `other` are among these.
    pub fn contains(self, other: SystemFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and `other`.
    #[must_use]
    pub fn with(self, other: SystemFlags) -> Self {
        SystemFlags(self.0 | other.0)
    }

    /// These without `other`.
    #[must_use]
    pub fn without(self, other: SystemFlags) -> Self {
        SystemFlags(self.0 & !other.0)
    }

    /// The IMAP names of those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }

    /// The flag of that IMAP name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(flag, _)| flag)
    }
}

impl fmt::Debug for SystemFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
