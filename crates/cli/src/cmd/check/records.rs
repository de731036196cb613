//! Account and alias records: every version that is kept, and what the newest ones say.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use sealpost_base::{Error, Kind};
use sealpost_directory::AccountRecord;
use sealpost_vault::record::open_record;

use sealpost_journal::Ballot;

use super::report::{Location as At, Report};
use crate::data_dir::DataDir;

/// How long a password change may take from its first write to its last.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// Checks the records of all accounts and aliases; the accounts that can be read, removed ones included.
pub async fn all(data_dir: &DataDir, report: &mut Report) -> Result<Vec<AccountRecord>> {
    let mut damaged = BTreeSet::new();
    for root in ["server", "accounts", "aliases", "shares", "usage", "vacations", "logins"] {
        let mut listed = data_dir.store.list(root, None);
        loop {
            let object = match listed.try_next().await {
                Ok(Some(object)) => object,
                Ok(None) => break,
                Err(e) => {
                    report.found(At::Object(root.to_owned()), e.context("the records cannot be listed"));
                    break;
                }
            };
            let (directory, name) = object.path.rsplit_once('/').unwrap_or_default();
            // Without conditional create, writers of a record agree by objects that only have a
            // name.
            if Ballot::of_file(name).is_some() {
                continue;
            }
            report.totals.records += 1;
            match authentic(data_dir, directory, name).await {
                // A newer version replaced it just now.
                Err(e) if e.kind() == Kind::NotFound => {}
                Err(e) => {
                    report.found(At::Object(object.path.clone()), e);
                    damaged.extend(object.path.rsplit_once('/').map(|(directory, _)| directory.to_owned()));
                }
                Ok(()) => {}
            }
        }
    }
    let mut accounts = Vec::new();
    let mut records = data_dir.directory.list_with_purged();
    while let Some(record) = records.next().await {
        match record {
            Ok(record) => {
                withdrawn_copies(data_dir, &record, report).await;
                accounts.extend((!record.purged).then_some(record));
            }
            Err(e) => unless_known(&damaged, e, report),
        }
    }
    let mut aliases = data_dir.directory.aliases();
    while let Some(alias) = aliases.next().await {
        if let Err(e) = alias {
            unless_known(&damaged, e, report);
        }
    }
    Ok(accounts)
}

/// Names what is left of a secret that was withdrawn. A change that is being made right now has
/// some for a moment.
pub async fn withdrawn_copies(data_dir: &DataDir, record: &AccountRecord, report: &mut Report) {
    let mut copies = data_dir.directory.withdrawn_copies(record).await;
    if copies.as_ref().is_ok_and(|copies| !copies.is_empty()) {
        tokio::time::sleep(RECHECK_AFTER).await;
        let again = data_dir.directory.withdrawn_copies(record).await;
        copies =
            copies.and_then(|before| Ok(again?.into_iter().filter(|path| before.contains(path)).collect()));
    }
    for path in report.note(At::Account, copies).unwrap_or_default() {
        let why = "it holds a password or app password that was withdrawn, because that change was interrupted: start the \
                   server, which removes it, or repeat the change";
        report.found(At::Object(path), why);
    }
}

async fn authentic(data_dir: &DataDir, directory: &str, name: &str) -> sealpost_base::Result<()> {
    let object = data_dir.store.read(&format!("{directory}/{name}")).await?;
    // A record is bound to its version; the ballot beside it is not part of that.
    let version = sealpost_journal::EntryName::parse(name).map_or_else(
        || name.to_owned(),
        |entry| sealpost_journal::EntryName::plain(entry.position).file_name(),
    );
    open_record(&data_dir.key, &format!("{directory}/{version}"), &object).map(drop)
}

/// What was wrong with the bytes of a record was reported; what it says may be wrong besides.
fn unless_known(damaged: &BTreeSet<String>, e: Error, report: &mut Report) {
    let text = e.to_string();
    if !damaged.iter().any(|directory| text.contains(directory.as_str())) {
        report.found(At::Account, e);
    }
}
