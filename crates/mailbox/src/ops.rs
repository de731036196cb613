//! Operations on the tree of a user's mailboxes, own and shared: create, delete, rename, subscribe.
//! `sealpost_account::ops` defines their effects on the tree.

use std::sync::Arc;

use sealpost_account::account::Committed;
use sealpost_account::event::Event;
use sealpost_account::ops::NewMailbox;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, AccountState, Applied, SpecialUses, metadata, ops, share};
use sealpost_base::{Error, MailboxId, Position, Result};
use sealpost_directory::Usage;

use crate::access::Access;
use crate::entry::entry_of;
use crate::quota_headroom::QuotaHeadroom;
use crate::refusal::{OverQuota, Refusal};
use crate::resolve::User;
use crate::share::Sharing;

/// A created mailbox.
#[derive(Debug)]
pub struct Created {
    /// The entry in the user's own log, if it was created there.
    pub entry: Option<Position>,
    /// Why the mailbox does not share the access control list of its parent, if it should.
    pub not_shared: Option<Error>,
}

/// A mailbox that was deleted, or removed from the user's names.
pub struct Deleted {
    /// The account whose log has its messages.
    pub account: Arc<Account>,
    /// The mailbox there.
    pub mailbox: MailboxId,
    /// Its former name.
    pub name: Option<String>,
    /// The entry in the user's own log, if that is the only change.
    pub entry: Option<Position>,
}

/// Creates a mailbox and its missing parents. Ignores a trailing delimiter (RFC 3501 §6.3.3). Special uses
/// move to it from the mailboxes that have them (RFC 6154 §3). `own` is the headroom of the user's own log.
///
/// Below another user's mailbox the new one belongs to that user; below a mailbox that the user shares it is
/// shared in the same way (RFC 4314 §4). A mailbox that cannot be shared is created all the same.
///
/// # Errors
/// `SpecialUseOfOther`, `OverQuota`, and as [`ops::create_mailbox_with`] and [`Sharing::create_for_other`].
pub async fn create(
    sharing: Sharing<'_>,
    own: QuotaHeadroom,
    name: &str,
    uses: SpecialUses,
) -> Result<Created, Refusal> {
    let name = name.strip_suffix('/').unwrap_or(name);
    if share::is_of_others(name) {
        if !uses.is_empty() {
            return Err(Refusal::SpecialUseOfOther);
        }
        sharing.create_for_other(name).await?;
        // The log now has the user's link to it. Later commands see it in any case.
        let account = sharing.user.account;
        if let Err(error) = account.catch_up().await {
            tracing::warn!(account = %account.id(), %error, "the link to a new mailbox cannot be read yet");
        }
        return Ok(Created { entry: None, not_shared: None });
    }
    create_own(sharing, own, name, NewMailbox { special_uses: uses, ..NewMailbox::default() }).await
}

/// Creates a mailbox of the user's own as [`create`] does, with all of its properties in one entry.
///
/// # Errors
/// `OverQuota`, and as [`ops::create_mailbox_with`]: `Denied` for a name among those of other users.
pub async fn create_own(
    sharing: Sharing<'_>,
    own: QuotaHeadroom,
    name: &str,
    new: NewMailbox,
) -> Result<Created, Refusal> {
    let account = sharing.user.account;
    let committed = commit(account, own, |state| ops::create_mailbox_with(state, name, new)).await?;
    let entry = entry_of(&committed);
    let made: Vec<String> = {
        let state = account.state();
        let made = committed.applied.into_iter().filter_map(|applied| match applied {
            Applied::Created(id) => Some(state.mailbox(id)?.name().to_owned()),
            _ => None,
        });
        made.collect()
    };
    Ok(Created { entry, not_shared: sharing.inherit(&made).await.err() })
}

/// Deletes a mailbox; its children stay (RFC 3501 §6.3.4). If another user shares the mailbox without the
/// right to delete it, only this user's name for it is removed (`docs/decisions/0010-sharing.md`).
///
/// # Errors
/// `NonexistentParent` for a name that has only children (RFC 9051 §6.3.5), and as [`User::resolve`],
/// [`ops::delete_mailbox`] and [`User::delete_share`].
pub async fn delete(user: User<'_>, name: &str) -> Result<Deleted, Refusal> {
    let own = user.account;
    if ops::find(&own.state(), name).is_none() && ops::is_nonexistent_parent(&own.state(), name) {
        return Err(Refusal::NonexistentParent);
    }
    let found = user.resolve(name).await?;
    let of_other = matches!(found.access, Access::Share { owner: false, .. });
    let had_name = own.state().any_mailbox(found.own).map(|mailbox| mailbox.name().to_owned());
    let mut entry = None;
    if found.access == Access::Own {
        let committed = own.commit(|state| Ok((ops::delete_mailbox(state, name)?, ()))).await?;
        entry = entry_of(&committed);
    } else if of_other && !found.rights.contains(Rights::DELETE_MAILBOX) {
        user.drop_link(&found).await?;
    } else {
        user.delete_share(&found).await?;
    }
    Ok(Deleted { account: found.account, mailbox: found.mailbox, name: had_name, entry })
}

/// Renames a mailbox and its children. Renaming the inbox moves its messages (RFC 3501 §6.3.5). Returns the
/// entry in the user's own log, if any. `headroom` is that of this log.
///
/// # Errors
/// `OverQuota`, and as [`ops::rename_mailbox`].
pub async fn rename(
    user: User<'_>,
    headroom: QuotaHeadroom,
    from: &str,
    to: &str,
) -> Result<Option<Position>, Refusal> {
    let renaming = commit(user.account, headroom, |state| ops::rename_mailbox(state, from, to)).await?;
    if user.account.state().links().next().is_some() {
        // Opening the links makes shared mailboxes record their new names.
        user.links().await?;
    }
    Ok(entry_of(&renaming))
}

/// Subscribes to a name, or unsubscribes. The name need not exist, since it may be created again (RFC 3501
/// §6.3.6). Returns the entry in the user's log, if any.
///
/// # Errors
/// As [`ops::subscribe`].
pub async fn subscribe(account: &Account, name: &str, on: bool) -> Result<Option<Position>> {
    let committed = account.commit(|state| Ok((ops::subscribe(state, name, on)?, ()))).await?;
    Ok(entry_of(&committed))
}

/// Commits a change of the tree of names, unless it creates more mailboxes, or copies more metadata, than the
/// account may have (RFC 9208 §5.3, §5.4).
async fn commit(
    account: &Account,
    headroom: QuotaHeadroom,
    decide: impl Fn(&AccountState) -> Result<Vec<Event>> + Send + Sync,
) -> Result<Committed<Result<(), OverQuota>>, Refusal> {
    let committed = account
        .commit(|state| {
            let events = decide(state)?;
            let more = Usage {
                mailboxes: ops::mailboxes_made(&events) as u64,
                annotations: metadata::growth(state, &events),
                ..Usage::default()
            };
            Ok(match headroom.check(state, more) {
                Ok(()) => (events, Ok(())),
                Err(over) => (Vec::new(), Err(over)),
            })
        })
        .await?;
    committed.value?;
    Ok(committed)
}
