//! A new root key for a share, when an account that has the present one may not read it any more.
//!
//! The entry that takes the rights away says that a new key is due. The key is made, and sealed in
//! the share's record to the owner and to everybody who still has rights; then an entry under it
//! says in the log that it is done, if nobody's rights have changed meanwhile. From the record on
//! the key is there for all of them, and from the entry on nobody appends under an earlier one. What
//! a crash leaves undone, the next session of an administrator finds due
//! (`docs/decisions/0082-keys-of-shares.md`).

use std::collections::BTreeSet;

use sealpost_account::acl::Acl;
use sealpost_account::share::{About, rekey_due};
use sealpost_account::{Account, AccountState, newest_key};
use sealpost_base::{AccountId, Error, Kind, Result, limits};
use sealpost_directory::{AccountName, Directory, ShareRecord};
use sealpost_vault::{Epoch, PublicKey, RootKey, ShareKeys};

use super::recipient::trusted_key;

/// Whether some account lost its last right by that change of a list: it has the key of the share,
/// or may have it.
pub(crate) fn is_due_after(before: &Acl, after: &Acl) -> bool {
    before.members().any(|member| after.rights_of(member.account).is_empty())
}

/// Says that a share is to be given a new key, for a user who has its present one.
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

/// Gives a share a new key, if that is due. `own` is the account of the user who does so, with a
/// link to it.
///
/// # Errors
/// Store errors; `Corrupt` if the owner's public key is not to be trusted, or the share has no
/// record; `Denied` if `own` has a newer key than this session's; `Retry` if others keep changing
/// the share. It stays due then.
pub async fn rekey_if_due(directory: &Directory, own: &Account, share: &Account) -> Result<()> {
    let mut has_recorded = false;
    for _ in 0..limits::RECORD_ATTEMPTS {
        // A key that was recorded here is for the readers of that moment, whatever others say is done.
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

/// How far an attempt came.
enum Attempt {
    /// A new key is recorded for those who have rights, or there can be no other one.
    Done,
    /// A key is recorded, and rights have changed since.
    Recorded,
    /// Another process was quicker.
    Outrun,
}

/// The key of a share that an account is offered; `None` if it has no rights any more. One that is
/// not the first is sealed to it in the record too: its own log may have a link with an earlier
/// key, from when it was offered that. For a name without an account, without a `public` key, the
/// same is written.
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
        // Rights that were taken away before that key was made, or the record was read, are known now.
        share.refresh().await?;
        if share.state().rights_of(account).is_empty() {
            return Ok(None);
        }
        // A later one, which this process has by now, is in a later version of the record.
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
    // In this order: rights that were taken away before another process wrote this version of the
    // record are known then, and a later version refuses what is written here.
    let record = recorded(directory, share, owner.owner).await?;
    share.refresh().await?;
    let acl = share.state().acl();
    let Readers { keys: to, left_out } = Readers::of(directory, own, &owner, &acl).await?;
    match newest_key(&record, own.id(), &own.keys(), &share.root()) {
        Ok(Some(root)) => share.take_key(&root),
        Ok(None) => {}
        // Not of any process that had the key which opens the log, or without the owner, whose newest
        // public key is known here: it is replaced.
        Err(error) if error.kind() == Kind::Corrupt || own.id() == owner.owner && !is_transient(&error) => {
            tracing::error!(share = %share.id(), %error, "a process with server.key changed the record of a shared mailbox");
        }
        Err(error) => return Err(error),
    }
    // Whatever is recorded: somebody who lost the last right may have had it, or made it.
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

/// What is recorded of a share.
async fn recorded(directory: &Directory, share: &Account, owner: AccountId) -> Result<ShareRecord> {
    directory.share(owner, share.id()).await?.ok_or_else(|| corrupt(share, "has no record"))
}

fn corrupt(share: &Account, why: &str) -> Error {
    Error::corrupt(format!("the shared mailbox {} {why}", share.id()))
}

/// Says so under the new key, in the log of the share, if the same accounts have rights as when it
/// was sealed to them.
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
            // They get it with the next SETACL, if their key is to be trusted again.
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

/// The accounts that a new key is for.
struct Readers {
    /// The owner, and all with rights.
    keys: Vec<(AccountId, PublicKey)>,
    /// Those with rights whose public keys are not to be trusted.
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
                // Nobody has it. It does not become due: the time of the next SETACL would tell.
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
        // It is known without the record. Another one there is a later one: this session ends soon.
        Some(record) if id == own.id() && record.public != own.public() => {
            Err(Error::denied(format!("{name} has another key: log in again")))
        }
        Some(record) if id == own.id() => Ok(Some(record.public)),
        Some(record) => trusted_key(own, &record).await.map(Some),
        None => Ok(None),
    }
}
