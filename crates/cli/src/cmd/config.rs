//! `sealpost config`: what is in force, and what could be.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::config::{Config, reference};
use crate::global::Global;

/// Arguments of `sealpost config`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  sealpost config show --config /etc/sealpost.toml")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the name of the file, the values in force, and the origin of each value
    #[command(after_help = "Example:
  sealpost config show --config /etc/sealpost.toml")]
    Show,
    /// Print a configuration file with all keys, their defaults and their meanings
    #[command(after_help = "Example:
  sealpost config default > sealpost.toml")]
    Default,
    /// Print the guide's page about the configuration
    #[command(hide = true)]
    Guide,
    /// Print the guide's table of metrics
    #[command(hide = true)]
    Metrics,
}

/// Prints it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let output = global.output();
    match args.command {
        Command::Show => {
            let config = Config::load(global)?;
            output.show(&reference::list(&config), |_| reference::in_force(&config))?;
        }
        Command::Default => output.line(reference::default_file().trim_end())?,
        Command::Metrics => output.line(sealpost_server::metrics::reference().trim_end())?,
        Command::Guide => output.line(reference::guide().trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}
