//! The commands, one file each.

mod account;
mod alias;
mod archive;
mod backup;
mod bench;
mod check;
mod config;
mod domain;
mod export;
mod import;
mod queue;
mod serve;
mod server;
mod stats;
mod store;
mod top;
mod trace;
mod r#try;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::global::{Global, Level};
use crate::help;
use crate::log::{self, Log};

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Try Sealpost: run a server with an account and sample mail
    Try(r#try::Args),
    /// Run the server
    Serve(serve::Args),
    /// Manage accounts, app passwords and recovery codes
    Account(account::Args),
    /// Manage aliases and catch-alls
    Alias(alias::Args),
    /// Make signing keys of domains, and check their DNS records
    Domain(domain::Args),
    /// Show and change the queue of mail that is to be sent
    Queue(queue::Args),
    /// Trace a mail from its acceptance to its delivery or failure
    Trace(trace::Args),
    /// Import mbox files, Maildirs and .eml files into an account
    Import(import::Args),
    /// Export an account's mail to mbox files or a Maildir
    Export(export::Args),
    /// Back up a mailbox of another server
    Archive(archive::Args),
    /// Copy a store, or accounts of it, into another one while the server runs: to back up, to
    /// restore, to move
    Backup(backup::Args),
    /// Verify the store and report damage
    Check(check::Args),
    /// Print the number and size of accounts and objects
    Stats(stats::Args),
    /// Test or repair a store
    Store(store::Args),
    /// Show and replace the server's key
    Server(server::Args),
    /// Monitor the server: sessions, memory, rates
    Top(top::Args),
    /// Benchmark an IMAP, JMAP, SMTP, submission or LMTP server
    Bench(bench::Args),
    /// Show the configuration
    Config(config::Args),
    /// Print the options that every command has
    #[command(after_help = help::options(), override_usage = "sealpost help options")]
    Options,
}

/// Does it.
///
/// # Errors
/// As the command says.
pub async fn run(command: Command, global: &Global) -> Result<ExitCode> {
    if !matches!(command, Command::Try(_) | Command::Serve(_)) {
        // What a server logs is configured; a command says what is worth knowing itself.
        log::start(Log { level: global.log_level.unwrap_or(Level::Error), ..Log::default() });
    }
    match command {
        Command::Try(args) => r#try::run(args, global).await,
        Command::Serve(args) => serve::run(args, global).await,
        Command::Account(args) => account::run(args, global).await,
        Command::Alias(args) => alias::run(args, global).await,
        Command::Domain(args) => domain::run(args, global).await,
        Command::Queue(args) => queue::run(args, global).await,
        Command::Trace(args) => trace::run(args, global).await,
        Command::Import(args) => import::run(args, global).await,
        Command::Export(args) => export::run(args, global).await,
        Command::Archive(args) => archive::run(args, global).await,
        Command::Backup(args) => backup::run(args, global).await,
        Command::Check(args) => check::run(args, global).await,
        Command::Stats(args) => stats::run(args, global).await,
        Command::Store(args) => store::run(args, global).await,
        Command::Server(args) => server::run(args, global).await,
        Command::Top(args) => top::run(args, global).await,
        Command::Bench(args) => bench::run(args, global).await,
        Command::Config(args) => config::run(args, global).await,
        Command::Options => {
            global.output().line(help::options())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
