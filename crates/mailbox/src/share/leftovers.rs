//! Leftovers of shared mailboxes that were deleted, or never completed: removed in the owner's
//! sessions, which alone know which have a name (`docs/decisions/0010-sharing.md`).
//!
//! A share that any user can see is never touched. A deleted one stays for as long as deleted mail
//! does. One being created may look like one that a crash left, with any clocks: so it is cancelled
//! in the owner's log first, and a mailbox is linked only to a share that is not cancelled.

use std::collections::HashSet;
use std::time::Duration;

use sealpost_account::share::{self, Link};
use sealpost_account::{Account, AccountState, Accounts};
use sealpost_base::{AccountId, Result, Timestamp};
use sealpost_directory::{Directory, ShareRecord};

/// Age below which nothing of a share is deleted because no name leads to it.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);
/// Removes leftovers of the account's shares that are older than `before`.
pub async fn remove(accounts: &Accounts, directory: &Directory, before: Timestamp, own: &Account) {
    if let Err(error) = try_remove(accounts, directory, before, own).await {
        tracing::warn!(account = %own.id(), %error, "cannot remove leftovers of deleted shared mailboxes");
    }
}

async fn try_remove(
    accounts: &Accounts,
    directory: &Directory,
    before: Timestamp,
    own: &Account,
) -> Result<()> {
    let records = directory.shares_of(own.id()).await?;
    if records.is_empty() && own.state().given_up_shares().is_empty() {
        return Ok(());
    }
    // Catch up with other nodes: one may have given the share its name.
    own.refresh().await?;
    let unlinked: Vec<Link> = own.state().unlinked_shares().collect();
    for link in unlinked {
        let is_old = |record: &ShareRecord| record.share == link.share && record.created < before;
        if records.iter().any(is_old) && !changed_since(directory, link.share, before).await? {
            give_up(own, link.share).await?;
        }
    }
    let given_up = own.state().given_up_shares();
    for share in given_up {
        // It may write a checkpoint still.
        if accounts.peek(share).is_some() {
            continue;
        }
        if let Some(record) = records.iter().find(|record| record.share == share) {
            directory.delete_share(record).await?;
        }
        own.commit(|_| Ok((vec![share::deleted(share)], ()))).await?;
    }
    let unheard_of = unheard_of(&own.state(), &records);
    for record in unheard_of {
        // No link has the key: it was lost before any account got it. A share with messages was
        // completed.
        let old = record.created < before && !changed_since(directory, record.share, before).await?;
        if old && directory.share_was_never_used(record.share).await? {
            tracing::info!(account = %own.id(), share = %record.share, "a shared mailbox that was never completed is removed");
            directory.delete_share(&record).await?;
        }
    }
    Ok(())
}

/// Gives up a share that could not be completed, so that no name will ever lead to it, and deletes
/// its objects. It does nothing if the last step turns out to have been done. Objects that cannot
/// be deleted now are deleted later.
pub(super) async fn abandon(directory: &Directory, own: &Account, share: AccountId) {
    let abandoned = async {
        if give_up(own, share).await? {
            directory.delete_share_objects(share).await?;
        }
        Ok::<(), sealpost_base::Error>(())
    };
    if let Err(error) = abandoned.await {
        tracing::warn!(account = %own.id(), %share, %error, "a shared mailbox that could not be made was not removed yet");
    }
}

/// Whether it was one without a name, and is cancelled now.
async fn give_up(own: &Account, share: AccountId) -> Result<bool> {
    // Another session may be creating it right now, with any clocks: either it has linked to it, or
    // it may not any more.
    let committed = own.commit(|state| {
        let still = state.unlinked_shares().any(|other| other.share == share);
        Ok((if still { share::given_up(share) } else { Vec::new() }, still))
    });
    Ok(committed.await?.value)
}

/// Records of shares that are unknown to the account's state.
fn unheard_of(state: &AccountState, records: &[ShareRecord]) -> Vec<ShareRecord> {
    let known: HashSet<AccountId> = state
        .links()
        .map(|(_, link)| link.share)
        .chain(state.unlinked_shares().map(|link| link.share))
        .chain(state.given_up_shares())
        .collect();
    records.iter().filter(|record| !known.contains(&record.share)).cloned().collect()
}

/// Leftovers older than this may be removed, if deleted mail is kept for so long.
pub fn removable_before(now: Timestamp, retention: Duration) -> Timestamp {
    // However short deleted mail is kept: a share that another session is creating is not touched.
    let kept = retention.max(LEFTOVER_AGE);
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(kept))
}

async fn changed_since(directory: &Directory, share: AccountId, since: Timestamp) -> Result<bool> {
    Ok(directory.share_last_changed(share).await?.is_some_and(|changed| changed >= since))
}
