//! Sends what lost nodes have queued: every minute it is looked for queues whose writer has fallen
//! silent. Such a queue is run like one's own until it is empty.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{AccountId, Error, Kind, Position, Result};
use sealpost_queue::adopt::Leases;
use sealpost_queue::{Queue, Stopped, status};
use tokio::time::Instant;

use super::running::RunningQueue;
use super::{Inner, opening, upkeep};

/// How often leases are looked at.
const PERIOD: Duration = Duration::from_secs(60);
/// How long a queue that was empty, or could not be opened, is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(3600);
/// How long the last connections of an adopted queue may take when it is empty.
const ENDING: Duration = Duration::from_secs(60);

/// Looks for lost nodes until the server stops.
pub(super) async fn run(inner: Arc<Inner>) {
    let (clock, random) = (inner.ctx.clock.clone(), inner.ctx.random.clone());
    let mut leases = Leases::new(inner.store.clone(), inner.log_key.clone(), clock, random);
    let mut looked = HashMap::new();
    loop {
        tokio::select! {
            () = inner.ctx.shutdown.wait() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        take_back(&inner).await;
        release(&inner).await;
        match leases.expired(inner.node.id()).await {
            Ok(expired) => adopt_all(&inner, &expired, &mut looked).await,
            Err(error) => tracing::warn!(%error, "cannot look for queues of lost nodes"),
        }
    }
}

async fn adopt_all(inner: &Arc<Inner>, expired: &[AccountId], looked: &mut HashMap<AccountId, Instant>) {
    looked.retain(|node, _| expired.contains(node));
    for node in expired {
        let is_left_alone = looked.get(node).is_some_and(|at| at.elapsed() < LEFT_ALONE);
        if is_left_alone || inner.adopted().contains_key(node) {
            continue;
        }
        if looked.insert(*node, Instant::now()).is_none() {
            inner.lost.notify_one();
        }
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
    let (taken, most) = (inner.depth().heap_bytes, upkeep::most_bytes(ctx));
    if taken + state.heap_bytes() > most {
        let why = format!("its {} mails do not fit into the memory for queues ({most} bytes)", state.len());
        return Err(Error::limit(why));
    }
    let name = &inner.node.name;
    let opening = opening(ctx, &inner.store, &inner.log_key, &inner.keys, node, name, Position::ZERO);
    let queue = Queue::open(opening).await?;
    tracing::warn!(%node, mails = state.len(), "this node sends the mail of a lost one");
    let running = RunningQueue::begin(queue, inner.queue_sending.clone());
    inner.adopted().insert(node, Arc::new(running));
    Ok(())
}

/// Takes the queue of this node back from one that had adopted it while this one was silent. That one
/// finds out at its next append, and lets go of it.
async fn take_back(inner: &Inner) {
    let Some(Stopped::Adopted(node)) = inner.own.queue.stopped() else { return };
    if !inner.takes_back(&node) {
        return;
    }
    match inner.own.take_back(&inner.node.name).await {
        Ok(()) => tracing::warn!(node, "this node has taken its queue back from another one"),
        Err(error) => tracing::warn!(node, %error, "cannot take the queue of this node back yet"),
    }
}

/// Closes queues that are empty, and those that others have taken over.
async fn release(inner: &Arc<Inner>) {
    let is_over = |queue: &RunningQueue| queue.queue.state().is_empty() || queue.queue.stopped().is_some();
    let over: Vec<_> = {
        let mut adopted = inner.adopted();
        let over = adopted.iter().filter(|(_, queue)| is_over(queue)).map(|(node, _)| *node);
        let over: Vec<AccountId> = over.collect();
        over.into_iter().filter_map(|node| Some((node, adopted.remove(&node)?))).collect()
    };
    for (node, queue) in over {
        queue.end(Instant::now() + ENDING).await;
        tracing::info!(%node, "the queue of a lost node is empty, or is another node's now");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls::RootCertStore;
    use sealpost_base::{FakeClock, MemoryDivision, SeededRandom, Timestamp};
    use sealpost_delivery::dial::TcpDialer;
    use sealpost_delivery::tls::TlsClient;
    use sealpost_directory::{AccountName, NewAccount, Secret};
    use sealpost_dns::scripted::ScriptedResolver;
    use sealpost_queue::envelope::{Body, Facts, Mail, Recipient, Source, TlsDemand};
    use sealpost_session::{Context, Settings};
    use sealpost_vault::Store;
    use sealpost_vault::server_key::ServerKeys;

    use super::*;
    use crate::sending::{Depth, KEY_FILE, Network, Sending};

    async fn node(store: &Store, clock: &Arc<FakeClock>, data: &Path) -> Sending {
        node_with(store, clock, data, Settings::default().memory).await
    }

    async fn node_with(
        store: &Store,
        clock: &Arc<FakeClock>,
        data: &Path,
        memory: MemoryDivision,
    ) -> Sending {
        let (data, random) =
            (Some(data.to_owned()), Arc::new(SeededRandom::new(data.as_os_str().len() as u64)));
        let domain = Some("localhost".to_owned());
        let settings = Settings { domain, data, memory, ..Settings::default() };
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
            submission: None,
            report_on: None,
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
        assert_eq!((other.adopted(), other.depth().mails), (1, 1));
        assert!(other.depth().heap_bytes > other.queue().state().heap_bytes());
        // The lost node finds out at its next append.
        assert!(lost.queue().accept(later(&clock)).await.is_err());
        let problem = lost.problem().unwrap();
        assert!(problem.contains(&other.0.node.name), "{problem}");
        let jmap = std::sync::Arc::new(crate::http::jmap::Jmap::new(lost.0.ctx.clone(), None, None));
        let router = crate::http::router(lost.0.ctx.clone(), Some(lost.clone()), &jmap);
        let health = crate::http::tests::get(router, &lost.0.ctx, "GET /healthz").await;
        assert!(health.starts_with("HTTP/1.1 503 ") && health.ends_with(&format!("{problem}\n")), "{health}");
        release(&other.0).await;
        assert_eq!(other.adopted(), 1, "its mail waits for its time");
        clock.advance(Duration::from_secs(7200));
        let queue = other.0.adopted()[&of_lost].clone();
        let mut changes = queue.queue.changes();
        let empty = changes.wait_for(|_| queue.queue.state().is_empty());
        tokio::time::timeout(Duration::from_secs(30), empty).await.expect("it is sent").unwrap();
        assert_eq!(other.metrics().local.read(), 1);
        release(&other.0).await;
        assert_eq!((other.adopted(), other.depth()), (0, Depth::default()));
        // What was counted of it stays.
        assert_eq!(other.runner_metrics().delivered.read(), 1);
        for sending in [lost, other] {
            sending.stop(Instant::now() + Duration::from_secs(10)).await;
        }
    }

    #[tokio::test]
    async fn a_node_that_comes_back_takes_its_queue_back() {
        let dir = tempfile::tempdir().unwrap();
        let data = ["lost", "another"].map(|name| dir.path().join(name));
        data.iter().for_each(|data| std::fs::create_dir(data).unwrap());
        let (store, clock) = (Store::memory(), Arc::new(FakeClock::new(Timestamp(1_700_000_000_000))));
        let back = node(&store, &clock, &data[0]).await;
        std::fs::copy(data[0].join(KEY_FILE), data[1].join(KEY_FILE)).unwrap();
        let other = node(&store, &clock, &data[1]).await;
        let name = AccountName::parse("jane@localhost").unwrap();
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        other.0.ctx.directory.create(&name, new).await.unwrap();
        back.queue().accept(later(&clock)).await.unwrap();
        take_back(&back.0).await;
        assert!(back.problem().is_none(), "nothing to take back");
        for _ in 0..2 {
            adopt(&other.0, back.0.node.id()).await.unwrap();
            assert!(back.queue().accept(later(&clock)).await.is_err());
            assert!(back.problem().unwrap().contains("within a minute"));
            take_back(&back.0).await;
            assert_eq!(back.problem(), None);
            let mails = back.depth().mails;
            back.outbox().queue().accept(later(&clock)).await.unwrap();
            assert_eq!(back.depth().mails, mails + 1, "what clients submit goes into it again");
            // The other node finds out at its next append, and lets go.
            let adopted = other.0.adopted()[&back.0.node.id()].clone();
            assert!(adopted.queue.accept(later(&clock)).await.is_err());
            release(&other.0).await;
            assert_eq!(other.adopted(), 0);
        }
        clock.advance(Duration::from_secs(7200));
        let mut changes = back.queue().changes();
        let empty = changes.wait_for(|_| back.queue().state().is_empty());
        tokio::time::timeout(Duration::from_secs(30), empty).await.expect("it is sent").unwrap();
        assert_eq!((back.metrics().local.read(), other.metrics().local.read()), (3, 0));
        for sending in [back, other] {
            sending.stop(Instant::now() + Duration::from_secs(10)).await;
        }
    }

    #[tokio::test]
    async fn a_queue_too_large_for_the_memory_is_not_adopted() {
        let dir = tempfile::tempdir().unwrap();
        let data = ["lost", "another"].map(|name| dir.path().join(name));
        data.iter().for_each(|data| std::fs::create_dir(data).unwrap());
        let (store, clock) = (Store::memory(), Arc::new(FakeClock::new(Timestamp(1_700_000_000_000))));
        let lost = node(&store, &clock, &data[0]).await;
        std::fs::copy(data[0].join(KEY_FILE), data[1].join(KEY_FILE)).unwrap();
        let mut memory = Settings::default().memory;
        memory.accounts = 1;
        let small = node_with(&store, &clock, &data[1], memory).await;
        lost.queue().accept(later(&clock)).await.unwrap();
        let refused = adopt(&small.0, lost.0.node.id()).await;
        assert!(refused.is_err_and(|e| e.kind() == Kind::Limit));
        assert!(lost.problem().is_none());
        for sending in [lost, small] {
            sending.stop(Instant::now() + Duration::from_secs(10)).await;
        }
    }
}
