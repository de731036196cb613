//! What all callers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealpost_base::limits::{JMAP_CONCURRENT_REQUESTS, JMAP_CONCURRENT_UPLOADS};
use sealpost_base::{AccountId, Budget};
use sealpost_session::Context;
use tokio::sync::Semaphore;

/// What JMAP needs of the server.
pub struct JmapShared {
    pub(crate) ctx: Arc<Context>,
    /// For what a request keeps beside the buffers of the domain: a part of the whole, so that a
    /// request that waits here leaves something for those that are further.
    pub(crate) kept: Budget,
    under_way: Mutex<HashMap<AccountId, Weak<UnderWay>>>,
}

/// Permits for what one account may have under way at the same time.
pub(crate) struct UnderWay {
    pub(crate) requests: Semaphore,
    pub(crate) uploads: Semaphore,
}

impl JmapShared {
    /// Over the server's context.
    pub fn new(ctx: Arc<Context>) -> Self {
        let kept = ctx.budget.share(ctx.budget.common() / 8);
        JmapShared { ctx, kept, under_way: Mutex::default() }
    }

    /// What that account has under way, of all its callers.
    pub(crate) fn under_way(&self, account: AccountId) -> Arc<UnderWay> {
        let mut accounts = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(&account).and_then(Weak::upgrade) {
            return known;
        }
        // From time to time, drop the accounts without callers.
        if accounts.len().is_power_of_two() {
            accounts.retain(|_, known| known.strong_count() > 0);
        }
        let requests = Semaphore::new(JMAP_CONCURRENT_REQUESTS);
        let uploads = Semaphore::new(JMAP_CONCURRENT_UPLOADS);
        let made = Arc::new(UnderWay { requests, uploads });
        accounts.insert(account, Arc::downgrade(&made));
        made
    }
}
