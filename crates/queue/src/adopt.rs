//! Finds queues of other nodes to adopt: those whose writer has not appended anything for [`LEASE`].
//!
//! An idle writer appends `Alive` every three minutes. All times are by the store's clock. The time of
//! a queue is that of its last entry. The present time is that of the last entry of this node's own
//! queue. So no node's clock matters, and a node whose own writer has stopped adopts nothing.

use std::collections::HashMap;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Result, Timestamp};
use sealpost_vault::Store;

use crate::log::ALIVE;

/// How long a queue's log may be silent before another node takes it over.
pub const LEASE: Duration = Duration::from_secs(600);
/// Queues that one search covers.
const QUEUES: usize = 1000;

const _: () = assert!(LEASE.as_secs() >= 3 * ALIVE.as_secs());

/// The last entries of all queues in a store.
#[derive(Default)]
pub struct Leases {
    /// The path of the last entry of each queue, and when it was written.
    last: HashMap<AccountId, (String, Timestamp)>,
}

impl Leases {
    /// The queues that the node whose queue is `own` should adopt. A queue whose entries are all old
    /// is returned each time until a process appends to it, even if it holds no mail.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn expired(&mut self, store: &Store, own: AccountId) -> Result<Vec<AccountId>> {
        let nodes = store.names_below("queue").await?;
        let nodes: Vec<AccountId> = nodes.iter().filter_map(|name| name.parse().ok()).take(QUEUES).collect();
        self.last.retain(|node, _| nodes.contains(node));
        for node in &nodes {
            self.look(store, *node).await?;
        }
        let Some(now) = self.written(own) else { return Ok(Vec::new()) };
        let expired = nodes
            .into_iter()
            .filter(|node| *node != own && self.written(*node).is_some_and(|last| is_expired(last, now)));
        Ok(expired.collect())
    }

    fn written(&self, node: AccountId) -> Option<Timestamp> {
        self.last.get(&node).map(|(_, at)| *at)
    }

    async fn look(&mut self, store: &Store, node: AccountId) -> Result<()> {
        let folder = format!("queue/{node}/log");
        let known = self.last.get(&node).map(|(path, _)| path.clone());
        let mut listed = store.list(&folder, known.as_deref());
        while let Some(object) = listed.try_next().await? {
            let (path, at) = self.last.entry(node).or_default();
            *at = object.modified.max(*at);
            *path = object.path.max(std::mem::take(path));
        }
        Ok(())
    }
}

/// Whether the lease of a log is over: its last entry is of `last`, and the store's time is at least `now`.
fn is_expired(last: Timestamp, now: Timestamp) -> bool {
    now.since(last) > LEASE
}

#[cfg(test)]
mod tests {
    use sealpost_vault::Sealed;

    use super::*;

    #[test]
    fn a_lease_is_ten_minutes_of_the_stores_time() {
        let at = |seconds: i64| Timestamp::from_seconds(1_700_000_000 + seconds);
        assert!(!is_expired(at(0), at(600)) && is_expired(at(0), at(601)));
        assert!(!is_expired(at(700), at(0)), "a clock that went back expires nothing");
    }

    #[tokio::test]
    async fn only_queues_of_others_with_old_entries_are_named() {
        let store = Store::memory();
        let (own, other) = (crate::node_id("a"), crate::node_id("b"));
        let mut leases = Leases::default();
        for node in [own, other] {
            let path = format!("queue/{node}/log/{:016x}", 1);
            store.put_new(&path, Sealed::marker()).await.unwrap();
        }
        assert!(leases.expired(&store, own).await.unwrap().is_empty());
        let (_, at) = leases.last.get_mut(&other).unwrap();
        *at = Timestamp(at.0 - 700_000);
        assert_eq!(leases.expired(&store, own).await.unwrap(), [other]);
        assert!(leases.expired(&store, crate::node_id("c")).await.unwrap().is_empty(), "no entry, no time");
        store.put_new(&format!("queue/{other}/log/{:016x}", 2), Sealed::marker()).await.unwrap();
        assert!(leases.expired(&store, own).await.unwrap().is_empty());
    }
}
