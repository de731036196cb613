//! What this node has seen of the store, held against what is there.

use anyhow::Result;
use sealpost_base::{AccountId, Position};
use sealpost_directory::AccountRecord;
use sealpost_journal::Journal;
use sealpost_vault::entry::LogKey;

use super::report::{Location as At, Report};
use crate::data_dir::DataDir;

const REMEDY: &str = "after restoring a backup, run `sealpost store confirm-restore`";

/// Names every log and record that ends before what was seen of it; of these accounts, if not of all.
///
/// # Errors
/// If the store cannot be listed.
pub async fn check(
    data_dir: &DataDir,
    accounts: &[AccountRecord],
    all: bool,
    report: &mut Report,
) -> Result<()> {
    let is_asked = |id| all || accounts.iter().any(|account| account.id == id);
    let is_record_asked =
        |path: &str| all || accounts.iter().any(|account| data_dir.directory.path_of(&account.name) == path);
    let key = LogKey::of(&data_dir.key);
    for (account, seen) in data_dir.watermarks.logs() {
        let journal = Journal::new(data_dir.store.clone(), account, &key, data_dir.random.clone());
        if !is_asked(account)
            || seen == Position::ZERO
            || journal.last_after(Position(seen.0 - 1)).await? >= seen
        {
            continue;
        }
        // An account that was deleted permanently has no objects left.
        let path = format!("acct/{account}");
        if !data_dir.store.names_below(&path).await?.is_empty() {
            report.found(
                At::Object(path),
                format!("its log had entry {seen}, which this node has seen, and ends before that: {REMEDY}"),
            );
        }
    }
    for (directory, seen) in data_dir.watermarks.records() {
        if !is_record_asked(&directory) {
            continue;
        }
        let last = data_dir.store.names_below(&directory).await?;
        let version = |name: &String| sealpost_journal::EntryName::parse(name).map(|entry| entry.position.0);
        if last.iter().filter_map(version).max().is_none_or(|last| last < seen) {
            let why =
                format!("this node has seen version {seen} of it, which is not there any more: {REMEDY}");
            report.found(At::Object(directory), why);
        }
    }
    for (directory, seen) in data_dir.watermarks.records_that_end() {
        let is_of = |id| directory.split('/').any(|part| part == AccountId::to_string(&id));
        if !all && !accounts.iter().any(|account| is_of(account.id)) {
            continue;
        }
        let names = data_dir.store.names_below(&directory).await?;
        let version = |name: &String| sealpost_journal::EntryName::parse(name).map(|entry| entry.position.0);
        // One without any version has ended, with its login, mailbox or account.
        if names.iter().filter_map(version).max().is_some_and(|last| last < seen) {
            let why =
                format!("this node has seen version {seen} of it, and later ones are not there: {REMEDY}");
            report.found(At::Object(directory), why);
        }
    }
    Ok(())
}
