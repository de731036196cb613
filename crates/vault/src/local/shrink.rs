//! Returns free space inside the database to the disk.
//!
//! SQLite reuses the space of removed rows, and the file keeps its size. A server needs that; a
//! copy with a smaller limit does not. The first time the whole database is rewritten, with the
//! tables that later times need to cut off the end of the file instead, a few pages to a
//! transaction.

use std::path::Path;

use rusqlite::Connection;

use super::schema::{self, Access};

/// Free pages that are worth it: a MiB, and a quarter of the file.
const WORTH_PAGES: i64 = 128;
const WORTH_PART: i64 = 4;
/// Pages of one transaction.
const STEP_PAGES: i64 = 512;
/// `PRAGMA auto_vacuum`: free pages are cut off on request.
const INCREMENTAL: i64 = 2;

/// Shrinks the file if enough of it is free. Writers wait meanwhile.
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
    // The file is truncated when a checkpoint reaches it. Readers of an older state delay that.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use crate::{Sealed, Store};

    #[tokio::test]
    async fn the_file_becomes_smaller_each_time_and_everything_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (store, other) =
            (Store::local(dir.path()).await.unwrap(), Store::local(dir.path()).await.unwrap());
        // Committed pages may not have reached the database yet.
        let length = |name| std::fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
        let size = || length("objects.sqlite") + length("objects.sqlite-wal");
        let object = |n: usize| Sealed::new(vec![n as u8; 40_000]);
        for round in 0..2 {
            let path = |n: usize| format!("a/{round}/{n:03}");
            for n in 0..100 {
                store.put_new(&path(n), object(n)).await.unwrap();
            }
            // Too little is free.
            store.shrink().await.unwrap();
            let before = size();
            assert!(before > 4_000_000, "{before}");
            store.delete_in_order((10..100).map(path).collect()).await.unwrap();
            store.shrink().await.unwrap();
            assert!(size() < 1_500_000, "round {round}: {} of {before}", size());
            for store in [&store, &other] {
                for n in 0..10 {
                    assert_eq!(store.read(&path(n)).await.unwrap()[..], *object(n).as_ref());
                }
            }
            other.put_new(&format!("b/{round}"), object(1)).await.unwrap();
        }
    }
}
