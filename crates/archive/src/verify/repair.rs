//! Mending a backup: what a comparison found missing, different or damaged is fetched again.
//!
//! It is a pull that asks for these messages too, and each takes the place of what is there in the
//! transaction that brings it ([`crate::backup::Folder::replace`]). What the server no longer has
//! stays as it is. Then it is compared again: only what was seen to be right is called repaired.

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
    /// What the server has and the backup has not, or not as it should be.
    pub fn to_fetch(&self) -> UidSet {
        self.missing.union(&self.different).union(&self.reparable)
    }
}

/// Fetches again what `report` says is missing, different or damaged, over so many connections;
/// what is to be said of the folders now.
///
/// # Errors
/// As [`super::verify`] and [`pull()`]. What was fetched until then is in the backup, and what is
/// left is found again.
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
    // What was only missing has just come, with its hash. What was there and wrong is looked at again.
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
        // What was not compared now is what it was.
        after.different = after.different.union(&before.different.difference(&done));
        let seen = common.difference(wrong).union(&wrong.intersection(&done));
        after.repaired = fetched.intersection(&seen).difference(&after.different);
        // Of what differed, the first look does not count.
        after.compared += before.compared.saturating_sub(before.different.len() as u64);
        let told = pulled.of.iter().find(|folder| folder.name == after.name);
        after.error = after.error.or_else(|| told?.error.clone());
        // What could not be compared then was not among what was looked at now.
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
