//! Finds queues of other nodes to adopt: those whose writer has not appended anything for [`LEASE`].
//!
//! An idle writer appends `Alive` every three minutes. All times are by the store's clock. The time of
//! a queue is that of its last entry. The present time is that of the last entry of this node's own
//! queue. So no node's clock matters, and a node whose own writer has stopped adopts nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Clock, Kind, Position, Random, Result, Timestamp};
use sealpost_journal::{EntryName, Journal, Tail};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;

use crate::log::ALIVE;

/// How long a queue's log may be silent before another node takes it over.
pub const LEASE: Duration = Duration::from_secs(600);
/// Queues that one search covers.
const QUEUES: usize = 1000;

const _: () = assert!(LEASE.as_secs() >= 3 * ALIVE.as_secs());

/// The last entries of all queues in a store. Objects that are no entries do not count, wherever an attacker
/// plants them: one behind the end would otherwise hide each later entry of a queue that is alive.
pub struct Leases {
    store: Store,
    log_key: LogKey,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    watched: HashMap<AccountId, Watched>,
}

/// The log of one queue.
struct Watched {
    log: Journal,
    end: Tail,
    /// The path of the last entry.
    path: Option<String>,
    /// When it was written.
    written: Option<Timestamp>,
}

impl Leases {
    /// Those of the queues in `store`.
    pub fn new(store: Store, log_key: LogKey, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Leases { store, log_key, clock, random, watched: HashMap::new() }
    }

    /// The queues that the node whose queue is `own` should adopt. A queue whose entries are all old
    /// is returned each time until a process appends to it, even if it holds no mail.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn expired(&mut self, own: AccountId) -> Result<Vec<AccountId>> {
        let nodes = self.store.names_below("queue").await?;
        let nodes: Vec<AccountId> = nodes.iter().filter_map(|name| name.parse().ok()).take(QUEUES).collect();
        self.watched.retain(|node, _| nodes.contains(node));
        for node in &nodes {
            match self.look(*node).await {
                // One queue that cannot be read delays no other.
                Err(error) if error.kind() == Kind::Corrupt => {
                    self.watched.remove(node);
                    tracing::warn!(%node, %error, "the end of a queue's log cannot be found");
                }
                looked => looked?,
            }
        }
        let Some(now) = self.written(own) else { return Ok(Vec::new()) };
        let expired = nodes
            .into_iter()
            .filter(|node| *node != own && self.written(*node).is_some_and(|last| is_expired(last, now)));
        Ok(expired.collect())
    }

    fn written(&self, node: AccountId) -> Option<Timestamp> {
        self.watched.get(&node).and_then(|watched| watched.written)
    }

    async fn look(&mut self, node: AccountId) -> Result<()> {
        let watched = self.watched.entry(node).or_insert_with(|| {
            let log = Journal::of_queue(self.store.clone(), node, &self.log_key, self.random.clone());
            Watched { log: log.timed(self.clock.clone()), end: Tail::EMPTY, path: None, written: None }
        });
        let end = watched.log.tail(watched.end).await?;
        if end.position == watched.end.position {
            return Ok(());
        }
        let folder = format!("queue/{node}/log");
        let mut listed = self.store.list(&folder, watched.path.as_deref());
        while let Some(object) = listed.try_next().await? {
            if position_of(&object.path) == Some(end.position) {
                watched.written = watched.written.max(Some(object.modified));
                (watched.path, watched.end) = (Some(object.path), end);
                break;
            }
        }
        Ok(())
    }
}

/// The position of an entry, by its path.
fn position_of(path: &str) -> Option<Position> {
    EntryName::parse(path.rsplit('/').next()?).map(|name| name.position)
}

/// Whether the lease of a log is over: its last entry is of `last`, and the store's time is at least `now`.
fn is_expired(last: Timestamp, now: Timestamp) -> bool {
    now.since(last) > LEASE
}

#[cfg(test)]
mod tests {
    use sealpost_base::{FakeClock, SeededRandom};
    use sealpost_journal::{Append, Seal};
    use sealpost_vault::Sealed;
    use sealpost_vault::mail_key::MailKeys;

    use super::*;

    #[test]
    fn a_lease_is_ten_minutes_of_the_stores_time() {
        let at = |seconds: i64| Timestamp::from_seconds(1_700_000_000 + seconds);
        assert!(!is_expired(at(0), at(600)) && is_expired(at(0), at(601)));
        assert!(!is_expired(at(700), at(0)), "a clock that went back expires nothing");
    }

    struct Nodes {
        store: Store,
        keys: MailKeys,
        random: Arc<SeededRandom>,
    }

    impl Nodes {
        fn new() -> Self {
            let random = Arc::new(SeededRandom::new(3));
            Nodes { store: Store::memory(), keys: MailKeys::generate(&*random), random }
        }

        /// Appends an entry to the log of a node.
        async fn append(&self, node: AccountId) {
            let (log_key, random) = (LogKey::for_tests(), self.random.clone());
            let log = Journal::of_queue(self.store.clone(), node, &log_key, random);
            let tail = log.tail(Tail::EMPTY).await.unwrap();
            let appended = log.append(&tail, Seal::Owner(&self.keys.queue(node)), b"alive").await.unwrap();
            assert!(matches!(appended, Append::Done(_)));
        }

        async fn plant(&self, node: AccountId, position: u64) {
            let path = format!("queue/{node}/log/{position:016x}");
            self.store.put_new(&path, Sealed::marker()).await.unwrap();
        }

        fn leases(&self) -> Leases {
            let clock = Arc::new(FakeClock::new(Timestamp(0)));
            Leases::new(self.store.clone(), LogKey::for_tests(), clock, self.random.clone())
        }
    }

    /// As if the last entry were as old.
    fn age(leases: &mut Leases, node: AccountId) {
        let written = &mut leases.watched.get_mut(&node).unwrap().written;
        *written = written.map(|at| Timestamp(at.0 - 700_000));
    }

    #[tokio::test]
    async fn only_queues_of_others_with_old_entries_are_named() {
        let nodes = Nodes::new();
        let (own, other) = (crate::node_id("a"), crate::node_id("b"));
        let mut leases = nodes.leases();
        for node in [own, other] {
            nodes.append(node).await;
        }
        assert!(leases.expired(own).await.unwrap().is_empty());
        age(&mut leases, other);
        assert_eq!(leases.expired(own).await.unwrap(), [other]);
        assert!(leases.expired(crate::node_id("c")).await.unwrap().is_empty(), "no entry, no time");
        nodes.append(other).await;
        assert!(leases.expired(own).await.unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn planted_objects_neither_extend_nor_end_a_lease() {
        let nodes = Nodes::new();
        let (own, other, planted) = (crate::node_id("a"), crate::node_id("b"), crate::node_id("p"));
        let mut leases = nodes.leases();
        for node in [own, other] {
            nodes.append(node).await;
            nodes.plant(node, u64::MAX).await;
            nodes.plant(node, 7).await;
        }
        nodes.plant(planted, 1).await;
        assert!(leases.expired(own).await.unwrap().is_empty());
        age(&mut leases, other);
        assert_eq!(leases.expired(own).await.unwrap(), [other], "what is behind its end is no sign of life");
        nodes.append(other).await;
        assert!(leases.expired(own).await.unwrap().is_empty(), "nor does it hide one");
        let noisy = crate::node_id("n");
        for position in 1..100 {
            nodes.plant(noisy, position).await;
        }
        age(&mut leases, other);
        assert_eq!(leases.expired(own).await.unwrap(), [other], "one noisy folder delays no other");
    }
}
