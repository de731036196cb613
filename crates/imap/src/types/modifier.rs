//! Modifiers and parameters in parentheses that extensions add to commands (RFC 4466 §2.1, §2.4, §2.5).

use super::search::PartialRange;
use super::sequence::SequenceSet;

/// A parameter of SELECT or EXAMINE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectParameter {
    /// `CONDSTORE` (RFC 7162 §3.1.8)
    CondStore,
    /// `QRESYNC (…)` (RFC 7162 §3.2.5)
    QResync(QResync),
}

/// A client's cached state of a mailbox from an earlier session (RFC 7162 §3.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QResync {
    /// The UIDVALIDITY it knew.
    pub uid_validity: u32,
    /// The HIGHESTMODSEQ up to which it knew everything; at least 1.
    pub modseq: u64,
    /// The UIDs it knew, without `*`; all below UIDNEXT if absent.
    pub known_uids: Option<SequenceSet>,
    /// Message numbers and their UIDs, so that the server need not report what the client saw expunged.
    pub matches: Option<SequenceMatch>,
}

/// Message sequence numbers and the UIDs they had: pairs in ascending order, without `*` (RFC 7162 §3.2.5.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceMatch {
    /// The numbers.
    pub numbers: SequenceSet,
    /// As many UIDs.
    pub uids: SequenceSet,
}

/// A modifier of FETCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchModifier {
    /// `CHANGEDSINCE` (RFC 7162 §3.1.4.1); at least 1.
    ChangedSince(u64),
    /// `VANISHED` (RFC 7162 §3.2.6)
    Vanished,
    /// `PARTIAL` (RFC 9394 §3.3)
    Partial(PartialRange),
}

/// A modifier of STORE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreModifier {
    /// `UNCHANGEDSINCE` (RFC 7162 §3.1.3)
    UnchangedSince(u64),
}
