//! Creates one mailbox; one entry of the log has all of its properties.

use sealpost_account::ops::NewMailbox;
use sealpost_account::{AccountState, SpecialUse, SpecialUses};
use sealpost_base::MailboxId;
use sealpost_jmap::GivenId;
use sealpost_jmap::SetError;
use sealpost_jmap::mailbox::{Mailbox, MailboxProperty, Role};
use sealpost_jmap::standard::ObjectMap;
use sealpost_mailbox::ops;
use sealpost_mailbox::shared_accounts::Reach;

use super::error::{Refused, exists, wrong};
use super::shared;
use crate::entries::Entries;
use crate::mailbox::list::list;
use crate::mailbox::target::{id_of_name, with_id};
use crate::scope::{Logs, Scope};

/// Creates the mailbox; returns its id and the properties that the client did not give.
pub(super) async fn create(
    scope: &Scope<'_>,
    entries: &mut Entries,
    object: ObjectMap,
) -> Result<Mailbox, Refused> {
    let given = Mailbox::for_create(object)?;
    if scope.reach() != Reach::Own {
        return shared::create(scope, entries, given).await;
    }
    let leaf = given.name.as_deref().ok_or_else(|| wrong("name", "a mailbox has a name"))?;
    let sort_order = given.sort_order.unwrap_or_default().value();
    let (name, special_uses) = scope
        .look(|logs| {
            let name = full_name(logs, scope, given.parent_id.as_ref().and_then(Option::as_ref), leaf)?;
            if let Some(id) = id_of_name(logs, &name) {
                return Err(exists(id));
            }
            let own = logs.own().1;
            check_sort_order(own, own.next_mailbox_id(), sort_order)?;
            Ok((name, uses_of(logs, given.role.flatten(), None)?))
        })
        .await??;
    let headroom = scope.headroom().await?;
    let is_subscribed = Some(given.is_subscribed.unwrap_or(true));
    let new = NewMailbox { special_uses, sort_order, is_subscribed };
    let created = ops::create_own(scope.sharing(), headroom, &name, new).await?;
    entries.note(scope.account().id(), created.entry);
    if let Some(error) = created.not_shared {
        tracing::warn!(%error, "a new mailbox is not shared as the one above it is");
    }
    let found = scope.look(|logs| {
        let id = id_of_name(logs, &name)?;
        list(logs, |other| *other == id).pop()
    });
    let found = found.await?;
    let mut mailbox = found.ok_or_else(|| wrong("name", "the mailbox was deleted at once"))?;
    mailbox.select(&not_given(&given));
    Ok(mailbox)
}

pub(super) fn not_given(given: &Mailbox) -> Vec<MailboxProperty> {
    let is_given = |property: &MailboxProperty| match property {
        MailboxProperty::Name => true,
        MailboxProperty::ParentId => given.parent_id.is_some(),
        MailboxProperty::Role => given.role.is_some(),
        MailboxProperty::SortOrder => given.sort_order.is_some(),
        MailboxProperty::IsSubscribed => given.is_subscribed.is_some(),
        _ => false,
    };
    MailboxProperty::ALL.iter().copied().filter(|property| !is_given(property)).collect()
}

/// Checks that the log can store another sort order. The commit checks it again, but reports an error for the
/// name.
pub(super) fn check_sort_order(own: &AccountState, mailbox: MailboxId, order: u32) -> Result<(), SetError> {
    let events = sealpost_account::ops::set_sort_order(own, mailbox, order);
    events.map(drop).map_err(|error| wrong("sortOrder", error.to_string()))
}

/// The full name of a mailbox called `leaf` below that parent.
pub(super) fn full_name(
    logs: &Logs<'_>,
    scope: &Scope<'_>,
    parent: Option<&GivenId>,
    leaf: &str,
) -> Result<String, SetError> {
    if leaf.is_empty() || leaf.contains('/') {
        return Err(wrong("name", "a name has at least one character, and no slash"));
    }
    let Some(parent) = parent else { return Ok(leaf.to_owned()) };
    let parent = parent.resolve(&scope.created).and_then(|id| with_id(logs, id));
    let parent = parent.ok_or_else(|| wrong("parentId", "there is no such mailbox"))?;
    Ok(format!("{}/{leaf}", parent.name))
}

/// The special uses for a role. No mailbox other than `of` may have them.
pub(super) fn uses_of(
    logs: &Logs<'_>,
    role: Option<Role>,
    of: Option<MailboxId>,
) -> Result<SpecialUses, SetError> {
    let Some(role) = role else { return Ok(SpecialUses::default()) };
    let special_use = match role {
        Role::Archive => SpecialUse::Archive,
        Role::Drafts => SpecialUse::Drafts,
        Role::Important => SpecialUse::Important,
        Role::Junk => SpecialUse::Junk,
        Role::Sent => SpecialUse::Sent,
        Role::Trash => SpecialUse::Trash,
        // Roles for views of other mailboxes, which do not exist here, and roles that are fixed.
        Role::All | Role::Flagged | Role::Inbox | Role::Subscribed => {
            return Err(wrong("role", "no mailbox can be given this role"));
        }
    };
    let holder = logs.own().1.mailbox_for(special_use);
    match holder.is_none_or(|holder| Some(holder.id()) == of) {
        true => Ok(std::iter::once(special_use).collect()),
        false => Err(wrong("role", "another mailbox has this role")),
    }
}
