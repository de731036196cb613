//! Delivery status notifications: reports of a mail to its sender (RFC 3461 to 3464, RFC 6522, RFC 6533).
//!
//! A report is a mail of its own from the null sender to the reverse-path, at most
//! [`limits::QUEUE_INLINE_BYTES`] long. It is appended to the log in the same entry as the outcome
//! that it reports, so that it is sent once. Mail from the null sender is never reported (RFC 5321
//! §4.5.5), so no report causes another.

pub mod parse;
#[cfg(test)]
mod tests;
mod write;

use sealpost_base::{Random, Timestamp, limits};

use crate::MailId;
use crate::envelope::{Body, Facts, Mail, Notify, Recipient, Ret, Source, TlsDemand};
use crate::event::{Failure, Status};

/// What happened to a recipient (RFC 3464 §2.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Failed: the queue tries no more.
    Failed,
    /// Not delivered yet.
    Delayed,
    /// Delivered here.
    Delivered,
    /// Taken by a server that does not report.
    Relayed,
    /// Sent on to several addresses, which may report failures.
    Expanded,
}

/// One recipient in a report.
#[derive(Debug, Clone, Copy)]
pub struct Reported<'a> {
    /// The recipient.
    pub recipient: &'a Recipient,
    /// What happened.
    pub action: Action,
    /// The reason, or the reply of the server; `None` for a success.
    pub failure: Option<&'a Failure>,
}

/// The facts that all reports of one mail share.
pub struct Report<'a> {
    /// The name of this server.
    pub host: &'a str,
    /// The id of the mail.
    pub id: MailId,
    /// The mail.
    pub mail: &'a Mail,
    /// The beginning of the message with the header fields of the queue: at least the whole header.
    pub message: &'a [u8],
    /// Whether `message` is the whole message.
    pub is_whole: bool,
    /// When a delayed mail will fail.
    pub expires: Timestamp,
    /// The time.
    pub now: Timestamp,
}

/// Whether the sender of `mail` gets a report of `action` for `recipient` (RFC 3461 §4.1, §5.2).
pub fn is_wanted(mail: &Mail, recipient: &Recipient, action: Action) -> bool {
    // RFC 3461 §4.1, RFC 5321 §6.1: the null sender gets no report.
    if mail.is_from_null() || mail.source == Source::Report {
        return false;
    }
    match (recipient.notify, action) {
        // RFC 3461 §4.1: without NOTIFY failures are reported, and delays may be.
        (None, Action::Failed | Action::Delayed) => true,
        (None, Action::Delivered | Action::Relayed | Action::Expanded) => false,
        (Some(notify), Action::Failed) => notify.has(Notify::FAILURE),
        (Some(notify), Action::Delayed) => notify.has(Notify::DELAY),
        (Some(notify), Action::Delivered | Action::Relayed | Action::Expanded) => notify.has(Notify::SUCCESS),
    }
}

impl Report<'_> {
    /// The reports about `recipients`, as mails: one for each action, or several where one would be too
    /// long.
    pub fn mails(&self, recipients: &[Reported<'_>], random: &dyn Random) -> Vec<Mail> {
        let wanted =
            recipients.iter().filter(|reported| is_wanted(self.mail, reported.recipient, reported.action));
        let wanted: Vec<_> = wanted.copied().collect();
        let mut mails = Vec::new();
        let actions = [Action::Failed, Action::Delayed, Action::Delivered, Action::Relayed, Action::Expanded];
        for action in actions {
            let of_action: Vec<_> =
                wanted.iter().filter(|reported| reported.action == action).copied().collect();
            for some in write::groups(&of_action) {
                mails.push(self.mail_of(some, action, random));
            }
        }
        mails
    }

    fn mail_of(&self, recipients: &[Reported<'_>], action: Action, random: &dyn Random) -> Mail {
        let message_id = format!("{:016x}{:016x}@{}", random.next_u64(), random.next_u64(), self.host);
        let text = write::message(self, recipients, action, &message_id);
        let head = text.windows(4).position(|end| end == b"\r\n\r\n").map_or(text.len(), |at| at + 4);
        let is_ascii = |bytes: &[u8]| bytes.is_ascii();
        let facts = Facts {
            size: text.len() as u64,
            eight_bit: !is_ascii(&text[head..]),
            utf8_header: !is_ascii(&text[..head]),
            received: 0,
        };
        Mail {
            accepted: self.now,
            account: None,
            from: String::new(),
            // RFC 3461 §5.2: no NOTIFY, for the null sender gets no report.
            recipients: vec![Recipient {
                notify: Some(Notify::NEVER),
                ..Recipient::new(self.mail.from.clone())
            }],
            ret: None,
            envid: None,
            facts,
            tls: match self.mail.tls {
                // RFC 8689 §5: a report about such a message reveals its content.
                TlsDemand::Require => TlsDemand::Require,
                TlsDemand::Policy | TlsDemand::Waive => TlsDemand::Policy,
            },
            release: None,
            header: Vec::new(),
            body: Body::Inline(text),
            message_id: Some(message_id),
            source: Source::Report,
            submission: None,
            report_on: self.mail.submission.clone(),
        }
    }

    /// Whether the whole message goes back (RFC 3461 §4.3).
    fn returns_all(&self, action: Action) -> bool {
        action == Action::Failed
            && self.mail.ret == Some(Ret::Full)
            && self.is_whole
            && self.message.len() <= limits::QUEUE_INLINE_BYTES - 2 * write::RECIPIENTS_BYTES
    }
}

/// The status of a recipient that failed because its time is over (RFC 3463 §3.5).
pub const EXPIRED: Status = Status::new(4, 4, 7);
