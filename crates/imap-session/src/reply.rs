//! Replies to commands, and the table from storage errors to replies (RFC 3501 §7.1, RFC 5530).

use std::borrow::Cow;

use sealpost_base::{Error, Kind};
use sealpost_imap::types::{Code, Status};
use sealpost_mailbox::Refusal;

use super::connection::End;

/// The tagged response to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: Status,
    pub(super) code: Option<Code>,
    pub(super) text: Cow<'static, str>,
}

/// Why a command did not complete.
#[derive(Debug)]
pub(super) enum Failure {
    /// Reply with this.
    Reply(Reply),
    /// The session ends.
    End(End),
}

/// The result of a command's function.
pub(super) type Outcome = Result<Reply, Failure>;

impl Reply {
    /// `OK`
    pub(super) fn ok(text: impl Into<Cow<'static, str>>) -> Self {
        Reply { status: Status::Ok, code: None, text: text.into() }
    }

    /// `OK [code]`
    pub(super) fn ok_with(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Reply { status: Status::Ok, code: Some(code), text: text.into() }
    }

    /// `NO [code]`
    pub(super) fn no(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Reply { status: Status::No, code: Some(code), text: text.into() }
    }

    /// `NO`
    pub(super) fn refused(text: impl Into<Cow<'static, str>>) -> Self {
        Reply { status: Status::No, code: None, text: text.into() }
    }

    /// `BAD`
    pub(super) fn bad(text: impl Into<Cow<'static, str>>) -> Self {
        Reply { status: Status::Bad, code: None, text: text.into() }
    }

    /// The reply to a storage error. It repeats names and limits that the client sent. Details of the store's
    /// failure are only logged.
    pub(super) fn from_error(error: &Error) -> Self {
        let said = || Cow::Owned(error.to_string());
        match error.kind() {
            Kind::Retry => {
                tracing::warn!(%error, "a command failed for now");
                Reply::no(Code::Unavailable, "temporary failure, try again later")
            }
            Kind::Invalid => Reply::no(Code::Cannot, said()),
            Kind::Conflict => Reply::no(Code::AlreadyExists, said()),
            Kind::NotFound => Reply::no(Code::NonExistent, said()),
            Kind::Denied => Reply::no(Code::NoPerm, said()),
            Kind::Limit => Reply::no(Code::Limit, said()),
            Kind::Corrupt => {
                tracing::error!(%error, "stored data is damaged");
                Reply::no(Code::Corruption, "stored data is damaged")
            }
            // The message names the evicted body and how to get it.
            Kind::Offloaded => {
                tracing::warn!(%error, "a body is not stored here");
                Reply::no(Code::Unavailable, said())
            }
            Kind::Internal => {
                tracing::error!(%error, "a bug in Sealpost");
                Reply::no(Code::ServerBug, "internal error")
            }
        }
    }

    /// The reply if the target mailbox of messages does not exist: creating it helps (RFC 3501 §6.3.11,
    /// §6.4.7).
    pub(super) fn try_create() -> Self {
        Reply::no(Code::TryCreate, "no such mailbox")
    }
}

impl From<Reply> for Failure {
    fn from(reply: Reply) -> Self {
        Failure::Reply(reply)
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Failure::End(end)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Reply(Reply::from_error(&error))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let reply = match refusal {
            Refusal::SourceGone => return End::MailboxGone.into(),
            Refusal::Error(error) => return error.into(),
            Refusal::OverQuota(over) => over.into(),
            Refusal::NoTarget => Reply::try_create(),
            Refusal::NonexistentParent => {
                Reply::no(Code::HasChildren, "the name is no mailbox; it only has mailboxes below it")
            }
            Refusal::SpecialUseOfOther => {
                Reply::no(Code::UseAttr, "only your own mailboxes can have special uses")
            }
            Refusal::MessagesGone => Reply::no(Code::ExpungeIssued, "some of the messages no longer exist"),
            // RFC 4469 §4.2, RFC 7889 §4
            Refusal::TooBig(most) => {
                Reply::no(Code::TooBig, format!("message exceeds the limit of {most} bytes"))
            }
            // RFC 3502 §6.3.11: an empty message is an error, with which a client cancels the command.
            Refusal::Empty => Reply::refused("empty message: nothing was appended"),
            Refusal::NoMemory => Reply::no(
                Code::Unavailable,
                "not enough memory for so many messages; retry with fewer messages",
            ),
            Refusal::Damaged(uid) => {
                Reply::no(Code::Corruption, format!("message UID {uid} is damaged; nothing was copied"))
            }
            // The client must not repeat the whole command.
            Refusal::NotExpunged(error) => {
                let Reply { code, text, .. } = Reply::from_error(&error);
                let text = format!("the messages were copied but not removed from the source: {text}");
                Reply { code, ..Reply::refused(text) }
            }
        };
        reply.into()
    }
}

impl From<sealpost_search::Failure<End>> for Failure {
    fn from(failure: sealpost_search::Failure<End>) -> Self {
        match failure {
            sealpost_search::Failure::Interrupted(end) => Failure::End(end),
            // The engine's errors about memory and messages reveal nothing of the store.
            sealpost_search::Failure::Error(error) if error.kind() == Kind::Retry => {
                Failure::Reply(Reply::no(Code::Unavailable, error.to_string()))
            }
            sealpost_search::Failure::Error(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_failures_are_no_without_store_details() {
        let reply = Reply::from_error(&Error::retry("store: /var/mail: disk full"));
        assert_eq!((reply.status, reply.code), (Status::No, Some(Code::Unavailable)));
        assert!(!reply.text.contains("/var"));
        let reply = Reply::from_error(&Error::not_found("no mailbox x"));
        assert_eq!((reply.code, &*reply.text), (Some(Code::NonExistent), "no mailbox x"));
    }
}
