//! `sealpost archive`: backups of mailboxes on other servers.
//!
//! What talks to the server and what is on disk is in `sealpost_archive`; here are the options,
//! what is remembered of an account ([`remembered`]), and what people see.

mod add;
mod body_limit;
mod export;
mod folders;
mod found;
mod list;
mod migrate;
mod mirror;
pub(crate) mod origin;
mod progress;
mod pull;
mod put;
mod putting;
mod record;
mod remembered;
mod remove;
mod restore;
mod schedule;
mod server;
mod stats;
mod stop;
mod target;
mod token_command;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::global::Global;

/// Arguments of `sealpost archive`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sealpost archive add work --host imap.example.org --user jane --format mbox --into ~/mail/work
  sealpost archive pull
  sealpost archive verify work
  sealpost archive schedule work
  sealpost archive pull --host imap.example.org --user jane --password-file secret \\
      --format maildir --into copy")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Remember an account, after a test of the connection
    Add(Box<add::Args>),
    /// List the remembered accounts
    #[command(after_help = "Example:
  sealpost archive list")]
    List,
    /// Fetch new mail into the copies
    Pull(Box<pull::Args>),
    /// Compare a backup with its server
    Verify(Box<verify::Args>),
    /// Copy missing messages of a backup to a server
    Restore(Box<restore::Args>),
    /// Copy missing messages from one account to another
    Migrate(Box<migrate::Args>),
    /// Make the folders of one account equal to those of another
    Mirror(Box<mirror::Args>),
    /// Print the contents of a backup
    Stats(stats::Args),
    /// Convert a backup to another format
    Export(Box<export::Args>),
    /// Change the disk space for message bodies in a backup
    BodyLimit(body_limit::Args),
    /// Print a systemd timer or a cron line for regular pulls
    Schedule(schedule::Args),
    /// Forget a remembered account; its backup stays
    Remove(remove::Args),
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::Add(args) => add::run(*args, global).await,
        Command::List => list::run(global),
        Command::Pull(args) => pull::run(*args, global).await,
        Command::Verify(args) => verify::run(*args, global).await,
        Command::Restore(args) => restore::run(*args, global).await,
        Command::Migrate(args) => migrate::run(*args, global).await,
        Command::Mirror(args) => mirror::run(*args, global).await,
        Command::Stats(args) => stats::run(args, global).await,
        Command::Export(args) => export::run(*args, global).await,
        Command::BodyLimit(args) => body_limit::run(args, global),
        Command::Schedule(args) => schedule::run(args, global),
        Command::Remove(args) => remove::run(args, global),
    }
}
