//! Later root keys of shares (`docs/decisions/0082-keys-of-shares.md`).
//!
//! A link has the key that its share had when it was offered. A later one is in the share's record,
//! sealed to each account that may have it. Whoever opens a share with an earlier key takes the
//! newest one from there; a loaded share does so by itself, with the keys of the accounts that
//! opened it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealpost_base::{AccountId, Error, Kind, Result};
use sealpost_directory::{AccountName, Directory, ShareRecord};
use sealpost_vault::{AccountKeys, RootKey};

use crate::account::Account;
use crate::accounts::{Accounts, Ticket};
use crate::share::Link;

/// The accounts by whose links a share was opened, as long as they are loaded.
#[derive(Default)]
pub(crate) struct Openers(Mutex<Vec<Opener>>);

#[derive(Clone)]
struct Opener {
    account: Weak<Account>,
    /// As in its link.
    owner: Option<String>,
}

impl Openers {
    fn add(&self, own: &Arc<Account>, link: &Link) {
        let opener = Opener { account: Arc::downgrade(own), owner: link.owner.clone() };
        let mut openers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        openers.retain(|other| {
            other.account.strong_count() > 0 && !Weak::ptr_eq(&other.account, &opener.account)
        });
        openers.push(opener);
    }

    pub(crate) fn is_any(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn all(&self) -> Vec<Opener> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The newest key of a share, by the keys of `account`; `None` if that is not later than `known`.
///
/// # Errors
/// `NotFound` if it is later and not for that account; `Corrupt` if it does not follow `known`, or
/// is not the one whose public half is recorded.
pub fn newest_key(
    record: &ShareRecord,
    account: AccountId,
    keys: &AccountKeys,
    known: &RootKey,
) -> Result<Option<RootKey>> {
    if record.epoch() <= known.epoch() {
        return Ok(None);
    }
    let opened = match &record.keys {
        Some(sealed) => sealed.open(record.share, account, keys)?,
        None => None,
    };
    let root = opened.ok_or_else(not_shared)?;
    if !root.follows(known) || root.delivery_key(record.share) != record.public {
        let why = "the key in its record does not follow the key that this account has";
        return Err(Error::corrupt(format!("shared mailbox {}: {why}", record.share)));
    }
    Ok(Some(root))
}

fn not_shared() -> Error {
    Error::not_found("the mailbox is no longer shared with this account")
}

/// The record of a share that `account` has a link to.
async fn record_of(
    directory: &Directory,
    account: AccountId,
    share: AccountId,
    owner: Option<&str>,
) -> Result<Option<ShareRecord>> {
    match owner {
        None => directory.share(account, share).await,
        Some(owner) => directory.share_of(&AccountName::parse(owner)?, share).await,
    }
}

impl Account {
    /// Takes the newest key of the share that this is from its record, because `outdated` says that
    /// there is one; with the keys of any account that opened it.
    ///
    /// # Errors
    /// `outdated` if there is none for those accounts; what the store says.
    pub(crate) async fn renew_key(&self, outdated: Error) -> Result<()> {
        let Some(directory) = self.directory() else { return Err(outdated) };
        for Opener { account, owner } in self.openers().all() {
            let Some(own) = account.upgrade() else { continue };
            let Some(record) = record_of(directory, own.id(), self.id(), owner.as_deref()).await? else {
                continue;
            };
            match newest_key(&record, own.id(), &own.keys(), &self.root()) {
                Ok(Some(root)) => {
                    self.take_key(&root);
                    return Ok(());
                }
                Ok(None) => {}
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(outdated)
    }
}

impl Accounts {
    /// The share that `own` has a link to, with the newest key that it may have.
    ///
    /// # Errors
    /// `NotFound` if the share has a later key, which is not for that account; as [`Accounts::open`].
    pub async fn open_share(&self, own: &Arc<Account>, link: &Link) -> Result<Arc<Account>> {
        let known = own.state().share_root(link);
        let share = match self.open(link.share, &known).await {
            Err(error) if error.kind() == Kind::Denied => match self.later_key(own, link, &known).await? {
                Some(root) => self.open(link.share, &root).await?,
                None => return Err(error),
            },
            opened => opened?,
        };
        share.openers().add(own, link);
        Ok(share)
    }

    /// As [`Accounts::reopen`], for a session of `own`, which may have a link to it.
    ///
    /// # Errors
    /// As [`Accounts::open_share`].
    pub async fn reopen_by(&self, own: &Arc<Account>, ticket: &Ticket) -> Result<Arc<Account>> {
        let link = own.state().links().map(|(_, link)| link).find(|link| link.share == ticket.id()).cloned();
        let Some(link) = link else {
            let reopened = self.reopen(ticket).await;
            let is_share = ticket.id() != own.id();
            return reopened.map_err(|error| match error.kind() {
                Kind::Denied if is_share => not_shared(),
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
