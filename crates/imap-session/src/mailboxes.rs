//! CREATE, DELETE, RENAME, SUBSCRIBE, UNSUBSCRIBE (RFC 3501 §6.3.3 to §6.3.7; RFC 6154 §3): the
//! IMAP side of [`sealpost_mailbox::ops`].

use sealpost_account::{SpecialUse, SpecialUses};
use sealpost_imap::types::{Code, Mailbox, MailboxAttribute, Status};
use sealpost_mailbox::ops::{self, Created, Deleted};

use super::object_id;
use super::old_name;
use super::own_entries::OwnEntries;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::user::User;

/// The reply for a mailbox that was created and could not be shared.
const UNSHARED: &str = "CREATE completed, but it is not shared as the mailbox above it is";

/// CREATE.
pub(super) async fn create(
    user: &mut User,
    responses: &mut Responses,
    own: &mut OwnEntries,
    name: &Mailbox,
    uses: &[MailboxAttribute],
) -> Outcome {
    let uses = uses.iter().map(special_use).collect::<Result<SpecialUses, Reply>>()?;
    if !sealpost_account::share::is_of_others(name.as_str()) {
        user.refresh_quota().await?;
    }
    let creating = ops::create(user.sharing(), user.own_headroom(), name.as_str(), uses);
    let Created { entry, not_shared } = creating.await?;
    own.note_at(user.account().id(), entry);
    let Some(error) = not_shared else { return Ok(created(user, responses, name).await) };
    // The mailbox exists, and NO would say that it does not.
    tracing::warn!(user = user.name(), %error, "a new mailbox is not shared as the one above it is");
    Ok(Reply { text: UNSHARED.into(), ..created(user, responses, name).await })
}

/// The reply after a mailbox was created: with MAILBOXID, unless another session has already deleted it (RFC
/// 8474 §4.1).
async fn created(user: &User, responses: &mut Responses, name_asked: &Mailbox) -> Reply {
    let name = name_asked.as_str();
    let found = match Mailbox::new(name.strip_suffix('/').unwrap_or(name)) {
        Ok(name) => user.resolve(&name).await.ok(),
        Err(_) => None,
    };
    let code = found.and_then(|resolved| {
        let state = resolved.account.state();
        object_id::code(resolved.account.id(), state.mailbox(resolved.mailbox)?)
    });
    old_name::report_name_if_other(user, responses, name_asked);
    match code {
        Some(code) => Reply::ok_with(code, "CREATE completed"),
        None => Reply::ok("CREATE completed"),
    }
}

/// DELETE.
pub(super) async fn delete(
    user: &User,
    selected: &mut Option<Selected>,
    responses: &mut Responses,
    own: &mut OwnEntries,
    name: &Mailbox,
) -> Outcome {
    let deleted = ops::delete(user.resolver(), name.as_str()).await?;
    let Deleted { account, mailbox, name: deleted_name, entry } = deleted;
    own.note_at(user.account().id(), entry);
    if let Some(deleted_name) = deleted_name {
        old_name::report_deleted(responses, name, &deleted_name);
    }
    if selected.as_ref().is_some_and(|view| view.is_at(&account, mailbox)) {
        // Other sessions that have it selected end; this one continues.
        *selected = None;
        let text = "the selected mailbox was deleted";
        responses.out().status(None, Status::Ok, Some(&Code::Closed), text);
    }
    Ok(Reply::ok("DELETE completed"))
}

/// RENAME.
pub(super) async fn rename(
    user: &mut User,
    responses: &mut Responses,
    own: &mut OwnEntries,
    from: &Mailbox,
    to: &Mailbox,
) -> Outcome {
    user.refresh_quota().await?;
    let renaming = ops::rename(user.resolver(), user.own_headroom(), from.as_str(), to.as_str());
    let entry = renaming.await?;
    own.note_at(user.account().id(), entry);
    old_name::report_renamed(user, responses, from, to);
    Ok(Reply::ok("RENAME completed"))
}

/// SUBSCRIBE, UNSUBSCRIBE.
pub(super) async fn subscribe(user: &User, own: &mut OwnEntries, name: &Mailbox, on: bool) -> Outcome {
    let entry = ops::subscribe(user.account(), name.as_str(), on).await.map_err(Failure::from)?;
    own.note_at(user.account().id(), entry);
    Ok(Reply::ok(if on { "SUBSCRIBE completed" } else { "UNSUBSCRIBE completed" }))
}

/// The special use for an attribute, if a mailbox can have it (RFC 6154 §3).
pub(super) fn special_use(attribute: &MailboxAttribute) -> Result<SpecialUse, Reply> {
    Ok(match attribute {
        MailboxAttribute::Archive => SpecialUse::Archive,
        MailboxAttribute::Drafts => SpecialUse::Drafts,
        // RFC 8457 §3
        MailboxAttribute::Important => SpecialUse::Important,
        MailboxAttribute::Junk => SpecialUse::Junk,
        MailboxAttribute::Sent => SpecialUse::Sent,
        MailboxAttribute::Trash => SpecialUse::Trash,
        // \All and \Flagged are views of other mailboxes, which do not exist here.
        _ => return Err(Reply::no(Code::UseAttr, format!("{attribute} is not supported"))),
    })
}
