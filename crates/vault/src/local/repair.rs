//! `sealpost store repair`: a database whose indexes do not list what its table has, or whose pages
//! are damaged, made sound.
//!
//! The table is authoritative: each row has its path, and an index only repeats it. If the table
//! can be read to its end and no path is there twice, the indexes are rebuilt within one
//! transaction. Else the readable rows are copied by their numbers into a new database. It is
//! checked, made durable and only then replaces the old one, which stays beside it under another
//! name. After a kill at any moment, the directory has a complete database under its right name:
//! the old one or the new one.
//!
//! Nothing may write meanwhile, so no other process may have the store open.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row as SqlRow, params};
use sealpost_base::limits::REPAIR_NAMED;
use sealpost_base::{Error, Result, Timestamp};
use sealpost_files::owner;

use super::sound::{self, Extent, Inspection};
use super::{frozen, schema, shared};

/// The new database until it is complete.
const NEW: &str = "new";
/// The path for an object whose path another one has.
const TWICE: &str = "salvaged";
/// How long another process is waited for.
const BUSY: Duration = Duration::from_secs(5);
/// A check has no end of its own here: the operator waits for it.
const NO_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Rows read by one statement: behind damage a new search begins.
const ROWS: usize = 500;

/// What a repair did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: the database is sound.
    None,
    /// The indexes were rebuilt.
    Reindexed,
    /// What can be read is in a new database.
    Salvaged,
}

/// What was wrong, what was done, and what is left of it.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// What was wrong before.
    pub damage: Vec<String>,
    /// What was done.
    pub remedy: Remedy,
    /// Objects that the database has now.
    pub objects: u64,
    /// Objects that an index names and the table has no more, whole: only a backup may have them.
    /// [`REPAIR_NAMED`] at most.
    pub lost: Vec<String>,
    /// How many those are.
    pub lost_count: u64,
    /// Objects whose path another one had that was written earlier, and where they are now.
    pub moved: Vec<(String, String)>,
    /// The old database, if there is a new one.
    pub kept: Option<PathBuf>,
}

/// Repairs the database in `dir`. Blocks the thread.
///
/// # Errors
/// `NotFound` if there is none; `Conflict` if another process has the store open; `Corrupt` if
/// nothing of it can be read; `Retry` for what the disk says. The database is as it was then.
pub(super) fn repair(dir: &Path, now: Timestamp) -> Result<Repaired> {
    let path = schema::path(dir);
    if !path.exists() {
        return Err(Error::not_found(format!("there is no database {}", path.display())));
    }
    discard_new(&path)?;
    let old = alone(&path)?;
    let failed = |e| failed(&path, "cannot be checked", e);
    let before = sound::inspect(&old, Extent::Whole, NO_LIMIT).map_err(failed)?;
    if before.is_sound() {
        return Ok(Repaired::of(before, Remedy::None));
    }
    if is_of_indexes(&before) {
        match reindex(&old) {
            Ok(after) if after.is_sound() => {
                return Ok(Repaired { objects: after.rows, ..Repaired::of(before, Remedy::Reindexed) });
            }
            Ok(_) => {}
            Err(e) if is_about_the_disk(&e) => return Err(failed(e)),
            // Two rows of one path, or more damage than was seen.
            Err(e) => tracing::debug!(error = %e, "cannot rebuild the indexes in place"),
        }
    }
    let salvaged = salvage(&old, &path, before);
    if salvaged.is_err() {
        discard_new(&path)?;
    }
    let mut repaired = salvaged?;
    repaired.kept = Some(replace(dir, &path, now)?);
    drop(old);
    // What the old connection had beside it, empty or without meaning by now.
    let _ = fs::remove_file(frozen::beside(&path, "-journal"));
    Ok(repaired)
}

impl Repaired {
    fn of(before: Inspection, remedy: Remedy) -> Self {
        Repaired {
            damage: before.damage,
            remedy,
            objects: before.rows,
            lost: Vec::new(),
            lost_count: 0,
            moved: Vec::new(),
            kept: None,
        }
    }
}

/// A connection that no other one is beside, with everything that was in the write-ahead log in the database.
fn alone(path: &Path) -> Result<Connection> {
    let open = || -> rusqlite::Result<(Connection, String)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // SQLite refuses that while another connection has the database open, in any process.
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))?;
        connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok((connection, mode))
    };
    match open() {
        Ok((connection, mode)) if mode == "delete" => Ok(connection),
        Err(e) if !schema::is_busy(&e) => Err(failed(path, "cannot be opened", e)),
        Ok(_) | Err(_) => Err(Error::new(
            sealpost_base::Kind::Conflict,
            format!(
                "another process has {} open; stop the server and all other commands first",
                path.display()
            ),
        )),
    }
}

/// Whether nothing but indexes was found wrong. Then what is free in the file is known to be free,
/// and may be written.
fn is_of_indexes(found: &Inspection) -> bool {
    found.damage.iter().all(|line| {
        line.contains(" missing from index ")
            || line.starts_with("wrong # of entries in index")
            || line.contains(" is out of order: ")
            || line.ends_with(" objects") && line.contains(" lists ")
            || line.contains(" an index does not list them")
    })
}

fn reindex(old: &Connection) -> rusqlite::Result<Inspection> {
    old.execute_batch("BEGIN EXCLUSIVE")?;
    let rebuilt =
        old.execute_batch("REINDEX objects").map(|()| sound::inspect_within(old, Extent::Whole, NO_LIMIT));
    match &rebuilt {
        Ok(after) if after.is_sound() => old.execute_batch("COMMIT")?,
        _ => old.execute_batch("ROLLBACK")?,
    }
    rebuilt
}

/// Copies what can be read into a new database beside the old one, complete and durable when this returns.
fn salvage(old: &Connection, path: &Path, before: Inspection) -> Result<Repaired> {
    let new_path = beside(path, NEW);
    let failed = |e| failed(&new_path, "cannot be written", e);
    owner::ensure(&new_path)
        .map_err(|e| Error::retry(format!("making {}", new_path.display())).with_source(e))?;
    let new = Connection::open(&new_path).map_err(failed)?;
    let mut copy = RowCopier { old, new: &new, repaired: Repaired::of(before, Remedy::Salvaged) };
    copy.run(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let mut repaired = copy.repaired;
    let after = sound::inspect(&new, Extent::Whole, NO_LIMIT).map_err(failed)?;
    if !after.is_sound() || after.rows != repaired.objects {
        let why = format!(
            "the new database {} differs from the data written to it; nothing was changed",
            new_path.display()
        );
        return Err(Error::retry(why));
    }
    if after.rows == 0 {
        return Err(Error::corrupt(format!(
            "nothing of {} can be read: restore it from a backup (sealpost backup); nothing was changed",
            path.display()
        )));
    }
    drop(new);
    let synced = File::open(&new_path).and_then(|file| file.sync_all());
    synced.map_err(|e| Error::retry(format!("writing {}", new_path.display())).with_source(e))?;
    repaired.objects = after.rows;
    Ok(repaired)
}

struct RowCopier<'a> {
    old: &'a Connection,
    new: &'a Connection,
    repaired: Repaired,
}

/// A row as it is copied.
struct CopiedRow {
    id: i64,
    path: String,
    size: i64,
    modified: i64,
    file: Option<String>,
    head: Option<Vec<u8>>,
    rest: Option<Vec<u8>>,
}

/// What an index says of a row that the table has no more.
#[derive(Default)]
struct Named {
    path: Option<String>,
    file: Option<String>,
}

impl RowCopier<'_> {
    fn run(&mut self, dir: &Path) -> rusqlite::Result<()> {
        let number = |name: &str| self.old.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (vacuum, version) = (number("auto_vacuum").unwrap_or(0), number("user_version").unwrap_or(0));
        self.new.pragma_update(None, "page_size", 8192)?;
        self.new.pragma_update(None, "auto_vacuum", vacuum)?;
        // Nothing has to survive here before it is complete.
        self.new.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
        self.new.pragma_update(None, "synchronous", "OFF")?;
        self.new.execute_batch("BEGIN EXCLUSIVE")?;
        schema::make_tables(self.new)?;
        let mut from = 0;
        while let Some(next) = self.take_from(from)? {
            from = next;
        }
        self.take_named(dir)?;
        self.take_state()?;
        let shares = "SELECT 1 FROM objects WHERE file LIKE '%+%' LIMIT 1";
        let shares = self.new.query_row(shares, [], |_| Ok(())).optional()?.is_some();
        schema::set_version(self.new, shares || version == schema::SHARES_FILES)?;
        self.new.execute_batch("COMMIT")
    }

    /// Copies some rows from the number `from` on. Returns the number to continue with, `None` at
    /// the end.
    fn take_from(&mut self, from: i64) -> rusqlite::Result<Option<i64>> {
        let mut rows = self.old.prepare_cached(&format!(
            "SELECT id, path, size, modified, file, head, rest FROM objects NOT INDEXED WHERE id >= ?1 ORDER BY id LIMIT {ROWS}"
        ))?;
        let (mut last, mut count) = (None, 0);
        let stopped = {
            let mut rows = rows.query([from])?;
            loop {
                match rows.next() {
                    Ok(Some(row)) => {
                        // Numbers that do not ascend are of a page that is not of this table.
                        let Ok(id) = row.get::<_, i64>(0) else { break true };
                        if id < from || last.is_some_and(|last| id <= last) {
                            break true;
                        }
                        (last, count) = (Some(id), count + 1);
                        if let Some(copied_row) = copied_row(row) {
                            self.put(copied_row)?;
                        }
                    }
                    Ok(None) => break false,
                    Err(e) if is_about_the_disk(&e) => return Err(e),
                    Err(_) => break true,
                }
            }
        };
        drop(rows);
        let next = last.map_or(from, |last| last.saturating_add(1));
        match stopped {
            false if count < ROWS => Ok(None),
            false => Ok(Some(next)),
            true => Ok(self.after_damage(next)),
        }
    }

    /// The least number above `from` from which rows can be read again; `None` if there is none.
    /// What cannot be read is a page, so from some number on reading works: that is found by
    /// halves.
    fn after_damage(&self, from: i64) -> Option<i64> {
        let readable = |from: i64| {
            let next = "SELECT id FROM objects NOT INDEXED WHERE id >= ?1 ORDER BY id LIMIT 1";
            let found = self.old.query_row(next, [from], |row| row.get::<_, i64>(0)).optional();
            found.ok().flatten().filter(|id| *id >= from)
        };
        let (mut bad, mut step) = (from, 1i64);
        let mut good = loop {
            let at = from.checked_add(step)?;
            match readable(at) {
                Some(id) => break id,
                None => (bad, step) = (at, step.checked_mul(2)?),
            }
        };
        while good.saturating_sub(bad) > 1 {
            let middle = bad + (good - bad) / 2;
            match readable(middle) {
                Some(id) if id < good => good = id,
                // Nothing is between the two.
                Some(_) => good = middle,
                None => bad = middle,
            }
        }
        readable(good)
    }

    /// Takes a row. Of two rows with one path the second is the later one, and its writer's other
    /// objects follow the first: it is kept under another name.
    fn put(&mut self, row: CopiedRow) -> rusqlite::Result<()> {
        let copied_row: Option<i64> = self
            .new
            .prepare_cached("SELECT id FROM objects WHERE path = ?1")?
            .query_row([&row.path], |found| found.get(0))
            .optional()?;
        let path = match copied_row {
            None => row.path,
            Some(_) => {
                let moved = format!("{TWICE}/{}/{}", row.id, row.path);
                self.repaired.moved.push((row.path, moved.clone()));
                moved
            }
        };
        let mut insert = self.new.prepare_cached(
            "INSERT OR IGNORE INTO objects (id, path, size, modified, file, head, rest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let values = params![row.id, &path, row.size, row.modified, row.file, row.head, row.rest];
        let inserted = insert.execute(values)? as u64;
        self.repaired.objects += inserted;
        if inserted == 0 {
            // Its file is another object's.
            self.lose(path);
        }
        Ok(())
    }

    fn lose(&mut self, path: String) {
        self.repaired.lost_count += 1;
        if self.repaired.lost.len() < REPAIR_NAMED {
            self.repaired.lost.push(path);
        }
    }

    /// Searches the indexes for rows that the table no longer has. Rows with a file are rebuilt;
    /// the others are lost.
    fn take_named(&mut self, dir: &Path) -> rusqlite::Result<()> {
        self.repaired.objects = self.new.query_row("SELECT count(*) FROM objects", [], |row| row.get(0))?;
        let mut named: BTreeMap<i64, Named> = BTreeMap::new();
        self.name("path", &mut named, |named, path| named.path = Some(path))?;
        self.name("file", &mut named, |named, file| named.file = Some(file))?;
        let objects = dir.join("objects");
        let ends = self.ends_in_files(&named)?;
        for (id, Named { path, file }) in named {
            let Some(path) = path else { continue };
            let size = file.as_deref().and_then(|file| size_in(&objects, file, &ends));
            if let (Some(file), Some((size, modified))) = (file, size) {
                self.put(CopiedRow { id, path, size, modified, file: Some(file), head: None, rest: None })?;
                continue;
            }
            self.lose(path);
        }
        Ok(())
    }

    /// What an index says of rows that were not copied, as far as it can be read: from its
    /// beginning, and from its end.
    fn name(
        &self,
        column: &str,
        named: &mut BTreeMap<i64, Named>,
        say: impl Fn(&mut Named, String),
    ) -> rusqlite::Result<()> {
        let index = sound::index_of(column);
        let mut copied = self.new.prepare("SELECT 1 FROM objects WHERE id = ?1")?;
        for order in ["ASC", "DESC"] {
            let sql = format!(
                "SELECT id, {column} FROM objects INDEXED BY {index} WHERE {column} IS NOT NULL ORDER BY {column} {order}"
            );
            let Ok(mut walk) = self.old.prepare(&sql) else { continue };
            let mut entries = walk.query([])?;
            while let Ok(Some(entry)) = entries.next() {
                let (Ok(id), Ok(value)) = (entry.get::<_, i64>(0), entry.get::<_, String>(1)) else {
                    continue;
                };
                if !copied.exists([id])? {
                    say(named.entry(id).or_default(), value);
                }
            }
        }
        Ok(())
    }

    /// Where objects begin in files that several share, of all that are known.
    fn ends_in_files(&self, named: &BTreeMap<i64, Named>) -> rusqlite::Result<HashMap<String, Vec<u64>>> {
        let mut starts: HashMap<String, Vec<u64>> = HashMap::new();
        let mut add = |name: &str| {
            if let (file, Some(at)) = shared::place(name) {
                starts.entry(file.to_owned()).or_default().push(at);
            }
        };
        named.values().filter_map(|named| named.file.as_deref()).for_each(&mut add);
        if named.values().any(|named| named.file.as_deref().is_some_and(shared::is_shared)) {
            let mut rows = self.new.prepare("SELECT file FROM objects WHERE file LIKE '%+%'")?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                add(row.get_ref(0)?.as_str().unwrap_or_default());
            }
        }
        starts.values_mut().for_each(|starts| starts.sort_unstable());
        Ok(starts)
    }

    fn take_state(&self) -> rusqlite::Result<()> {
        let Ok(mut state) = self.old.prepare("SELECT name, value FROM state") else { return Ok(()) };
        let mut rows = state.query([])?;
        // It only spares work.
        while let Ok(Some(row)) = rows.next() {
            if let (Ok(name), Ok(value)) = (row.get::<_, String>(0), row.get::<_, i64>(1)) {
                self.new.execute(
                    "INSERT OR IGNORE INTO state (name, value) VALUES (?1, ?2)",
                    params![name, value],
                )?;
            }
        }
        Ok(())
    }
}

/// The row's values; `None` if they are none that this program wrote.
fn copied_row(row: &SqlRow<'_>) -> Option<CopiedRow> {
    let path: String = row.get(1).ok()?;
    object_store::path::Path::parse(&path).ok()?;
    Some(CopiedRow {
        id: row.get(0).ok()?,
        path,
        size: row.get(2).ok()?,
        modified: row.get(3).ok()?,
        file: row.get(4).ok()?,
        head: row.get(5).ok()?,
        rest: row.get(6).ok()?,
    })
}

/// The size of the object in that file, up to the next one or the end, and when it was written.
fn size_in(objects: &Path, name: &str, starts: &HashMap<String, Vec<u64>>) -> Option<(i64, i64)> {
    let (file, at) = shared::place(name);
    let metadata = fs::metadata(objects.join(file)).ok()?;
    let from = at.unwrap_or(0);
    let next = starts.get(file).and_then(|starts| starts.iter().find(|start| **start > from).copied());
    let end = next.unwrap_or(metadata.len()).min(metadata.len());
    let size = end.checked_sub(from).filter(|size| *size > 0)?;
    Some((i64::try_from(size).ok()?, metadata.mtime().saturating_mul(1000)))
}

/// Puts the new database in the place of the old one, which keeps another name; returns that.
fn replace(dir: &Path, path: &Path, now: Timestamp) -> Result<PathBuf> {
    let kept = beside(path, &format!("damaged-{}", now.seconds()));
    let swap = || {
        fs::hard_link(path, &kept)?;
        File::open(dir)?.sync_all()?;
        fs::rename(beside(path, NEW), path)?;
        File::open(dir)?.sync_all()
    };
    swap().map_err(|e| {
        Error::retry(format!("putting the new database in the place of {}", path.display())).with_source(e)
    })?;
    Ok(kept)
}

/// Removes what a repair that was interrupted has left.
fn discard_new(path: &Path) -> Result<()> {
    let new = beside(path, NEW);
    for end in ["", "-journal", "-wal", "-shm"] {
        match fs::remove_file(frozen::beside(&new, end)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::retry(format!("removing {}", new.display())).with_source(e));
            }
            _ => {}
        }
    }
    Ok(())
}

fn beside(path: &Path, end: &str) -> PathBuf {
    frozen::beside(path, &format!(".{end}"))
}

/// Whether SQLite failed because the disk is full or fails, and not because of the content.
fn is_about_the_disk(e: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DiskFull, OutOfMemory, PermissionDenied, ReadOnly};
    matches!(e.sqlite_error_code(), Some(DiskFull | OutOfMemory | PermissionDenied | ReadOnly))
}

fn failed(path: &Path, what: &str, e: rusqlite::Error) -> Error {
    let why = format!("{} {what}", path.display());
    match schema::is_damage(&e) {
        true => Error::corrupt(why),
        false => Error::retry(why),
    }
    .with_source(e)
}

#[cfg(test)]
mod tests;
