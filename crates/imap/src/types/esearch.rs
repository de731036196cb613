//! The ESEARCH response (RFC 4466 §2.6.2, RFC 4731 §3.1, and the extensions that add to it).

use super::mailbox::Mailbox;
use super::search::PartialRange;
use super::sequence::SequenceSet;
use super::string::AString;

/// `ESEARCH`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ESearch {
    /// The command that it answers.
    pub correlator: Correlator,
    /// Whether the numbers are UIDs.
    pub uid: bool,
    /// The answer; items this crate does not know are left out.
    pub data: Vec<SearchData>,
}

/// `search-correlator`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Correlator {
    /// `TAG`: the command.
    pub tag: Option<AString>,
    /// `MAILBOX`: of several that were searched (RFC 7377 §2.1).
    pub mailbox: Option<Mailbox>,
    /// `UIDVALIDITY` of that mailbox.
    pub uid_validity: Option<u32>,
}

/// `search-return-data`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchData {
    /// `MIN`
    Min(u32),
    /// `MAX`
    Max(u32),
    /// `ALL`
    All(SequenceSet),
    /// `COUNT`
    Count(u32),
    /// `MODSEQ` (RFC 4731 §3.2)
    ModSeq(u64),
    /// `PARTIAL`; `None` is NIL (RFC 9394 §3.1).
    Partial(PartialRange, Option<SequenceSet>),
    /// `RELEVANCY`: from 1 to 100, in the order of the results (RFC 6203 §4).
    Relevancy(Vec<u8>),
    /// `ADDTO`: positions, and the numbers to insert there (RFC 5267 §4.3.3). At least one.
    AddTo(Vec<(u32, SequenceSet)>),
    /// `REMOVEFROM` (RFC 5267 §4.3.4). At least one.
    RemoveFrom(Vec<(u32, SequenceSet)>),
}
