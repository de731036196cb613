//! `sealpost check`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::global::Global;

/// Arguments of `sealpost check`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args, _global: &Global) -> Result<ExitCode> {
    bail!("check is not there yet")
}
