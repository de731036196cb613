//! `sealpost archive remove`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::remembered::Accounts;
use crate::global::Global;

/// Arguments of `sealpost archive remove`.
#[derive(clap::Args)]
pub struct Args {
    /// The account to forget
    #[arg(value_name = "ACCOUNT")]
    account: String,
}

#[derive(Serialize)]
struct Removed<'a> {
    account: &'a str,
    copy: String,
}

/// Runs it.
pub fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let account = Accounts::of(global)?.remove(&args.account)?;
    let removed = Removed { account: &args.account, copy: account.into.display().to_string() };
    global.output().show(&removed, |r| format!("forgot {}; its copy stays in {}", r.account, r.copy))?;
    Ok(ExitCode::SUCCESS)
}
