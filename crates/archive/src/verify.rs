//! Comparing a backup with its server: counts, UIDs, sizes, and the bytes of some messages or all.
//!
//! First the backup against itself: each message is read, and its hash compared with the stored
//! one. Then the backup against the server: a message that only the server has is missing; one of
//! another size is reported, not counted as wrong, since some servers report wrong sizes; one with
//! other bytes is wrong. Bytes are compared by their SHA-256 in every format. Folders that only the
//! backup has are compared with themselves.
//!
//! A lost connection is made again, and nothing is compared twice.
//!
//! [`repair()`] fetches what is missing, different or damaged, and compares once more.

use std::collections::HashMap;
use std::sync::Arc;

use sealpost_base::{Kind, Random, Result, UidSet};

use crate::backup::{Backup, ownership};
use crate::blocking::blocking;
use crate::client::{Backoff, Server};
use crate::restored::Restored;
use comparing::{Compared, Comparing};
use local::read;
use plan::{Alone, Ends, Plan};
use server_connection::ServerConnection;

mod comparing;
mod local;
mod plan;
mod repair;
mod report;
mod requests;
mod server_connection;
#[cfg(test)]
mod tests;

pub use plan::Sample;
pub use repair::repair;
pub use report::FolderReport;

/// What to compare.
#[derive(Clone)]
pub struct Options {
    /// Messages of each folder that are fetched and compared byte by byte.
    pub sample: Sample,
    /// Which folders, by their names.
    pub wanted: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// What restores put back into the account.
    pub restored: Arc<Restored>,
    /// Called with the folder of each message that was read in the backup or compared with the
    /// server's.
    pub looked: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Everything, byte by byte, without progress reports.
    pub fn all() -> Self {
        let (wanted, looked) = (Arc::new(|_: &str| true), Arc::new(|_: &str| ()));
        Options { sample: Sample::All, wanted, restored: Arc::default(), looked }
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// By folder.
    pub folders: Vec<FolderReport>,
}

/// Compares `backup` with `server`.
///
/// # Errors
/// Errors that prevent the comparison from starting or continuing. Errors of single folders are in
/// the report.
pub async fn verify(
    server: &Server,
    backup: Arc<dyn Backup>,
    options: &Options,
    random: &dyn Random,
) -> Result<Report> {
    let folders = compare(server, backup, options, random, None).await?;
    Ok(Report { folders: folders.into_iter().map(|compared| compared.report).collect() })
}

/// Like [`verify`]; also returns which messages were compared. `only`: limits it to these messages
/// of these folders.
async fn compare(
    server: &Server,
    backup: Arc<dyn Backup>,
    options: &Options,
    random: &dyn Random,
    only: Option<&HashMap<String, UidSet>>,
) -> Result<Vec<Compared>> {
    let backoff = Backoff::new(server.timeouts.retry);
    let mut there = ServerConnection { server, connection: None, backoff, random };
    let (folders, all) = loop {
        match there.folders(options).await {
            Err(e) if e.kind() == Kind::Retry => there.connection_lost(e).await?,
            folders => break folders?,
        }
    };
    let (kept, superseded) = {
        let (backup, source) = (backup.clone(), server.source());
        blocking(move || {
            ownership::claim(&*backup, &source, false, true)?;
            Ok((backup.folders()?, backup.superseded()?))
        })
        .await?
    };
    let ends = Ends { folders: &folders, all: &all, kept: &kept, superseded: &superseded };
    let plan = Plan::of(&ends, &*options.wanted, only);
    let mut compared = Vec::new();
    for folder in plan.with_server {
        compared.push(Comparing::new(&backup, folder, options).run(&mut there, random).await?);
    }
    there.logout().await;
    for alone in plan.alone {
        let report = compare_alone(&backup, &alone, options).await;
        compared.push(Compared { report, common: UidSet::new(), done: UidSet::new() });
    }
    Ok(compared)
}

/// Checks a folder against itself when its mailbox is not compared with the server, which may have
/// it all the same.
async fn compare_alone(backup: &Arc<dyn Backup>, alone: &Alone<'_>, options: &Options) -> FolderReport {
    let Alone { kept, is_there } = *alone;
    let mut report = FolderReport { name: kept.name.to_string(), ..FolderReport::default() };
    let (backup, name, looked) = (backup.clone(), kept.name.clone(), options.looked.clone());
    match blocking(move || read(&*backup, &name, &*looked)).await {
        Ok(local) => {
            report.kept = local.messages.len() as u64;
            report.evicted = local.evicted.len() as u64;
            if kept.was.is_some() || !is_there {
                report.gone = report.kept;
                report.beyond_repair.clone_from(&local.damaged_uids);
            }
            // The server may have all messages of a superseded folder under other UIDs.
            if kept.was.is_none() && !is_there {
                report.lost = local.evicted;
            }
            (report.damaged, report.damaged_uids) = (local.damaged, local.damaged_uids);
        }
        Err(e) => report.error = Some(e.to_string()),
    }
    report
}
