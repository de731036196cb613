//! Later root keys of shares (`docs/decisions/0082-keys-of-shares.md`).
//!
//! A link has the key of its share at the time of the offer. A later key is in the share's record, sealed to
//! each account with access. A session that opens a share with an earlier key takes the newest one from
//! there. A loaded share does so itself, with the keys of the accounts that opened it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use sealpost_base::{AccountId, Error, Result};
use sealpost_directory::{AccountName, Directory, ShareRecord};
use sealpost_vault::{AccountKeys, RootKey};

/// The loaded accounts `A` by whose links a share was opened, each with the owner's name from its link. It
/// keeps none of them loaded.
pub(crate) struct Openers<A>(Mutex<Vec<(Weak<A>, Option<String>)>>);

impl<A> Default for Openers<A> {
    fn default() -> Self {
        Openers(Mutex::default())
    }
}

impl<A> Openers<A> {
    pub(crate) fn add(&self, account: &Arc<A>, owner: Option<String>) {
        let account = Arc::downgrade(account);
        let mut openers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        openers.retain(|(other, _)| other.strong_count() > 0 && !other.ptr_eq(&account));
        openers.push((account, owner));
    }

    pub(crate) fn is_any(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn all(&self) -> Vec<(Arc<A>, Option<String>)> {
        let openers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        openers.iter().filter_map(|(account, owner)| Some((account.upgrade()?, owner.clone()))).collect()
    }
}

/// The newest key of a share, opened with the keys of `account`; `None` if it is not later than `known`.
///
/// # Errors
/// `NotFound` if it is later and not sealed to that account, `Denied` if it is sealed to a later key of that
/// account; `Corrupt` if it does not follow `known`, or does not match the recorded public key.
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

/// The error for a share with a later key that is not sealed to the requesting account.
pub(crate) fn not_shared() -> Error {
    Error::not_found("the mailbox is no longer shared with this account")
}

/// The record of a share to which `account` has a link.
pub(crate) async fn record_of(
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
