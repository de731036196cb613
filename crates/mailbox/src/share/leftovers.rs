//! Removes leftovers of shared mailboxes that were deleted or never completed. Only sessions of the owner
//! know which shares have a name, so they remove them (`docs/decisions/0010-sharing.md`).
//!
//! A share that any user can see is never removed. A deleted share stays as long as deleted mail. A share in
//! creation looks like one that a crash has left, whatever the clocks say. So the owner's log cancels it
//! first, and a mailbox is linked only to a share that is not cancelled.

use std::collections::HashSet;
use std::time::Duration;

use sealpost_account::share::{self, Link};
use sealpost_account::{Account, AccountState, Accounts};
use sealpost_base::{AccountId, Result, Timestamp};
use sealpost_directory::{Directory, ShareRecord};

/// The minimum age at which objects of a share without a name are deleted.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);
/// Removes leftovers of the account's shares older than `before`.
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
    // Catch up with other nodes, since one may have named the share.
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
        // It may still write a checkpoint.
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
        // No link has the key, which was lost before any account got it. A share with messages was completed.
        let old = record.created < before && !changed_since(directory, record.share, before).await?;
        if old && directory.share_was_never_used(record.share).await? {
            tracing::info!(account = %own.id(), share = %record.share, "a shared mailbox that was never completed is removed");
            directory.delete_share(&record).await?;
        }
    }
    Ok(())
}

/// Cancels a share that could not be completed, so that no name can ever lead to it, and deletes its objects.
/// Does nothing if the last step was done after all. Objects that cannot be deleted now are deleted later.
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

/// Cancels a share without a name; returns whether it is cancelled.
async fn give_up(own: &Account, share: AccountId) -> Result<bool> {
    // Another session may be creating it now, whatever the clocks say. Either it has linked the share, or it
    // no longer can.
    let committed = own.commit(|state| {
        let still = state.unlinked_shares().any(|other| other.share == share);
        Ok((if still { share::given_up(share) } else { Vec::new() }, still))
    });
    Ok(committed.await?.value)
}

/// Records of shares that the account's state does not know.
fn unheard_of(state: &AccountState, records: &[ShareRecord]) -> Vec<ShareRecord> {
    let known: HashSet<AccountId> = state
        .links()
        .map(|(_, link)| link.share)
        .chain(state.unlinked_shares().map(|link| link.share))
        .chain(state.given_up_shares())
        .collect();
    records.iter().filter(|record| !known.contains(&record.share)).cloned().collect()
}

/// The time before which leftovers may be removed, with this retention of deleted mail.
pub fn removable_before(now: Timestamp, retention: Duration) -> Timestamp {
    // Even with a short retention, a share that another session is creating is not removed.
    let kept = retention.max(LEFTOVER_AGE);
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(kept))
}

async fn changed_since(directory: &Directory, share: AccountId, since: Timestamp) -> Result<bool> {
    Ok(directory.share_last_changed(share).await?.is_some_and(|changed| changed >= since))
}
