//! Sharing in IMAP's commands: what it takes is for [`sealpost_mailbox::share`] to say.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_account::Account;
use sealpost_account::acl::Acl;
use sealpost_account::directory::{AccountRecord, Usage};
use sealpost_base::{AccountId, Timestamp};
use sealpost_mailbox::resolve::ResolvedMailbox;
use sealpost_mailbox::share::leftovers::{removable_before, remove};
use sealpost_mailbox::share::{CreateError, Sharing};

use super::reply::{Failure, Reply};
use super::session::Session;
use crate::context::Context;

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
pub(super) fn remove_in_background(ctx: &Arc<Context>, own: &Arc<Account>) {
    if !ctx.leftovers.is_due(own.id(), ctx.clock.monotonic()) {
        return;
    }
    let (ctx, own) = (ctx.clone(), own.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = remove(&ctx.accounts, &ctx.directory, before(&ctx), &own) => {}
            () = ctx.shutdown.wait() => {}
        }
    });
}

fn before(ctx: &Context) -> Timestamp {
    removable_before(ctx.clock.now(), ctx.settings.retention)
}

impl Session {
    /// Makes a share of a mailbox of the session's own account: see [`Sharing::make`].
    pub(super) async fn make_share(
        &self,
        place: &ResolvedMailbox,
        acl: &Acl,
    ) -> Result<ResolvedMailbox, Failure> {
        Ok(self.sharing()?.make(place, acl).await?)
    }

    /// Sends the key of a share to an account: see [`Sharing::offer_to`].
    pub(super) async fn offer_to(&self, place: &ResolvedMailbox, to: &AccountRecord) -> Result<(), Failure> {
        Ok(self.sharing()?.offer_to(place, to).await?)
    }

    /// New mailboxes of the account's own inherit from a share that they are below: see [`Sharing::inherit`].
    pub(super) async fn inherit(&self, made: &[String]) -> Result<(), Failure> {
        Ok(self.sharing()?.inherit(made).await?)
    }

    /// CREATE below another user's mailbox: see [`Sharing::create_for_other`].
    pub(super) async fn create_for_other(&self, name: &str) -> Result<(), Failure> {
        match self.sharing()?.create_for_other(name).await {
            Ok(()) => {}
            Err(CreateError::OverQuota(over)) => return Err(over.into()),
            Err(CreateError::Error(error)) => return Err(error.into()),
        }
        // The new mailbox is below a link of this account, too.
        if let Err(Failure::End(end)) = self.catch_up().await {
            return Err(end.into());
        }
        Ok(())
    }

    /// Deletes a share.
    pub(super) async fn delete_share(&self, place: &ResolvedMailbox) -> Result<(), Failure> {
        Ok(self.resolver()?.delete_share(place).await?)
    }

    /// Removes the link to another user's mailbox that this user may not delete.
    pub(super) async fn drop_link(&self, place: &ResolvedMailbox) -> Result<(), Failure> {
        Ok(self.resolver()?.drop_link(place).await?)
    }

    /// What the shares of the session's own account hold, and those alone.
    pub(super) async fn usage_in_own_shares(&self) -> Result<Usage, Failure> {
        Ok(self.resolver()?.usage_in_own_shares().await?)
    }

    fn sharing(&self) -> Result<Sharing<'_>, Reply> {
        Ok(Sharing {
            user: self.resolver()?,
            name: &self.user,
            directory: &self.ctx.directory,
            random: &*self.ctx.random,
            usage: &self.ctx.usage,
            before: before(&self.ctx),
        })
    }
}
