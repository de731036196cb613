//! `sealpost account rekey`: another root key for what comes.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::NameArgs;
use super::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::global::Global;
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
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Serialize)]
struct Rekeyed {
    account: String,
    done: &'static str,
    epoch: u32,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let (record, root) = unlock(&data_dir, &args.account.name, &args.password, Accept::Password).await?;
    let next = data_dir.directory.rekey(&record.name, &root).await?;
    data_dir.tell_of_record(record.id).await;
    let done = Rekeyed { account: record.name.to_string(), done: "rekeyed", epoch: next.epoch().0 };
    global.output().done(&done, |done| format!("{} has a new key (epoch {})", done.account, done.epoch))?;
    Ok(ExitCode::SUCCESS)
}
