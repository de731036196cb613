//! [`State`]: the queue as replaying its log gives it.
//!
//! It holds a compact [`Row`] for each mail and never its envelope or bytes: those stay where they
//! were written, in an entry of the log or in a segment. [`State::apply`] is pure, total and
//! deterministic: no clock, no randomness, no errors. A checkpoint of the state and the entries
//! after it give the same state as all entries.

mod apply;
mod chunks;
mod names;
mod rows;
mod sent;
mod submissions;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, ObjectId, Position, SubmissionId, Timestamp};
use sealpost_vault::message::{Layout, MessageKey};

pub use apply::Applied;
use names::Names;
pub use rows::{Flags, Place, Row, Rows, SEVERAL};
pub use sent::HourCount;
use sent::SentRecipients;
use submissions::QueuedSubmissions;
pub use submissions::{Arrival, News, QueuedSubmission};

use crate::MailId;
use crate::event::{Adoption, Failure, Rule, WriterId};
use crate::retry::{DELAY_REPORT_AFTER, EXPIRE_AFTER};

/// A queue.
#[derive(Default, Clone)]
pub struct State {
    /// The last entry that was applied.
    position: Position,
    /// The id of the next mail.
    next: u64,
    rows: Rows,
    accounts: Names<Option<AccountId>>,
    domains: Names<Box<str>>,
    /// Progress of mails that have several recipients.
    parts: HashMap<MailId, Box<Parts>>,
    segments: BTreeMap<u32, Segment>,
    next_segment: u32,
    rules: BTreeMap<u32, Rule>,
    next_rule: u32,
    owner: Option<(WriterId, Adoption)>,
    all_held: Option<String>,
    handled: VecDeque<String>,
    /// The latest name of a handled request that is no longer among these; empty: none was forgotten.
    forgotten: String,
    totals: Totals,
    sent: SentRecipients,
    submissions: QueuedSubmissions,
}

/// Progress of a mail that has several recipients.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The progress of each recipient.
    pub recipients: Vec<Part>,
}

/// Progress of one recipient of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Not delivered yet, with the last failure.
    Left(Option<Box<Failure>>),
    /// Delivered, relayed or failed, and reported if the sender asked for that.
    Done,
}

/// Many mails in one object.
#[derive(Clone, Encode, Decode)]
pub struct Segment {
    /// Its name.
    #[n(0)]
    pub object: ObjectId,
    /// Its key.
    #[n(1)]
    pub key: MessageKey,
    /// The sizes of its parts.
    #[n(2)]
    pub layout: Layout,
    /// Mails in it that are still queued.
    #[n(3)]
    pub mails: u32,
    /// Their bytes.
    #[n(4)]
    pub bytes: u64,
}

/// Counts since the queue began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Totals {
    /// Mails accepted.
    #[n(0)]
    pub accepted: u64,
    /// Recipients delivered or relayed.
    #[n(1)]
    pub delivered: u64,
    /// Failed recipients.
    #[n(2)]
    pub failed: u64,
    /// Attempts after which recipients remained.
    #[n(3)]
    pub deferred: u64,
    /// Mails that the operator removed.
    #[n(4)]
    pub removed: u64,
    /// Mails that were on their way to a server when a process was taken over from, and may have
    /// arrived twice.
    #[n(5)]
    pub repeated: u64,
}

impl State {
    /// The last entry that was applied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The mails.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The id that the next accepted mail gets.
    pub fn next_id(&self) -> MailId {
        MailId(self.next)
    }

    /// Mails in the queue.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The account of a row.
    pub fn account(&self, row: &Row) -> Option<AccountId> {
        self.accounts.get(row.account).copied().flatten()
    }

    /// The domain of a row's recipients; `None` if they have several.
    pub fn domain(&self, row: &Row) -> Option<&str> {
        self.domains.get(row.domain).map(|domain| &**domain)
    }

    /// Domains that mail waits for, and how many mails for each; not of mails whose recipients have several.
    pub fn domains(&self) -> impl Iterator<Item = (&str, u32)> {
        self.domains.iter().map(|(domain, mails)| (&**domain, mails))
    }

    /// The last failure of the recipient at that place in the envelope; `None` if the recipient is done.
    pub fn left(&self, id: MailId, recipient: usize) -> Option<Option<Failure>> {
        self.rows.get(id)?;
        match self.parts.get(&id) {
            None => (recipient == 0).then(|| self.rows.failure(id)),
            Some(parts) => match parts.recipients.get(recipient)? {
                Part::Left(failure) => Some(failure.as_deref().cloned()),
                Part::Done => None,
            },
        }
    }

    /// Whether the recipient at that place is left, and the server `site` caused its last failure.
    pub fn was_last_at(&self, id: MailId, recipient: usize, site: &str) -> bool {
        self.left(id, recipient).flatten().is_some_and(|failure| failure.host.eq_ignore_ascii_case(site))
    }

    /// The segment of that number.
    pub fn segment(&self, number: u32) -> Option<&Segment> {
        self.segments.get(&number)
    }

    /// All segments that hold mail.
    pub fn segments(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.segments.iter().map(|(number, segment)| (*number, segment))
    }

    /// Standing rules, by number.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values()
    }

    /// The process that runs the queue.
    pub fn owner(&self) -> Option<(WriterId, &str)> {
        self.owner.as_ref().map(|(writer, adoption)| (*writer, adoption.node.as_str()))
    }

    /// Why the whole queue is on hold; `None` if it is not.
    pub fn all_held(&self) -> Option<&str> {
        self.all_held.as_deref()
    }

    /// Whether the request of that name was handled, or may have been: names begin with the time, and it is
    /// not later than one that was forgotten. A writer of the store can put a copy of a request back.
    pub fn is_handled(&self, request: &str) -> bool {
        request <= self.forgotten.as_str() || self.handled.iter().any(|name| name == request)
    }

    /// Counts since the queue began.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// To how many recipients an account has sent in each hour of the last day, as of `now`.
    pub fn sent(&self, account: AccountId, now: Timestamp) -> Vec<HourCount> {
        self.sent.of(account, now)
    }

    /// The mail of a submission; `None` if it is queued no more and its account knows all about it.
    pub fn mail_of(&self, submission: SubmissionId) -> Option<MailId> {
        self.submissions.mail_of(submission)
    }

    /// The submission that a mail is of, while it is queued or its account does not know all about it.
    pub fn submission(&self, mail: MailId) -> Option<&QueuedSubmission> {
        self.submissions.get(mail)
    }

    /// Submissions with news that the queue has not reported to their accounts yet, by mail.
    pub fn untold(&self) -> impl Iterator<Item = (MailId, &QueuedSubmission)> {
        self.submissions.iter_from(MailId(0)).filter(|(_, queued)| !queued.news.is_empty())
    }

    /// When something has to be done about a mail: an attempt, a report, the end of its hold or of its time.
    pub fn due(&self, row: &Row) -> Timestamp {
        if row.flags.has(Flags::HELD) {
            return seconds(row.next);
        }
        let next = seconds(row.next).min(expires(row));
        match row.flags.has(Flags::DELAY_REPORTED) || row.flags.has(Flags::FUTURE) {
            true => next,
            false => next.min(delayed(row)),
        }
    }

    /// Bytes of memory that it takes, as far as they can be counted.
    pub fn heap_bytes(&self) -> usize {
        let text: usize = self.domains.iter().map(|(domain, _)| domain.len() + 16).sum();
        let parts: usize = self
            .parts
            .values()
            .map(|parts| {
                let text = |part: &Part| match part {
                    Part::Left(Some(failure)) => {
                        size_of::<Failure>() + failure.host.capacity() + failure.text.capacity() + 48
                    }
                    Part::Left(None) | Part::Done => 0,
                };
                64 + parts.recipients.capacity() * size_of::<Part>()
                    + parts.recipients.iter().map(text).sum::<usize>()
            })
            .sum();
        self.rows.heap_bytes()
            + self.accounts.heap_bytes()
            + self.domains.heap_bytes()
            + 2 * text
            + parts
            + self.segments.len() * (size_of::<Segment>() + 16)
            + self.sent.heap_bytes()
            + self.submissions.heap_bytes()
    }
}

/// When the mail fails.
pub fn expires(row: &Row) -> Timestamp {
    seconds(row.released).after(EXPIRE_AFTER)
}

/// When its delay is reported.
pub fn delayed(row: &Row) -> Timestamp {
    seconds(row.released).after(DELAY_REPORT_AFTER)
}

/// The time of a row.
pub fn seconds(seconds: u32) -> Timestamp {
    Timestamp::from_seconds(i64::from(seconds))
}

/// A time as a row keeps it.
pub(crate) fn of_time(time: Timestamp) -> u32 {
    u32::try_from(time.seconds().max(0)).unwrap_or(u32::MAX)
}
