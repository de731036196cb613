//! The end of removed accounts: when their time is over their keys are wiped, and then their objects.
//!
//! The order matters. Once the record says purged nothing brings the account back, so a crash in
//! between leaves objects that the next run deletes, never an account with half of its mail.

use sealpost_base::{AccountId, Error, Kind, Result, Timestamp};

use super::{AccountRecord, Directory};

impl Directory {
    /// Deletes an account permanently if it was removed before `removed_before`, or what an earlier
    /// run left of it: how many objects that were. `None` if it is not expired; if that fails,
    /// which is logged.
    pub(super) async fn delete_if_expired(
        &self,
        record: &AccountRecord,
        removed_before: Timestamp,
    ) -> Option<usize> {
        let expired = record.purged || record.removed.is_some_and(|removed| removed < removed_before);
        if !expired {
            return None;
        }
        match self.retire(&record.name, record.purged.then_some(record.id), removed_before).await {
            Ok(objects) => Some(objects),
            // Undeleted just now, or deleted by another process.
            Err(e) if matches!(e.kind(), Kind::Conflict | Kind::NotFound) => None,
            Err(e) => {
                tracing::warn!(account = %record.name, error = %e, "a removed account was not deleted");
                None
            }
        }
    }

    /// Deletes a removed account permanently now, whenever it was removed. Returns the number of
    /// deleted objects.
    ///
    /// # Errors
    /// `NotFound` if there is no such account, `Conflict` if it was not removed; errors of the
    /// store. The next call, or a server, deletes the remaining objects.
    pub async fn purge_now(&self, name: &super::AccountName) -> Result<usize> {
        let found = self.newest_account(name).await?;
        let purged = found.filter(|record| record.purged).map(|record| record.id);
        self.retire(name, purged, Timestamp(i64::MAX)).await
    }

    async fn retire(
        &self,
        name: &super::AccountName,
        purged: Option<AccountId>,
        removed_before: Timestamp,
    ) -> Result<usize> {
        let id = match purged {
            Some(id) => id,
            None => self.purge(name, removed_before).await?,
        };
        let mut deleted = 0;
        // The account's shares first: without the account nothing would lead to them.
        for share in self.shares_of(id).await? {
            deleted += self.delete_share(&share).await?;
        }
        deleted += self.delete_below(&super::usage::directory(id)).await?;
        deleted += self.delete_below(&super::path::vacation_replies(id)).await?;
        deleted += self.delete_below(&super::login_use::below(id)).await?;
        // What pushes to devices keep; a node that has not heard of the end may write an empty note once more,
        // which the next run deletes.
        deleted += self.delete_below(&format!("push/accounts/{id}")).await?;
        let own = self.delete_below(&format!("acct/{id}")).await;
        Ok(deleted + own.map_err(|e: Error| e.context(format!("the objects of {name}")))?)
    }
}
