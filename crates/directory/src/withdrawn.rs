//! Changes that withdrew a secret and were killed before every copy of it was gone.
//!
//! Such a change writes its record twice, so that neither of the two versions that stay holds the withdrawn slot. A process that is
//! killed in between leaves a version that does. Nothing but its slots tells: an earlier version holds one that the newest has
//! not. Servers look for that from time to time ([`Directory::maintain_records`]), and `sealpost check` names it.

use sealpost_base::{Error, Result};

use super::accounts::{decode, slots_of};
use super::versions::Newest;
use super::{AccountRecord, Directory};

/// How often a record is written again until no copy is left: twice is enough if nobody else changes it.
const ATTEMPTS: usize = 4;

impl Directory {
    /// Objects of the store that hold a secret which the record of that account withdrew, or what is left of one.
    ///
    /// # Errors
    /// What the store says.
    pub async fn withdrawn_copies(&self, record: &AccountRecord) -> Result<Vec<String>> {
        self.copies(&self.path_of(&record.name), record).await
    }

    /// Whether there was something to finish, of the record whose newest version is given.
    pub(super) async fn finish_withdrawal(&self, directory: &str, mut newest: Newest) -> Result<bool> {
        for attempt in 0..ATTEMPTS {
            let record = decode(directory, newest.version, &newest.bytes)?;
            if self.copies(directory, &record).await?.is_empty() {
                return Ok(attempt > 0);
            }
            self.put(&AccountRecord { version: record.version + 1, ..record }).await?;
            let Some(written) = self.versions.newest(directory).await? else { return Ok(true) };
            newest = written;
        }
        Err(Error::retry(format!("{directory} cannot be removed, or others change it all the time")))
    }

    async fn copies(&self, directory: &str, record: &AccountRecord) -> Result<Vec<String>> {
        let is_withdrawn = |bytes: &[u8]| {
            slots_of(bytes).is_none_or(|slots| slots.iter().any(|slot| !record.slots.contains(slot)))
        };
        self.versions.withdrawn(directory, record.version, is_withdrawn).await
    }
}

#[cfg(test)]
mod tests;
