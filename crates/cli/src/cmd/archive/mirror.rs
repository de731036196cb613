//! `sealpost archive mirror`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::push::{Removal, mirror};

use super::put::PutArgs;
use super::putting::{self, Putting};
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
    put: PutArgs,
    /// Remove from the folders also what others put there
    #[arg(long)]
    delete_extra: bool,
    /// Remove also what looks like a mistake
    #[arg(long)]
    force: bool,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let dry_run = args.put.dry_run;
    let (source, destination, options, chosen) =
        args.put.between(global, (&args.from, &args.to), None).await?;
    let removal = Removal { extra: args.delete_extra, force: args.force };
    let report =
        mirror(&source, &destination, &options, removal, Arc::new(Putting::new(global.output()))).await?;
    putting::show(global, &report, dry_run, &chosen)
}
