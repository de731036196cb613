//! Creates a mailbox below another owner's (RFC 4314 §4, the right `k`): it is the owner's, and has
//! the access list of the one above it.

use sealpost_account::ops;
use sealpost_jmap::mailbox::{Mailbox, SortOrder};

use super::create::{check_sort_order, full_name, not_given};
use super::error::{Refused, exists, forbidden, wrong};
use crate::entries::Entries;
use crate::mailbox::list::list;
use crate::mailbox::target::id_of_name;
use crate::scope::Scope;

/// The properties of the new mailbox that the client did not give, and its id.
pub(super) async fn create(
    scope: &Scope<'_>,
    entries: &mut Entries,
    given: Mailbox,
) -> Result<Mailbox, Refused> {
    let leaf = given.name.as_deref().ok_or_else(|| wrong("name", "a mailbox has a name"))?;
    if given.role.flatten().is_some() {
        return Err(forbidden("only its owner gives it a role").into());
    }
    let parent = given.parent_id.as_ref().and_then(Option::as_ref);
    let parent = parent.ok_or_else(|| forbidden("only the owner makes mailboxes at the top level"))?;
    let name = scope
        .look(|logs| {
            let name = full_name(logs, scope, Some(parent), leaf)?;
            match id_of_name(logs, &name) {
                Some(id) => Err(exists(id)),
                None => Ok(name),
            }
        })
        .await??;
    entries.lose_track();
    Box::pin(scope.sharing().create_for_other(&name)).await?;
    scope.account().catch_up().await?;
    let sort_order = given.sort_order.map_or(0, SortOrder::value);
    settle(scope, &name, sort_order, given.is_subscribed.unwrap_or(true)).await?;
    let found = scope.look(|logs| {
        let id = id_of_name(logs, &name)?;
        list(logs, |other| *other == id).pop()
    });
    let mut mailbox = found.await?.ok_or_else(|| wrong("name", "the mailbox was deleted at once"))?;
    mailbox.select(&not_given(&given));
    Ok(mailbox)
}

/// Sets what is the user's own of a mailbox: its order, and the subscription.
async fn settle(scope: &Scope<'_>, name: &str, order: u32, is_subscribed: bool) -> Result<(), Refused> {
    let committed = scope.account().commit(|state| {
        let Some(mailbox) = state.mailbox_named(name) else { return Ok((Vec::new(), Ok(()))) };
        if let Err(error) = check_sort_order(state, mailbox.id(), order) {
            return Ok((Vec::new(), Err(error)));
        }
        let mut events = ops::set_sort_order(state, mailbox.id(), order)?;
        events.extend(ops::subscribe(state, name, is_subscribed)?);
        Ok((events, Ok(())))
    });
    Ok(committed.await?.value?)
}
