//! The database of a local store: whether it is undamaged, and whether a listing shows all its
//! objects.

use std::time::Duration;

use anyhow::Result;
use sealpost_base::limits::{DATABASE_CHECK_TIME, DATABASE_START_TIME};
use sealpost_vault::store::Extent;

use super::report::{Location as At, Report, Trouble};
use crate::data_dir::DataDir;

/// The object of a report about the database.
const DATABASE: &str = "objects.sqlite";

/// How long a process may take to overwrite what it has removed.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// Checks all of it, or, if only some accounts are checked, the indexes and the newest objects.
///
/// # Errors
/// Never; what is wrong is reported.
pub async fn check(data_dir: &DataDir, whole: bool, report: &mut Report) -> Result<()> {
    let (extent, time) = match whole {
        true => (Extent::Whole, DATABASE_CHECK_TIME),
        false => (Extent::Newest, DATABASE_START_TIME),
    };
    let found = match data_dir.store.inspect(extent, time).await {
        Ok(found) => found,
        Err(e) => {
            report.found(At::Object(DATABASE.to_owned()), e);
            return Ok(());
        }
    };
    if !found.is_sound() {
        report.advise_repair();
    }
    for what in found.damage {
        report.found(At::Object(DATABASE.to_owned()), what);
    }
    left_slots(data_dir, report).await;
    if found.unfinished && whole {
        let why = format!("not looked at to its end within {} hours", time.as_secs() / 3600);
        report.found(At::Object(DATABASE.to_owned()), Trouble::unread(why));
    }
    Ok(())
}

/// Names files of account records that a process was killed before it had erased. One that is being
/// removed right now is there for a moment.
async fn left_slots(data_dir: &DataDir, report: &mut Report) {
    let mut left = data_dir.store.left_slots().await;
    if left.as_ref().is_ok_and(|left| !left.is_empty()) {
        tokio::time::sleep(RECHECK_AFTER).await;
        let again = data_dir.store.left_slots().await;
        left = left.and_then(|before| Ok(again?.into_iter().filter(|file| before.contains(file)).collect()));
    }
    for file in report.note(At::Object(DATABASE.to_owned()), left).unwrap_or_default() {
        let why = "a file of an account record that was removed: it may hold a password or app password that was withdrawn, because a \
                   process was killed before it had erased it: start the server, which erases it";
        report.found(At::Object(file), why);
    }
}
