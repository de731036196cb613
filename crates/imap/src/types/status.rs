//! What STATUS can ask for (RFC 3501 §6.3.10).

/// `status-att`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StatusItem {
    /// `MESSAGES`
    Messages,
    /// `RECENT`
    Recent,
    /// `UIDNEXT`
    UidNext,
    /// `UIDVALIDITY`
    UidValidity,
    /// `UNSEEN`
    Unseen,
    /// `HIGHESTMODSEQ` (RFC 7162 §3.1.7)
    HighestModSeq,
}

/// One pair of a STATUS response. The number is 64 bits wide for the items of extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusValue {
    /// Which item.
    pub item: StatusItem,
    /// Its value.
    pub value: u64,
}

impl StatusItem {
    /// Every item, with the name it is written with.
    pub const NAMES: [(StatusItem, &'static str); 6] = [
        (StatusItem::Messages, "MESSAGES"),
        (StatusItem::Recent, "RECENT"),
        (StatusItem::UidNext, "UIDNEXT"),
        (StatusItem::UidValidity, "UIDVALIDITY"),
        (StatusItem::Unseen, "UNSEEN"),
        (StatusItem::HighestModSeq, "HIGHESTMODSEQ"),
    ];

    /// The name it is written with.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(item, _)| *item == self).map_or("", |(_, name)| name)
    }

    /// The item called `name`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|(item, _)| *item)
    }
}
