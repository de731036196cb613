//! Pulling from a scripted server, with the options that every test uses.

use std::sync::Arc;

use sealpost_base::{FakeClock, Result, SeededRandom, Timestamp};
use tokio::sync::watch;

use super::super::{Options, Report, Silent, Tools, pull};
use super::memory::Memory;
use super::server::Script;
use crate::backup::Backup;

/// One connection, everything, nothing removed.
pub(crate) fn options() -> Options {
    Options {
        connections: 1,
        delete: false,
        wanted: Arc::new(|_| true),
        dry_run: false,
        source_renamed: false,
        restored: Arc::default(),
        again: Arc::default(),
    }
}

/// A fixed clock, seeded randomness, no observer; a pull runs until the sender stops it.
pub(crate) fn tools() -> (watch::Sender<bool>, Tools) {
    let (stop, watched) = watch::channel(false);
    let tools = Tools {
        clock: Arc::new(FakeClock::new(Timestamp(0))),
        random: Arc::new(SeededRandom::new(1)),
        observer: Arc::new(Silent),
        stop: watched,
    };
    (stop, tools)
}

/// Pulls into a backup of any kind.
pub(crate) async fn pulled_into(
    script: &Script,
    backup: Arc<dyn Backup>,
    options: Options,
) -> Result<Report> {
    let (_stop, tools) = tools();
    pull(&script.server(), backup, &options, &tools).await
}

/// Pulls into a backup in memory.
pub(crate) async fn pulled_with(script: &Script, backup: &Memory, options: Options) -> Result<Report> {
    pulled_into(script, Arc::new(backup.clone()), options).await
}

/// Pulls everything into a backup in memory.
pub(crate) async fn pulled(script: &Script, backup: &Memory) -> Report {
    pulled_with(script, backup, options()).await.unwrap()
}

/// A complete copy in memory.
pub(crate) async fn copy_of(script: &Script) -> Memory {
    let backup = Memory::default();
    let report = pulled(script, &backup).await;
    assert!(report.is_complete(), "{report:?}");
    backup
}
