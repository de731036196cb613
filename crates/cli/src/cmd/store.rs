//! `sealpost store`: the store itself, with any content.

mod confirm_clock;
mod confirm_restore;
mod probe;
mod repair;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::global::Global;

/// Arguments of `sealpost store`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost store probe --config /etc/sealpost.toml
  sealpost store repair")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Test the features and the speed of a store with a few small objects
    Probe(probe::Args),
    /// Confirm that the store is older than before, because a backup was restored
    ConfirmRestore(confirm_restore::Args),
    /// Repair the damaged database of a local store while no server runs
    Repair(repair::Args),
    /// Confirm that the clock is right, so that servers delete expired data again
    ConfirmClock(confirm_clock::Args),
}

/// Does it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::ConfirmClock(args) => confirm_clock::run(args, global).await,
        Command::ConfirmRestore(args) => confirm_restore::run(args, global).await,
        Command::Probe(args) => probe::run(args, global).await,
        Command::Repair(args) => repair::run(args, global).await,
    }
}
