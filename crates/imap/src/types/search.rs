//! Keys of SEARCH (RFC 3501 §6.4.4), and its return options (RFC 4466 §2.6.1, RFC 4731 §3.1).

use std::num::NonZeroU32;
use std::ops::Range;

use super::date::Date;
use super::flag::Flag;
use super::object_id::ObjectId;
use super::sequence::SequenceSet;
use super::string::{AString, Atom};

/// `SEARCH` and `UID SEARCH`; the searching part of `SORT`, `THREAD` and `ESEARCH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Whether UIDs are asked for.
    pub uid: bool,
    /// `RETURN (…)`: the parts of the result to return in an ESEARCH response; an empty list means
    /// [`SearchReturn::All`]. At most `limits::IMAP_ITEMS`; not more than one of
    /// [`SearchReturn::All`] and [`SearchReturn::Partial`].
    pub returns: Option<Vec<SearchReturn>>,
    /// `CHARSET`: the charset of every string in the keys; US-ASCII if absent.
    pub charset: Option<AString>,
    /// Keys that must all match: at least one, at most `limits::IMAP_SEARCH_KEYS` with those
    /// inside, nested at most `limits::IMAP_NESTING` deep.
    pub keys: Vec<SearchKey>,
}

/// `search-modseq-ext` (RFC 7162 §7): which metadata item of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModSeqEntry {
    /// The flag of `/flags/…`; never `\Recent`.
    pub flag: Flag,
    /// The kind of entry.
    pub scope: ModSeqScope,
}

/// `entry-type-req` (RFC 7162 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModSeqScope {
    /// `priv`
    Private,
    /// `shared`
    Shared,
    /// `all`
    All,
}

/// `search-return-opt`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchReturn {
    /// `MIN` (RFC 4731 §3.1)
    Min,
    /// `MAX` (RFC 4731 §3.1)
    Max,
    /// `ALL` (RFC 4731 §3.1)
    All,
    /// `COUNT` (RFC 4731 §3.1)
    Count,
    /// `SAVE` (RFC 5182 §2.1)
    Save,
    /// `PARTIAL` (RFC 9394 §3.1)
    Partial(PartialRange),
    /// `RELEVANCY` (RFC 6203 §4)
    Relevancy,
    /// `UPDATE` (RFC 5267 §4.3)
    Update,
    /// `CONTEXT` (RFC 5267 §4.2)
    Context,
}

/// `partial-range`: a window onto a result, counted from 1 at its beginning, or from -1 at its end
/// (RFC 9394 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialRange {
    /// The bound that was written first.
    pub first: NonZeroU32,
    /// The other one; may be smaller.
    pub last: NonZeroU32,
    /// `-1:-100`
    pub from_end: bool,
}

impl PartialRange {
    /// The same range with the bound that is nearer to where it counts from first: "500:400 is the
    /// same as 400:500" (RFC 9394 §4).
    #[must_use]
    pub fn in_order(self) -> Self {
        PartialRange { first: self.first.min(self.last), last: self.first.max(self.last), ..self }
    }

    /// Which of `len` results these are, as indices from 0; empty if there are none.
    pub fn of(self, len: usize) -> Range<usize> {
        let (a, b) = (self.first.get() as usize, self.last.get() as usize);
        let (from, to) = (a.min(b) - 1, a.max(b).min(len));
        if from >= to {
            return 0..0;
        }
        if self.from_end { len - to..len - from } else { from..to }
    }
}

/// `search-key`. Strings are bytes of the command's charset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchKey {
    /// `ALL`
    All,
    /// The flag is set: `SEEN`, `ANSWERED`, `FLAGGED`, `DELETED`, `DRAFT`, `RECENT`, `KEYWORD name`.
    Flag(Flag),
    /// The flag is not set: `UNSEEN`, `UNANSWERED`, …, `OLD` (not `\Recent`), `UNKEYWORD name`.
    NotFlag(Flag),
    /// `NEW`: `\Recent` and not `\Seen`.
    New,
    /// `BEFORE`: internal date earlier than that day.
    Before(Date),
    /// `ON`
    On(Date),
    /// `SINCE`: that day or later.
    Since(Date),
    /// `SENTBEFORE`: by the Date header field.
    SentBefore(Date),
    /// `SENTON`
    SentOn(Date),
    /// `SENTSINCE`
    SentSince(Date),
    /// `BCC`
    Bcc(AString),
    /// `CC`
    Cc(AString),
    /// `FROM`
    From(AString),
    /// `SUBJECT`
    Subject(AString),
    /// `TO`
    To(AString),
    /// `HEADER name string`: an empty string means only that the field is there.
    Header(AString, AString),
    /// `BODY`
    Body(AString),
    /// `TEXT`: header or body.
    Text(AString),
    /// `LARGER`: RFC822.SIZE above this.
    Larger(u64),
    /// `SMALLER`: RFC822.SIZE below this.
    Smaller(u64),
    /// `MODSEQ` (RFC 7162 §3.1.5): this mod-sequence or a later one.
    ModSeq {
        /// The entry whose mod-sequence is meant; all metadata of the message if absent.
        entry: Option<ModSeqEntry>,
        /// The least mod-sequence.
        modseq: u64,
    },
    /// `EMAILID` (RFC 8474 §6)
    EmailId(ObjectId),
    /// `THREADID` (RFC 8474 §6)
    ThreadId(ObjectId),
    /// `SAVEDBEFORE`: saved earlier than that day (RFC 8514 §4.3).
    SavedBefore(Date),
    /// `SAVEDON` (RFC 8514 §4.3)
    SavedOn(Date),
    /// `SAVEDSINCE`: that day or later (RFC 8514 §4.3).
    SavedSince(Date),
    /// `SAVEDATESUPPORTED`: the mailbox keeps the date (RFC 8514 §4.3).
    SaveDateSupported,
    /// Message sequence numbers.
    Sequence(SequenceSet),
    /// `UID`
    Uid(SequenceSet),
    /// `OLDER`: at least this many seconds ago by the internal date (RFC 5032 §2).
    Older(NonZeroU32),
    /// `YOUNGER`: at most this many seconds ago (RFC 5032 §2).
    Younger(NonZeroU32),
    /// `FILTER`: the search that is stored under this name, which has no `/` (RFC 5466 §3.1).
    Filter(Atom),
    /// `FUZZY`: about this (RFC 6203 §3).
    Fuzzy(Box<SearchKey>),
    /// `NOT`
    Not(Box<SearchKey>),
    /// `OR`
    Or(Box<SearchKey>, Box<SearchKey>),
    /// `(…)`: all of them; at least one.
    And(Vec<SearchKey>),
}

impl SearchKey {
    /// Whether this key, or one inside it, is such a key.
    pub fn any(&self, test: &impl Fn(&SearchKey) -> bool) -> bool {
        test(self)
            || match self {
                SearchKey::Not(key) | SearchKey::Fuzzy(key) => key.any(test),
                SearchKey::Or(first, second) => first.any(test) || second.any(test),
                SearchKey::And(keys) => keys.iter().any(|key| key.any(test)),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_onto_a_result() {
        let range = |first: u32, last: u32, from_end| PartialRange {
            first: NonZeroU32::new(first).unwrap(),
            last: NonZeroU32::new(last).unwrap(),
            from_end,
        };
        assert_eq!(range(1, 3, false).of(10), 0..3);
        assert_eq!(range(3, 1, false).of(10), 0..3);
        assert_eq!(range(9, 20, false).of(10), 8..10);
        assert_eq!(range(1, 3, true).of(10), 7..10);
        assert_eq!(range(20, 9, true).of(10), 0..2);
        assert!(range(11, 20, false).of(10).is_empty() && range(11, 20, true).of(10).is_empty());
        assert!(range(1, u32::MAX, true).of(0).is_empty());
    }
}
