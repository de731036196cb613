//! `sealpost recovery`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::global::Global;

/// Arguments of `sealpost recovery`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args, _global: &Global) -> Result<ExitCode> {
    bail!("recovery is not there yet")
}
