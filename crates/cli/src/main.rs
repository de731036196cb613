//! The binary `sealpost`: commands, configuration, output.
//!
//! Only this crate prints, prompts or reads configuration; everything else is done by the crates
//! below it. One file per command in `cmd/`; what they share is a noun each: [`global`] options,
//! the [`data_dir`] where the data is, [`secret`]s, the [`store`], [`output`], [`exit`] codes,
//! [`config`], [`log`].

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod aliases;
mod allocator;
mod cmd;
mod config;
mod data_dir;
mod exit;
mod global;
mod help;
mod inspection;
mod log;
mod output;
mod queues;
mod running;
mod samples;
mod secret;
mod shell;
mod store;

use std::alloc::System;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use zeroizing_alloc::ZeroAlloc;

use crate::allocator::Reading;
use crate::config::Config;
use crate::global::Global;

/// The most threads for work that blocks: files, SQLite's pages, password slots.
const BLOCKING_THREADS: usize = 64;
/// How long such a thread waits for more before it ends, so that a burst does not cost memory for long.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Wipes what is freed: keys, mail, and every buffer that either was in ([decision
/// 54](../../../docs/decisions/0054-memory.md)).
#[global_allocator]
static ALLOCATOR: ZeroAlloc<System> = ZeroAlloc(System);

/// The version, and the commit that it was built from (`build.rs`).
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SEALPOST_COMMIT"), ")");

/// A mail server whose mailboxes are sealed with their owners' keys.
#[derive(Parser)]
#[command(name = "sealpost", version = VERSION, propagate_version = true, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let _last_lines = log::LastLines;
    let mut command = help::with_options_line(Cli::command());
    let cli =
        Cli::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|e| e.format(&mut command).exit());
    if let Some(reading) = reading(&cli)
        && let Err(e) = allocator::tune(reading)
    {
        output::warn(format_args!("cannot tune the allocator, which may keep unused memory: {e}"));
    }
    // A server says in its configuration whether it may be looked into.
    if !matches!(cli.command, cmd::Command::Serve(_))
        && let Err(e) = inspection::leave_no_cores()
    {
        output::warn(format_args!("cannot turn off core dumps, which would contain keys: {e}"));
    }
    let outcome = runtime().and_then(|runtime| {
        survive_file_limits(&runtime)?;
        let outcome = runtime.block_on(cmd::run(cli.command, &cli.global));
        // A prompt that was interrupted, or a file system that hangs, must not keep the process.
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    });
    match outcome {
        Ok(code) => code,
        Err(e) => {
            output::error(&e);
            exit::code(&e)
        }
    }
}

/// The source of mail for a command that runs for long or reads much. Errors of the configuration
/// are reported later.
fn reading(cli: &Cli) -> Option<Reading> {
    match cli.command {
        cmd::Command::Serve(_) if Config::load(&cli.global).is_ok_and(|config| config.store.is_bucket()) => {
            Some(Reading::Bucket)
        }
        cmd::Command::Try(_) | cmd::Command::Serve(_) | cmd::Command::Archive(_) => Some(Reading::Files),
        _ => None,
    }
}

/// A file that may grow no further (`ulimit -f`) is an error of the write, reported like a full
/// disk. Its signal would end the process without a message. A handler prevents that, even one that
/// is no longer awaited.
fn survive_file_limits(runtime: &tokio::runtime::Runtime) -> anyhow::Result<()> {
    let _within = runtime.enter();
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop).context("cannot listen to signals")
}

/// As many workers as there are cores.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().max_blocking_threads(BLOCKING_THREADS).thread_keep_alive(BLOCKING_KEEP_ALIVE);
    Ok(builder.build()?)
}
