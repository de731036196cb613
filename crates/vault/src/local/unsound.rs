//! Whether the database was found damaged, in a way that makes writing dangerous.
//!
//! Where an index hides rows, a path that is taken seems to be free: an append would be
//! acknowledged beside the log, and a removal might meet another row. So nothing is written any
//! more from when that is known until a repair, and senders keep their mail. What can be read is
//! served.

use std::sync::{Arc, OnceLock};

use super::failure::Damaged;
use crate::StoreMetrics;

/// What was found first.
pub(super) struct Unsound {
    first: OnceLock<String>,
    metrics: Arc<StoreMetrics>,
}

impl Unsound {
    /// Nothing was found; what will be is counted there.
    pub fn new(metrics: Arc<StoreMetrics>) -> Arc<Self> {
        Arc::new(Unsound { first: OnceLock::new(), metrics })
    }

    /// Something is wrong with the database.
    pub fn found(&self, what: String) {
        self.metrics.damage.increment();
        tracing::error!(
            what,
            "the database is damaged and is now read-only; stop the server and run: sealpost store repair"
        );
        let _ = self.first.set(what);
    }

    /// Why nothing may be written.
    pub fn write_refusal(&self) -> Option<Damaged> {
        let what = self.first.get()?;
        Some(Damaged(format!("the database is damaged and read-only (run: sealpost store repair): {what}")))
    }
}
