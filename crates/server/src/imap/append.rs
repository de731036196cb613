//! APPEND (RFC 3501 §6.3.11), of any number of messages (RFC 3502), each in one piece or put together from parts
//! (RFC 4469), in IMAP's words: what becomes of the messages is for [`sealpost_mailbox::append`] to say.
//!
//! Everything that can be refused is refused before the client is asked to send it. What is refused halfway is read to
//! its end and thrown away, so that the connection goes on. Nothing of the command is visible before all of it is there:
//! one log entry brings all messages.

pub(super) mod catenate;
mod receive;

use sealpost_account::directory::Usage;
use sealpost_account::rights::Rights;
use sealpost_base::{Uid, UidValidity};
use sealpost_imap::types::{AppendHead, Code, SequenceSet};
use sealpost_mailbox::append;

use super::reply::{Outcome, Reply};
use super::session::Session;

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
        let (messages, _memory) = self.receive(&place, 0).await?;
        let parts = self.quota_parts()?;
        let placing = append::place(parts.quota(), &place, messages, Usage::default());
        let placed = self.await_with_progress(placing).await??;
        self.own.extend(placed.alone.map(|at| (place.account.id(), at)));
        self.log.count("appended", placed.uids.len() as u64);
        self.tell_name_if_other(&head.mailbox);
        self.warn_of_quota();
        Ok(match append_uid(placed.uid_validity, &placed.uids) {
            Some(code) => Reply::ok_with(code, "APPEND completed"),
            None => Reply::ok("APPEND completed"),
        })
    }
}

/// APPENDUID: as many UIDs as messages, in their order (RFC 4315 §3, RFC 3502).
pub(super) fn append_uid(uid_validity: UidValidity, uids: &[Uid]) -> Option<Code> {
    let uids = SequenceSet::from_numbers(uids.iter().map(|uid| uid.get()))?;
    Some(Code::AppendUid { uid_validity: uid_validity.0.get(), uids })
}
