//! What all callers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealpost_base::limits::JMAP_CONCURRENT_REQUESTS;
use sealpost_base::{AccountId, Budget};
use sealpost_session::Context;
use tokio::sync::Semaphore;

/// What JMAP needs of the server.
pub struct JmapShared {
    pub(crate) ctx: Arc<Context>,
    /// For what a request keeps beside the buffers of the domain: a part of the whole, so that a
    /// request that waits here leaves something for those that are further.
    pub(crate) kept: Budget,
    requests: Mutex<HashMap<AccountId, Weak<Semaphore>>>,
}

impl JmapShared {
    /// Over the server's context.
    pub fn new(ctx: Arc<Context>) -> Self {
        let kept = ctx.budget.share(ctx.budget.common() / 8);
        JmapShared { ctx, kept, requests: Mutex::default() }
    }

    /// Counts the requests of that account which are under way, of all its callers.
    pub(crate) fn requests_of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = requests.get(&account).and_then(Weak::upgrade) {
            return known;
        }
        // From time to time, drop the accounts without callers.
        if requests.len().is_power_of_two() {
            requests.retain(|_, known| known.strong_count() > 0);
        }
        let made = Arc::new(Semaphore::new(JMAP_CONCURRENT_REQUESTS));
        requests.insert(account, Arc::downgrade(&made));
        made
    }
}
