//! What SEARCH can ask for (RFC 3501 §6.4.4).

use super::date::Date;
use super::flag::Flag;
use super::sequence::SequenceSet;
use super::string::AString;

/// `SEARCH` and `UID SEARCH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Whether UIDs are asked for.
    pub uid: bool,
    /// `CHARSET`: the charset of every string in the keys; US-ASCII if absent.
    pub charset: Option<AString>,
    /// Keys that must all match: at least one, at most `limits::IMAP_SEARCH_KEYS` with those inside, nested at most
    /// `limits::IMAP_NESTING` deep.
    pub keys: Vec<SearchKey>,
}

/// `search-modseq-ext` (RFC 7162 §7): which metadata item of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModSeqEntry {
    /// The flag of `/flags/…`; never `\Recent`.
    pub flag: Flag,
    /// Whose value.
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

/// `search-key`. Strings are octets of the command's charset.
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
    /// Message sequence numbers.
    Sequence(SequenceSet),
    /// `UID`
    Uid(SequenceSet),
    /// `NOT`
    Not(Box<SearchKey>),
    /// `OR`
    Or(Box<SearchKey>, Box<SearchKey>),
    /// `(…)`: all of them; at least one.
    And(Vec<SearchKey>),
}
