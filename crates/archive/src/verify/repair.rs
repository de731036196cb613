//! Repairs a backup: messages that a comparison found missing, different or damaged are fetched
//! again.
//!
//! It is a pull that asks for these messages too, and each replaces the stored one in the
//! transaction that brings it ([`crate::backup::Folder::replace`]). Messages that the server no
//! longer has stay as they are. Then the backup is compared again: only messages that were seen to
//! be right are reported as repaired.

use std::collections::HashMap;
use std::sync::Arc;

use sealpost_base::{Error, Result, UidSet};

use super::comparing::Compared;
use super::report::FolderReport;
use super::{Options, Report, compare};
use crate::backup::Backup;
use crate::client::Server;
use crate::pull::{self, Tools, pull};

impl FolderReport {
    /// Messages that the server has and the backup does not have, or not correctly.
    pub fn to_fetch(&self) -> UidSet {
        self.missing.union(&self.different).union(&self.reparable)
    }
}

/// Fetches again what `report` lists as missing, different or damaged, over up to `connections`
/// connections; returns the new reports.
///
/// # Errors
/// As [`super::verify`] and [`pull()`]. Messages fetched until then are in the backup, and the rest
/// is found again.
pub async fn repair(
    server: &Server,
    backup: Arc<dyn Backup>,
    options: &Options,
    connections: usize,
    tools: &Tools,
    report: Report,
) -> Result<Report> {
    let by_folder = report.folders.iter().map(|folder| (folder.name.clone(), folder.to_fetch()));
    let again: HashMap<String, UidSet> = by_folder.filter(|(_, uids)| !uids.is_empty()).collect();
    if again.is_empty() {
        return Ok(report);
    }
    let again = Arc::new(again);
    let names = again.clone();
    let pulling = pull::Options {
        connections,
        delete: false,
        wanted: Arc::new(move |found| names.contains_key(found.name.as_str())),
        dry_run: false,
        source_renamed: false,
        restored: options.restored.clone(),
        again: again.clone(),
    };
    let pulled = pull(server, backup.clone(), &pulling, tools).await?;
    if let Some(e) = pulled.broken {
        return Err(e);
    }
    // Missing messages have just been fetched, with their hashes. Wrong ones are compared again.
    let wrong = |folder: &FolderReport| folder.damaged_uids.union(&folder.different);
    let wrong = report
        .folders
        .iter()
        .filter(|folder| again.contains_key(&folder.name))
        .map(|f| (f.name.clone(), wrong(f)));
    let wrong: HashMap<_, _> = wrong.collect();
    let mut stop = tools.stop.clone();
    let compared = tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => return Err(interrupted()),
        compared = compare(server, backup, options, &*tools.random, Some(&wrong)) => compared?,
    };
    let mut now: HashMap<String, Compared> =
        compared.into_iter().map(|after| (after.report.name.clone(), after)).collect();
    let folders = report.folders.into_iter().map(|before| {
        let (Some(fetched), Some(Compared { report: mut after, common, done })) =
            (again.get(&before.name), now.remove(&before.name))
        else {
            return before;
        };
        let none = UidSet::new();
        let wrong = wrong.get(&before.name).unwrap_or(&none);
        // Messages that were not compared now keep their state.
        after.different = after.different.union(&before.different.difference(&done));
        let seen = common.difference(wrong).union(&wrong.intersection(&done));
        after.repaired = fetched.intersection(&seen).difference(&after.different);
        // The first comparison of differing messages does not count.
        after.compared += before.compared.saturating_sub(before.different.len() as u64);
        let told = pulled.of.iter().find(|folder| folder.name == after.name);
        after.error = after.error.or_else(|| told?.error.clone());
        // A folder that could not be compared then was not compared now.
        after.error = after.error.or(before.error);
        after
    });
    Ok(Report { folders: folders.collect() })
}

fn interrupted() -> Error {
    Error::retry("interrupted; the messages fetched so far are in the backup")
}

#[cfg(test)]
mod tests;
