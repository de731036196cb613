//! Submissions among the queued mails: what the queue still has to report to their accounts, and which of
//! them a user can cancel.
//!
//! An account's log and a queue's are two logs. So what becomes of a submission stays here until the
//! account has it ([`Event::Told`](crate::event::Event)); a crash in between tells it twice, never not.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use sealpost_base::{Position, SubmissionId, limits};

use crate::MailId;
use crate::envelope::MailSubmission;
use crate::event::{Failure, Outcome, Taken, printable};

/// A submission that is queued, or of which its account does not know everything.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct QueuedSubmission {
    /// Which.
    #[n(0)]
    pub of: MailSubmission,
    /// News not yet reported to its account, in order, each with the position that it is of.
    #[n(1)]
    pub news: Vec<(Position, News)>,
    /// A server may have the mail, or is about to get it.
    #[n(2)]
    may_be_out: bool,
    /// The queue has nothing more to do with it.
    #[n(3)]
    is_over: bool,
    /// It has several recipients: of several attempts at the same time one may be under way although
    /// another has ended.
    #[n(4)]
    has_several: bool,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum News {
    /// The queue has it.
    #[n(0)]
    Queued,
    /// What became of a recipient.
    #[n(1)]
    Recipient {
        /// By its place in the envelope.
        #[n(0)]
        place: u16,
        /// How far its mail got.
        #[n(1)]
        arrival: Arrival,
        /// The last reply, in one line.
        #[n(2)]
        reply: String,
    },
    /// It was canceled.
    #[n(2)]
    Canceled,
}

/// How far the mail of a recipient got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Arrival {
    /// It is in the queue.
    #[n(0)]
    Waiting,
    /// It is in a mailbox of this server.
    #[n(1)]
    Here,
    /// Another server has it, or an alias has sent it on.
    #[n(2)]
    Elsewhere,
    /// The queue sends it no more.
    #[n(3)]
    Failed,
}

/// Submissions by mail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct QueuedSubmissions(BTreeMap<MailId, QueuedSubmission>);

impl QueuedSubmissions {
    pub(super) fn iter_from(&self, from: MailId) -> impl Iterator<Item = (MailId, &QueuedSubmission)> {
        self.0.range(from..).map(|(id, submission)| (*id, submission))
    }

    pub(super) fn get(&self, mail: MailId) -> Option<&QueuedSubmission> {
        self.0.get(&mail)
    }

    pub(super) fn mail_of(&self, submission: SubmissionId) -> Option<MailId> {
        self.0.iter().find(|(_, queued)| queued.of.id == submission).map(|(id, _)| *id)
    }

    pub(super) fn restore(&mut self, id: MailId, submission: QueuedSubmission) {
        self.0.insert(id, submission);
    }

    pub(super) fn accepted(&mut self, id: MailId, of: &MailSubmission, recipients: usize, at: Position) {
        let news = vec![(at, News::Queued)];
        let has_several = recipients > 1;
        let queued =
            QueuedSubmission { of: of.clone(), news, may_be_out: false, is_over: false, has_several };
        self.0.insert(id, queued);
    }

    /// An attempt begins.
    pub(super) fn sending(&mut self, id: MailId) {
        if let Some(queued) = self.0.get_mut(&id) {
            queued.may_be_out = true;
        }
    }

    /// An attempt has ended.
    pub(super) fn attempted(&mut self, id: MailId) {
        if let Some(queued) = self.0.get_mut(&id) {
            queued.may_be_out &= queued.has_several;
        }
    }

    /// Whether no server has the mail or can get it by an attempt that was begun.
    pub(super) fn can_cancel(&self, id: MailId) -> bool {
        self.0.get(&id).is_some_and(|queued| !queued.may_be_out && !queued.is_over)
    }

    /// What became of a recipient; `taken` says which server took the mail.
    pub(super) fn outcome(
        &mut self,
        id: MailId,
        place: u16,
        outcome: &Outcome,
        taken: Option<&Taken>,
        at: Position,
    ) {
        let Some(queued) = self.0.get_mut(&id) else { return };
        let took = || taken.map_or_else(|| "250 2.0.0 Accepted".to_owned(), |taken| taken.reply.clone());
        let (arrival, reply) = match outcome {
            Outcome::Delivered | Outcome::Relayed => (Arrival::Elsewhere, took()),
            Outcome::Expanded => (Arrival::Elsewhere, "250 2.1.5 Forwarded to several addresses".to_owned()),
            Outcome::DeliveredHere => (Arrival::Here, "250 2.1.5 Delivered".to_owned()),
            Outcome::Deferred(failure) => (Arrival::Waiting, reply_of(failure)),
            Outcome::Failed(failure) => (Arrival::Failed, reply_of(failure)),
        };
        let is_earlier = |news: &News| matches!(news, News::Recipient { place: of, .. } if *of == place);
        queued.news.retain(|(_, news)| !is_earlier(news));
        let reply = printable(&reply, limits::SUBMISSION_REPLY_BYTES);
        queued.news.push((at, News::Recipient { place, arrival, reply }));
    }

    pub(super) fn canceled(&mut self, id: MailId, at: Position) {
        if let Some(queued) = self.0.get_mut(&id) {
            queued.news.push((at, News::Canceled));
        }
    }

    /// The mail is queued no more.
    pub(super) fn over(&mut self, id: MailId) {
        if let Some(queued) = self.0.get_mut(&id) {
            queued.is_over = true;
            self.forget_if_told(id);
        }
    }

    /// The account knows what became of the submission up to there.
    pub(super) fn told(&mut self, id: MailId, upto: Position) {
        if let Some(queued) = self.0.get_mut(&id) {
            queued.news.retain(|(at, _)| *at > upto);
            self.forget_if_told(id);
        }
    }

    fn forget_if_told(&mut self, id: MailId) {
        if self.0.get(&id).is_some_and(|queued| queued.is_over && queued.news.is_empty()) {
            self.0.remove(&id);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let news = |news: &News| match news {
            News::Recipient { reply, .. } => reply.capacity(),
            News::Queued | News::Canceled => 0,
        };
        let bytes = |queued: &QueuedSubmission| {
            let texts: usize = queued.news.iter().map(|(_, one)| news(one)).sum();
            size_of::<QueuedSubmission>()
                + 64
                + queued.of.account.len()
                + queued.news.capacity() * size_of::<(Position, News)>()
                + texts
        };
        self.0.values().map(bytes).sum()
    }
}

/// What a client is shown of a failure: the server's reply, or one that says the same (RFC 8621 §7,
/// `smtpReply`).
fn reply_of(failure: &Failure) -> String {
    let has_code = |text: &str| text.len() > 3 && text.as_bytes()[..3].iter().all(u8::is_ascii_digit);
    if failure.is_reply && has_code(&failure.text) {
        return failure.text.clone();
    }
    let code = if failure.status.class == 4 { 451 } else { 550 };
    format!("{code} {} {failure}", failure.status)
}
