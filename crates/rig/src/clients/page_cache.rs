//! Drops a server's files from the page cache, so that its next reads come from the disk.
//!
//! Names and inodes stay cached: dropping them too needs root, and affects everything else on the
//! machine.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

/// Writes back and drops every file below `dir`. No process may have them mapped.
///
/// # Errors
/// If a file cannot be read.
pub fn forget(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget(&entry.path())?;
        } else if kind.is_file() {
            let file = File::open(entry.path()).with_context(|| entry.path().display().to_string())?;
            // Only pages that are on the disk can be dropped.
            file.sync_data()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
