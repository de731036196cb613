//! The format Maildir, as mbsync names and numbers things: Maildir++ folders (its `SubFolders
//! Maildir++`, which Dovecot and Courier share), the UID in the file name, UIDVALIDITY in
//! `.uidvalidity`; and our journal beside it.
//!
//! A message is written to `tmp`, synced, recorded in the journal, and then gets its name in `cur`;
//! what a crash leaves in `tmp` is moved when the folder is opened. Flags are in the file names as
//! letters; keywords, dates with their zone and digests are in the journal. Text has LF at its line
//! ends as programs expect there; the journal records where the message had others.
//!
//! Another program may mark messages here: its letters stay until the server's flags change.

use std::path::Path;

use sealpost_base::{Error, Result};

use self::layout::Maildir;
use super::Backup;
use super::file_backup::FileBackup;

mod adopt;
mod background_task;
mod disk;
mod file_names;
mod files;
mod layout;
mod name;
mod names;
#[cfg(test)]
mod tests;

/// Opens, or begins, the backup in `directory`, which is the Maildir of INBOX.
///
/// # Errors
/// `Invalid` if another program keeps its mail there; `Conflict` if another process has it; `Retry`
/// if it cannot be read or made.
pub fn open(directory: &Path) -> Result<Box<dyn Backup>> {
    check_ours(directory)?;
    Ok(Box::new(FileBackup::new(directory, Maildir)?))
}

/// Opens the backup in `directory` to read it: nothing in it is changed, whatever its state.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(directory: &Path) -> Result<Box<dyn Backup>> {
    check_ours(directory)?;
    Ok(Box::new(FileBackup::to_read(directory, Maildir)?))
}

fn check_ours(directory: &Path) -> Result<()> {
    let is_ours = || names::uidvalidity(directory).map(|found| found.is_some());
    if directory.join("cur").exists() && !layout::journal(directory).exists() && !is_ours()? {
        return Err(Error::invalid(format!(
            "{}: a Maildir of another program exists here: choose another directory",
            directory.display()
        )));
    }
    Ok(())
}
