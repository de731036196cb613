//! Checks, repairs and the disk of a local store; other backends need none of it.

use std::time::Duration;

use sealpost_base::{Error, Result};

use super::{Extent, Inspection, Repaired, Store, error};
use crate::local::LocalStore;

impl Store {
    /// Returns space of removed objects inside the database file to the disk, if there is enough to
    /// be worth it.
    ///
    /// # Errors
    /// Errors of the store; it is unchanged then.
    pub async fn shrink(&self) -> Result<()> {
        match &self.0.local {
            Some(local) => local.shrink().await.map_err(|e| error("the database", e)),
            None => Ok(()),
        }
    }

    /// Checks the local store's database for damage, for at most `time`. An empty inspection for
    /// other backends.
    ///
    /// # Errors
    /// Errors of the store if the check is not possible.
    pub async fn inspect(&self, extent: Extent, time: Duration) -> Result<Inspection> {
        match &self.0.local {
            Some(local) => local.inspect(extent, time).await.map_err(|e| error("the database", e)),
            None => Ok(Inspection::default()),
        }
    }

    /// Files of the local store that held removed account records: a process was killed before it
    /// erased them. Paths below the store's directory; none for other backends.
    ///
    /// # Errors
    /// Errors of the store if the files cannot be listed.
    pub async fn left_slots(&self) -> Result<Vec<String>> {
        match &self.0.local {
            Some(local) => local.left_slots().await.map_err(|e| error("files of account records", e)),
            None => Ok(Vec::new()),
        }
    }

    /// Erases the files of [`Store::left_slots`], and returns their number.
    ///
    /// # Errors
    /// As [`Store::left_slots`]; if the database is damaged nothing is erased.
    pub async fn erase_left_slots(&self) -> Result<usize> {
        match &self.0.local {
            Some(local) => local.erase_left_slots().await.map_err(|e| error("files of account records", e)),
            None => Ok(0),
        }
    }

    /// Refuses all writes from now on if `found` has damage: a damaged index may hide rows, and a write
    /// could create an object a second time.
    pub fn write_only_if_sound(&self, found: &Inspection) {
        if let Some(local) = &self.0.local {
            local.write_only_if_sound(found);
        }
    }

    /// Repairs the database of the local store in `dir`, which no process has open.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Conflict` if a process has it open; `Corrupt` if nothing of it
    /// is readable; `Retry` for errors of the disk. The store is unchanged then.
    pub async fn repair(dir: &std::path::Path) -> Result<Repaired> {
        let dir = dir.to_owned();
        let repaired = tokio::task::spawn_blocking(move || LocalStore::repair(&dir)).await;
        repaired.map_err(|e| Error::internal("the repair panicked").with_source(e))?
    }

    /// Reserves `bytes` of a local store's disk for writes that free space; 0: none.
    ///
    /// # Errors
    /// Errors of the file system.
    pub async fn keep_reserve(&self, bytes: u64) -> Result<()> {
        match self.0.local.clone() {
            Some(local) => local.keep_reserve(bytes).await.map_err(|e| error("the reserve on the disk", e)),
            None => Ok(()),
        }
    }

    /// Whether a local store's disk is full and the reserve is in use.
    pub fn is_disk_full(&self) -> bool {
        self.0.local.as_ref().is_some_and(|local| local.is_disk_full())
    }
}
