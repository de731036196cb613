//! The key of an account to which a share is sealed when it is offered.
//!
//! The public key comes from that account's record, which a thief of `server.key` can change. So the sharing
//! account stores in its own log the other's identity key when it first sees it. From then on it seals only
//! to keys that this identity has signed. The first use is unprotected (trust on first use).

use sealpost_account::Account;
use sealpost_base::{AccountId, Error, Result};
use sealpost_directory::AccountRecord;
use sealpost_vault::PublicKey;

/// The public key of `to`, for an offer by `from`.
///
/// # Errors
/// `Corrupt` if the record has another identity than the one that `from` has stored, or the identity has not
/// signed the key.
pub(crate) async fn trusted_key(from: &Account, to: &AccountRecord) -> Result<PublicKey> {
    let pinned = from.state().pinned_identity(to.id);
    let identity = to.identity.as_deref();
    let is_trusted = match (pinned, identity) {
        (None, None) => return Ok(to.public),
        (None, Some(identity)) => identity.vouches_for(to.id, &to.public),
        (Some(_), None) => false,
        (Some(key), Some(identity)) => identity.key() == key && identity.vouches_for(to.id, &to.public),
    };
    if !is_trusted {
        return Err(Error::corrupt(format!(
            "the public key in the record of {} is not signed by that account: the share is not offered to it. A process \
             with server.key changed the record, or an earlier version wrote it: the next login of the account tells",
            to.name
        )));
    }
    if let Some(identity) = identity {
        pin(from, to.id, identity.key()).await?;
    }
    Ok(to.public)
}

/// The same work for a name without an account, so that timing reveals nothing.
pub(crate) async fn pretend_trusted_key(from: &Account, id: AccountId) -> Result<()> {
    pin(from, id, [0; 32]).await
}

/// Stores the identity key of an account, unless one is stored.
async fn pin(from: &Account, of: AccountId, key: [u8; 32]) -> Result<()> {
    if from.state().pinned_identity(of).is_some() {
        return Ok(());
    }
    let pinned = from.commit(|state| {
        let is_new = state.pinned_identity(of).is_none();
        Ok((is_new.then(|| state.pin_identity(of, &key)).flatten().into_iter().collect(), ()))
    });
    pinned.await.map(drop)
}
