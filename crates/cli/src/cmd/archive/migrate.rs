//! `sealpost archive migrate`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::push::{Options, migrate};
use sealpost_base::SystemRandom;

use super::folders::FolderArgs;
use super::putting::{self, Putting};
use super::remembered::Accounts;
use super::restore::levels;
use super::stop;
use crate::global::Global;

/// Arguments of `sealpost archive migrate`.
#[derive(clap::Args)]
#[command(
    after_help = "Messages go from server to server and are kept nowhere between. Dates, flags and folders are kept. A message \
                  that the folder has already is not put there again: run it again after an interruption, and once \
                  more for what has come meanwhile. Accounts are made by `archive add`.\n
Example:
  sealpost archive migrate old new --exclude 'Trash*' --map uids.jsonl"
)]
pub struct Args {
    /// The account whose mail it is
    #[arg(value_name = "FROM")]
    from: String,
    /// The account to put it into
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    folders: FolderArgs,
    /// Put everything below this folder; levels separated by /
    #[arg(long, value_name = "FOLDER")]
    below: Option<String>,
    /// Say what would be put there, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Add to FILE which message got which UID, a line of JSON each
    /// [default: FROM-TO.uids beside what is remembered of the accounts]
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stop = stop::on_signals()?;
    let accounts = Accounts::of(global)?;
    let (from, to) = (accounts.get(&args.from)?, accounts.get(&args.to)?);
    let (source, destination) = (from.server.server().await?, to.server.server().await?);
    let map = args.map.unwrap_or_else(|| accounts.map(&args.from, &args.to));
    let map = putting::map(Some(&map), &source.to_string(), &destination.to_string(), !args.dry_run)?;
    let putting = Arc::new(Putting::new(global.output()));
    let folders = args.folders.or(&from.folders, &from.exclude);
    let options = Options {
        wanted: Arc::new(move |name| folders.wants(name)),
        below: levels(args.below.as_deref()),
        dry_run: args.dry_run,
        map,
        random: Arc::new(SystemRandom),
        stop,
    };
    let report = migrate(&source, &destination, &options, putting).await?;
    putting::show(global, &report, args.dry_run)
}
