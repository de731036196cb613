//! Special uses of mailboxes (RFC 6154, RFC 8457).

use minicbor::{Decode, Encode};

/// A special use (RFC 6154 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum SpecialUse {
    /// `\Archive`
    #[n(0)]
    Archive,
    /// `\Drafts`
    #[n(1)]
    Drafts,
    /// `\Junk`
    #[n(2)]
    Junk,
    /// `\Sent`
    #[n(3)]
    Sent,
    /// `\Trash`
    #[n(4)]
    Trash,
    /// `\Flagged`
    #[n(5)]
    Flagged,
    /// `\All`
    #[n(6)]
    All,
    /// `\Important` (RFC 8457)
    #[n(7)]
    Important,
}

/// The special uses of a mailbox: none, one or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialUses(u8);

impl SpecialUse {
    const ALL: [SpecialUse; 8] = [
        SpecialUse::Archive,
        SpecialUse::Drafts,
        SpecialUse::Junk,
        SpecialUse::Sent,
        SpecialUse::Trash,
        SpecialUse::Flagged,
        SpecialUse::All,
        SpecialUse::Important,
    ];

    /// The attribute in a LIST response.
    pub fn attribute(self) -> &'static str {
        match self {
            SpecialUse::Archive => "\\Archive",
            SpecialUse::Drafts => "\\Drafts",
            SpecialUse::Junk => "\\Junk",
            SpecialUse::Sent => "\\Sent",
            SpecialUse::Trash => "\\Trash",
            SpecialUse::Flagged => "\\Flagged",
            SpecialUse::All => "\\All",
            SpecialUse::Important => "\\Important",
        }
    }

    /// The use of that attribute, ignoring case.
    pub fn of_attribute(attribute: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.attribute().eq_ignore_ascii_case(attribute))
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl SpecialUses {
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether that use is among them.
    pub fn contains(self, one: SpecialUse) -> bool {
        self.0 & one.bit() != 0
    }

    /// These uses without those in `other`.
    #[must_use]
    pub fn without(self, other: SpecialUses) -> Self {
        SpecialUses(self.0 & !other.0)
    }

    /// The uses in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = SpecialUse> {
        SpecialUse::ALL.into_iter().filter(move |one| self.contains(*one))
    }
}

impl FromIterator<SpecialUse> for SpecialUses {
    fn from_iter<T: IntoIterator<Item = SpecialUse>>(uses: T) -> Self {
        SpecialUses(uses.into_iter().fold(0, |bits, one| bits | one.bit()))
    }
}
