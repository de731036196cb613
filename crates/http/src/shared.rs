//! The state that all HTTP connections share.

use std::sync::Arc;

use sealpost_auth::throttle::Network;
use sealpost_base::limits::{
    HTTP_BUDGET_SHARE, HTTP_HELD_BODY_BYTES, HTTP_REQUESTS_PER_ACCOUNT, HTTP_REQUESTS_PER_ADDRESS,
};
use sealpost_base::{AccountId, Budget};
use sealpost_session::Context;

use crate::gate::Gate;
use crate::pace::ClientTimeouts;
use crate::router::Router;

/// The state that all HTTP connections share.
pub struct HttpShared {
    pub(crate) ctx: Arc<Context>,
    pub(crate) router: Router,
    /// The share from which requests acquire.
    pub(crate) budget: Budget,
    /// The share for held bodies. A request acquires from it after it has acquired its own memory.
    pub(crate) bodies: Budget,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) of_address: Arc<Gate<Network>>,
    pub(crate) of_account: Arc<Gate<AccountId>>,
}

impl HttpShared {
    /// Creates the shared state for connections with these routes.
    pub fn new(ctx: Arc<Context>, router: Router) -> Self {
        HttpShared {
            budget: ctx.budget.share(ctx.budget.common() / HTTP_BUDGET_SHARE),
            bodies: ctx.budget.share(ctx.budget.common() / HTTP_BUDGET_SHARE),
            timeouts: ClientTimeouts::of(&ctx.settings.timeouts),
            router,
            of_address: Gate::new(HTTP_REQUESTS_PER_ADDRESS),
            of_account: Gate::new(HTTP_REQUESTS_PER_ACCOUNT),
            ctx,
        }
    }

    /// The most bytes of a held body, whatever its route allows: the whole share. Only bodies use that share,
    /// and they acquire in order.
    pub fn held_body_bytes(&self) -> usize {
        self.bodies.total().min(HTTP_HELD_BODY_BYTES)
    }

    /// Whether requests or sessions are waiting for memory.
    pub(crate) fn others_wait(&self) -> bool {
        self.ctx.budget.waiting() > 0
    }
}
