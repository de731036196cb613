//! `sealpost account recovery`: a code to write down, for the day the password is forgotten.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::name_args::NameArgs;
use super::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::global::Global;
use crate::secret::PasswordArgs;

/// Arguments of `sealpost account recovery`.
#[derive(clap::Args)]
#[command(
    after_help = "Prints a new recovery code, once; an earlier code stops working. Without the password \
                        or this code the account cannot be opened, by the operator either.\n
Examples:
  sealpost account recovery jane@example.org
  sealpost account passwd jane@example.org --recovery"
)]
pub struct Args {
    #[command(flatten)]
    account: NameArgs,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Serialize)]
struct Made {
    account: String,
    recovery_code: String,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let (record, root) = unlock(&data_dir, &args.account.name, &args.password, Accept::Password).await?;
    let code = data_dir.directory.set_recovery(&record.name, &root).await?;
    global.output().note(format_args!(
        "recovery code for {}; it is shown only once: write it down and keep it in a safe place:",
        record.name
    ));
    let made = Made { account: record.name.to_string(), recovery_code: code.to_string() };
    global.output().show(&made, |made| made.recovery_code.clone())?;
    Ok(ExitCode::SUCCESS)
}
