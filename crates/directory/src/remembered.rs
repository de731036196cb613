//! Records of a store behind a network, remembered for a few seconds: for deliveries, each of which
//! would else ask for the records of its recipients.
//!
//! A remembered record may be out of date by [`AGE`], after a change by any process; this process forgets
//! those that it changes itself. The *absence* of a record is never remembered, so that no request
//! is refused because of an earlier state, and outsiders who guess addresses fill nothing. Decision
//! 27.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::{Clock, limits};

use super::versions::Newest;

/// How old what is remembered may be.
pub(super) const AGE: Duration = Duration::from_secs(10);
const RECORDS: NonZeroUsize = NonZeroUsize::new(limits::RECORDS_REMEMBERED).expect("not zero");

/// The newest versions of records that were read lately, and when it was begun to read them.
pub(super) struct Remembered {
    clock: Arc<dyn Clock>,
    records: Mutex<LruCache<String, (Newest, Duration)>>,
}

impl Remembered {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Remembered { clock, records: Mutex::new(LruCache::new(RECORDS)) }
    }

    /// The time at which a read begins.
    pub(super) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// What is remembered of the record, if that is young enough.
    pub(super) fn find(&self, directory: &str) -> Option<Newest> {
        let mut records = self.lock();
        let (newest, asked) = records.get(directory)?;
        if self.now().saturating_sub(*asked) <= AGE {
            return Some(newest.clone());
        }
        records.pop(directory);
        None
    }

    /// Remembers a record; `asked`: when its read began. Large records are not remembered.
    pub(super) fn keep(&self, directory: &str, newest: &Newest, asked: Duration) {
        if newest.bytes.len() + directory.len() <= limits::RECORD_REMEMBERED_BYTES {
            self.lock().put(directory.to_owned(), (newest.clone(), asked));
        }
    }

    pub(super) fn forget(&self, directory: &str) {
        self.lock().pop(directory);
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, (Newest, Duration)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_base::{FakeClock, Timestamp};

    #[test]
    fn the_record_cache_is_bounded_in_age_size_and_number() {
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let remembered = Remembered::new(clock.clone());
        let key = sealpost_vault::server_key::KeyId([0; 4]);
        let newest = |version, bytes| Newest { version, bytes: vec![0; bytes], key };
        remembered.keep("a", &newest(7, 10), remembered.now());
        clock.advance(AGE);
        assert_eq!(remembered.find("a").unwrap().version, 7);
        clock.advance(Duration::from_millis(1));
        assert!(remembered.find("a").is_none());
        // Its age counts from when it was begun to read it.
        remembered.keep("a", &newest(8, 10), Duration::ZERO);
        assert!(remembered.find("a").is_none());
        remembered.keep("large", &newest(1, limits::RECORD_REMEMBERED_BYTES), remembered.now());
        assert!(remembered.find("large").is_none());
        for n in 0..2 * limits::RECORDS_REMEMBERED {
            remembered.keep(&n.to_string(), &newest(1, 10), remembered.now());
        }
        assert_eq!(remembered.lock().len(), limits::RECORDS_REMEMBERED);
    }
}
