//! Evicting bodies: the request, and how many bodies there are.

use super::FolderName;

/// The request to [`Backup::evict_bodies`](super::Backup::evict_bodies).
pub struct EvictBodies<'a> {
    /// Folders that are in step with the server, which were found unchanged there.
    pub in_step: &'a [FolderName],
    /// Report what would be done, and change nothing.
    pub dry_run: bool,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Called with how many bodies were evicted, and their bytes on disk.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Default for EvictBodies<'_> {
    fn default() -> Self {
        EvictBodies { in_step: &[], dry_run: false, stop: &|| false, progress: &|_, _| {} }
    }
}

/// Bodies of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BodyCounts {
    /// Messages with their bodies.
    pub kept: u64,
    /// Bytes on disk of bodies, also of recently deleted messages.
    pub kept_bytes: u64,
    /// Messages with evicted bodies.
    pub without: u64,
    /// Bytes on disk that these bodies took.
    pub without_bytes: u64,
    /// The limit in bytes, if there is one.
    pub limit: Option<u64>,
    /// Bodies that were just evicted, or would be.
    pub now: u64,
    /// Their bytes on disk.
    pub now_bytes: u64,
    /// Messages that were to be evicted and are damaged: they stay.
    pub damaged: Vec<String>,
}
