//! The state that all callers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealpost_base::limits::{JMAP_CONCURRENT_REQUESTS, JMAP_CONCURRENT_UPLOADS};
use sealpost_base::{AccountId, Budget};
use sealpost_push::Pusher;
use sealpost_session::Context;
use sealpost_submission::outbox::Outbox;
use tokio::sync::Semaphore;

use crate::identity::OwnAddresses;
use crate::principal::DomainUsers;
use crate::request_memory::RequestMemory;

/// What JMAP needs of the server.
pub struct JmapShared {
    pub(crate) ctx: Arc<Context>,
    /// What pushes to devices; `None`: this server does not.
    pub(crate) push: Option<Pusher>,
    /// For what a request keeps beside the buffers of the domain: a part of the whole, so that a
    /// request that waits here leaves something for those that are further.
    pub(crate) kept: Budget,
    /// Memory for responses that later calls of a request refer to. A request may hold some while it waits
    /// for memory of `kept`, but holds none of `kept` while it waits for this. So requests never deadlock.
    pub(crate) referenced: Budget,
    /// Memory for the values of requests.
    pub(crate) values: RequestMemory,
    pub(crate) domain_users: DomainUsers,
    under_way: Mutex<HashMap<AccountId, Weak<UnderWay>>>,
    /// What users submit mail through; `None` if this server sends none.
    pub(crate) outbox: Option<Outbox>,
    pub(crate) own_addresses: OwnAddresses,
}

/// Permits that bound the concurrent operations of one account.
pub(crate) struct UnderWay {
    pub(crate) requests: Semaphore,
    pub(crate) uploads: Semaphore,
}

impl JmapShared {
    /// Over the server's context. It sends nothing: no pushes, and no vacation responses.
    pub fn new(ctx: Arc<Context>) -> Self {
        let kept = ctx.budget.share(ctx.budget.common() / 8);
        let referenced = ctx.budget.share(ctx.budget.common() / 8);
        let values = RequestMemory::new(&ctx.budget);
        JmapShared {
            ctx,
            push: None,
            kept,
            referenced,
            values,
            domain_users: DomainUsers::default(),
            under_way: Mutex::default(),
            outbox: None,
            own_addresses: OwnAddresses::default(),
        }
    }

    /// With what users submit mail through, and what sends vacation responses.
    #[must_use]
    pub fn sending(self, outbox: Option<Outbox>) -> Self {
        JmapShared { outbox, ..self }
    }

    /// Offers pushes to devices, if the server can send them.
    #[must_use]
    pub fn with_push(self, push: Option<Pusher>) -> Self {
        JmapShared { push, ..self }
    }

    /// The maximum size of a request in bytes (`maxSizeRequest`): [`sealpost_base::limits::JMAP_REQUEST_BYTES`], or less in a server
    /// with little memory.
    pub fn request_bytes(&self) -> usize {
        self.values.request_bytes()
    }

    /// The permits of an account, shared by all of its callers.
    pub(crate) fn under_way(&self, account: AccountId) -> Arc<UnderWay> {
        let mut accounts = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(&account).and_then(Weak::upgrade) {
            return known;
        }
        // Drop accounts without callers from time to time.
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
