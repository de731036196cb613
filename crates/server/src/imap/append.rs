//! APPEND (RFC 3501 §6.3.11), of any number of messages (RFC 3502), each in one piece or put together from parts
//! (RFC 4469): they go into the store as they come in, whatever their number and size.
//!
//! Everything that can be refused is refused before the client is asked to send it. What is refused halfway is read to
//! its end and thrown away, so that the connection goes on. Nothing of the command is visible before all of it is there:
//! one log entry brings all messages. Objects of messages that came before the one that was refused are removed
//! ([`Unplaced`]).

pub(super) mod catenate;
mod kept;
mod receive;

use sealpost_account::Unplaced;
use sealpost_account::account::Placed;
use sealpost_account::directory::Usage;
use sealpost_account::rights::Rights;
use sealpost_base::{Error, Kind, Uid, UidValidity};
use sealpost_imap::types::{AppendHead, Code, SequenceSet};
use sealpost_mailbox::quota::QuotaHeadroom;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
pub use kept::Appends;

impl Session {
    /// APPEND and REPLACE.
    pub(super) async fn append(&mut self, head: AppendHead) -> Outcome {
        let outcome = match head.replaces {
            None => self.append_messages(&head).await,
            Some(replaces) => self.replace(&head, replaces).await,
        };
        if outcome.is_err() {
            // Nothing of what follows is wanted. Behind the command's end this does nothing.
            self.connection.refuse_append();
        }
        outcome
    }

    async fn append_messages(&mut self, head: &AppendHead) -> Outcome {
        self.account()?;
        self.catch_up().await?;
        self.refresh_quota().await?;
        let place = self.place_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
        let (messages, _drawn) = self.receive(&place, 0).await?.into_messages();
        let placed = self.place_messages(&place, messages, Usage::default()).await?;
        self.log.count("appended", placed.uids.len() as u64);
        self.tell_name_if_other(&head.mailbox);
        self.warn_of_quota();
        Ok(match append_uid(placed.uid_validity, &placed.uids) {
            Some(code) => Reply::ok_with(code, "APPEND completed"),
            None => Reply::ok("APPEND completed"),
        })
    }

    /// Places messages that are stored in a mailbox, if it is still there and may take them, and there is room for them
    /// where its log ends. The command itself gives `freed` back.
    pub(super) async fn place_messages(
        &mut self,
        place: &ResolvedMailbox,
        messages: Unplaced,
        freed: Usage,
    ) -> Result<Placed, Failure> {
        if !place.still_takes_messages() {
            return Err(Reply::try_create().into());
        }
        let headroom = self.headroom_at(place).await?;
        let octets = messages.messages().iter().map(|new| new.stored.size()).sum();
        let more = Usage::of_messages(messages.messages().len() as u64, octets).without(freed);
        let appending = place.account.append_noting(place.mailbox, messages, headroom.checking(freed));
        match self.await_with_progress(appending).await? {
            Ok(placed) => {
                self.own.extend(placed.alone.map(|at| (place.account.id(), at)));
                Ok(placed)
            }
            Err(error) => Err(not_placed(&error, place, &headroom, more)),
        }
    }
}

/// Why messages could not be placed, in the words of the protocol.
pub(super) fn not_placed(
    error: &Error,
    place: &ResolvedMailbox,
    headroom: &QuotaHeadroom,
    more: Usage,
) -> Failure {
    match error.kind() {
        // The mailbox was deleted while the messages came in.
        Kind::NotFound => Reply::try_create().into(),
        Kind::Limit => match headroom.check(&place.account.state(), more) {
            Err(over_quota) => over_quota.into(),
            Ok(()) => Reply::from_error(error).into(),
        },
        _ => Reply::from_error(error).into(),
    }
}

/// APPENDUID: as many UIDs as messages, in their order (RFC 4315 §3, RFC 3502).
pub(super) fn append_uid(uid_validity: UidValidity, uids: &[Uid]) -> Option<Code> {
    let uids = SequenceSet::from_numbers(uids.iter().map(|uid| uid.get()))?;
    Some(Code::AppendUid { uid_validity: uid_validity.0.get(), uids })
}
