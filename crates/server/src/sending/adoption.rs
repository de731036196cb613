//! Sends what lost nodes have queued: every minute it is looked for queues whose writer has fallen
//! silent. Such a queue is run like one's own until it is empty.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{AccountId, Kind, Position, Result};
use sealpost_queue::adopt::Leases;
use sealpost_queue::{Queue, status};
use tokio::time::Instant;

use super::running::RunningQueue;
use super::{Inner, opening};

/// How often leases are looked at.
const PERIOD: Duration = Duration::from_secs(60);
/// How long a queue that was empty, or could not be opened, is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(3600);
/// How long the last connections of an adopted queue may take when it is empty.
const ENDING: Duration = Duration::from_secs(60);

/// Looks for lost nodes until the server stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let (mut leases, mut looked) = (Leases::default(), HashMap::new());
    loop {
        tokio::select! {
            () = inner.ctx.shutdown.wait() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        release(&inner).await;
        match leases.expired(&inner.store, inner.node.id()).await {
            Ok(expired) => adopt_all(&inner, &expired, &mut looked).await,
            Err(error) => tracing::warn!(%error, "cannot look for queues of lost nodes"),
        }
    }
}

async fn adopt_all(inner: &Arc<Inner>, expired: &[AccountId], looked: &mut HashMap<AccountId, Instant>) {
    looked.retain(|node, _| expired.contains(node));
    for node in expired {
        let is_left_alone = looked.get(node).is_some_and(|at| at.elapsed() < LEFT_ALONE);
        if is_left_alone || adopted(inner).contains_key(node) {
            continue;
        }
        looked.insert(*node, Instant::now());
        match adopt(inner, *node).await {
            Ok(()) => {}
            // Another node was first.
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => tracing::warn!(%node, %error, "the queue of a lost node cannot be adopted"),
        }
    }
}

/// Takes over the queue of `node`, if something is in it.
async fn adopt(inner: &Arc<Inner>, node: AccountId) -> Result<()> {
    let ctx = &inner.ctx;
    let (clock, random) = (ctx.clock.clone(), ctx.random.clone());
    let state = status::look(&inner.store, node, &inner.log_key, &inner.keys, clock, random).await?;
    if state.is_empty() {
        return Ok(());
    }
    let name = &inner.node.name;
    let opening = opening(ctx, &inner.store, &inner.log_key, &inner.keys, node, name, Position::ZERO);
    let queue = Queue::open(opening).await?;
    tracing::warn!(%node, mails = state.len(), "this node sends the mail of a lost one");
    let running = RunningQueue::begin(ctx, queue, inner.transport.clone(), inner.forms.clone());
    adopted(inner).insert(node, Arc::new(running));
    Ok(())
}

/// Closes queues that are empty, and those that others have taken over.
async fn release(inner: &Arc<Inner>) {
    let is_over = |queue: &RunningQueue| queue.queue.state().is_empty() || queue.queue.stopped().is_some();
    let over: Vec<_> = {
        let mut adopted = adopted(inner);
        let over = adopted.iter().filter(|(_, queue)| is_over(queue)).map(|(node, _)| *node);
        let over: Vec<AccountId> = over.collect();
        over.into_iter().filter_map(|node| Some((node, adopted.remove(&node)?))).collect()
    };
    for (node, queue) in over {
        queue.end(Instant::now() + ENDING).await;
        tracing::info!(%node, "the queue of a lost node is empty, or is another node's now");
    }
}

fn adopted(inner: &Inner) -> std::sync::MutexGuard<'_, HashMap<AccountId, Arc<RunningQueue>>> {
    inner.adopted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
