//! What is looked at every second: the memory that the queue takes. And every fifteen: what is to be
//! written into the data directory.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::Position;
use sealpost_queue::Queue;
use sealpost_session::Context;

use super::{Depth, Inner};
use crate::blocking::blocking;

/// How often the memory is measured.
const PERIOD: Duration = Duration::from_secs(1);
/// Every so many periods files are written.
const FILES: u64 = 15;

/// What queued mail may take of the memory for accounts.
const SHARE: usize = 2;

/// Measures and writes, until the server stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let most = most_bytes(&inner.ctx);
    let reservation = inner.ctx.accounts.try_reserve(0);
    let mut was_full = false;
    for period in 1u64.. {
        let Depth { heap_bytes: bytes, mails, .. } = inner.depth();
        if let Some(reservation) = &reservation {
            reservation.set(inner.queues().iter().map(Queue::memory).sum());
        }
        let is_full = bytes > most;
        inner.own.queue.set_full(is_full);
        if is_full && !was_full {
            tracing::error!(mails, bytes, "the queue takes no more mail: its memory is full (`memory`)");
        }
        was_full = is_full;
        if period.is_multiple_of(FILES) {
            save(&inner).await;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// What the rows of queued mail may take, those of adopted queues included.
pub(super) fn most_bytes(ctx: &Context) -> usize {
    ctx.settings.memory.accounts / SHARE
}

/// Writes how far the queue is known, the policies, and TLS sessions.
pub(super) async fn save(inner: &Arc<Inner>) {
    inner.policies.save().await;
    inner.tls_sessions.save().await;
    // A queue that another process has taken over continues without this one.
    let position: Position = inner.own.queue.state().position();
    let noted = inner.clone();
    if let Err(error) = blocking(move || noted.node.save(position)).await {
        tracing::warn!(%error, "cannot write how far this node knows its queue");
    }
}
