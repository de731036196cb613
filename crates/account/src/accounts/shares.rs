//! Opens shares with the newest key to which the linking account has access.

use std::sync::Arc;

use sealpost_base::{Kind, Result};
use sealpost_vault::RootKey;

use super::{Accounts, Ticket};
use crate::account::Account;
use crate::share::Link;
use crate::share_keys::{newest_key, not_shared, record_of};

impl Accounts {
    /// The share to which `own` has a link, with the newest key available to it.
    ///
    /// # Errors
    /// `NotFound` if the share has a later key that is not sealed to that account; as [`Accounts::open`].
    pub async fn open_share(&self, own: &Arc<Account>, link: &Link) -> Result<Arc<Account>> {
        let known = own.state().share_root(link);
        let share = match self.open(link.share, &known).await {
            Err(error) if error.kind() == Kind::Denied => match self.later_key(own, link, &known).await? {
                Some(root) => self.open(link.share, &root).await?,
                None => return Err(error),
            },
            opened => opened?,
        };
        share.opened_by(own, link);
        Ok(share)
    }

    /// As [`Accounts::reopen`], for a session of `own`, which may have a link to it.
    ///
    /// # Errors
    /// As [`Accounts::open_share`].
    pub async fn reopen_by(&self, own: &Arc<Account>, ticket: &Ticket) -> Result<Arc<Account>> {
        if ticket.id() == own.id() {
            return self.reopen(ticket).await;
        }
        let link = own.state().links().map(|(_, link)| link).find(|link| link.share == ticket.id()).cloned();
        let Some(link) = link else {
            let reopened = self.reopen(ticket).await;
            return reopened.map_err(|error| match error.kind() {
                Kind::Denied => not_shared(),
                _ => error,
            });
        };
        let share = self.open_share(own, &link).await?;
        share.catch_up().await?;
        Ok(share)
    }

    async fn later_key(&self, own: &Account, link: &Link, known: &RootKey) -> Result<Option<RootKey>> {
        let Some(directory) = self.directory() else { return Ok(None) };
        match record_of(directory, own.id(), link.share, link.owner.as_deref()).await? {
            Some(record) => newest_key(&record, own.id(), &own.keys(), known),
            None => Ok(None),
        }
    }
}
