//! APPEND (RFC 3501 §6.3.11) of one or several messages (RFC 3502), each as a whole or assembled from parts
//! (RFC 4469): the IMAP side. [`sealpost_mailbox::append`] stores the messages.
//!
//! Each check refuses before the client may send the data. The session reads and discards the rest of a
//! refused command, so that the connection stays usable. No message is visible before all have arrived: one
//! log entry adds them all.

pub(super) mod catenate;
mod receive;

use sealpost_account::rights::Rights;
use sealpost_base::{Uid, UidValidity};
use sealpost_directory::Usage;
use sealpost_imap::types::{AppendHead, Code, SequenceSet};
use sealpost_mailbox::append;

use super::old_name;
use super::own_entries::OwnEntries;
use super::reply::{Outcome, Reply};
use super::responses::Responses;
use super::user::User;
pub(super) use receive::receive;
use sealpost_session::session_log::SessionLog;

/// APPEND.
pub(super) async fn append(
    user: &mut User,
    responses: &mut Responses,
    own: &mut OwnEntries,
    log: &mut SessionLog,
    head: &AppendHead,
) -> Outcome {
    user.refresh_quota().await?;
    let resolved = user.resolve_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
    let (messages, _memory) = receive(user, responses, &resolved, 0).await?;
    let placing = append::place(user.user_quota(), &resolved, messages, Usage::default());
    let placed = responses.await_with_progress(placing).await??;
    own.note_at(resolved.account.id(), placed.alone);
    log.count("appended", placed.uids.len() as u64);
    old_name::report_name_if_other(user, responses, &head.mailbox);
    user.warn_of_quota(responses);
    Ok(match append_uid(placed.uid_validity, &placed.uids) {
        Some(code) => Reply::ok_with(code, "APPEND completed"),
        None => Reply::ok("APPEND completed"),
    })
}

/// APPENDUID: as many UIDs as messages, in the same order (RFC 4315 §3, RFC 3502).
pub(super) fn append_uid(uid_validity: UidValidity, uids: &[Uid]) -> Option<Code> {
    let uids = SequenceSet::from_numbers(uids.iter().map(|uid| uid.get()))?;
    Some(Code::AppendUid { uid_validity: uid_validity.0.get(), uids })
}
