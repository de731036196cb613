//! `sealpost archive migrate`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::push::migrate;

use super::put::PutArgs;
use super::putting::{self, Putting};
use crate::global::Global;

/// Arguments of `sealpost archive migrate`.
#[derive(clap::Args)]
#[command(
    after_help = "Copies messages from server to server, with dates, flags and folders; nothing is stored in between. It \
                        skips messages that the folder has already: run it again after an interruption, and once more \
                        for mail that has arrived since. Add both accounts with `archive add` first.\n
Example:
  sealpost archive migrate old new --exclude 'Trash*' --map uids.jsonl"
)]
pub struct Args {
    /// The account to copy from
    #[arg(value_name = "FROM")]
    from: String,
    /// The account to copy to
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    put: PutArgs,
    /// Append the new UID of each message to FILE, one line of JSON each [default: FROM-TO.uids
    /// beside the remembered accounts]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let dry_run = args.put.dry_run;
    let (source, destination, options, chosen) =
        args.put.between(global, (&args.from, &args.to), args.map).await?;
    let report = migrate(&source, &destination, &options, Arc::new(Putting::new(global.output()))).await?;
    putting::show(global, &report, dry_run, &chosen)
}
