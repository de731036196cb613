//! `sealpost stats`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::global::Global;

/// Arguments of `sealpost stats`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args, _global: &Global) -> Result<ExitCode> {
    bail!("stats is not there yet")
}
