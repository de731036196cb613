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
    after_help = "Does what `archive migrate` does, and then makes the folders of TO equal to those of \
                        FROM: it copies flags, and permanently removes messages from TO that FROM no \
                        longer has. It removes only messages that an earlier migrate or mirror put there. \
                        It removes nothing, and exits with status 1, if FROM looks like a mistake: an \
                        empty folder, more than half of a folder removed, a changed UIDVALIDITY, or a \
                        message that could not be copied. It never removes folders.\n
Example:
  sealpost archive mirror work standby --dry-run"
)]
pub struct Args {
    /// The account to copy from
    #[arg(value_name = "FROM")]
    from: String,
    /// The account to change
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    put: PutArgs,
    /// Also remove messages that no migrate or mirror put there
    #[arg(long)]
    delete_extra: bool,
    /// Remove messages even if FROM looks like a mistake
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
