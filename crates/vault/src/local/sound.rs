//! Checks the database for damage: the findings of SQLite, and whether its indexes list the rows of
//! the table.
//!
//! One flipped bit in an index hides rows: a listing ends too early, and a path that exists seems
//! to be free, so the next append would be acknowledged beside the log. Only a comparison shows
//! that, because each page is well-formed. So a server checks the indexes and the newest rows at
//! its start ([`Extent::Newest`]), and `check` compares everything ([`Extent::Whole`]). Both have a
//! time limit, whatever the file contains.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use sealpost_base::limits::{DATABASE_FINDINGS, NEWEST_ROWS};

use super::schema;

/// The index of paths, which SQLite made for `UNIQUE`.
const PATHS: &str = "sqlite_autoindex_objects_1";
/// The index of files.
const FILES: &str = "objects_file";

/// The extent of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The order of the indexes, and the newest rows: where the next ones are written.
    Newest,
    /// Whether the indexes list each row, and nothing else.
    ListedObject,
    /// Everything.
    Whole,
}

/// What was found of a local store's database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// What is wrong, one line each; [`DATABASE_FINDINGS`] at most.
    pub damage: Vec<String>,
    /// The time limit was reached before the end.
    pub unfinished: bool,
    /// Checked rows of the table.
    pub rows: u64,
}

impl Inspection {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }

    fn found(&mut self, what: impl Into<String>) {
        if self.damage.len() < DATABASE_FINDINGS {
            self.damage.push(what.into());
        }
    }

    /// Takes the outcome of a step: the time limit was reached, or SQLite could not continue.
    fn take(&mut self, step: &str, done: rusqlite::Result<()>) {
        match done {
            Ok(()) => {}
            Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {
                self.unfinished = true;
            }
            Err(e) => self.found(format!("{step}: {e}")),
        }
    }
}

/// Checks a database for at most `time`. Blocks the thread.
///
/// # Errors
/// If the check is not possible for another reason than damage, such as another process that has
/// locked it.
pub(super) fn inspect(
    connection: &Connection,
    extent: Extent,
    time: Duration,
) -> rusqlite::Result<Inspection> {
    // Whether it can be read at all.
    match connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional() {
        Err(e) if !schema::is_damage(&e) => return Err(e),
        Err(e) => return Ok(Inspection { damage: vec![e.to_string()], ..Inspection::default() }),
        Ok(_) => {}
    }
    // What others write meanwhile is not seen: all counts are of one moment.
    connection.execute_batch("BEGIN")?;
    let found = inspect_within(connection, extent, time);
    // If that fails the connection is of no more use, and is not used again.
    let _ = connection.execute_batch("ROLLBACK");
    Ok(found)
}

/// As [`inspect`], within the transaction that there is.
pub(super) fn inspect_within(connection: &Connection, extent: Extent, time: Duration) -> Inspection {
    within(connection, time, || match extent {
        Extent::Newest => newest(connection),
        Extent::ListedObject => {
            let mut found = Inspection::default();
            listed(connection, &mut found);
            found
        }
        Extent::Whole => {
            let mut found = Inspection::default();
            let step = integrity(connection, &mut found);
            found.take("integrity_check", step);
            listed(connection, &mut found);
            found
        }
    })
}

/// The index of a column.
pub(super) fn index_of(column: &str) -> &'static str {
    if column == "file" { FILES } else { PATHS }
}

/// Does `work`, and interrupts what SQLite does in it when the time is over.
fn within<T>(connection: &Connection, time: Duration, work: impl FnOnce() -> T) -> T {
    let handle = connection.get_interrupt_handle();
    let (done, wait) = mpsc::channel::<()>();
    let watch = std::thread::Builder::new().name("sealpost-time".into()).spawn(move || {
        let mut left = time;
        // A statement that begins after an interrupt runs: it is interrupted again.
        while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(left) {
            handle.interrupt();
            left = Duration::from_millis(10);
        }
    });
    let made = work();
    drop(done);
    if let Ok(watch) = watch {
        let _ = watch.join();
    }
    made
}

fn newest(connection: &Connection) -> Inspection {
    let mut found = Inspection::default();
    for (index, column) in [(PATHS, "path"), (FILES, "file")] {
        let step = is_ascending(connection, index, column, &mut found).map(drop);
        found.take(index, step);
    }
    let rows = format!("SELECT id, path, file FROM objects NOT INDEXED ORDER BY id DESC LIMIT {NEWEST_ROWS}");
    let step = are_listed(connection, &rows, &mut found);
    found.take("the newest objects", step);
    found
}

fn listed(connection: &Connection, found: &mut Inspection) {
    let mut counts = Vec::new();
    for (index, column) in [(PATHS, "path"), (FILES, "file")] {
        match is_ascending(connection, index, column, found) {
            Ok(count) => counts.push((index, column, count)),
            Err(e) => found.take(index, Err(e)),
        }
    }
    let rows = "SELECT id, path, file FROM objects NOT INDEXED ORDER BY id";
    if let Err(e) = are_listed(connection, rows, found) {
        return found.take("the objects", Err(e));
    }
    for (index, column, count) in counts {
        let sql = format!("SELECT count({column}) FROM objects NOT INDEXED");
        match connection.query_row(&sql, [], |row| row.get::<_, u64>(0)) {
            Ok(rows) if rows == count => {}
            Ok(rows) => found.found(format!("{index} lists {count} of {rows} objects")),
            Err(e) => found.take(index, Err(e)),
        }
    }
}

fn integrity(connection: &Connection, found: &mut Inspection) -> rusqlite::Result<()> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({DATABASE_FINDINGS})"))?;
    let mut lines = check.query([])?;
    while let Some(line) = lines.next()? {
        let line: String = line.get(0)?;
        if line != "ok" {
            // One line may be several.
            line.lines().filter(|line| !line.starts_with("***")).for_each(|line| found.found(line));
        }
    }
    Ok(())
}

/// Whether an index is in order from its first entry to its last, so that every search finds an
/// existing entry; counts the entries.
fn is_ascending(
    connection: &Connection,
    index: &str,
    column: &str,
    found: &mut Inspection,
) -> rusqlite::Result<u64> {
    let mut walk = connection.prepare(&format!(
        "SELECT {column} FROM objects INDEXED BY {index} WHERE {column} IS NOT NULL ORDER BY {column}"
    ))?;
    let mut entries = walk.query([])?;
    let (mut before, mut count) = (Vec::new(), 0);
    while let Some(entry) = entries.next()? {
        let value = entry.get_ref(0)?;
        let Ok(value) = value.as_bytes() else {
            found.found(format!("{index}: entry {count} is no text"));
            continue;
        };
        if count > 0 && value <= before.as_slice() {
            let (here, before) = (String::from_utf8_lossy(value), String::from_utf8_lossy(&before));
            found.found(format!("{index} is out of order: {here} comes after {before}"));
        }
        before.clear();
        before.extend_from_slice(value);
        count += 1;
    }
    Ok(count)
}

/// Whether the indexes have each of these rows in its place.
fn are_listed(connection: &Connection, rows: &str, found: &mut Inspection) -> rusqlite::Result<()> {
    let mut rows = connection.prepare(rows)?;
    let mut by_path =
        connection.prepare(&format!("SELECT id FROM objects INDEXED BY {PATHS} WHERE path = ?1"))?;
    let mut by_file =
        connection.prepare(&format!("SELECT id FROM objects INDEXED BY {FILES} WHERE file = ?1"))?;
    let mut rows = rows.query([])?;
    let (mut hidden, mut first) = (0u64, None);
    while let Some(row) = rows.next()? {
        found.rows += 1;
        let id = row.get_ref(0)?.as_i64().unwrap_or(-1);
        let Ok(path) = row.get_ref(1)?.as_str() else {
            found.found(format!("the path of object {id} is no text"));
            continue;
        };
        let mut is_listed = is_at(&mut by_path, path, id)?;
        match row.get_ref(2)?.as_str_or_null() {
            Ok(Some(file)) => is_listed &= is_at(&mut by_file, file, id)?,
            Ok(None) => {}
            Err(_) => found.found(format!("the file of {path} is no text")),
        }
        if !is_listed {
            hidden += 1;
            first.get_or_insert_with(|| path.to_owned());
        }
    }
    if let Some(first) = first {
        found.found(format!("{hidden} objects are there and an index does not list them, the first {first}"));
    }
    Ok(())
}

fn is_at(statement: &mut rusqlite::Statement<'_>, value: &str, id: i64) -> rusqlite::Result<bool> {
    Ok(statement.query_row(params![value], |row| row.get::<_, i64>(0)).optional()? == Some(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_check_is_interrupted() {
        let connection = Connection::open_in_memory().unwrap();
        let endless =
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
        let step =
            within(&connection, Duration::from_millis(1), || connection.query_row(endless, [], |_| Ok(())));
        let mut found = Inspection::default();
        found.take("a step", step);
        assert!(found.unfinished && found.is_sound(), "that is no damage: {found:?}");
    }

    #[test]
    fn so_many_things_are_named_and_no_more() {
        let mut found = Inspection::default();
        (0..2 * DATABASE_FINDINGS).for_each(|n| found.found(format!("row {n}")));
        assert_eq!(found.damage.len(), DATABASE_FINDINGS);
    }
}
