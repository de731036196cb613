//! `sealpost serve`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::global::Global;

/// Arguments of `sealpost serve`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_args: Args, _global: &Global) -> Result<ExitCode> {
    bail!("serve is not there yet")
}
