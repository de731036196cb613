//! Search criteria, independent of any protocol. Each protocol translates its own search to these.

use sealpost_account::SystemFlags;
use sealpost_account::ThreadId;
use sealpost_base::{ObjectId, UidSet};

use crate::scope::MailboxIndex;

/// A condition on messages.
///
/// Criteria nest; the translating protocol bounds the depth.
#[derive(Debug, Clone)]
pub enum Criterion {
    /// All messages match, or none.
    Always(bool),
    /// The message is in this mailbox of the scope, with one of these UIDs.
    Uids(MailboxIndex, UidSet),
    /// The caller has marked the message: it is in `MailboxScope::marked`.
    Marked,
    /// All of these flags are set.
    Flags(SystemFlags),
    /// The keyword with this name is set, ignoring case.
    Keyword(String),
    /// It changed at this mod-sequence or later.
    ChangedSince(u64),
    /// It was received on one of these days.
    Received(Days),
    /// It was received at least this many seconds ago.
    OlderThan(u32),
    /// It was received at most this many seconds ago.
    YoungerThan(u32),
    /// It was placed in its mailbox on one of these days.
    Saved(Days),
    /// Its Date field is on one of these days.
    Sent(Days),
    /// It is larger than this many bytes.
    Larger(u64),
    /// It is smaller than this many bytes.
    Smaller(u64),
    /// It is this message, in whatever mailbox.
    Email(ObjectId),
    /// It belongs to this thread.
    Thread(ThreadId),
    /// Its text contains this string; both are compared in folded form.
    Text(TextPart, String),
    /// It matches approximately (see the module `fuzzy`).
    Fuzzy(Box<Criterion>),
    /// The criterion does not hold.
    Not(Box<Criterion>),
    /// All of the criteria hold.
    All(Vec<Criterion>),
    /// At least one of the criteria holds.
    Any(Vec<Criterion>),
}

/// Where to find a string.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TextPart {
    /// In the values of the header fields of this name.
    Field(String),
    /// In the text of the message.
    Body,
    /// In header and text.
    Anywhere,
}

/// Days since 1970 in UTC: from `from` up to but excluding `to`.
#[derive(Debug, Clone, Copy)]
pub struct Days {
    /// The first day.
    pub from: i64,
    /// The day after the last one.
    pub to: i64,
}

impl Days {
    /// All days before that one.
    pub fn before(day: i64) -> Self {
        Days { from: i64::MIN, to: day }
    }

    /// That day.
    pub fn on(day: i64) -> Self {
        Days { from: day, to: day + 1 }
    }

    /// That day and all after it.
    pub fn since(day: i64) -> Self {
        Days { from: day, to: i64::MAX }
    }

    /// Whether the day is in the range.
    pub(crate) fn contain(self, day: i64) -> bool {
        (self.from..self.to).contains(&day)
    }

    /// The distance of the day to the nearest day in the range.
    pub(crate) fn distance(self, day: i64) -> u64 {
        if day < self.from {
            self.from.abs_diff(day)
        } else {
            day.saturating_add(1).max(self.to).abs_diff(self.to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_this_far_away() {
        let days = Days { from: 10, to: 12 };
        let distances: Vec<u64> = (8..15).map(|day| days.distance(day)).collect();
        assert_eq!(distances, [2, 1, 0, 0, 1, 2, 3]);
        assert_eq!(Days::before(12).distance(-5), 0);
        assert_eq!(Days::since(10).distance(11), 0);
    }
}
