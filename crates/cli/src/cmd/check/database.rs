//! The database of a local store: whether it is what was written, and whether a listing shows all that is in it.

use anyhow::Result;
use sealpost_base::limits::{DATABASE_CHECK_TIME, DATABASE_START_TIME};
use sealpost_vault::store::Extent;

use super::report::{Location as At, Report, Trouble};
use crate::data_dir::DataDir;

/// What a problem of the database is said of.
const DATABASE: &str = "objects.sqlite";

/// Looks at all of it, or, if only some accounts are checked, at the indexes and the newest objects.
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
    if found.unfinished && whole {
        let why = format!("not looked at to its end within {} hours", time.as_secs() / 3600);
        report.found(At::Object(DATABASE.to_owned()), Trouble::unread(why));
    }
    Ok(())
}
