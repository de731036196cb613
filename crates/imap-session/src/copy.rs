//! COPY and MOVE (RFC 3501 §6.4.7, RFC 6851): the IMAP side of [`sealpost_mailbox::copy`] within a log, and
//! of [`sealpost_mailbox::cross_account_copy`] between logs, when a shared mailbox is involved.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_base::UidSet;
use sealpost_imap::types::{Code, Mailbox, SequenceSet, Status};
use sealpost_mailbox::copy::{self, Copied, Kind};
use sealpost_mailbox::cross_account_copy::CrossAccountCopy;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::connection::End;
use super::own_entries::OwnEntries;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::targets;
use super::user::User;

/// The arguments of COPY or MOVE.
pub(super) struct Asked {
    pub(super) uid: bool,
    pub(super) set: SequenceSet,
    pub(super) to: Mailbox,
}

/// COPY.
pub(super) async fn copy(
    user: &mut User,
    selected: &Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    asked: &Asked,
) -> Outcome {
    let targets = targets::resolve(selected, &asked.set, asked.uid)?;
    user.refresh_quota().await?;
    let placed = put(user, selected, responses, own, &targets, asked, Kind::Copy).await?;
    user.warn_of_quota(responses);
    Ok(match placed {
        Some(code) => Reply::ok_with(code, "COPY completed"),
        None => Reply::ok("COPY completed, no messages"),
    })
}

/// MOVE. Expunges are reported with all other updates at the end of the command.
pub(super) async fn move_messages(
    user: &User,
    selected: &Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    asked: &Asked,
) -> Outcome {
    let selected = selected.writable()?;
    // RFC 6851 §4.2: the rights of STORE, COPY and EXPUNGE together.
    selected.opened().check_may_take_out()?;
    let targets = targets::resolve(selected, &asked.set, asked.uid)?;
    let placed = put(user, selected, responses, own, &targets, asked, Kind::Move).await?;
    let Some(code) = placed else { return Ok(Reply::ok("MOVE completed, no messages")) };
    // RFC 6851 §4.3: before the expunges, so that the client learns the new UIDs.
    responses.out().status(None, Status::Ok, Some(&code), "moved");
    Ok(Reply::ok("MOVE completed"))
}

/// Places `targets` in the target mailbox. Returns COPYUID, or `None` if there was nothing to place. With
/// message numbers it is all or none: a message that another session has expunged refuses all (RFC 2180
/// §4.4.1).
async fn put(
    user: &User,
    selected: &Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    targets: &UidSet,
    asked: &Asked,
    kind: Kind,
) -> Result<Option<Code>, Failure> {
    let source = selected.opened();
    let to = user.resolve_for_messages(&asked.to).await?.require(Rights::INSERT)?;
    let all = !asked.uid;
    if Arc::ptr_eq(&source.account, &to.account) {
        let copying = copy::within_log(user.user_quota(), &source, targets, all, &to, kind);
        let copied = responses.await_with_progress(copying).await??;
        own.note_at(source.account.id(), copied.as_ref().and_then(|copied| copied.entry));
        return Ok(copied.as_ref().and_then(copy_uid));
    }
    match CrossAccountCopy::begin(user.user_quota(), source, targets, all, &to, kind).await? {
        Some(copy) => put_between(user, responses, own, copy, (selected, &to)).await,
        None => Ok(None),
    }
}

/// As `put`, between logs.
async fn put_between(
    user: &User,
    responses: &mut Responses,
    own: &mut OwnEntries,
    mut copy: CrossAccountCopy,
    (selected, to): (&Selected, &ResolvedMailbox),
) -> Result<Option<Code>, Failure> {
    loop {
        if responses.connection.is_stopping() {
            return Err(End::Shutdown.into());
        }
        responses.report_progress(copy.sealed(), copy.len()).await?;
        if !responses.await_with_progress(copy.seal_next(user.accounts())).await?? {
            break;
        }
    }
    let placed = responses.await_with_progress(copy.place(user.user_quota())).await??;
    own.note_at(to.account.id(), placed.copied.entry);
    let expunged = responses.await_with_progress(placed.expunge()).await??;
    own.note_at(selected.account().id(), expunged);
    Ok(copy_uid(&placed.copied))
}

/// COPYUID: both sets ascend, so the n-th of one is the n-th of the other (RFC 4315 §3).
fn copy_uid(copied: &Copied) -> Option<Code> {
    let set = |uids: &UidSet| SequenceSet::from_ranges(uids.ranges().map(|(a, b)| a.get()..=b.get()));
    let (from, to) = (set(&copied.from)?, set(&copied.uids)?);
    Some(Code::CopyUid { uid_validity: copied.uid_validity.0.get(), from, to })
}
