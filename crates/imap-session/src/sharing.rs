//! Sharing in IMAP's commands: what it takes is for [`sealpost_mailbox::share`] to say.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_account::Account;
use sealpost_account::directory::Usage;
use sealpost_base::{AccountId, Timestamp};
use sealpost_mailbox::share::Sharing;
use sealpost_mailbox::share::leftovers::{removable_before, remove};

use super::ImapShared;
use super::reply::Failure;
use super::user::User;
use sealpost_session::Context;

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
pub(super) fn remove_in_background(shared: &ImapShared, own: &Arc<Account>) {
    let ctx = &shared.ctx;
    if !shared.leftovers.is_due(own.id(), ctx.clock.monotonic()) {
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

impl User {
    /// What the shares of the session's own account hold, and those alone.
    pub(super) async fn usage_in_own_shares(&self) -> Result<Usage, Failure> {
        Ok(self.resolver().usage_in_own_shares().await?)
    }

    /// What this user shares with.
    pub(super) fn sharing(&self) -> Sharing<'_> {
        Sharing {
            user: self.resolver(),
            name: self.name(),
            directory: self.directory(),
            random: &*self.shared.ctx.random,
            usage: &self.shared.ctx.usage,
            before: before(&self.shared.ctx),
        }
    }
}
