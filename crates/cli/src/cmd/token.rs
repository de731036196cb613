//! `sealpost token`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::global::Global;

/// Arguments of `sealpost token`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args, _global: &Global) -> Result<ExitCode> {
    bail!("token is not there yet")
}
