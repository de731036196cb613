//! Items of STATUS (RFC 3501 §6.3.10, RFC 9051 §6.3.11 and the extensions that add to it).

use super::object_id::ObjectId;

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
    /// `DELETED` (RFC 9051 §6.3.11)
    Deleted,
    /// `SIZE` (RFC 8438 §3)
    Size,
    /// `MAILBOXID` (RFC 8474 §4.3)
    MailboxId,
    /// `APPENDLIMIT` (RFC 7889 §3.1)
    AppendLimit,
    /// `HIGHESTMODSEQ` (RFC 7162 §3.1.7)
    HighestModSeq,
    /// `DELETED-STORAGE`, in bytes (RFC 9208 §4.1.4)
    DeletedStorage,
}

/// One pair of a STATUS response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusValue {
    /// Which item.
    pub item: StatusItem,
    /// Its value.
    pub value: StatusData,
}

/// The value of an item in a STATUS response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusData {
    /// A number, 63 bits wide for the items of extensions (RFC 8438 §3).
    Number(u64),
    /// An object id, in brackets (RFC 8474 §4.3).
    Id(ObjectId),
    /// `NIL`: no limit (RFC 7889 §5).
    Nil,
}

impl From<u64> for StatusData {
    fn from(number: u64) -> Self {
        StatusData::Number(number)
    }
}

impl StatusItem {
    /// Every item, with the name it is written with.
    pub const NAMES: [(StatusItem, &'static str); 11] = [
        (StatusItem::Messages, "MESSAGES"),
        (StatusItem::Recent, "RECENT"),
        (StatusItem::UidNext, "UIDNEXT"),
        (StatusItem::UidValidity, "UIDVALIDITY"),
        (StatusItem::Unseen, "UNSEEN"),
        (StatusItem::Deleted, "DELETED"),
        (StatusItem::Size, "SIZE"),
        (StatusItem::MailboxId, "MAILBOXID"),
        (StatusItem::AppendLimit, "APPENDLIMIT"),
        (StatusItem::HighestModSeq, "HIGHESTMODSEQ"),
        (StatusItem::DeletedStorage, "DELETED-STORAGE"),
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
