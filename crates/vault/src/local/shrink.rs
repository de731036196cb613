//! Giving room inside the database back to the disk.
//!
//! SQLite uses again what removed rows took, and the file stays as large as it was. That is what a server wants; a copy that was
//! told to take less does not. The first time the whole database is written anew, with what later times need to cut off the end
//! of the file instead, a few pages to a transaction.

use std::path::Path;

use rusqlite::Connection;

use super::schema::{self, Access};

/// Free pages that are worth it: a MiB, and a quarter of the file.
const WORTH_PAGES: i64 = 128;
const WORTH_PART: i64 = 4;
/// Pages of one transaction.
const STEP_PAGES: i64 = 512;
/// `PRAGMA auto_vacuum`: free pages are cut off when it is asked for.
const INCREMENTAL: i64 = 2;

/// Makes the file smaller if enough of it is free. Whoever writes meanwhile waits.
pub(super) fn shrink(database: &Path) -> rusqlite::Result<()> {
    let connection = schema::connect(database, Access::Write)?;
    let free = number(&connection, "freelist_count")?;
    if free < WORTH_PAGES || free.saturating_mul(WORTH_PART) < number(&connection, "page_count")? {
        return Ok(());
    }
    if number(&connection, "auto_vacuum")? == INCREMENTAL {
        let mut left = free;
        while left > 0 {
            // Each row is a page.
            let mut cut = connection.prepare(&format!("PRAGMA incremental_vacuum({STEP_PAGES})"))?;
            let mut rows = cut.query([])?;
            while rows.next()?.is_some() {}
            left -= STEP_PAGES;
        }
    } else {
        connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        // It may be much more than there is memory.
        connection.pragma_update(None, "temp_store", "FILE")?;
        connection.execute_batch("VACUUM")?;
    }
    // The file is cut when what was written reaches it. Those who read an older state put that off.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
