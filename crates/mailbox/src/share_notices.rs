//! Notes how a user's rights to other owners' mailboxes changed since the user's sessions last looked
//! (RFC 9670 §3).
//!
//! The rights are in the logs of the shares, so the notices are derived, by a process that has the
//! user's key: several changes between two looks are one notice, or none.

use std::collections::BTreeMap;

use sealpost_account::rights::Rights;
use sealpost_account::share_notice::{self, KnownShare};
use sealpost_account::{AccountState, Event, ops};
use sealpost_base::{AccountId, Result, Timestamp};

use crate::resolve::User;
use crate::shared_accounts::SharedMailbox;

/// Notes what changed; `mailboxes` are those that the user has links to.
///
/// # Errors
/// Store errors; `Limit` if the account has no room for it.
pub async fn note_changes(user: User<'_>, mailboxes: &[SharedMailbox], now: Timestamp) -> Result<()> {
    let seen: BTreeMap<AccountId, Option<KnownShare>> = mailboxes.iter().map(seen).collect();
    if events(&user.account.state(), &seen, now).is_empty() {
        return Ok(());
    }
    let committed = user.account.commit(|state| {
        let events = events(state, &seen, now);
        ops::check_objects(state, &events)?;
        Ok((events, ()))
    });
    committed.await?;
    Ok(())
}

/// Removes notices; of each whether it was there.
///
/// # Errors
/// Store errors.
pub async fn dismiss(user: User<'_>, ids: &[u64]) -> Result<Vec<bool>> {
    let committed = user.account.commit(|state| {
        let mut notices = state.share_notices();
        let removed: Vec<bool> = ids.iter().map(|id| notices.remove(*id)).collect();
        let event = removed.contains(&true).then(|| notices.event());
        Ok((event.into_iter().collect(), removed))
    });
    Ok(committed.await?.value)
}

/// A mailbox as it is now; `None` if the user may not look it up.
fn seen(mailbox: &SharedMailbox) -> (AccountId, Option<KnownShare>) {
    let SharedMailbox { log, about, rights, .. } = mailbox;
    let validity = log.state().inbox().uid_validity();
    let owner = (about.owner, about.owner_name.as_str());
    let known = KnownShare::new(owner, &about.name, validity, *rights);
    (log.id(), rights.contains(Rights::LOOKUP).then_some(known))
}

/// The events that make the account know the mailboxes as they are. A mailbox with a link that was not
/// seen could not be read: nothing is known of it now.
fn events(
    state: &AccountState,
    seen: &BTreeMap<AccountId, Option<KnownShare>>,
    now: Timestamp,
) -> Vec<Event> {
    let known: BTreeMap<AccountId, KnownShare> = state.known_shares().collect();
    let (mut notices, mut events) = (state.share_notices(), Vec::new());
    for (share, before) in &known {
        let is_linked = state.links().any(|(_, link)| link.share == *share);
        let is_gone = match seen.get(share) {
            Some(now) => now.is_none(),
            None => !is_linked,
        };
        if is_gone {
            notices.add(*share, before.clone(), (Some(before.rights), None), now);
            events.extend(share_notice::forgotten(state, *share));
        }
    }
    for (share, mailbox) in seen {
        let Some(mailbox) = mailbox else { continue };
        let before = known.get(share);
        if before == Some(mailbox) {
            continue;
        }
        let old = before.map(|before| before.rights);
        if old != Some(mailbox.rights) {
            notices.add(*share, mailbox.clone(), (old, Some(mailbox.rights)), now);
        }
        events.push(mailbox.event(*share));
    }
    if notices != state.share_notices() {
        events.push(notices.event());
    }
    events
}
