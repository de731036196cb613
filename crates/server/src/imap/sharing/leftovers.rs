//! What is left of shared mailboxes that were deleted, or never completed: removed in the owner's sessions, which alone
//! know what has a name (`docs/decisions/0010-sharing.md`).
//!
//! A share that somebody can see is never touched. A deleted one stays for as long as deleted mail does. One that is
//! being made may look like one that a crash left, whatever the clocks say: so it is given up in the owner's log first, and a
//! mailbox is linked only to a share that is not.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_account::directory::ShareRecord;
use sealpost_account::share::{self, Link};
use sealpost_account::{Account, AccountState};
use sealpost_base::{AccountId, Result, Timestamp};

use crate::context::Context;

/// Age below which nothing of a share is deleted because no name leads to it.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);
/// How often a process looks at one account's.
const PERIOD: Duration = Duration::from_secs(3600);
/// Accounts of which it is remembered when they were looked at.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// When accounts were looked at, by the monotonic clock.
pub struct Leftovers(Mutex<LruCache<AccountId, Duration>>);

impl Default for Leftovers {
    fn default() -> Self {
        Leftovers(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Leftovers {
    /// Whether it is time to look at that account's; it counts as looked at then.
    fn is_due(&self, account: AccountId, now: Duration) -> bool {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = looked.get(&account).is_none_or(|last| now.saturating_sub(*last) >= PERIOD);
        if due {
            looked.put(account, now);
        }
        due
    }
}

/// Removes in the background what is left of the account's shares, unless this process did so lately.
pub(in crate::imap) fn remove_in_background(ctx: &Arc<Context>, own: &Arc<Account>) {
    if !ctx.leftovers.is_due(own.id(), ctx.clock.monotonic()) {
        return;
    }
    let (ctx, own) = (ctx.clone(), own.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = remove(&ctx, &own) => {}
            () = ctx.shutdown.wait() => {}
        }
    });
}

/// Removes what is left of the account's shares, as far as it is old enough.
pub(super) async fn remove(ctx: &Context, own: &Account) {
    if let Err(error) = try_remove(ctx, own).await {
        tracing::warn!(account = %own.id(), %error, "what is left of old shared mailboxes was not removed");
    }
}

async fn try_remove(ctx: &Context, own: &Account) -> Result<()> {
    let records = ctx.directory.shares_of(own.id()).await?;
    if records.is_empty() && own.state().given_up_shares().is_empty() {
        return Ok(());
    }
    // What other nodes did: a share may have got its name there.
    own.refresh().await?;
    let before = before(ctx);
    let unlinked: Vec<Link> = own.state().unlinked_shares().collect();
    for link in unlinked {
        let is_old = |record: &ShareRecord| record.share == link.share && record.created < before;
        if records.iter().any(is_old) && !changed_since(ctx, link.share, before).await? {
            give_up(own, link.share).await?;
        }
    }
    let given_up = own.state().given_up_shares();
    for share in given_up {
        // It may write a checkpoint still.
        if ctx.accounts.peek(share).is_some() {
            continue;
        }
        if let Some(record) = records.iter().find(|record| record.share == share) {
            ctx.directory.delete_share(record).await?;
        }
        own.commit(|_| Ok((vec![share::deleted(share)], ()))).await?;
    }
    let unheard_of = unheard_of(&own.state(), &records);
    for record in unheard_of {
        // The key is nowhere: it was lost before anybody was given it. What has any message was not.
        let old = record.created < before && !changed_since(ctx, record.share, before).await?;
        if old && ctx.directory.share_was_never_used(record.share).await? {
            tracing::info!(account = %own.id(), share = %record.share, "a shared mailbox that was never completed is removed");
            ctx.directory.delete_share(&record).await?;
        }
    }
    Ok(())
}

/// Gives up a share that could not be completed, so that no name will ever lead to it, and frees what it takes. It does nothing if the last step
/// turns out to have been done. What cannot be removed now is removed later.
pub(super) async fn abandon(ctx: &Context, own: &Account, share: AccountId) {
    let abandoned = async {
        if give_up(own, share).await? {
            ctx.directory.delete_share_objects(share).await?;
        }
        Ok::<(), sealpost_base::Error>(())
    };
    if let Err(error) = abandoned.await {
        tracing::warn!(account = %own.id(), %share, %error, "a shared mailbox that could not be made was not removed yet");
    }
}

/// Whether it was one without a name, and is one given up now.
async fn give_up(own: &Account, share: AccountId) -> Result<bool> {
    // Another session may be making it right now, whatever the clocks say: either it has linked to it, or it may not any more.
    let committed = own.commit(|state| {
        let still = state.unlinked_shares().any(|other| other.share == share);
        Ok((if still { share::given_up(share) } else { Vec::new() }, still))
    });
    Ok(committed.await?.value)
}

/// Records of shares that the account's state says nothing of.
fn unheard_of(state: &AccountState, records: &[ShareRecord]) -> Vec<ShareRecord> {
    let known: HashSet<AccountId> = state
        .links()
        .map(|(_, link)| link.share)
        .chain(state.unlinked_shares().map(|link| link.share))
        .chain(state.given_up_shares())
        .collect();
    records.iter().filter(|record| !known.contains(&record.share)).cloned().collect()
}

/// What is older than this may be removed.
fn before(ctx: &Context) -> Timestamp {
    // However short deleted mail is kept: a share that another session is making right now is not touched.
    let kept = ctx.settings.retention.max(LEFTOVER_AGE);
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    Timestamp(ctx.clock.now().0.saturating_sub(kept))
}

async fn changed_since(ctx: &Context, share: AccountId, since: Timestamp) -> Result<bool> {
    Ok(ctx.directory.share_last_changed(share).await?.is_some_and(|changed| changed >= since))
}
