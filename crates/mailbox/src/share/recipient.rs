//! Which key a share is sealed to, of the account that it is offered to.
//!
//! The public key comes from that account's record, which a thief of `server.key` can change. So the
//! account that shares remembers the identity key by which it first saw the other one, in its own
//! log, and from then on seals to no key that this one has not signed. The first time nothing tells.

use sealpost_account::Account;
use sealpost_base::{AccountId, Error, Result};
use sealpost_directory::AccountRecord;
use sealpost_vault::PublicKey;

/// The public key of `to`, for what `from` offers.
///
/// # Errors
/// `Corrupt` if the record has another identity than the account that `from` shared with before, or
/// its identity has not made its key.
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

/// The same work, for a name without an account: the time tells nothing.
pub(crate) async fn trusted_key_of_nobody(from: &Account, id: AccountId) -> Result<()> {
    pin(from, id, [0; 32]).await
}

/// Remembers the identity key of an account, unless one is remembered.
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
