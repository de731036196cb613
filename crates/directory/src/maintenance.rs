//! What servers do with all account records from time to time, in one walk: delete the accounts
//! whose retention period is over, and remove copies of withdrawn secrets that killed processes
//! left.

use futures::StreamExt;
use sealpost_base::{Result, Timestamp};

use super::Directory;
use super::accounts::{ROOT, decode};

/// What a walk over all account records did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordsMaintained {
    /// Removed accounts of which there were objects to delete.
    pub deleted: usize,
    /// Accounts of which there was a copy of a withdrawn secret.
    pub finished: usize,
    /// OAuth grants and web logins that were unused for too long.
    pub expired: usize,
}

impl Directory {
    /// Deletes permanently the accounts removed before `removed_before`, none without it, and what
    /// earlier runs left of others; removes OAuth grants and web logins that were unused for too
    /// long; and removes every copy of a withdrawn secret from the records of all accounts. An account that fails is logged and does not stop the rest.
    ///
    /// # Errors
    /// What the store says when the accounts cannot be listed.
    pub async fn maintain_records(&self, removed_before: Option<Timestamp>) -> Result<RecordsMaintained> {
        let (mut records, mut done) = (self.versions.all(ROOT), RecordsMaintained::default());
        while let Some((directory, newest)) = records.next().await {
            let mut newest = match newest {
                Ok(newest) => newest,
                Err(e) if directory.is_empty() => return Err(e),
                // An operator has to repair it; `check` names it.
                Err(_) => continue,
            };
            if let Some(removed_before) = removed_before
                && let Ok(record) = decode(&directory, newest.version, &newest.bytes)
                && let Some(objects) = self.delete_if_expired(&record, removed_before).await
            {
                done.deleted += usize::from(objects > 0);
                // The first time that wrote the record again, without its slots.
                if !record.purged {
                    match self.versions.newest(&directory).await {
                        Ok(Some(written)) => newest = written,
                        // The next run handles it.
                        Ok(None) | Err(_) => continue,
                    }
                }
            }
            if let Ok(record) = decode(&directory, newest.version, &newest.bytes) {
                match self.remove_unused_logins(&record).await {
                    Ok(0) => {}
                    Ok(removed) => {
                        done.expired += removed;
                        // That wrote the record again, without copies of what was removed.
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(account = %record.name, %error, "unused logins were not removed");
                    }
                }
            }
            match self.finish_withdrawal(&directory, newest).await {
                Ok(found) => done.finished += usize::from(found),
                Err(error) => {
                    tracing::warn!(record = directory, %error, "a copy of a withdrawn secret is still there");
                }
            }
        }
        Ok(done)
    }
}
