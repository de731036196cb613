//! Damaged files are kept under another name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sealpost_base::Result;
use sealpost_files::{io_error, longer, open_file, owner, sync_directory_of};

/// Renames an unreadable file; does nothing if there is none.
///
/// # Errors
/// `Retry` if that fails.
pub fn rename_damaged(path: &Path) -> Result<Option<PathBuf>> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let aside = aside(path);
    fs::rename(path, &aside).map_err(|e| io_error(path, e))?;
    sync_directory_of(path)?;
    Ok(Some(aside))
}

/// As [`rename_damaged`], but the file also stays in place until another one replaces it.
///
/// # Errors
/// `Retry` if it cannot be done.
pub fn link_damaged(path: &Path) -> Result<PathBuf> {
    let aside = aside(path);
    // Not every file system has links.
    let copy = || {
        let mut to = owner::create(&aside)?;
        io::copy(&mut open_file(path)?, &mut to)?;
        to.sync_all()
    };
    fs::hard_link(path, &aside).or_else(|_| copy()).map_err(|e| io_error(&aside, e))?;
    sync_directory_of(&aside)?;
    Ok(aside)
}

/// A new name for a damaged file.
fn aside(path: &Path) -> PathBuf {
    let numbered = (1u32..).map(|n| longer(path, &format!(".damaged-{n}")));
    let mut free = numbered.filter(|aside| fs::symlink_metadata(aside).is_err());
    free.next().unwrap_or_else(|| path.with_extension("damaged"))
}
