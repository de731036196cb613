//! `sealpost account passwd`: another password for the same key.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::name_args::NameArgs;
use super::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::global::Global;
use crate::secret::{self, PasswordArgs};

/// Arguments of `sealpost account passwd`.
#[derive(clap::Args)]
#[command(
    after_help = "OAuth grants and web logins end with the old password; app passwords and the recovery code stay valid.

Examples:
  sealpost account passwd jane@example.org
  sealpost account passwd jane@example.org --recovery
  printf '%s\\n' \"$OLD\" \"$NEW\" | sealpost account passwd jane@example.org --password-stdin
  sealpost account passwd jane@example.org --password-file old --new-password-file new"
)]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Use the recovery code instead of the old password
    #[arg(long)]
    recovery: bool,
    /// The old password (or the recovery code); with --password-stdin the new one is the line after it
    #[command(flatten)]
    password: PasswordArgs,
    /// Read the new password from FILE
    #[arg(long, value_name = "FILE", conflicts_with = "new_password_stdin")]
    new_password_file: Option<PathBuf>,
    /// Read the new password from standard input, one line (after that of --password-stdin)
    #[arg(long)]
    new_password_stdin: bool,
}

#[derive(Serialize)]
struct Changed {
    account: String,
    done: &'static str,
    /// OAuth grants and web logins that ended.
    ended: usize,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let accept = if args.recovery { Accept::Recovery } else { Accept::Password };
    let (record, root) = unlock(&data_dir, &args.account.name, &args.password, accept).await?;
    let name = record.name;
    let new = match &args.new_password_file {
        Some(path) => secret::from_file(path)?,
        None if args.new_password_stdin || args.password.password_stdin => secret::from_stdin()?,
        None => secret::prompt_twice(&format!("New password of {name}"), "--new-password-file").await?,
    };
    let ended = data_dir.directory.set_password(&name, &root, new).await?;
    data_dir.notify_record_changed(record.id).await;
    let done = Changed { account: name.to_string(), done: "changed", ended };
    let text = |done: &Changed| format!("changed the password of {name}; {}", logins_ended(done.ended));
    global.output().done(&done, text)?;
    Ok(ExitCode::SUCCESS)
}

/// How reports say it.
pub(super) fn logins_ended(count: usize) -> String {
    format!("OAuth grants and web logins ended: {count}")
}
