//! Data items of FETCH (RFC 3501 §6.4.5).

use std::num::NonZeroU32;

use super::string::AString;

/// One data item of FETCH. The macros ALL, FAST and FULL are expanded by the parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchItem {
    /// `UID`
    Uid,
    /// `FLAGS`
    Flags,
    /// `INTERNALDATE`
    InternalDate,
    /// `RFC822.SIZE`
    Rfc822Size,
    /// `MODSEQ` (RFC 7162 §3.1.4)
    ModSeq,
    /// `ENVELOPE`
    Envelope,
    /// `BODY`: the structure without extension data.
    Body,
    /// `BODYSTRUCTURE`
    BodyStructure,
    /// `BODY[section]<partial>`, or `BODY.PEEK[…]`, which does not set `\Seen`.
    BodySection {
        /// Which part of the message.
        section: Section,
        /// Which bytes of it.
        partial: Option<Partial>,
        /// Whether `\Seen` stays as it is.
        peek: bool,
    },
    /// `BINARY[section]<partial>`, or `BINARY.PEEK[…]`: a part without its
    /// Content-Transfer-Encoding (RFC 3516 §4.2). The grammar has part numbers only; other sections
    /// are accepted too, and have no encoding.
    Binary {
        /// Which part of the message.
        section: Section,
        /// Which of the decoded bytes. `<start>` alone, which clients send, means up to the end:
        /// `u64::MAX` bytes.
        partial: Option<Partial>,
        /// Whether `\Seen` stays as it is.
        peek: bool,
    },
    /// `BINARY.SIZE[section]`: how many bytes `BINARY[section]` has.
    BinarySize(Section),
    /// `RFC822`: `BODY[]` under another name.
    Rfc822,
    /// `RFC822.HEADER`: `BODY.PEEK[HEADER]` under another name.
    Rfc822Header,
    /// `RFC822.TEXT`: `BODY[TEXT]` under another name.
    Rfc822Text,
    /// `EMAILID` (RFC 8474 §5.3)
    EmailId,
    /// `THREADID` (RFC 8474 §5.3)
    ThreadId,
    /// `SAVEDATE` (RFC 8514 §4.2)
    SaveDate,
    /// `PREVIEW` (RFC 8970 §3.1)
    Preview {
        /// `(LAZY)`: only if it can be had without delay (RFC 8970 §4.1).
        lazy: bool,
    },
}

impl FetchItem {
    /// `FAST`
    pub const FAST: [FetchItem; 3] = [FetchItem::Flags, FetchItem::InternalDate, FetchItem::Rfc822Size];
    /// `ALL`
    pub const ALL: [FetchItem; 4] =
        [FetchItem::Flags, FetchItem::InternalDate, FetchItem::Rfc822Size, FetchItem::Envelope];
    /// `FULL`
    pub const FULL: [FetchItem; 5] = [
        FetchItem::Flags,
        FetchItem::InternalDate,
        FetchItem::Rfc822Size,
        FetchItem::Envelope,
        FetchItem::Body,
    ];

    /// Whether fetching this sets `\Seen` (RFC 3501 §6.4.5).
    pub fn sets_seen(&self) -> bool {
        matches!(
            self,
            FetchItem::BodySection { peek: false, .. }
                | FetchItem::Binary { peek: false, .. }
                | FetchItem::Rfc822
                | FetchItem::Rfc822Text
        )
    }
}

/// `section`: a part number (empty: the whole message) and a section of that part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// The part number, `4.2.1`; at most `limits::IMAP_NESTING` numbers.
    pub path: Vec<NonZeroU32>,
    /// The section of the part.
    pub text: SectionText,
}

/// The section of a part in `BODY[…]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SectionText {
    /// All of it: `BODY[]`, `BODY[1]`.
    #[default]
    Everything,
    /// `HEADER`
    Header,
    /// `HEADER.FIELDS (…)`: at least one name.
    HeaderFields(Vec<AString>),
    /// `HEADER.FIELDS.NOT (…)`: at least one name.
    HeaderFieldsNot(Vec<AString>),
    /// `TEXT`
    Text,
    /// `MIME`: only with a part number.
    Mime,
}

/// `<start.count>`; in a response only `<start>` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// The first byte, from 0.
    pub start: u64,
    /// How many bytes at most; not 0 in a command.
    pub count: u64,
}
