//! `sealpost archive remove`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use super::remembered::Accounts;
use crate::global::Global;

/// Arguments of `sealpost archive remove`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  sealpost archive remove work")]
pub struct Args {
    /// The account to forget
    #[arg(value_name = "ACCOUNT")]
    account: String,
    /// Report what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Removed<'a> {
    account: &'a str,
    copy: String,
    dry_run: bool,
    /// What is remembered of it: its settings, and its password if that is kept here.
    files: Vec<String>,
}

/// Runs it.
pub fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let accounts = Accounts::of(global)?;
    let account = accounts.get(&args.account)?;
    let files = accounts.files(&args.account)?;
    if !args.dry_run {
        accounts.remove(&args.account)?;
    }
    let removed = Removed {
        account: &args.account,
        copy: account.into.display().to_string(),
        dry_run: args.dry_run,
        files: files.iter().map(|file| file.display().to_string()).collect(),
    };
    global.output().outcome(true, &removed, Removed::text)?;
    Ok(ExitCode::SUCCESS)
}

impl Removed<'_> {
    fn text(&self) -> String {
        let verb = if self.dry_run { "would forget" } else { "forgot" };
        let mut text = format!("{verb} {}; its backup stays in {}", self.account, self.copy);
        for file in self.files.iter().filter(|_| self.dry_run) {
            text.push_str(&format!("\n  would remove {file}"));
        }
        text
    }
}
