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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls::RootCertStore;
    use sealpost_base::{FakeClock, SeededRandom, Timestamp};
    use sealpost_delivery::dial::TcpDialer;
    use sealpost_delivery::tls::TlsClient;
    use sealpost_directory::{AccountName, NewAccount, Secret};
    use sealpost_dns::scripted::ScriptedResolver;
    use sealpost_queue::envelope::{Body, Facts, Mail, Recipient, Source, TlsDemand};
    use sealpost_session::{Context, Settings};
    use sealpost_vault::Store;
    use sealpost_vault::server_key::ServerKeys;

    use super::*;
    use crate::sending::{KEY_FILE, Network, Sending};

    async fn node(store: &Store, clock: &Arc<FakeClock>, data: &Path) -> Sending {
        let (data, random) =
            (Some(data.to_owned()), Arc::new(SeededRandom::new(data.as_os_str().len() as u64)));
        let settings = Settings { domain: Some("localhost".to_owned()), data, ..Settings::default() };
        let key = ServerKeys::generate(&SeededRandom::new(1));
        let ctx = Context::new(settings, store.clone(), key.clone(), None, clock.clone(), random).unwrap();
        let network = Network {
            resolver: Arc::new(ScriptedResolver::new()),
            dialer: Arc::new(TcpDialer),
            tls: TlsClient::new(RootCertStore::empty()).unwrap(),
        };
        Sending::start_on(Arc::new(ctx), &key, network).await.unwrap()
    }

    fn later(clock: &FakeClock) -> Mail {
        let now = sealpost_base::Clock::now(clock);
        Mail {
            accepted: now,
            account: None,
            from: String::new(),
            recipients: vec![Recipient::new("jane@localhost")],
            ret: None,
            envid: None,
            facts: Facts::default(),
            tls: TlsDemand::Policy,
            release: Some(now.after(Duration::from_secs(3600))),
            header: Vec::new(),
            body: Body::Inline(b"Subject: x\r\n\r\n".to_vec()),
            message_id: None,
            source: Source::Submission,
        }
    }

    #[tokio::test]
    async fn a_lost_nodes_mail_is_sent_and_its_queue_released() {
        let dir = tempfile::tempdir().unwrap();
        let data = ["lost", "another"].map(|name| dir.path().join(name));
        data.iter().for_each(|data| std::fs::create_dir(data).unwrap());
        let (store, clock) = (Store::memory(), Arc::new(FakeClock::new(Timestamp(1_700_000_000_000))));
        let lost = node(&store, &clock, &data[0]).await;
        std::fs::copy(data[0].join(KEY_FILE), data[1].join(KEY_FILE)).unwrap();
        let other = node(&store, &clock, &data[1]).await;
        let name = AccountName::parse("jane@localhost").unwrap();
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        other.0.ctx.directory.create(&name, new).await.unwrap();
        let of_lost = lost.0.node.id();
        adopt(&other.0, of_lost).await.unwrap();
        assert_eq!(other.adopted(), 0, "nothing is in it");
        lost.queue().accept(later(&clock)).await.unwrap();
        adopt(&other.0, of_lost).await.unwrap();
        assert_eq!(other.adopted(), 1);
        // The lost node finds out at its next append.
        assert!(lost.queue().accept(later(&clock)).await.is_err());
        let problem = lost.problem().unwrap();
        assert!(problem.contains(&other.0.node.name), "{problem}");
        let jmap = std::sync::Arc::new(crate::http::jmap::Jmap::new(lost.0.ctx.clone()));
        let router = crate::http::router(lost.0.ctx.clone(), Some(lost.clone()), &jmap);
        let health = crate::http::tests::get(router, &lost.0.ctx, "GET /healthz").await;
        assert!(health.starts_with("HTTP/1.1 503 ") && health.ends_with(&format!("{problem}\n")), "{health}");
        release(&other.0).await;
        assert_eq!(other.adopted(), 1, "its mail waits for its time");
        clock.advance(Duration::from_secs(7200));
        let queue = adopted(&other.0)[&of_lost].clone();
        let mut changes = queue.queue.changes();
        let empty = changes.wait_for(|_| queue.queue.state().is_empty());
        tokio::time::timeout(Duration::from_secs(30), empty).await.expect("it is sent").unwrap();
        assert_eq!(other.metrics().local.read(), 1);
        release(&other.0).await;
        assert_eq!(other.adopted(), 0);
        for sending in [lost, other] {
            sending.stop(Instant::now() + Duration::from_secs(10)).await;
        }
    }
}
