//! STATUS (RFC 3501 §6.3.10, RFC 9051 §6.3.11), from counters that the account keeps for each mailbox,
//! whatever its size.
//!
//! Items of extensions: SIZE (RFC 8438), MAILBOXID (RFC 8474 §4.3), APPENDLIMIT (RFC 7889 §3.1),
//! HIGHESTMODSEQ (RFC 7162 §3.1.7).

use sealpost_account::ops;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, AccountState, Mailbox as State};
use sealpost_imap::types::{Mailbox, Response, StatusData, StatusItem, StatusValue};

use super::append_limit::append_limit;
use super::object_id;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::user::User;

/// STATUS.
pub(super) async fn status(
    user: &User,
    responses: &mut Responses,
    name: &Mailbox,
    items: &[StatusItem],
) -> Outcome {
    report_status(user, responses, name, items).await?;
    Ok(Reply::ok("STATUS completed"))
}

/// `* STATUS`, also for LIST (RFC 5819 §2).
pub(super) async fn report_status(
    user: &User,
    responses: &mut Responses,
    name: &Mailbox,
    items: &[StatusItem],
) -> Result<(), Failure> {
    let resolved = user.resolve(name).await?.require(Rights::READ)?;
    let state = resolved.account.state();
    let mailbox = resolved.mailbox_in(&state)?;
    let limit = append_limit(&user.shared.ctx.settings);
    let value = |item: &StatusItem| StatusValue {
        item: *item,
        value: value(&resolved.account, &state, mailbox, limit, *item),
    };
    let values = items.iter().map(value).collect();
    drop(state);
    responses.out().response(&Response::MailboxStatus { mailbox: name.clone(), values });
    Ok(())
}

/// The value of an item for a mailbox of that account.
pub(super) fn value(
    account: &Account,
    state: &AccountState,
    mailbox: &State,
    append_limit: u32,
    item: StatusItem,
) -> StatusData {
    let number = match item {
        StatusItem::Messages => mailbox.len() as u64,
        StatusItem::Recent => mailbox.rows(account.recent_from(mailbox)..=mailbox.uid_next()).count() as u64,
        StatusItem::UidNext => u64::from(mailbox.uid_next().get()),
        StatusItem::UidValidity => u64::from(mailbox.uid_validity().0.get()),
        StatusItem::HighestModSeq => mailbox.highest_modseq().0.max(1),
        StatusItem::Unseen => mailbox.unseen() as u64,
        StatusItem::Deleted => mailbox.deleted() as u64,
        StatusItem::DeletedStorage => ops::deleted_bytes(state, mailbox),
        // RFC 8438 §3: the sum of RFC822.SIZE, which the quota counts too.
        StatusItem::Size => mailbox.bytes(),
        StatusItem::AppendLimit => u64::from(append_limit),
        StatusItem::MailboxId => {
            return object_id::of_mailbox(account.id(), mailbox).map_or(StatusData::Nil, StatusData::Id);
        }
    };
    StatusData::Number(number)
}
