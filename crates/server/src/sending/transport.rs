//! Where queued mail goes: into accounts for domains that are served here, to other servers else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use sealpost_delivery::deliverer::Deliverer;
use sealpost_delivery::outcome::{Failure, Reason};
use sealpost_delivery::transport::{Choice, Destination, Transport};
use sealpost_session::Context;
use sealpost_smtp::types::{Host, ReversePath};
use sealpost_submission::outbox::Outbox;

use super::local::Local;
use super::watched::{SendingMetrics, Watched};

/// The transport of this server's queues.
pub(super) struct LocalTransport {
    ctx: Arc<Context>,
    outbox: Outbox,
    deliverer: Deliverer,
    metrics: Arc<SendingMetrics>,
}

impl LocalTransport {
    pub(super) fn new(
        ctx: Arc<Context>,
        outbox: Outbox,
        deliverer: Deliverer,
        metrics: Arc<SendingMetrics>,
    ) -> Self {
        LocalTransport { ctx, outbox, deliverer, metrics }
    }

    pub(super) fn metrics(&self) -> &SendingMetrics {
        &self.metrics
    }

    async fn find(
        &self,
        sender: &ReversePath,
        destination: &Host,
        choice: Choice,
    ) -> Option<Result<Box<dyn Destination>, Failure>> {
        if let Some(domain) = destination.as_domain() {
            match self.ctx.directory.serves(domain).await {
                Ok(true) if choice == Choice::First => {
                    return Some(Ok(Box::new(Local::new(self.ctx.clone(), self.outbox.clone()))));
                }
                Ok(true) => return None,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot list the domains of this server: mail waits");
                    return Some(Err(Failure::new(Reason::LocalFailure, domain)));
                }
            }
        }
        self.deliverer.resolve(sender, destination, choice).await
    }
}

#[async_trait]
impl Transport for LocalTransport {
    async fn resolve(
        &self,
        sender: &ReversePath,
        destination: &Host,
        choice: Choice,
    ) -> Option<Result<Box<dyn Destination>, Failure>> {
        let found = AssertUnwindSafe(self.find(sender, destination, choice)).catch_unwind().await;
        let found = found.unwrap_or_else(|_| {
            self.ctx.metrics.panics.increment();
            Some(Err(Failure::new(Reason::LocalFailure, destination.to_string())))
        })?;
        let watched = |inner| -> Box<dyn Destination> {
            Box::new(Watched::new(inner, self.ctx.clone(), self.metrics.clone()))
        };
        Some(found.map(watched))
    }
}
