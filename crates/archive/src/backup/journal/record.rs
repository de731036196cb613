//! The records of a journal. Numbered fields (CBOR); numbers are never used again.
//! `docs/format/archive-journal.md` has the bytes.

use minicbor::{Decode, Encode};
use sealpost_base::limits;

use crate::backup::digest::{Check, Digest};
use crate::backup::{Flags, Resume};

/// One entry of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// The mailbox that the journal belongs to; the last one counts. The first record of every
    /// journal.
    #[n(0)]
    Header(#[n(0)] Header),
    /// A message is stored.
    #[n(1)]
    Message(#[n(0)] Message),
    /// How the lines of the next message end, as far as they do not end in CRLF; there may be
    /// several in a row.
    #[n(2)]
    LineEnds {
        /// Lengths of runs: see `backup::line_ends`.
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        runs: Vec<u8>,
    },
    /// The message that these line ends were for did not arrive.
    #[n(3)]
    Abandoned,
    /// A message has other flags now.
    #[n(4)]
    Flags {
        /// Which message.
        #[n(0)]
        uid: u32,
        /// Its flags.
        #[n(1)]
        flags: FlagsRecord,
    },
    /// A message was removed.
    #[n(5)]
    Vanished {
        /// Which.
        #[n(0)]
        uid: u32,
    },
    /// The server no longer has a stored message.
    #[n(6)]
    DeletedUpstream {
        /// Which.
        #[n(0)]
        uid: u32,
    },
    /// Everything up to here is valid. A checksum follows it.
    #[n(7)]
    Commit(#[n(0)] Commit),
}

/// The mailbox that a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// The mailbox's name on the server.
    #[n(0)]
    pub folder: String,
    /// What separates the levels of the name.
    #[n(1)]
    pub delimiter: Option<char>,
    /// Its UIDVALIDITY.
    #[n(2)]
    pub uidvalidity: u32,
    /// Its MAILBOXID (RFC 8474 §4), if the server has such.
    #[n(3)]
    pub mailboxid: Option<String>,
    /// Its files are being moved to this name: those found under the old one follow.
    #[n(4)]
    pub moving_to: Option<String>,
    /// It is superseded: the server has another mailbox by this name now.
    #[n(5)]
    pub superseded: bool,
    /// Its data file was rewritten with so many bytes, and is about to replace the previous one.
    #[n(6)]
    pub rewritten: Option<u64>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Message {
    /// Its UID on the server.
    #[n(0)]
    pub uid: u32,
    /// Its flags when it came.
    #[n(1)]
    pub flags: FlagsRecord,
    /// INTERNALDATE: seconds since 1970; `None` if the backup was begun by a program that keeps
    /// none.
    #[n(2)]
    pub received: Option<i64>,
    /// The zone of INTERNALDATE: minutes east of UTC.
    #[n(3)]
    pub zone: i16,
    /// Its bytes.
    #[n(4)]
    pub bytes: u64,
    /// The digest of its bytes.
    #[n(5)]
    pub digest: Digest,
    /// `bytes` and `digest` describe the bytes that can be read back, not those that the server
    /// sent: another program wrote it.
    #[n(6)]
    pub foreign: bool,
    /// Where it is in the data file: first byte.
    #[n(7)]
    pub offset: u64,
    /// Bytes it takes there.
    #[n(8)]
    pub length: u64,
    /// Where its first [`Record::LineEnds`] begins in this journal; 0: all its lines end in CRLF.
    #[n(9)]
    pub line_ends: u64,
}

/// A message's flags.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct FlagsRecord {
    /// System flags as bits: 1 Seen, 2 Answered, 4 Flagged, 8 Deleted, 16 Draft.
    #[n(0)]
    pub system: u8,
    /// Keywords; absent: none.
    #[n(1)]
    pub keywords: Option<Vec<Box<str>>>,
    /// Gmail's labels; absent: none.
    #[n(2)]
    pub labels: Option<Vec<Box<str>>>,
}

impl FlagsRecord {
    /// The flags as records hold them: as many keywords and labels as fit into a record.
    pub fn of(flags: &Flags) -> Self {
        let mut room = WORDS_BYTES;
        let mut fitting = |words: &[Box<str>]| -> Option<Vec<Box<str>>> {
            let mut fits = |word: &str| {
                let left = room.checked_sub(word_bytes(word));
                room = left.unwrap_or(room);
                left.is_some()
            };
            let words: Vec<_> = words.iter().filter(|word| fits(word)).cloned().collect();
            (!words.is_empty()).then_some(words)
        };
        let (keywords, labels) = (fitting(&flags.keywords), fitting(&flags.labels));
        FlagsRecord { system: flags.system, keywords, labels }
    }

    /// Whether all keywords and labels fit into a record.
    pub fn holds(flags: &Flags) -> bool {
        flags.keywords.iter().chain(&flags.labels).map(|word| word_bytes(word)).sum::<usize>() <= WORDS_BYTES
    }

    /// The flags.
    pub fn into_flags(self) -> Flags {
        Flags {
            system: self.system,
            keywords: self.keywords.unwrap_or_default(),
            labels: self.labels.unwrap_or_default(),
        }
    }
}

/// Bytes of a record for keywords and labels.
const WORDS_BYTES: usize = limits::ARCHIVE_RECORD_BYTES / 2;

/// The most that a word takes in a record.
fn word_bytes(word: &str) -> usize {
    word.len() + 8
}

/// The state after everything before is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct Commit {
    /// Bytes of the data file that belong to the backup.
    #[n(0)]
    pub data: u64,
    /// Stored messages that the server has too.
    #[n(1)]
    pub present: u64,
    /// Stored messages that it no longer has.
    #[n(2)]
    pub gone: u64,
    /// HIGHESTMODSEQ up to which flags are known (RFC 7162); 0: not known.
    #[n(3)]
    pub highestmodseq: u64,
    /// The server's UIDNEXT; 0: not known.
    #[n(4)]
    pub uidnext: u32,
    /// Every message below `uidnext` is stored.
    #[n(5)]
    pub whole: bool,
    /// Where the last header begins in this journal.
    #[n(6)]
    pub header: u64,
    /// Where the first record after the previous commit begins.
    #[n(7)]
    pub from: u64,
    /// The checksum of the previous commit; zeros for the first.
    #[n(8)]
    #[cbor(with = "minicbor::bytes")]
    pub before: Check,
    /// What a stat shows of the files for other programs when they are up to date with this commit;
    /// the format defines it. Absent: they may be behind.
    #[n(9)]
    pub shown: Option<u64>,
    /// Messages that the backup had and that no record names any more, since the journal was
    /// damaged; absent: none, or a pull was complete since.
    #[n(10)]
    pub unread: Option<u64>,
}

impl Commit {
    /// What it records about the server.
    pub fn resume(&self) -> Resume {
        Resume { highestmodseq: self.highestmodseq, uidnext: self.uidnext, whole: self.whole }
    }
}
