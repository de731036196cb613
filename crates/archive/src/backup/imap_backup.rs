//! The format of imap-backup 16: an mbox and a JSON file for each folder, and our journal beside them.
//!
//! `FOLDER.mbox` has the messages, `FOLDER.imap` their positions; both are as imap-backup writes
//! them, so it can read and continue the backup. `FOLDER.sealpost` is the journal, which it
//! ignores. The journal is authoritative: the JSON is made from it, at the end of a run and
//! whenever the folder has doubled, so that the cost per message does not depend on the size of the
//! folder. In between the JSON lists the earlier messages, at their correct positions.
//!
//! What imap-backup changed since is found by comparing the JSON with the journal when a folder is
//! opened, and taken over (`adopt`). None of its files is removed because it is unreadable: it is
//! put aside.

use std::path::Path;

use sealpost_base::Result;

pub(super) use self::layout::ImapBackup;
use super::Backup;
use super::file_backup::FileBackup;

mod adopt;
mod align;
mod files;
mod from_line;
mod json;
mod layout;
mod name;
mod quote;
mod rewrite;
mod segments;
#[cfg(test)]
mod tests;

/// Opens, or begins, the backup in `directory`.
///
/// # Errors
/// `Conflict` if another process has it; `Retry` if it cannot be read or made.
pub fn open(directory: &Path) -> Result<Box<dyn Backup>> {
    Ok(Box::new(FileBackup::new(directory, ImapBackup)?))
}

/// Opens the backup in `directory` to read it: nothing in it is changed, whatever its state.
///
/// # Errors
/// `Conflict` if another process is writing to it; `Retry` if it cannot be read.
pub fn open_to_read(directory: &Path) -> Result<Box<dyn Backup>> {
    Ok(Box::new(FileBackup::to_read(directory, ImapBackup)?))
}

/// The JSON is read or refused; what was read is written and read again.
pub(super) fn fuzz_json(data: &[u8]) {
    let _ = json::head(data);
    let mut entries = Vec::new();
    let Ok(head) = json::read(data, |entry| entries.push(entry)) else { return };
    let mut writer = json::Writer::new(Vec::new(), head.uid_validity).expect("memory can be written to");
    for entry in &entries {
        let flags = json::flags(&entry.flags);
        writer.message(entry.uid, entry.offset, entry.length, &flags).expect("memory can be written to");
    }
    let written = writer.finish().expect("memory can be written to");
    let mut again = Vec::new();
    let head = json::read(written.as_slice(), |entry| again.push(entry)).expect("what was written is read");
    assert_eq!((head.version, again.len()), (3, entries.len()));
    for (entry, again) in entries.iter().zip(&again) {
        assert_eq!((entry.uid, entry.offset, entry.length), (again.uid, again.offset, again.length));
    }
}
