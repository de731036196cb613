//! Structures of messages that were read lately, shared by all accounts, bounded in bytes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use sealpost_base::ObjectId;
use sealpost_mime::Structure;

/// A decoded structure takes about this many times its encoded size.
const DECODED_FACTOR: usize = 4;

pub(crate) struct StructureCache {
    capacity: usize,
    entries: Mutex<Entries>,
}

struct Entries {
    lru: LruCache<ObjectId, (Arc<Structure>, usize)>,
    bytes: usize,
}

impl StructureCache {
    /// A cache of about `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let entries = Entries { lru: LruCache::unbounded(), bytes: 0 };
        StructureCache { capacity, entries: Mutex::new(entries) }
    }

    pub(crate) fn get(&self, object: ObjectId) -> Option<Arc<Structure>> {
        self.lock().lru.get(&object).map(|(structure, _)| structure.clone())
    }

    pub(crate) fn put(&self, object: ObjectId, structure: Arc<Structure>, encoded: usize) {
        let bytes = encoded * DECODED_FACTOR + 256;
        if bytes > self.capacity {
            return;
        }
        let mut entries = self.lock();
        if let Some((_, old)) = entries.lru.put(object, (structure, bytes)) {
            entries.bytes -= old;
        }
        entries.bytes += bytes;
        while entries.bytes > self.capacity {
            let Some((_, (_, oldest))) = entries.lru.pop_lru() else { break };
            entries.bytes -= oldest;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
