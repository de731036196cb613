//! REPLACE and UID REPLACE (RFC 8508) store a new message and expunge an old one: the IMAP side of
//! [`sealpost_mailbox::append::replace`].

use sealpost_account::rights::Rights;
use sealpost_base::Uid;
use sealpost_imap::types::{AppendHead, Code, Replaces, SeqRange, SequenceSet, Status};
use sealpost_mailbox::Refusal;
use sealpost_mailbox::append::{self, Replaced};

use super::append::{append_uid, receive};
use super::own_entries::OwnEntries;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::targets;
use super::user::User;
use sealpost_session::session_log::SessionLog;

/// REPLACE. Only in the selected state, which determines the old message (RFC 8508 §3.5).
pub(super) async fn replace(
    user: &User,
    selected: &Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    log: &mut SessionLog,
    head: &AppendHead,
    replaces: Replaces,
) -> Outcome {
    let selected = selected.writable()?;
    let (old, opened) = (target(selected, replaces)?, selected.opened());
    // RFC 8508 §4.1: the rights of STORE, EXPUNGE and APPEND together.
    opened.check_may_take_out()?;
    let resolved = user.resolve_for_messages(&head.mailbox).await?.require(Rights::INSERT)?;
    let size = append::size_of(&opened, old).ok_or_else(gone)?;
    let freed = if user.user_quota().counts_together(&opened, &resolved) { size } else { 0 };
    let (message, _memory) = receive(user, responses, &resolved, freed).await?;
    let replacing = append::replace(user.user_quota(), (&opened, old), &resolved, message, freed);
    let replaced = responses.await_with_progress(replacing).await?;
    let Replaced { placed, expunged } = replaced.map_err(|refusal| match refusal {
        Refusal::MessagesGone => gone().into(),
        refusal => Failure::from(refusal),
    })?;
    own.note_at(resolved.account.id(), placed.alone);
    if let Some((expunged_in, at)) = expunged {
        own.note_at(expunged_in, Some(at));
    }
    log.count("appended", 1);
    // RFC 8508 §4.3: before the EXPUNGE, so that the client learns the replacement.
    let uids = placed.uids.get(..1).ok_or_else(gone)?;
    if let Some(code) = append_uid(placed.uid_validity, uids) {
        responses.out().status(None, Status::Ok, Some(&code), "replacement message ready");
    }
    Ok(Reply::ok("REPLACE completed"))
}

/// The single message to replace.
fn target(view: &Selected, replaces: Replaces) -> Result<Uid, Reply> {
    let number = SequenceSet::new(vec![SeqRange { start: replaces.number, end: replaces.number }]);
    let set = number.ok_or_else(|| Reply::bad("a message number is missing"))?;
    targets::resolve(view, &set, replaces.uid)?.first().ok_or_else(gone)
}

/// RFC 8508 §3.2: NO if the old message cannot be removed.
fn gone() -> Reply {
    Reply::no(Code::ExpungeIssued, "the message to be replaced no longer exists")
}
