//! `sealpost account rekey`: another root key for what comes.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_directory::{SlotInfo, UnverifiedSlots};
use serde::Serialize;

use super::NameArgs;
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
                        stays readable, and sessions end within a minute and log in again. Change the password first if it has \
                        leaked. Shared mailboxes keep their keys. On several nodes, update all of them first.

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
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let (record, root) = unlock(&data_dir, &args.account.name, &args.password, Accept::Password).await?;
    let unverified = match args.remove_unverified {
        true => UnverifiedSlots::Remove,
        false => UnverifiedSlots::Refuse,
    };
    let rekeyed = data_dir.directory.rekey(&record.name, &root, unverified).await?;
    data_dir.tell_of_record(record.id).await;
    for slot in &rekeyed.removed {
        warn(format_args!("removed: {slot}"));
    }
    let done = Rekeyed {
        account: record.name.to_string(),
        done: "rekeyed",
        epoch: rekeyed.root.epoch().0,
        kept: rekeyed.kept.iter().map(SlotInfo::to_string).collect(),
        removed: rekeyed.removed.iter().map(SlotInfo::to_string).collect(),
    };
    global.output().done(&done, |done| {
        let Rekeyed { account, epoch, kept, .. } = done;
        format!("{account} has a new key (epoch {epoch}) for: {}", kept.join(", "))
    })?;
    Ok(ExitCode::SUCCESS)
}
