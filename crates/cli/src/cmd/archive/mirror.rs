//! `sealpost archive mirror`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::push::{Options, Removal, mirror};
use sealpost_base::SystemRandom;

use super::folders::FolderArgs;
use super::putting::{self, Putting};
use super::remembered::Accounts;
use super::restore::levels;
use super::stop;
use crate::global::Global;

/// Arguments of `sealpost archive mirror`.
#[derive(clap::Args)]
#[command(
    after_help = "As `archive migrate`, and then the folders of TO become what those of FROM are: flags follow, and what is gone \
                  from FROM is removed from TO, for good. Removed is only what an earlier migrate or mirror put there. What looks \
                  like a mistake is not removed, and the exit status is 1: an empty folder, more than half of a folder, a \
                  FROM whose UIDVALIDITY changed, a run in which something could not be put there. Folders are never \
                  removed.\n
Example:
  sealpost archive mirror work standby --dry-run"
)]
pub struct Args {
    /// The account whose mail it is
    #[arg(value_name = "FROM")]
    from: String,
    /// The account to make the same
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    folders: FolderArgs,
    /// Put everything below this folder; levels separated by /
    #[arg(long, value_name = "FOLDER")]
    below: Option<String>,
    /// Remove from the folders also what others put there
    #[arg(long)]
    delete_extra: bool,
    /// Remove also what looks like a mistake
    #[arg(long)]
    force: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stop = stop::on_signals()?;
    let accounts = Accounts::of(global)?;
    let (from, to) = (accounts.get(&args.from)?, accounts.get(&args.to)?);
    let (source, destination) = (from.server.server().await?, to.server.server().await?);
    let map = accounts.map(&args.from, &args.to);
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
    let removal = Removal { extra: args.delete_extra, force: args.force };
    let report = mirror(&source, &destination, &options, removal, putting).await?;
    putting::show(global, &report, args.dry_run)
}
