//! `sealpost account rekey`: another root key for what comes.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_account::rights::Rights;
use sealpost_base::AccountId;
use sealpost_directory::{SlotInfo, UnverifiedSlots};
use sealpost_mailbox::resolve::follow;
use sealpost_mailbox::share::rekey;
use sealpost_vault::RootKey;
use serde::Serialize;

use super::NameArgs;
use super::passwd::logins_ended;
use super::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::global::Global;
use crate::output::warn;
use crate::secret::PasswordArgs;

/// Arguments of `sealpost account rekey`.
#[derive(clap::Args)]
#[command(
    after_help = "A password change keeps the key of the account: an old backup and a password of that time open later mail, \
                        too. This command makes a new key for new mail. Passwords, app passwords and the recovery code stay valid, mail \
                        stays readable, OAuth grants and web logins end, and sessions end within a minute and log in again. Change the password first if it has \
                        leaked. Mailboxes that the account shares get a new key too; those that others share with it get one when \
                        their owner next opens them. On several nodes, update all of them first.

Examples:
  sealpost account rekey jane@example.org"
)]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Remove passwords, app passwords and recovery codes that are not verified, instead of refusing
    #[arg(long)]
    remove_unverified: bool,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Serialize)]
struct Rekeyed {
    account: String,
    done: &'static str,
    epoch: u32,
    /// What opens the account with the new key.
    kept: Vec<String>,
    /// Slots that were not verified.
    removed: Vec<String>,
    /// OAuth grants and web logins that ended.
    ended: usize,
    /// Shared mailboxes with a new key.
    mailboxes: Vec<String>,
    /// Shared mailboxes that get one when a user who administers them opens them.
    mailboxes_due: Vec<String>,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let (record, root) = unlock(&data_dir, &args.account.name, &args.password, Accept::Password).await?;
    let unverified = match args.remove_unverified {
        true => UnverifiedSlots::Remove,
        false => UnverifiedSlots::Refuse,
    };
    let rekeyed = data_dir.directory.rekey(&record.name, &root, unverified).await?;
    data_dir.notify_record_changed(record.id).await;
    for slot in &rekeyed.removed {
        warn(format_args!("removed: {slot}"));
    }
    let Shares { rekeyed: mailboxes, due: mailboxes_due } =
        rekey_shares(&data_dir, record.id, &rekeyed.root).await?;
    let done = Rekeyed {
        account: record.name.to_string(),
        done: "rekeyed",
        epoch: rekeyed.root.epoch().0,
        kept: rekeyed.kept.iter().map(SlotInfo::to_string).collect(),
        removed: rekeyed.removed.iter().map(SlotInfo::to_string).collect(),
        ended: rekeyed.ended,
        mailboxes,
        mailboxes_due,
    };
    global.output().done(&done, |done| {
        let Rekeyed { account, epoch, kept, ended, mailboxes, mailboxes_due, .. } = done;
        let mut text = format!("{account} has a new key (epoch {epoch}) for: {}", kept.join(", "));
        text.push_str(&format!("\n{}", logins_ended(*ended)));
        for (names, what) in
            [(mailboxes, "new keys"), (mailboxes_due, "new keys when their owners open them")]
        {
            if !names.is_empty() {
                text.push_str(&format!("\nshared mailboxes with {what}: {}", names.join(", ")));
            }
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The shared mailboxes of an account, by name.
#[derive(Default)]
struct Shares {
    rekeyed: Vec<String>,
    due: Vec<String>,
}

/// Gives the mailboxes that an account shares new keys, and says of those of others that they are due.
async fn rekey_shares(data_dir: &DataDir, id: AccountId, root: &RootKey) -> Result<Shares> {
    let accounts = data_dir.accounts();
    let told = data_dir.notify_of(&accounts);
    let account = accounts.open(id, root).await?;
    let links: Vec<_> = {
        let state = account.state();
        state.links().map(|(mailbox, link)| (mailbox.id(), mailbox.name().to_owned(), link.clone())).collect()
    };
    let mut shares = Shares::default();
    for (mailbox, name, link) in links {
        let rekeyed: sealpost_base::Result<bool> = async {
            let (share, access, _) = follow(&accounts, &account, mailbox, &link).await?;
            rekey::set_due(&share).await?;
            let may = access.rights(&share.state()).contains(Rights::ADMINISTER);
            if may {
                rekey::rekey_if_due(&data_dir.directory, &account, &share).await?;
            }
            Ok(may)
        }
        .await;
        match rekeyed {
            Ok(true) => shares.rekeyed.push(name),
            Ok(false) => shares.due.push(name),
            Err(error) => {
                let why = "the shared mailbox keeps its key for now: repeat the command";
                warn(format_args!("warning: {name}: {error}; {why}"));
            }
        }
    }
    told.end().await;
    Ok(shares)
}
