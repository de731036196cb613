//! The options that `restore`, `migrate` and `mirror` share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use sealpost_archive::client::Server;
use sealpost_archive::push::{MapFile, Options, UidMap};
use sealpost_base::SystemRandom;
use tokio::sync::watch;

use super::folders::{Chosen, FolderArgs};
use super::remembered::Accounts;
use super::stop;
use crate::aliases;
use crate::exit::{Usage, in_use};
use crate::global::Global;

/// Options that say what is put, and where.
#[derive(clap::Args)]
pub struct PutArgs {
    #[command(flatten)]
    folders: FolderArgs,
    /// Put all folders below FOLDER; levels separated by /
    #[arg(long, alias = aliases::PREFIX, value_name = "FOLDER")]
    prefix: Option<String>,
    /// Report what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl PutArgs {
    /// The request for a run to the target called `to`. The map of UIDs is in these files. `stop`
    /// becomes true on an interrupt.
    ///
    /// # Errors
    /// If the map cannot be read or written.
    pub fn options(
        self,
        map: &[MapFile<'_>],
        to: &str,
        stop: watch::Receiver<bool>,
    ) -> Result<(Options, Arc<Chosen>)> {
        let map = UidMap::open(map, to).map_err(in_use).context("the map of UIDs")?;
        let chosen = Arc::new(Chosen::new(self.folders));
        let folders = chosen.clone();
        let options = Options {
            wanted: Arc::new(move |name| folders.wants(name)),
            below: self.prefix.map(|name| name.split('/').map(str::to_owned).collect()).unwrap_or_default(),
            include_superseded: false,
            dry_run: self.dry_run,
            map: Arc::new(Mutex::new(map)),
            restored: Arc::default(),
            random: Arc::new(SystemRandom),
            stop,
        };
        Ok((options, chosen))
    }

    /// The servers of two configured accounts, and the request between them. The default of the
    /// folders are those of the first account; the map is `map`, or else the one beside its
    /// configuration.
    ///
    /// # Errors
    /// As [`PutArgs::options`]; if signals cannot be listened to, an account is not remembered, or
    /// its password cannot be had.
    pub async fn between(
        mut self,
        global: &Global,
        (from, to): (&str, &str),
        map: Option<PathBuf>,
    ) -> Result<(Server, Server, Options, Arc<Chosen>)> {
        // Also during password prompts.
        let stop = stop::on_signals()?;
        if from == to {
            return Err(Usage(format!("{from} is named twice: name the account to put it into")).into());
        }
        let accounts = Accounts::of(global)?;
        let (source, destination) = (accounts.get(from)?, accounts.get(to)?);
        self.folders = self.folders.or(&source.folders, &source.exclude);
        let (source, destination) = (source.server.server().await?, destination.server.server().await?);
        let map = map.unwrap_or_else(|| accounts.map(from, to));
        let called = source.to_string();
        let map = MapFile { path: &map, from: &called, write: !self.dry_run };
        let (options, chosen) = self.options(&[map], &destination.to_string(), stop)?;
        Ok((source, destination, options, chosen))
    }
}
