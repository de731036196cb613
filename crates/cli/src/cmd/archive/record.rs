//! Where records of restores are: in the backup, and, of earlier versions, beside what is
//! remembered of accounts.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use sealpost_archive::backup::{Backup, Source};
use sealpost_archive::restored::{RecordFile, Restored};

use super::remembered::Accounts;

/// What restores from the backup in `directory` put into `account`; `all`: also what a pull has seen.
///
/// # Errors
/// If a record cannot be read.
pub async fn restored(
    directory: &Path,
    others: Vec<RecordFile>,
    account: Source,
    all: bool,
) -> Result<Arc<Restored>> {
    let directory = directory.to_owned();
    let read = move || Restored::read(&directory, &others, &account, all);
    Ok(Arc::new(tokio::task::spawn_blocking(read).await??))
}

/// As [`restored`], all that was put into the account which the backup is of.
///
/// # Errors
/// As [`restored`]; if the backup cannot say whose it is.
pub async fn of_copy(
    copy: &Arc<dyn Backup>,
    directory: &Path,
    account: Option<(&Accounts, &str)>,
) -> Result<Arc<Restored>> {
    let owner = copy.clone();
    let Some(owner) = tokio::task::spawn_blocking(move || owner.source()).await?? else {
        return Ok(Arc::default());
    };
    let others = account.map_or_else(Vec::new, |(accounts, name)| earlier(accounts, name, Some(&owner)));
    restored(directory, others, owner, true).await
}

/// Records of earlier versions of what was restored from the backup of the account `name`, which is
/// of this owner's mail.
pub fn earlier(accounts: &Accounts, name: &str, owner: Option<&Source>) -> Vec<RecordFile> {
    let names = [Some(name.to_owned()), owner.map(|owner| called(name, owner))];
    let files = accounts.maps_from(&format!("{name}.copy"));
    let files = files.iter().flat_map(|path| {
        let of = |from: &String| RecordFile { path: path.clone(), from: Some(from.clone()) };
        names.iter().flatten().map(of)
    });
    files.collect()
}

/// What the backup of the account `name` was called in them: another one may have been given the name since.
pub fn called(name: &str, owner: &Source) -> String {
    format!("{name}, the backup of {owner}")
}
