//! Gives a share a new root key when an account that has the present one may no longer read it.
//!
//! The entry that revokes the rights notes that a new key is due. A process makes the key, and seals it in
//! the share's record to the owner and all accounts with rights. Then an entry under the new key notes in the
//! log that the rekey is complete, if no rights have changed meanwhile. All readers can use the key from the
//! record on, and no process appends under an earlier one from the entry on. After a crash the rekey stays
//! due, and the next session of an administrator completes it (`docs/decisions/0082-keys-of-shares.md`).

use std::collections::BTreeSet;

use sealpost_account::acl::Acl;
use sealpost_account::share::{About, rekey_due};
use sealpost_account::{Account, AccountState, newest_key};
use sealpost_base::{AccountId, Error, Kind, Result, limits};
use sealpost_directory::{AccountName, Directory, ShareRecord};
use sealpost_vault::{Epoch, PublicKey, RootKey, ShareKeys};

use super::recipient::trusted_key;

/// Whether a change of the list took the last right of an account that has, or may have, the key of the
/// share.
pub(crate) fn is_due_after(before: &Acl, after: &Acl) -> bool {
    before.members().any(|member| after.rights_of(member.account).is_empty())
}

/// Notes that a new key for a share is due. The caller's user must have the present key.
///
/// # Errors
/// Store errors.
pub async fn set_due(share: &Account) -> Result<()> {
    let noted = share.commit(|state| {
        let is_new = state.about().is_some() && !state.is_rekey_due();
        Ok((is_new.then(|| rekey_due(true)).into_iter().collect(), ()))
    });
    noted.await.map(drop)
}

/// Gives a share a new key, if one is due. `own` is the account of the user who does so, with a link to it.
///
/// # Errors
/// Store errors; `Corrupt` if the owner's public key is not trusted, or the share has no record; `Denied` if
/// `own` has a newer key than this session's; `Retry` if others keep changing the share. The rekey stays due
/// then.
pub async fn rekey_if_due(directory: &Directory, own: &Account, share: &Account) -> Result<()> {
    let mut has_recorded = false;
    for _ in 0..limits::RECORD_ATTEMPTS {
        // A key that this process has recorded is for the readers of that moment, even if the log says that
        // the rekey is complete.
        if !has_recorded && !share.state().is_rekey_due() {
            return Ok(());
        }
        match try_rekey(directory, own, share).await? {
            Attempt::Done => return Ok(()),
            Attempt::Recorded => has_recorded = true,
            Attempt::Outrun => {}
        }
    }
    Err(Error::retry(format!("the shared mailbox {} changes too quickly to be given a new key", share.id())))
}

/// The result of an attempt.
enum Attempt {
    /// A new key is recorded for the accounts with rights, or no other key is possible.
    Done,
    /// A key is recorded, and rights have changed since.
    Recorded,
    /// Another process was faster.
    Outrun,
}

/// The key of a share for an offer to an account; `None` if the account has lost its rights. If it is not the
/// share's first key, the record also gets it sealed to the account, whose log may have a link with a key
/// from an earlier offer. For a name without an account, `public` is `None`, and the record is written again
/// without a change.
///
/// # Errors
/// Store errors; `Retry` if others keep changing the record.
pub(crate) async fn offered_key(
    directory: &Directory,
    own: &Account,
    share: &Account,
    owner: AccountId,
    account: AccountId,
    public: Option<PublicKey>,
) -> Result<Option<RootKey>> {
    if share.root().epoch() == Epoch::FIRST {
        return Ok(Some(share.root()));
    }
    for _ in 0..limits::RECORD_ATTEMPTS {
        let record = recorded(directory, share, owner).await?;
        if let Some(root) = newest_key(&record, own.id(), &own.keys(), &share.root())? {
            share.take_key(&root);
        }
        let root = share.root();
        // Includes revocations from before that key was made or the record was read.
        share.refresh().await?;
        if share.state().rights_of(account).is_empty() {
            return Ok(None);
        }
        // A later version of the record has the later key that this process now has.
        let Some(keys) = record.keys.as_ref().filter(|keys| keys.epoch() == root.epoch()) else { continue };
        let keys = match &public {
            Some(public) => keys.seal_also(share.id(), &root, account, public, share.random())?,
            None => keys.clone(),
        };
        if directory.set_share_keys(&record, record.public, keys).await? {
            return Ok(Some(root));
        }
    }
    Err(Error::retry(format!("the record of the shared mailbox {} changes too quickly", share.id())))
}

async fn try_rekey(directory: &Directory, own: &Account, share: &Account) -> Result<Attempt> {
    let owner = share.state().about().ok_or_else(|| corrupt(share, "does not say whose it is"))?;
    // In this order: the state then includes revocations from before another process wrote this version of
    // the record, and a later version makes this write fail.
    let record = recorded(directory, share, owner.owner).await?;
    share.refresh().await?;
    let acl = share.state().acl();
    let Readers { keys: to, left_out } = Readers::of(directory, own, &owner, &acl).await?;
    match newest_key(&record, own.id(), &own.keys(), &share.root()) {
        Ok(Some(root)) => share.take_key(&root),
        Ok(None) => {}
        // No process with the key of the log has written this record, or it omits the owner, whose newest
        // public key is known here. Replace it.
        Err(error) if error.kind() == Kind::Corrupt || own.id() == owner.owner && !is_transient(&error) => {
            tracing::error!(share = %share.id(), %error, "a process with server.key changed the record of a shared mailbox");
        }
        Err(error) => return Err(error),
    }
    // Whatever is recorded: an account that lost its last right may have had that key, or made it.
    let Some(root) = share.root().next(share.random()) else {
        tracing::error!(share = %share.id(), "a shared mailbox was given as many keys as there can be: those whose \
            rights were taken away last keep the last one. Make a new mailbox and move the messages there");
        share.commit(|_| Ok((vec![rekey_due(false)], ()))).await?;
        return Ok(Attempt::Done);
    };
    let keys = ShareKeys::seal(share.id(), &root, &to, share.random())?;
    if !directory.set_share_keys(&record, root.delivery_key(share.id()), keys).await? {
        return Ok(Attempt::Outrun);
    }
    share.take_key(&root);
    Ok(if say_done(share, &acl, &left_out).await? { Attempt::Done } else { Attempt::Recorded })
}

fn is_transient(error: &Error) -> bool {
    !matches!(error.kind(), Kind::Corrupt | Kind::NotFound | Kind::Denied)
}

/// The record of a share.
async fn recorded(directory: &Directory, share: &Account, owner: AccountId) -> Result<ShareRecord> {
    directory.share(owner, share.id()).await?.ok_or_else(|| corrupt(share, "has no record"))
}

fn corrupt(share: &Account, why: &str) -> Error {
    Error::corrupt(format!("the shared mailbox {} {why}", share.id()))
}

/// Notes under the new key, in the log of the share, that the rekey is complete, if the accounts with rights
/// are those to which it was sealed.
async fn say_done(share: &Account, sealed_for: &Acl, left_out: &[AccountId]) -> Result<bool> {
    let readers = |acl: &Acl| acl.members().map(|member| member.account).collect::<BTreeSet<_>>();
    let expected = readers(sealed_for);
    let said = share.commit(|state: &AccountState| {
        let mut acl = state.acl();
        if readers(&acl) != expected {
            return Ok((Vec::new(), false));
        }
        let mut events = vec![rekey_due(false)];
        if !left_out.is_empty() {
            // They get it with the next SETACL, if their key is trusted again.
            left_out.iter().for_each(|account| acl.set_offer_due(*account, true));
            events.push(acl.event());
        }
        Ok((events, true))
    });
    let is_done = said.await?.value;
    if is_done {
        tracing::info!(share = %share.id(), epoch = share.root().epoch().0, "a shared mailbox has a new key");
    }
    Ok(is_done)
}

/// The accounts to which a new key is sealed.
struct Readers {
    /// The owner, and all accounts with rights.
    keys: Vec<(AccountId, PublicKey)>,
    /// Accounts with rights whose public keys are not trusted.
    left_out: Vec<AccountId>,
}

impl Readers {
    async fn of(directory: &Directory, own: &Account, about: &About, acl: &Acl) -> Result<Self> {
        let owner = public_key(directory, own, about.owner, &about.owner_name).await?;
        let owner = owner.ok_or_else(|| Error::invalid("the owner has no account any more"))?;
        let mut readers = Readers { keys: vec![(about.owner, owner)], left_out: Vec::new() };
        for member in acl.members() {
            let (id, name) = (member.account, &member.name);
            if readers.keys.iter().any(|(known, _)| *known == id) || readers.left_out.contains(&id) {
                continue;
            }
            match public_key(directory, own, id, name).await {
                Ok(Some(key)) => readers.keys.push((id, key)),
                // The account does not exist. No offer becomes due, since the duration of the next SETACL
                // would reveal it.
                Ok(None) => {}
                Err(error) if error.kind() == Kind::Corrupt => {
                    tracing::error!(%name, %error, "the new key of a shared mailbox is not for this account");
                    readers.left_out.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(readers)
    }
}

/// The public key of an account, if it still has that name.
async fn public_key(
    directory: &Directory,
    own: &Account,
    id: AccountId,
    name: &str,
) -> Result<Option<PublicKey>> {
    let Ok(name) = AccountName::parse(name) else { return Ok(None) };
    match directory.find(&name).await?.filter(|record| record.id == id) {
        // Known without the record. If the record has another one, it is later, and this session ends soon.
        Some(record) if id == own.id() && record.public != own.public() => {
            Err(Error::denied(format!("{name} has another key: log in again")))
        }
        Some(record) if id == own.id() => Ok(Some(record.public)),
        Some(record) => trusted_key(own, &record).await.map(Some),
        None => Ok(None),
    }
}
