//! A later key of a share that is loaded.

use sealpost_base::{Error, Kind, Result};

use super::Account;
use crate::share_keys::{newest_key, record_of};

impl Account {
    /// Takes the newest key of the share that this is from its record, because `outdated` says that
    /// there is one; with the keys of any account that opened it.
    ///
    /// # Errors
    /// `outdated` if there is none for those accounts; what the store says.
    pub(super) async fn renew_key(&self, outdated: Error) -> Result<()> {
        let Some(directory) = self.env.directory() else { return Err(outdated) };
        for (own, owner) in self.openers.all() {
            let Some(record) = record_of(directory, own.id(), self.id(), owner.as_deref()).await? else {
                continue;
            };
            match newest_key(&record, own.id(), &own.keys(), &self.root()) {
                Ok(Some(root)) => {
                    self.take_key(&root);
                    return Ok(());
                }
                Ok(None) => {}
                // Not for this account, or for a later key of it.
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Denied) => {}
                Err(error) => return Err(error),
            }
        }
        Err(outdated)
    }
}
