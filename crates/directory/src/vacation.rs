//! What a directory knows about vacation responses (RFC 8621 §8): which version of its text an
//! account has, and to whom it was sent.
//!
//! The record of an account has a [`VacationMark`], so a delivery to an account without a vacation
//! response asks the store for nothing. The text is an object of the account, and the list of replies
//! is a record like the others, `vacations/{account id}/{version:016x}`. Both are sealed under the
//! mail key by the caller; the directory makes sure that nobody else wrote the mark or the list.
//! Format: `docs/format/vacation.md`.

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Result};

use super::Directory;

const ROOT: &str = "vacations";

/// The vacation response that an account has now: names the object with its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct VacationMark {
    /// Counts its changes.
    #[n(0)]
    pub number: u64,
    /// Random, so that two writers of the same number have two objects.
    #[n(1)]
    pub unique: u64,
}

/// The list of replies of an account, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VacationReplies {
    /// What was written, and random bytes behind it; `None` if nothing was.
    pub bytes: Option<Vec<u8>>,
    /// The version behind which the next one is written.
    pub version: u64,
}

impl Directory {
    /// The newest list of replies of an account.
    ///
    /// # Errors
    /// What the store says; `Corrupt` if it is not one of this server's; `Retry` if this node has
    /// seen a later one.
    pub async fn vacation_replies(&self, account: AccountId) -> Result<VacationReplies> {
        let newest = self.versions.newest(&directory(account)).await?;
        Ok(match newest {
            Some(newest) => VacationReplies { bytes: Some(newest.bytes), version: newest.version },
            None => VacationReplies { bytes: None, version: 0 },
        })
    }

    /// Writes the list behind that version; `false` if another writer was first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn put_vacation_replies(&self, account: AccountId, version: u64, bytes: &[u8]) -> Result<bool> {
        self.versions.put_after(&directory(account), version, bytes).await
    }
}

/// Where the lists of an account are.
pub(super) fn directory(account: AccountId) -> String {
    format!("{ROOT}/{account}")
}
