//! SORT and THREAD (RFC 5256), SORT=DISPLAY (RFC 5957).

use super::search::Search;

/// `SORT` and `UID SORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sort {
    /// Criteria, most important first: at least one, at most `limits::IMAP_SORT_CRITERIA`.
    pub criteria: Vec<SortCriterion>,
    /// Of what; its charset is always there.
    pub search: Search,
}

/// `sort-criterion`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortCriterion {
    /// `REVERSE`: descending.
    pub reverse: bool,
    /// The key.
    pub key: SortKey,
}

/// `sort-key` (RFC 5256 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortKey {
    /// `ARRIVAL`: internal date and time.
    Arrival,
    /// `CC`: mailbox of the first address.
    Cc,
    /// `DATE`: sent date and time.
    Date,
    /// `DISPLAYFROM`: name of the first From address (RFC 5957 §4).
    DisplayFrom,
    /// `DISPLAYTO` (RFC 5957 §4)
    DisplayTo,
    /// `FROM`
    From,
    /// `RELEVANCY`: the best matches of a FUZZY search first (RFC 6203 §6).
    Relevancy,
    /// `SIZE`
    Size,
    /// `SUBJECT`: base subject.
    Subject,
    /// `TO`
    To,
}

impl SortKey {
    /// All, with their names.
    pub const NAMES: [(SortKey, &'static str); 10] = [
        (SortKey::Arrival, "ARRIVAL"),
        (SortKey::Cc, "CC"),
        (SortKey::Date, "DATE"),
        (SortKey::DisplayFrom, "DISPLAYFROM"),
        (SortKey::DisplayTo, "DISPLAYTO"),
        (SortKey::From, "FROM"),
        (SortKey::Relevancy, "RELEVANCY"),
        (SortKey::Size, "SIZE"),
        (SortKey::Subject, "SUBJECT"),
        (SortKey::To, "TO"),
    ];

    /// As written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(key, _)| *key == self).map_or("", |(_, name)| name)
    }
}

/// `THREAD` and `UID THREAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// How.
    pub algorithm: ThreadAlgorithm,
    /// Of what; its charset is always there.
    pub search: Search,
}

/// `thread-alg`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadAlgorithm {
    /// `ORDEREDSUBJECT`
    OrderedSubject,
    /// `REFERENCES`
    References,
}

impl ThreadAlgorithm {
    /// As written.
    pub fn name(self) -> &'static str {
        match self {
            ThreadAlgorithm::OrderedSubject => "ORDEREDSUBJECT",
            ThreadAlgorithm::References => "REFERENCES",
        }
    }
}
