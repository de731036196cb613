//! Later keys of a loaded share.

use sealpost_base::{Error, Kind, Result};

use super::Account;
use crate::share_keys::{newest_key, record_of};

impl Account {
    /// Takes the newest key of this share from its record, because `outdated` shows that there is one. Uses
    /// the keys of any account that opened the share.
    ///
    /// # Errors
    /// `outdated` if there is none for those accounts; store errors.
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
                // Sealed to other accounts, or to a later key of this one.
                Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Denied) => {}
                Err(error) => return Err(error),
            }
        }
        Err(outdated)
    }
}
