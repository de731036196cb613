//! `sealpost archive body-limit`: the disk space for message bodies in the backup of a remembered account.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::remembered::Accounts;
use super::target::{Format, bytes};
use crate::exit::Usage;
use crate::global::Global;

/// Arguments of `sealpost archive body-limit`.
#[derive(clap::Args)]
#[command(
    after_help = "The next pull evicts bodies beyond the limit, the oldest and largest first. Evicted bodies are on the \
                        server only, also after you raise the limit.\n
Examples:
  sealpost archive body-limit work 2GB
  sealpost archive body-limit work all"
)]
pub struct Args {
    /// The account
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// Disk space, such as 2GB, or all
    #[arg(value_name = "SIZE")]
    size: String,
}

#[derive(Serialize)]
struct Changed<'a> {
    account: &'a str,
    body_limit: Option<u64>,
}

/// Runs it.
pub fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let accounts = Accounts::of(global)?;
    let mut account = accounts.get(&args.account)?;
    let limit = match args.size.as_str() {
        "all" => None,
        size => Some(bytes(size).map_err(Usage)?),
    };
    if limit.is_some() && account.format != Format::Sealpost {
        return Err(Usage(format!(
            "{} has an mbox or Maildir backup, which keeps all bodies; only --format sealpost has a body limit",
            args.account
        ))
        .into());
    }
    account.body_limit = limit.map(|_| args.size.clone());
    accounts.change(&args.account, &account)?;
    let changed = Changed { account: &args.account, body_limit: limit };
    global.output().outcome(true, &changed, |_| {
        format!("{}: body limit {} from the next pull on", args.account, args.size)
    })?;
    Ok(ExitCode::SUCCESS)
}
