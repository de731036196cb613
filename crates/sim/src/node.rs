//! A node: accounts of its own over the shared bucket, a clock of its own, and a gate that holds it still.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealpost_account::{Account, Accounts, Options};
use sealpost_base::{AccountId, Clock, Random, Result, Timestamp};
use sealpost_index::Indexer;
use sealpost_vault::entry::LogKey;
use sealpost_vault::{Backend, RootKey, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bucket::{Bucket, EPOCH_SECONDS, Hole};

/// Whether a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Goes,
    Stands,
    Dead,
}

/// Between a node and the rest of the world. Cloning shares it.
///
/// Not a `watch` channel: that one wakes its receivers in an order of its own, and histories would
/// not repeat.
#[derive(Clone)]
pub struct Gate(Arc<(Mutex<Going>, Notify)>);

/// How a node goes, and how long it has stood.
struct Going {
    pace: NodeState,
    since: Instant,
    stood: Duration,
}

impl Gate {
    fn new() -> Self {
        let going = Going { pace: NodeState::Goes, since: Instant::now(), stood: Duration::ZERO };
        Gate(Arc::new((Mutex::new(going), Notify::new())))
    }

    /// How long the node has stood still.
    fn stood(&self) -> Duration {
        let now = self.lock();
        let now_standing = if now.pace == NodeState::Stands { now.since.elapsed() } else { Duration::ZERO };
        now.stood + now_standing
    }

    /// Completes when the node runs; never once it is dead.
    pub async fn pass(&self) {
        self.becomes(NodeState::Goes).await;
    }

    /// Ends when the node dies.
    pub async fn died(&self) {
        self.becomes(NodeState::Dead).await;
    }

    async fn becomes(&self, wanted: NodeState) {
        loop {
            let mut changed = pin!(self.0.1.notified());
            changed.as_mut().enable();
            if self.lock().pace == wanted {
                return;
            }
            changed.await;
        }
    }

    fn set(&self, pace: NodeState) {
        let mut now = self.lock();
        if now.pace == NodeState::Stands {
            let stood = now.since.elapsed();
            now.stood += stood;
        }
        if now.pace != NodeState::Dead {
            (now.pace, now.since) = (pace, Instant::now());
        }
        drop(now);
        self.0.1.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Going> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that is wrong by the same amount all the time, and whose monotonic time stands while its
/// node does, as that of a suspended machine.
struct Skewed {
    began: Instant,
    seconds: i64,
    gate: Gate,
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let store = Timestamp::from_seconds(EPOCH_SECONDS as i64 + self.seconds);
        store.after(self.began.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.gate.stood())
    }
}

/// One node. Cloning gives another handle on it.
#[derive(Clone)]
pub struct Node {
    /// Its accounts.
    pub accounts: Accounts,
    /// Its store.
    pub store: Store,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Pauses it.
    pub gate: Gate,
    /// The objects of the store that it does not see.
    pub hole: Hole,
}

impl Node {
    /// A node over `bucket` whose clock is wrong by so many seconds.
    pub fn start(
        bucket: &Bucket,
        backend: Backend,
        key: LogKey,
        began: Instant,
        skew: i64,
        random: Arc<dyn Random>,
    ) -> Self {
        let (gate, hole) = (Gate::new(), Hole::default());
        let store = Store::with(Arc::new(bucket.seen_by(gate.clone(), hole.clone())), backend);
        let clock: Arc<dyn Clock> = Arc::new(Skewed { began, seconds: skew, gate: gate.clone() });
        let options = Options::default();
        let derived = Some(Indexer::new(&options.memory) as _);
        let options = Options { derived, ..options };
        let accounts = Accounts::with(store.clone(), key, clock.clone(), random, options);
        Node { accounts, store, clock, gate, hole }
    }

    /// The account, as this node sees it.
    ///
    /// # Errors
    /// As [`Accounts::open`].
    pub async fn open(&self, id: AccountId, root: &RootKey) -> Result<Arc<Account>> {
        self.accounts.open(id, root).await
    }

    /// Stops all of its tasks until [`Node::resume`].
    pub fn pause(&self) {
        self.gate.set(NodeState::Stands);
    }

    /// It continues, without noticing the pause.
    pub fn resume(&self) {
        self.gate.set(NodeState::Goes);
    }

    /// Stops all of its tasks for ever. Requests that it had sent continue.
    pub fn kill(&self) {
        self.gate.set(NodeState::Dead);
    }
}
