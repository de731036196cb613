//! Totals of a local store, and its metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::StoreMetrics;

#[derive(Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) file_syncs: AtomicU64,
    pub(super) objects: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) metrics: Arc<StoreMetrics>,
}
