//! Submissions of an account (RFC 8621 §7): what it has handed over to a queue, and what became of it.
//!
//! The owner appends the record before the queue takes the mail. The node of the queue appends what becomes
//! of it, without the account's key: such an event changes a record that is there, and nothing else.
//!
//! Reasons: `docs/decisions/0101-jmap-submission.md`.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, IdentityId, ObjectId, SubmissionId, Timestamp, limits};

use crate::thread::ThreadId;

/// What an account hands over to a queue. Immutable.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Submission {
    /// Its id.
    #[n(0)]
    pub id: SubmissionId,
    /// The identity that sends.
    #[n(1)]
    pub identity: IdentityId,
    /// The object that first held the message.
    #[n(2)]
    pub email: ObjectId,
    /// The thread of the message.
    #[n(3)]
    pub thread: ThreadId,
    /// The reverse-path; its address is empty for the null sender.
    #[n(4)]
    pub from: PathAddress,
    /// The recipients, each once, in the order of the queue's.
    #[n(5)]
    pub to: Vec<PathAddress>,
    /// Not sent before.
    #[n(6)]
    pub send_at: Timestamp,
    /// The queue that takes it, by its node.
    #[n(7)]
    pub queue: AccountId,
}

/// An address of an envelope with its parameters, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PathAddress {
    /// The address.
    #[n(0)]
    pub address: String,
    /// Its parameters by keyword, as the client gave them.
    #[n(1)]
    pub parameters: Option<Vec<(String, Option<String>)>>,
}

/// What a queue reports of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum SubmissionNews {
    /// The queue has it.
    #[n(0)]
    Queued,
    /// What became of a recipient, by its place in [`Submission::to`].
    #[n(1)]
    Recipient {
        /// The place.
        #[n(0)]
        place: u16,
        /// How far it got.
        #[n(1)]
        delivered: Delivered,
        /// The last reply.
        #[n(2)]
        reply: String,
    },
    /// It was canceled, and no recipient gets it.
    #[n(2)]
    Canceled,
    /// The queue never had it: its node ended before it could take it.
    #[n(3)]
    NeverQueued,
}

/// Whether a recipient has the message (RFC 8621 §7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Delivered {
    /// The queue has it.
    #[default]
    #[n(0)]
    Queued,
    /// It is in the recipient's mailbox.
    #[n(1)]
    Yes,
    /// It will never be.
    #[n(2)]
    No,
    /// Another server has it.
    #[n(3)]
    Unknown,
}

/// How far a recipient's mail got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RecipientStatus {
    /// How far.
    #[n(0)]
    pub delivered: Delivered,
    /// The last reply, in one line; empty before the first.
    #[n(1)]
    pub reply: String,
}

/// Whether a submission can still be canceled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Progress {
    /// Recorded; whether a queue has it is not known yet.
    #[default]
    #[n(0)]
    Recorded,
    /// A queue has it, and no recipient.
    #[n(1)]
    Queued,
    /// A recipient has it, or none will get it.
    #[n(2)]
    Final,
    /// It was canceled.
    #[n(3)]
    Canceled,
    /// No queue has it, as far as is known: no recipient gets it.
    #[n(4)]
    NeverQueued,
}

/// A submission and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SubmissionRecord {
    /// What was handed over.
    #[n(0)]
    pub submission: Submission,
    /// How far it is.
    #[n(1)]
    pub progress: Progress,
    /// Of each recipient.
    #[n(2)]
    pub recipients: Vec<RecipientStatus>,
    /// When it was recorded.
    #[n(3)]
    pub recorded: Timestamp,
    /// The objects that first held delivery status notifications about it, in the order in which they
    /// arrived, at most [`limits::SUBMISSION_REPORTS`]; `None` before the first.
    #[n(4)]
    pub reports: Option<Vec<ObjectId>>,
}

impl SubmissionRecord {
    /// A new one.
    pub(crate) fn new(submission: Submission, recorded: Timestamp) -> Self {
        let recipients = vec![RecipientStatus::default(); submission.to.len()];
        SubmissionRecord { submission, progress: Progress::Recorded, recipients, recorded, reports: None }
    }

    /// Whether nothing more becomes of it.
    pub fn is_over(&self) -> bool {
        let is_waiting = |status: &RecipientStatus| status.delivered == Delivered::Queued;
        match self.progress {
            Progress::Canceled | Progress::NeverQueued => true,
            Progress::Final => !self.recipients.iter().any(is_waiting),
            Progress::Recorded | Progress::Queued => false,
        }
    }

    /// Bytes that it takes, with the longest reply for each recipient.
    pub fn bytes(&self) -> usize {
        submission_bytes(&self.submission)
    }

    /// Takes what a queue reports; whether that changes what clients see. What is final stays, so that a
    /// report may come twice.
    pub(crate) fn take(&mut self, news: &SubmissionNews) -> bool {
        let (before, mut changed) = (self.progress, false);
        match news {
            SubmissionNews::Queued => {
                if matches!(self.progress, Progress::Recorded | Progress::NeverQueued) {
                    self.progress = Progress::Queued;
                }
            }
            SubmissionNews::NeverQueued => {
                if self.progress == Progress::Recorded {
                    self.progress = Progress::NeverQueued;
                }
            }
            SubmissionNews::Canceled => {
                if self.progress != Progress::Final {
                    self.progress = Progress::Canceled;
                }
            }
            SubmissionNews::Recipient { place, delivered, reply } => {
                changed = self.take_status(*place, *delivered, reply);
            }
        }
        changed || before.undo() != self.progress.undo()
    }

    /// Takes a delivery status notification; whether there was room for it, and it is new.
    pub(crate) fn take_report(&mut self, object: ObjectId) -> bool {
        let reports = self.reports.get_or_insert_default();
        let is_new = reports.len() < limits::SUBMISSION_REPORTS && !reports.contains(&object);
        if is_new {
            reports.push(object);
        }
        is_new
    }

    fn take_status(&mut self, place: u16, delivered: Delivered, reply: &str) -> bool {
        let Some(status) = self.recipients.get_mut(usize::from(place)) else { return false };
        let is_final = matches!(status.delivered, Delivered::Yes | Delivered::No | Delivered::Unknown);
        if is_final || self.progress == Progress::Canceled {
            return false;
        }
        let now = RecipientStatus { delivered, reply: shortened(reply).to_owned() };
        let changed = *status != now;
        *status = now;
        let has_it = matches!(delivered, Delivered::Yes | Delivered::Unknown);
        let is_waiting = |status: &RecipientStatus| status.delivered == Delivered::Queued;
        if has_it || !self.recipients.iter().any(is_waiting) {
            self.progress = Progress::Final;
        } else if matches!(self.progress, Progress::Recorded | Progress::NeverQueued) {
            self.progress = Progress::Queued;
        }
        changed
    }
}

/// Bytes that the record of a submission takes, with the longest reply for each recipient.
pub fn submission_bytes(submission: &Submission) -> usize {
    let address = |path: &PathAddress| {
        let parameter = |(name, value): &(String, Option<String>)| {
            64 + name.len() + value.as_ref().map_or(0, String::len)
        };
        64 + path.address.len() + path.parameters.iter().flatten().map(parameter).sum::<usize>()
    };
    let recipient = |path: &PathAddress| address(path) + limits::SUBMISSION_REPLY_BYTES;
    256 + address(&submission.from) + submission.to.iter().map(recipient).sum::<usize>()
}

/// What clients see of a progress (RFC 8621 §7, `undoStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// It can perhaps be canceled.
    Pending,
    /// It cannot.
    Final,
    /// It was, or no recipient gets it.
    Canceled,
}

impl Progress {
    /// What clients see of it.
    pub fn undo(self) -> Undo {
        match self {
            Progress::Recorded | Progress::Queued => Undo::Pending,
            Progress::Final => Undo::Final,
            Progress::Canceled | Progress::NeverQueued => Undo::Canceled,
        }
    }
}

/// The part of a reply that a record keeps.
pub fn shortened(reply: &str) -> &str {
    &reply[..reply.floor_char_boundary(limits::SUBMISSION_REPLY_BYTES)]
}
