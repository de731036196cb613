//! `sealpost archive keep-bodies`: how many bodies the copy of an account that is remembered keeps.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::remembered::Accounts;
use super::target::{Format, octets};
use crate::exit::Usage;
use crate::global::Global;

/// Arguments of `sealpost archive keep-bodies`.
#[derive(clap::Args)]
#[command(
    after_help = "The next pull removes bodies beyond the limit. Bodies that were removed before stay on \
                        the server only, also after you raise the limit."
)]
pub struct Args {
    /// An account that is remembered
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// Disk space, such as 2GB, or `all`
    #[arg(value_name = "SIZE")]
    size: String,
}

#[derive(Serialize)]
struct Changed<'a> {
    account: &'a str,
    keep_bodies: Option<u64>,
}

/// Runs it.
pub fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let accounts = Accounts::of(global)?;
    let mut account = accounts.get(&args.account)?;
    let keep = match args.size.as_str() {
        "all" => None,
        size => Some(octets(size).map_err(Usage)?),
    };
    if keep.is_some() && account.format != Format::Sealpost {
        return Err(Usage("mbox and Maildir have no message without its body".into()).into());
    }
    account.keep_bodies = keep.map(|_| args.size.clone());
    accounts.change(&args.account, &account)?;
    let changed = Changed { account: &args.account, keep_bodies: keep };
    global
        .output()
        .outcome(true, &changed, |_| format!("{} keeps {} from the next pull on", args.account, args.size))?;
    Ok(ExitCode::SUCCESS)
}
