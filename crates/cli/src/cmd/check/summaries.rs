//! The index segments and packs of an account. They are derived, so a damaged one costs only time:
//! it is rebuilt when needed. But the damage has a cause.

use anyhow::Result;
use futures::TryStreamExt;
use sealpost_account::AccountState;
use sealpost_base::{AccountId, Kind};
use sealpost_index::{packs, summary};
use sealpost_vault::{AccountKeys, index, pack};

use super::report::{Location as At, Report};
use crate::data_dir::DataDir;

/// Checks the segments: with keys, against the messages they summarize.
///
/// # Errors
/// Never; what is wrong is reported.
pub async fn check(
    data_dir: &DataDir,
    account: AccountId,
    opened: Option<(&AccountKeys, &AccountState)>,
    report: &mut Report,
) -> Result<()> {
    for prefix in [index::prefix(account), pack::prefix(account)] {
        below(data_dir, account, prefix, opened, report).await;
    }
    Ok(())
}

async fn below(
    data_dir: &DataDir,
    account: AccountId,
    prefix: String,
    opened: Option<(&AccountKeys, &AccountState)>,
    report: &mut Report,
) {
    let of_packs = prefix == pack::prefix(account);
    let mut listed = data_dir.store.list(&prefix, None);
    loop {
        let path = match listed.try_next().await {
            Ok(Some(object)) => object.path,
            Ok(None) => return,
            Err(e) => {
                report.found(At::Object(prefix), e.context("the index segments cannot be listed"));
                return;
            }
        };
        let checked = match opened {
            Some((keys, state)) if of_packs => {
                packs::verify(&data_dir.store, keys, account, state, &path).await
            }
            Some((keys, state)) => summary::verify(&data_dir.store, keys, account, state, &path).await,
            None => match data_dir.store.read(&path).await {
                Ok(object) if of_packs => pack::parts(&object).map(drop),
                Ok(object) => index::sections(&object).map(drop),
                Err(e) => Err(e),
            },
        };
        report.totals.index_segments += 1;
        match checked {
            Ok(()) => {}
            // Replaced since it was listed.
            Err(e) if e.kind() == Kind::NotFound => {}
            Err(e) if e.kind() == Kind::Retry => report.found(At::Object(path), e),
            Err(e) => report.found(At::Object(path), format!("{e}; it is made again when it is needed")),
        }
    }
}
