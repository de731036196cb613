//! Files of account records whose object is gone, or never came to be: a process that is killed leaves them.
//!
//! The row of a record is removed first and its file is overwritten after that, so a kill in
//! between leaves withdrawn slots. A record that is being written has its file locked until its row
//! exists; a kill releases the lock. So a file with neither a row nor a lock is left over, however
//! young it is, and no live record is ever taken for one.

use std::error::Error as StdError;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;

use rusqlite::Connection;
use sealpost_base::Timestamp;

use crate::local::files::{self, Files, TEMPORARY};
use crate::local::shared;

type Outcome<T> = Result<T, Box<dyn StdError + Send + Sync>>;

/// A leftover file, and the lock that keeps other processes from it.
struct LeftOver {
    name: String,
    _locked: File,
}

/// Those that there are now, as paths below the store's directory.
pub(super) fn find(files: &Files, connection: &Connection, now: Timestamp) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    each(files, connection, now, |left| {
        found.push(format!("objects/{}", left.name));
        Ok(())
    })?;
    Ok(found)
}

/// Overwrites and removes them; how many there were. Nothing if the database may hide rows.
pub(super) fn erase(files: &Files, connection: &Connection, now: Timestamp) -> Outcome<usize> {
    let (mut erased, mut is_listed) = (0, false);
    each(files, connection, now, |left| {
        files::require_listed(connection, files, &mut is_listed)?;
        files.remove(&left.name);
        erased += usize::from(!files.path(&left.name).exists());
        Ok(())
    })?;
    Ok(erased)
}

fn each(
    files: &Files,
    connection: &Connection,
    now: Timestamp,
    mut visit: impl FnMut(&LeftOver) -> Outcome<()>,
) -> Outcome<()> {
    for directory in std::fs::read_dir(files.objects())? {
        let directory = directory?;
        let Ok(entries) = std::fs::read_dir(directory.path()) else { continue };
        for entry in entries {
            let (directory, file) = (directory.file_name(), entry?.file_name());
            let name = format!("{}/{}", directory.to_string_lossy(), file.to_string_lossy());
            if files::is_erased(name.strip_suffix(TEMPORARY).unwrap_or(&name))
                && let Some(left) = left_over(files, connection, name, now)?
            {
                visit(&left)?;
            }
        }
    }
    Ok(())
}

/// Reads the row once more when the file is locked: until then a process may have been writing it.
fn left_over(
    files: &Files,
    connection: &Connection,
    name: String,
    now: Timestamp,
) -> Outcome<Option<LeftOver>> {
    if shared::has_rows(connection, &name)? {
        return Ok(None);
    }
    let file = match File::open(files.path(&name)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        // A file system without locks: then only what is old is left over.
        Err(TryLockError::Error(_)) => {
            if files::settled_since(file.metadata(), now)?.is_none() {
                return Ok(None);
            }
        }
    }
    let is_gone = !files.path(&name).exists();
    if is_gone || shared::has_rows(connection, &name)? {
        return Ok(None);
    }
    Ok(Some(LeftOver { name, _locked: file }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sealpost_base::{Clock, SystemClock};

    use super::*;
    use crate::Store;
    use crate::local::schema::{self, Access};
    use crate::local::tests::{block_on, sealed};

    const RECORD: &str = "accounts/me@x/0000000000000001";

    fn record_files(dir: &Path) -> Vec<std::path::PathBuf> {
        let directories = std::fs::read_dir(dir.join("objects")).unwrap();
        let files = directories.flat_map(|d| std::fs::read_dir(d.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).collect()
    }

    /// A second name for a file, by which a test reads what became of its bytes.
    fn second_name(dir: &Path, file: &Path) -> std::path::PathBuf {
        let second = dir.join("second-name");
        std::fs::hard_link(file, &second).unwrap();
        second
    }

    /// The attack: a process is killed after it removed the row of a record and before it overwrote the file.
    #[test]
    fn an_interrupted_erasure_is_completed_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let store = Store::local(dir.path()).await.unwrap();
            store.put_new(RECORD, sealed(300, 1)).await.unwrap();
            let [file] = &record_files(dir.path())[..] else { panic!("one record is one file") };
            let second = second_name(dir.path(), file);
            assert_eq!(store.left_slots().await.unwrap(), Vec::<String>::new(), "it is in force");
            let database = rusqlite::Connection::open(dir.path().join("objects.sqlite")).unwrap();
            assert_eq!(database.execute("DELETE FROM objects WHERE path = ?1", [RECORD]).unwrap(), 1);
            drop(store);
            let store = Store::local(dir.path()).await.unwrap();
            let name = file.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
            assert_eq!(store.left_slots().await.unwrap(), [name]);
            assert_eq!(
                std::fs::read(&second).unwrap(),
                *sealed(300, 1).as_ref(),
                "nothing is changed by looking"
            );
            assert_eq!(store.erase_left_slots().await.unwrap(), 1);
            assert_eq!(std::fs::read(&second).unwrap(), [0; 300], "overwritten");
            assert!(!file.exists() && store.left_slots().await.unwrap().is_empty());
            assert_eq!(store.erase_left_slots().await.unwrap(), 0);
        });
    }

    /// A process that is killed while it writes a record leaves its temporary file, or a complete
    /// one without a row.
    #[test]
    fn only_records_of_killed_writers_are_erased() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let store = Store::local(dir.path()).await.unwrap();
            let files = std::sync::Arc::new(Files::open(dir.path()).unwrap());
            let mut half = files.create_for(RECORD).unwrap();
            half.append(b"half of a record").unwrap();
            let mut whole = files.create_for(RECORD).unwrap();
            whole.append(b"a whole record").unwrap();
            let whole = whole.keep().unwrap();
            let left = record_files(dir.path());
            assert_eq!(left.len(), 2);
            assert!(left.iter().any(|file| file.to_str().unwrap().ends_with(".slots.tmp")), "{left:?}");
            assert_eq!(store.erase_left_slots().await.unwrap(), 0, "both are being written");
            assert_eq!(record_files(dir.path()).len(), 2);
            // A kill closes what the process had open, and runs no destructor.
            let seconds: Vec<_> = left
                .iter()
                .enumerate()
                .map(|(n, file)| {
                    let copy = dir.path().join(format!("copy-{n}"));
                    std::fs::copy(file, &copy).unwrap();
                    copy
                })
                .collect();
            drop((half, whole));
            for (file, copy) in left.iter().zip(&seconds) {
                let _ = std::fs::remove_file(file);
                std::fs::copy(copy, file).unwrap();
            }
            let second = second_name(dir.path(), &left[0]);
            assert_eq!(store.left_slots().await.unwrap().len(), 2);
            assert_eq!(store.erase_left_slots().await.unwrap(), 2);
            assert!(std::fs::read(second).unwrap().iter().all(|byte| *byte == 0));
            assert!(record_files(dir.path()).is_empty());
        });
    }

    /// A damaged index makes records look as if they had no row.
    #[test]
    fn nothing_is_erased_while_the_database_hides_rows() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let store = Store::local(dir.path()).await.unwrap();
            for n in 1..=3 {
                store.put_new(&format!("accounts/me@x/{n:016x}"), sealed(300, n)).await.unwrap();
            }
            let database = rusqlite::Connection::open(dir.path().join("objects.sqlite")).unwrap();
            database.execute("DELETE FROM objects WHERE path LIKE '%1'", []).unwrap();
            // A row that names another file than its own: the file that it lost looks as if it had no row.
            let renamed = "UPDATE objects SET file = 'zz/missing.slots' WHERE path LIKE '%2'";
            assert_eq!(database.execute(renamed, []).unwrap(), 1);
            let connection = schema::connect(&dir.path().join("objects.sqlite"), Access::Read).unwrap();
            let files = Files::open(dir.path()).unwrap();
            assert_eq!(find(&files, &connection, SystemClock::new().now()).unwrap().len(), 2);
            assert!(store.erase_left_slots().await.is_err());
            assert_eq!(record_files(dir.path()).len(), 3);
        });
    }
}
