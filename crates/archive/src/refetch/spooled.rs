//! Bodies that were fetched, for a while.

use std::sync::Arc;

use sealpost_base::limits::{BODIES_SPOOLED, BODIES_SPOOLED_BYTES};
use sealpost_vault::spool::Spooled;

/// What is there, what was used last at the end; and what has to go as soon as nobody reads it.
pub(super) struct SpooledBodies<K> {
    kept: Vec<(K, Arc<Spooled>)>,
    leaving: Vec<Arc<Spooled>>,
}

impl<K> Default for SpooledBodies<K> {
    fn default() -> Self {
        SpooledBodies { kept: Vec::new(), leaving: Vec::new() }
    }
}

impl<K: PartialEq> SpooledBodies<K> {
    /// The body, which is used by that.
    pub(super) fn find(&mut self, key: &K) -> Option<Arc<Spooled>> {
        let at = self.kept.iter().position(|(kept, _)| kept == key)?;
        let found = self.kept.remove(at);
        let spooled = found.1.clone();
        self.kept.push(found);
        Some(spooled)
    }

    /// Keeps a body; what has to be removed for it.
    pub(super) fn keep(&mut self, key: K, spooled: Arc<Spooled>) -> Vec<Spooled> {
        self.kept.push((key, spooled));
        let octets = |kept: &[(K, Arc<Spooled>)]| kept.iter().map(|(_, spooled)| spooled.size()).sum::<u64>();
        while self.kept.len() > BODIES_SPOOLED
            || (self.kept.len() > 1 && octets(&self.kept) > BODIES_SPOOLED_BYTES)
        {
            self.leaving.push(self.kept.remove(0).1);
        }
        self.unread()
    }

    /// All that nobody reads. What is being read goes with what comes next, or is swept one day.
    pub(super) fn take(&mut self) -> Vec<Spooled> {
        self.leaving.extend(self.kept.drain(..).map(|(_, spooled)| spooled));
        self.unread()
    }

    fn unread(&mut self) -> Vec<Spooled> {
        let mut out = Vec::new();
        for leaving in std::mem::take(&mut self.leaving) {
            match Arc::try_unwrap(leaving) {
                Ok(spooled) => out.push(spooled),
                Err(read) => self.leaving.push(read),
            }
        }
        out
    }
}

/// Removes them from the store.
pub(super) async fn remove(spooled: Vec<Spooled>) {
    for spooled in spooled {
        // Its key dies with this process, and what is left of it is swept one day.
        let _ = spooled.remove().await;
    }
}
