//! The file owner of a local store.

use std::io::{self, ErrorKind};
use std::path::Path;

use sealpost_files::owner::Owner;

use super::schema;

/// The owner of the local store in `directory`: that of the directory, or where that is root's (a
/// container's volume), of the database in it, which the server has made.
///
/// # Errors
/// What the file system says.
pub fn local_store_owner(directory: &Path) -> io::Result<Owner> {
    let owner = Owner::of(directory)?;
    if !owner.is_root() {
        return Ok(owner);
    }
    match Owner::of(&schema::path(directory)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(owner),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown};

    use super::*;

    /// No user has to have this number.
    const SOMEBODY: u32 = 54_321;

    #[test]
    fn a_store_in_roots_directory_belongs_to_its_databases_owner() {
        let dir = tempfile::tempdir().unwrap();
        let database = schema::path(dir.path());
        if chown(dir.path(), Some(SOMEBODY), None).is_err() {
            // Only root gives files away.
            return;
        }
        let owner = || local_store_owner(dir.path()).unwrap();
        assert_eq!(owner(), Owner::of(dir.path()).unwrap());
        chown(dir.path(), Some(0), Some(0)).unwrap();
        assert!(owner().is_root(), "there is no database yet");
        std::fs::write(&database, "").unwrap();
        chown(&database, Some(SOMEBODY), None).unwrap();
        assert_eq!(std::fs::metadata(&database).unwrap().uid(), SOMEBODY);
        assert_eq!(owner(), Owner::of(&database).unwrap());
    }
}
