//! The state that all HTTP connections share.

use std::sync::Arc;

use sealpost_auth::throttle::Network;
use sealpost_base::limits::{
    HTTP_BUDGET_SHARE, HTTP_REQUESTS_PER_ACCOUNT, HTTP_REQUESTS_PER_ADDRESS, HTTP_SMALL_BODIES_SHARE,
};
use sealpost_base::{AccountId, Budget};
use sealpost_session::Context;

use crate::gate::Gate;
use crate::held_bodies::HeldBodies;
use crate::pace::ClientTimeouts;
use crate::router::Router;

/// The state that all HTTP connections share.
pub struct HttpShared {
    pub(crate) ctx: Arc<Context>,
    pub(crate) router: Router,
    /// The share from which requests acquire.
    pub(crate) budget: Budget,
    /// Memory for held bodies. A request acquires from it after it has acquired its own memory.
    pub(crate) bodies: HeldBodies,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) of_address: Arc<Gate<Network>>,
    pub(crate) of_account: Arc<Gate<AccountId>>,
}

impl HttpShared {
    /// Creates the shared state for connections with these routes.
    pub fn new(ctx: Arc<Context>, router: Router) -> Self {
        let common = ctx.budget.common();
        // Small bodies take their share from that of requests.
        let requests = common / HTTP_BUDGET_SHARE - common / HTTP_SMALL_BODIES_SHARE;
        HttpShared {
            budget: ctx.budget.share(requests),
            bodies: HeldBodies::new(&ctx.budget),
            timeouts: ClientTimeouts::of(&ctx.settings.timeouts),
            router,
            of_address: Gate::new(HTTP_REQUESTS_PER_ADDRESS),
            of_account: Gate::new(HTTP_REQUESTS_PER_ACCOUNT),
            ctx,
        }
    }

    /// The most bytes of a held body, whatever its route allows.
    pub fn held_body_bytes(&self) -> usize {
        self.bodies.most_bytes()
    }

    /// Whether requests or sessions are waiting for memory.
    pub(crate) fn others_wait(&self) -> bool {
        self.ctx.budget.waiting() > 0
    }
}
