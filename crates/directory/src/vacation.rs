//! What a directory knows about vacation responses (RFC 8621 §8): which version of its text an
//! account has, and to whom it was sent.
//!
//! The record of an account has a `VacationMark`, so a delivery to an account without a vacation
//! response asks the store for nothing. The text is an object of the account, and the list of replies
//! is a record like the others, `vacations/{account id}/{version:016x}`. Both are sealed under the
//! mail key by the caller; the directory authenticates the mark and the list.
//! Format: `docs/format/vacation.md`.

use sealpost_base::{AccountId, Result};

use super::Directory;
use super::path::vacation_replies as directory;

impl Directory {
    /// The newest list of replies of an account, with random bytes behind it, and the version behind
    /// which the next one is written.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if it is not one of this server's; `Retry` if this node has
    /// seen a later one.
    pub async fn vacation_replies(&self, account: AccountId) -> Result<(Option<Vec<u8>>, u64)> {
        let newest = self.versions.newest_despite_noise(&directory(account)).await?;
        Ok(newest.map_or((None, 0), |newest| (Some(newest.bytes), newest.version)))
    }

    /// Writes the list behind that version; `false` if another writer was first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn put_vacation_replies(&self, account: AccountId, version: u64, bytes: &[u8]) -> Result<bool> {
        self.versions.put_after(&directory(account), version, bytes).await
    }
}
