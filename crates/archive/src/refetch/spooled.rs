//! Fetched bodies, kept for a while.

use std::sync::Arc;

use sealpost_base::limits::{BODIES_SPOOLED, BODIES_SPOOLED_BYTES};
use sealpost_vault::spool::Spooled;

/// Spooled bodies, the last used at the end; and those to remove as soon as no reader has them.
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
    /// The body, which becomes the last used.
    pub(super) fn find(&mut self, key: &K) -> Option<Arc<Spooled>> {
        let at = self.kept.iter().position(|(kept, _)| kept == key)?;
        let found = self.kept.remove(at);
        let spooled = found.1.clone();
        self.kept.push(found);
        Some(spooled)
    }

    /// Keeps a body; returns those to remove for it.
    pub(super) fn keep(&mut self, key: K, spooled: Arc<Spooled>) -> Vec<Spooled> {
        self.kept.push((key, spooled));
        let bytes = |kept: &[(K, Arc<Spooled>)]| kept.iter().map(|(_, spooled)| spooled.size()).sum::<u64>();
        while self.kept.len() > BODIES_SPOOLED
            || (self.kept.len() > 1 && bytes(&self.kept) > BODIES_SPOOLED_BYTES)
        {
            self.leaving.push(self.kept.remove(0).1);
        }
        self.unread()
    }

    /// All bodies without readers. Those being read are returned by a later call, or swept later.
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
        // Its key is lost with this process, and a leftover is swept later.
        let _ = spooled.remove().await;
    }
}
