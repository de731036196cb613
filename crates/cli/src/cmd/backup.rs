//! `sealpost backup`: a store, or one account of it, into another store.
//!
//! [`StoreBackup`] copies; this file has the options, opens the stores and reports.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealpost_base::Error;
use sealpost_base::limits::DATABASE_START_TIME;
use sealpost_vault::Store;
use sealpost_vault::store::Extent;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::exit::{FAILED, Usage};
use crate::global::Global;
use crate::store::{Purpose, is_store};
use store_backup::StoreBackup;
use summary::Summary;

/// Arguments of `sealpost backup`.
#[derive(clap::Args)]
#[command(after_help = "A store is s3://bucket/prefix (with the endpoint, region and access key of the \
                        configuration), file:///directory, a directory, or config:FILE, the store of \
                        another configuration. Objects that TO already has are not copied again: run the \
                        command again to continue after an interruption, or to update a backup. It \
                        replaces and removes nothing. It does not copy keys: copy server.key, and mail.key \
                        if there is one, yourself. New objects are read back and compared; existing ones are compared by \
                        size, with --verify byte by byte. A file at TO that is missing or has another \
                        size is written again. Exit status 1 if an object at TO differs, or if an object \
                        at FROM is damaged or cannot be read; the others are copied.\n
Examples:
  sealpost backup ./sealpost-data /backup/mail
  sealpost backup --config /etc/sealpost.toml s3://mail /backup/mail --json
  sealpost backup ./sealpost-data s3://mail --account jane@example.org")]
pub struct Args {
    /// The store to copy from
    #[arg(value_name = "FROM")]
    from: String,
    /// The store to copy to; a missing directory is created
    #[arg(value_name = "TO")]
    to: String,
    /// Copy this account and its shared mailboxes only; may be repeated. The data directory must
    /// have the server.key of FROM
    #[arg(long, value_name = "NAME")]
    account: Vec<String>,
    /// Compare existing objects at TO byte by byte instead of by size
    #[arg(long)]
    verify: bool,
}

mod paths;
mod repaired;
mod store_backup;
mod summary;

/// Runs the command.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let config = Config::load(global)?;
    require(&config, &args)?;
    let from = open(&config, &args.from, Purpose::Read).await?;
    let to = open(&config, &args.to, Purpose::Change).await?;
    // Objects that a damaged listing omits are not copied, and nothing else would show it.
    let damage = from.inspect(Extent::Newest, DATABASE_START_TIME).await?.damage;
    let summary = Summary { from: args.from.clone(), to: args.to.clone(), damage, ..Summary::default() };
    let mut copy = StoreBackup::new(from, to);
    copy.verify = args.verify;
    copy.summary = summary;
    copy.bar = progress(global);
    let done = if args.account.is_empty() {
        copy.copy_all().await
    } else {
        DataDir::require_key(&config)?;
        let data_dir = DataDir::over(&config, copy.from.clone())?;
        copy.accounts(&data_dir, &args.account).await
    };
    copy.bar.finish_and_clear();
    let summary = copy.summary;
    if let Err(e) = done {
        global.output().note(summary.to_text());
        return Err(e.context("the backup is incomplete; run the command again to continue"));
    }
    match summary.is_complete() {
        true => global.output().done(&summary, Summary::to_text)?,
        false => global.output().show(&summary, Summary::to_text)?,
    }
    Ok(if summary.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Checks that the source exists: opening a local store would create it.
fn require(config: &Config, args: &Args) -> Result<()> {
    for store in [&args.from, &args.to] {
        if let Some(file) = local(config, store)?.filter(|path| path.exists() && !path.is_dir()) {
            return Err(Usage(format!("{} is not a directory", file.display())).into());
        }
    }
    match local(config, &args.from)? {
        Some(directory) if !is_store(&directory)? => {
            Err(Error::not_found(format!("there is no store in {}", directory.display())).into())
        }
        _ => Ok(()),
    }
}

/// The directory of a local store.
fn local(config: &Config, store: &str) -> Result<Option<PathBuf>> {
    match store.strip_prefix("config:") {
        None => config.store.directory_of(store),
        Some(file) => {
            let named = Global { config: Some(file.into()), ..Global::default() };
            let other = Config::load(&named)?;
            Ok(other.store.directory(&other.directory))
        }
    }
}

async fn open(config: &Config, store: &str, purpose: Purpose) -> Result<Store> {
    match store.strip_prefix("config:") {
        None => config.store.at(store, purpose).await,
        Some(file) => {
            let named = Global { config: Some(file.into()), ..Global::default() };
            let other = Config::load(&named)?;
            other.store.open(&other.directory, purpose).await
        }
    }
}

fn progress(global: &Global) -> ProgressBar {
    if !global.output().shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {prefix} {msg}, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
