//! `sealpost account purge`: deletes a removed account permanently, before its retention period is
//! over.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::name_args::NameArgs;
use crate::data_dir::DataDir;
use crate::exit::Usage;
use crate::global::Global;
use crate::output::counted;

/// Arguments of `sealpost account purge`.
#[derive(clap::Args)]
#[command(
    after_help = "Remove the account first. The command wipes its keys, then deletes its mail; nothing brings \
                        it back. The server may run. The disk space is free for new mail at once, also on a \
                        full disk; the database file of a local store does not shrink.\n
Examples:
  sealpost account remove jane@example.org
  sealpost account purge jane@example.org --now"
)]
pub struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Confirm that the account is deleted now. Without it, the server deletes it when the grace period ends
    #[arg(long)]
    now: bool,
}

/// What was deleted.
#[derive(Serialize)]
struct Purged {
    account: String,
    done: &'static str,
    objects: usize,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.account_name(&args.account.name)?;
    if !args.now {
        let days = data_dir.settings.retention.as_secs() / 86_400;
        let why = format!(
            "the server deletes {name} {days} days after its removal; --now deletes it permanently at \
                     once"
        );
        return Err(Usage(why).into());
    }
    let objects = data_dir.freeing_directory()?.purge_now(&name).await?;
    let purged = Purged { account: name.to_string(), done: "purged", objects };
    global.output().done(&purged, |purged| {
        format!("deleted {name} permanently: {}", counted(purged.objects, "object", "objects"))
    })?;
    Ok(ExitCode::SUCCESS)
}
