//! What all callers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealpost_base::limits::{
    HTTP_BUDGET_SHARE, JMAP_CONCURRENT_REQUESTS, JMAP_CONCURRENT_UPLOADS, JMAP_REQUEST_BYTES,
};
use sealpost_base::{AccountId, Budget, Permit};
use sealpost_jmap::websocket::{ClientMessage, RequestError};
use sealpost_jmap::{Problem, Request, json};
use sealpost_session::Context;
use sealpost_submission::outbox::Outbox;
use tokio::sync::Semaphore;

use crate::identity::OwnAddresses;

/// What JMAP needs of the server.
pub struct JmapShared {
    pub(crate) ctx: Arc<Context>,
    /// For what a request keeps beside the buffers of the domain: a part of the whole, so that a
    /// request that waits here leaves something for those that are further.
    pub(crate) kept: Budget,
    /// For responses that later calls of a request refer to. A request holds some while it waits for
    /// memory of `kept`, and none of that while it waits for this: so requests never wait for each
    /// other in a circle.
    pub(crate) referenced: Budget,
    /// For the values of requests.
    values: Budget,
    under_way: Mutex<HashMap<AccountId, Weak<UnderWay>>>,
    /// What users submit mail through; `None` if this server sends none.
    pub(crate) outbox: Option<Outbox>,
    pub(crate) own_addresses: OwnAddresses,
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
        let referenced = ctx.budget.share(ctx.budget.common() / 8);
        let values = ctx.budget.share(ctx.budget.common() / HTTP_BUDGET_SHARE);
        let (under_way, outbox, own_addresses) = Default::default();
        JmapShared { ctx, kept, referenced, values, under_way, outbox, own_addresses }
    }

    /// With what users submit mail through.
    #[must_use]
    pub fn sending(mut self, outbox: Option<Outbox>) -> Self {
        self.outbox = outbox;
        self
    }

    /// Bytes of one request, at most (`maxSizeRequest`): as many as HTTP holds, or fewer than
    /// [`JMAP_REQUEST_BYTES`] in a server with little memory.
    pub fn request_bytes(&self) -> usize {
        self.values.total().min(JMAP_REQUEST_BYTES)
    }

    /// Reads a request; waits for the memory of its values, which is to be held with it.
    ///
    /// # Errors
    /// What the client gets instead of a response.
    pub async fn read(&self, body: &[u8]) -> Result<(Request, Permit), Problem> {
        let permit = self.values_of(body).await?;
        Ok((Request::parse(body)?, permit))
    }

    /// Reads a message of a WebSocket, as [`JmapShared::read`] does; what it was, or what the client
    /// gets for it.
    pub async fn read_message(&self, text: &[u8]) -> (Result<ClientMessage, RequestError>, Option<Permit>) {
        match self.values_of(text).await {
            Ok(permit) => (ClientMessage::parse(text), Some(permit)),
            Err(problem) => (Err(RequestError { id: None, problem }), None),
        }
    }

    /// Memory for the values that this JSON may have.
    async fn values_of(&self, json: &[u8]) -> Result<Permit, Problem> {
        let bytes = json::memory_bound(json);
        if bytes > self.values.total() {
            return Err(Problem::limit("maxSizeRequest", "The request has too many values."));
        }
        Ok(self.values.acquire_large(bytes).await)
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
