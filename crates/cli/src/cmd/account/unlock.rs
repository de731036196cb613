//! Opening an account with a secret, for commands that need its key.

use anyhow::{Context, Result};
use sealpost_base::Error;
use sealpost_directory::{AccountName, AccountRecord, Forgery, Secret};
use sealpost_vault::RootKey;
use sealpost_vault::slot::{Opened, Slot, SlotKind, SlotTrust, for_login};

use crate::data_dir::DataDir;
use crate::output::warn;
use crate::secret::PasswordArgs;

/// Which secrets are good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// What logs in: the password or an app password.
    Login,
    /// The password alone: an app password must not be able to make others, or to lock the owner out.
    Password,
    /// The recovery code.
    Recovery,
}

/// Prompts for the password of the account `name` and opens it.
///
/// # Errors
/// `NotFound` if there is no such account, `Denied` if the secret does not open it.
pub async fn unlock(
    data_dir: &DataDir,
    name: &str,
    password: &PasswordArgs,
    accept: Accept,
) -> Result<(AccountRecord, RootKey)> {
    let name = data_dir.account_name(name)?;
    // First, so that the command does not prompt for the password of a missing account.
    let record = data_dir.directory.get(&name).await?;
    let prompt = match accept {
        Accept::Recovery => format!("Recovery code of {name}"),
        _ => format!("Password of {name}"),
    };
    let secret = password.existing(&prompt).await?;
    let unlocked = open(&record, secret, accept).await?.ok_or_else(|| denied(&name, accept))?;
    let forgeries = unlocked.forgeries(&record);
    for forgery in &forgeries {
        let remedy = match forgery {
            Forgery::SlotList => {
                "sealpost account passwd puts it right; then make new app passwords and a new recovery code"
            }
            _ => "sealpost account rekey puts it right",
        };
        warn(format_args!("warning: {name}: {forgery} ({remedy})"));
    }
    if !forgeries.contains(&Forgery::SlotList) {
        data_dir.directory.check_slot_list(&record, &unlocked.root).await?;
    }
    // What they change in the record is to be for the log that is there. Others open it themselves.
    if accept != Accept::Login {
        data_dir.accounts().check_key(record.id, &unlocked.root).await?;
    }
    verify(data_dir, &record, &unlocked).await;
    Ok((record, unlocked.root))
}

/// Gives a slot from before slots had tags its tag: its secret has just shown whose it is. Without
/// it nothing is lost but that the next command tries again.
async fn verify(data_dir: &DataDir, record: &AccountRecord, unlocked: &Unlocked) {
    let Unlocked { root, slot, is_own_key } = unlocked;
    if *is_own_key
        && slot.trust(root, record.id) == SlotTrust::Unverified
        && let Err(error) = data_dir.directory.verify_slot(&record.name, root, slot).await
    {
        tracing::debug!(%error, "a slot is not verified yet");
    }
}

/// An account that a secret opened.
pub struct Unlocked {
    /// Its key.
    pub root: RootKey,
    /// The slot that was opened.
    slot: Slot,
    /// Whether that publishes the key of the secret.
    is_own_key: bool,
}

impl Unlocked {
    /// What of the record was forged.
    pub fn forgeries(&self, record: &AccountRecord) -> Vec<Forgery> {
        record.forgeries(&self.root, Some((&self.slot, self.is_own_key)))
    }
}

/// The account's root key, if the secret opens it.
///
/// # Errors
/// If the check itself did not finish.
pub async fn open(record: &AccountRecord, secret: Secret, accept: Accept) -> Result<Option<Unlocked>> {
    let (opens, slots) = (record.opener(), record.slots.clone());
    let of_kind = |slots: &[Slot], kind| slots.iter().filter(|s| s.kind() == kind).cloned().collect();
    let slots: Vec<Slot> = match accept {
        Accept::Login => for_login(&slots, secret.bytes()).into_iter().cloned().collect(),
        Accept::Password => of_kind(&slots, SlotKind::Password),
        Accept::Recovery => of_kind(&slots, SlotKind::Recovery),
    };
    let check = move || {
        slots.into_iter().find_map(|slot| {
            let Opened { root, is_own_key } = opens(&slot, secret.bytes())?;
            Some(Unlocked { root, slot, is_own_key })
        })
    };
    tokio::task::spawn_blocking(check).await.context("the password check did not finish")
}

fn denied(name: &AccountName, accept: Accept) -> Error {
    match accept {
        Accept::Recovery => Error::denied(format!("wrong recovery code for {name}")),
        _ => Error::denied(format!("wrong password for {name}")),
    }
}
