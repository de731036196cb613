//! What is in the folders of records and is no version of them, remembered for a minute, so that it
//! is not read at every read of the record. Nothing rests on it that the next look a minute later
//! would not put right; an object that takes the place of another has another time or size.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::{Clock, Timestamp, limits};
use sealpost_vault::ListedObject;

/// How long it is not read again.
const REMEMBERED: Duration = Duration::from_secs(60);
const OBJECTS: NonZeroUsize = NonZeroUsize::new(limits::RECORD_NOISE_REMEMBERED).expect("not zero");

/// Objects that were read and are no versions, and when.
pub(super) struct Noise {
    clock: Arc<dyn Clock>,
    objects: Mutex<LruCache<String, (u64, Timestamp, Duration)>>,
}

impl Noise {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Noise { clock, objects: Mutex::new(LruCache::new(OBJECTS)) }
    }

    /// Whether that object was read within the last minute, and was no version.
    pub(super) fn is_known(&self, object: &ListedObject) -> bool {
        let now = self.clock.monotonic();
        self.lock().get(&object.path).is_some_and(|(size, modified, read)| {
            (*size, *modified) == (object.size, object.modified) && now.saturating_sub(*read) <= REMEMBERED
        })
    }

    pub(super) fn note(&self, object: &ListedObject) {
        let known = (object.size, object.modified, self.clock.monotonic());
        self.lock().put(object.path.clone(), known);
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, (u64, Timestamp, Duration)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
