//! Objects beside the notes that no mail key of this node opens: planted, or damaged. Each is reported
//! once an hour, and not read again for a minute.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lru::LruCache;
use sealpost_base::{Clock, Error, Timestamp, limits};
use sealpost_vault::ListedObject;

use crate::pusher::lock;

/// How long it is not read again.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How often the same object is reported.
const REPORTED: Duration = Duration::from_secs(3600);
const OBJECTS: NonZeroUsize = NonZeroUsize::new(limits::RECORD_NOISE_REMEMBERED).expect("not zero");

/// Objects that were read and are no notes.
pub(crate) struct Noise {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

struct Table {
    objects: LruCache<String, Known>,
    /// Reports within the hour that began then.
    reports: (Duration, usize),
}

struct Known {
    size: u64,
    modified: Timestamp,
    read: Duration,
    reported: Duration,
}

impl Known {
    /// An object that takes the place of another has another time or size.
    fn is(&self, object: &ListedObject) -> bool {
        (self.size, self.modified) == (object.size, object.modified)
    }
}

impl Noise {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let reports = (clock.monotonic(), 0);
        Noise { clock, table: Mutex::new(Table { objects: LruCache::new(OBJECTS), reports }) }
    }

    /// Whether that object was read within the last minute, and did not open.
    pub(crate) fn is_known(&self, object: &ListedObject) -> bool {
        let now = self.clock.monotonic();
        let mut table = lock(&self.table);
        let known = table.objects.get(&object.path).filter(|known| known.is(object));
        known.is_some_and(|known| now.saturating_sub(known.read) <= REMEMBERED)
    }

    /// That object does not open; whether this was reported now.
    pub(crate) fn note(&self, object: &ListedObject, error: &Error) -> bool {
        let now = self.clock.monotonic();
        let mut table = lock(&self.table);
        let known = table.objects.get(&object.path).filter(|known| known.is(object));
        let before = known.map(|known| known.reported).filter(|at| now.saturating_sub(*at) < REPORTED);
        let is_reported = before.is_none() && table.may_report(now);
        let reported = before.unwrap_or(now);
        let (size, modified) = (object.size, object.modified);
        table.objects.put(object.path.clone(), Known { size, modified, read: now, reported });
        if is_reported {
            tracing::error!(
                path = object.path,
                %error,
                "these are no push subscriptions: they were planted, or are damaged; passed over, and \"sealpost \
                 check\" names them"
            );
        }
        is_reported
    }
}

impl Table {
    fn may_report(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.reports.0) >= REPORTED {
            self.reports = (now, 0);
        }
        self.reports.1 += 1;
        self.reports.1 <= limits::LOGGED_ERRORS
    }
}
