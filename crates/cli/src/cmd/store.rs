//! `sealpost store`: the store itself, whatever is in it.

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
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find out what the store does and how long it takes, by writing and removing a few small objects
    Probe(probe::Args),
    /// Say that the store is an earlier one now, because a backup was restored
    ConfirmRestore(confirm_restore::Args),
    /// Make the damaged database of a local store sound again, while no server runs
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
