//! Objects as a list: unreferenced ones, and checks of sealed ones without a key.

use std::collections::{BTreeSet, HashSet};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use sealpost_account::AccountState;
use sealpost_base::{AccountId, Kind, ObjectId};
use sealpost_vault::{ListedObject, message};

use super::names;
use super::report::{Location as At, Report};
use crate::data_dir::DataDir;

/// Objects checked at once.
const AT_ONCE: usize = 16;

/// Counts message objects that nothing in the account refers to: no damage, and removed in time.
///
/// # Errors
/// Never; what cannot be listed is reported.
pub async fn orphans(
    data_dir: &DataDir,
    account: AccountId,
    state: &AccountState,
    report: &mut Report,
) -> Result<()> {
    let known: HashSet<ObjectId> = state.message_objects().collect();
    for object in list(data_dir, account, report).await {
        let id = object.path.rsplit('/').next().and_then(|id| id.parse::<ObjectId>().ok());
        if !id.is_some_and(|id| known.contains(&id)) {
            report.totals.orphans += 1;
            report.totals.orphan_bytes += object.size;
        }
    }
    Ok(())
}

/// Without keys: whether each message object can be read and ends as message objects do.
///
/// # Errors
/// Never; what is wrong is reported.
pub async fn sealed(data_dir: &DataDir, account: AccountId, report: &mut Report) -> Result<()> {
    let objects = list(data_dir, account, report).await;
    report.expect(objects.len());
    let store = &data_dir.store;
    let checks = futures::stream::iter(objects).map(|object| async move {
        let wrong = message::size_in(store, &object).await.map(drop);
        (object.path, wrong)
    });
    let mut checks = std::pin::pin!(checks.buffer_unordered(AT_ONCE));
    while let Some((path, wrong)) = checks.next().await {
        report.progress();
        report.totals.sealed_objects += 1;
        match wrong {
            Ok(()) => {}
            // Removed since it was listed.
            Err(e) if e.kind() == Kind::NotFound => {}
            Err(e) => report.found(At::Object(path), e),
        }
    }
    Ok(())
}

/// Reports objects with invalid names, and counts those of accounts without a record: an
/// interrupted deletion left them, and they are removed later. A log that is unreachable is none of
/// them.
///
/// # Errors
/// Never; what cannot be listed is reported.
pub async fn unclaimed(data_dir: &DataDir, claimed: &BTreeSet<AccountId>, report: &mut Report) -> Result<()> {
    report.end_accounts();
    let mut logs = BTreeSet::new();
    let mut listed = data_dir.store.list("", None);
    loop {
        match listed.try_next().await {
            Ok(Some(object)) => {
                if !names::is_known(&object.path) {
                    let problem = "not a name that Sealpost uses: not checked; it may be an object with a \
                                   damaged name";
                    report.found(At::Object(object.path), problem);
                    continue;
                }
                if !object.path.starts_with("acct/") {
                    continue;
                }
                let mut parts = object.path.split('/').skip(1);
                let id = parts.next().and_then(|id| id.parse::<AccountId>().ok());
                if id.is_some_and(|id| claimed.contains(&id)) {
                    continue;
                }
                report.totals.unclaimed += 1;
                if parts.next() == Some("log") {
                    logs.extend(id);
                }
            }
            Ok(None) => break,
            Err(e) => {
                report.found(At::Object("the store".to_owned()), e.context("the objects cannot be listed"));
                return Ok(());
            }
        }
    }
    if !logs.is_empty() {
        // One that was made meanwhile has a record by now, and one that is being deleted has had
        // one all the time.
        let mut records = data_dir.directory.list_with_purged();
        while let Some(record) = records.next().await {
            // The owner of the mail is unknown while a record may not be read, which is reported.
            if matches!(&record, Err(e) if sealpost_files::owner::is_denied(e)) {
                return Ok(());
            }
            logs.retain(|id| !matches!(&record, Ok(record) if record.id == *id));
        }
        for share in data_dir.directory.shares().await.unwrap_or_default() {
            logs.remove(&share.share);
        }
    }
    for id in logs {
        let problem = "the store has mail of an account or shared mailbox, but no readable record names it: \
                       no user can open it";
        report.found(At::Object(format!("acct/{id}")), problem);
    }
    Ok(())
}

/// Whole messages, and those with evicted bodies.
async fn list(data_dir: &DataDir, account: AccountId, report: &mut Report) -> Vec<ListedObject> {
    let mut objects = Vec::new();
    for below in ["msg", "thin"] {
        let prefix = format!("acct/{account}/{below}");
        let mut listed = data_dir.store.list(&prefix, None);
        loop {
            match listed.try_next().await {
                Ok(Some(object)) => objects.push(object),
                Ok(None) => break,
                Err(e) => {
                    report.found(At::Object(prefix), e.context("the messages cannot be listed"));
                    break;
                }
            }
        }
    }
    objects
}
