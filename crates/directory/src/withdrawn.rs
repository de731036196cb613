//! Changes that withdrew a secret and were killed before every copy of it was gone.
//!
//! Such a change writes its record twice, so that neither of the two versions that stay holds the
//! withdrawn slot. A process that is killed in between leaves a version that does. Only its slots
//! show that: an earlier version holds one that the newest has not. Servers check that periodically
//! ([`Directory::maintain_records`]), and `sealpost check` reports it.
//!
//! A thief of `server.key` can replace a record, which makes the owner's slots look withdrawn: they
//! may be the only way to the mail. So what an earlier version holds stays where the newest has
//! none of its slots and another delivery key. A change of the root key that was killed looks
//! alike; repeating it finishes it.

use std::sync::atomic::{AtomicBool, Ordering};

use sealpost_base::{Error, Result};

use super::accounts::decode;
use super::versions::Newest;
use super::{AccountRecord, Directory};

/// How often a record is written again until no copy is left: twice is enough without concurrent
/// changes.
const ATTEMPTS: usize = 4;

impl Directory {
    /// Objects of the store that hold a secret which the record of that account withdrew, or what
    /// is left of one.
    ///
    /// # Errors
    /// What the store says.
    pub async fn withdrawn_copies(&self, record: &AccountRecord) -> Result<Vec<String>> {
        Ok(self.copies(&self.path_of(&record.name), record).await?.paths)
    }

    /// Whether there was something to finish, of the record whose newest version is given.
    pub(super) async fn finish_withdrawal(&self, directory: &str, mut newest: Newest) -> Result<bool> {
        for attempt in 0..ATTEMPTS {
            let record = decode(directory, newest.version, &newest.bytes)?;
            let copies = self.copies(directory, &record).await?;
            if copies.paths.is_empty() {
                return Ok(attempt > 0);
            }
            if copies.are_of_another_key {
                return Err(Error::conflict(format!(
                    "{directory} has none of the slots, and not the delivery key, of an earlier version, which is kept: \
                     a change of the root key was interrupted (repeat it), or a thief of server.key replaced the \
                     record (remove the newest version)"
                )));
            }
            self.put(&AccountRecord { version: record.version + 1, ..record }).await?;
            let Some(written) = self.versions.newest(directory).await? else { return Ok(true) };
            newest = written;
        }
        Err(Error::retry(format!("{directory} cannot be removed, or others change it all the time")))
    }

    async fn copies(&self, directory: &str, record: &AccountRecord) -> Result<Copies> {
        let are_of_another_key = AtomicBool::new(false);
        let is_withdrawn = |bytes: &[u8]| {
            let Ok(earlier) = minicbor::decode::<AccountRecord>(bytes) else { return true };
            let is_kept = |slot| record.slots.contains(slot);
            if earlier.public != record.public
                && !earlier.slots.is_empty()
                && !earlier.slots.iter().any(is_kept)
            {
                are_of_another_key.store(true, Ordering::Relaxed);
            }
            !earlier.slots.iter().all(is_kept)
        };
        let paths = self.versions.withdrawn(directory, record.version, is_withdrawn).await?;
        Ok(Copies { paths, are_of_another_key: are_of_another_key.into_inner() })
    }
}

/// What was found of withdrawn secrets.
struct Copies {
    paths: Vec<String>,
    /// A version is among them of which the newest has no slot and not the delivery key.
    are_of_another_key: bool,
}

#[cfg(test)]
mod tests;
