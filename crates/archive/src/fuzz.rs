//! Entry points for fuzzing the readers of backups. They panic when something is wrong.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::backup::{Backup, FolderName, Identity, fuzzing, imap_backup};

/// The JSON of imap-backup is read or refused; what was read is written and read again.
pub fn fuzz_archive_json(data: &[u8]) {
    fuzzing::json(data);
}

/// A journal, in a file created in `directory`, is read up to its last valid commit, or refused;
/// the bytes that were cut off were not valid.
pub fn fuzz_archive_journal(data: &[u8], directory: &Path) {
    let path = directory.join("journal");
    fs::write(&path, data).expect("the directory can be written to");
    fuzzing::journal(&path);
}

/// A folder in imap-backup's format, below `directory`: the length of the JSON (two bytes), the
/// JSON, the mbox. It is adopted or renamed; the result is readable, and the same when opened
/// again.
pub fn fuzz_archive_folder(data: &[u8], directory: &Path) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else { return };
    let (json, mbox) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes(*length))));
    let root = directory.join("copy");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).expect("the directory can be written to");
    fs::write(root.join("INBOX.imap"), json).expect("the directory can be written to");
    fs::write(root.join("INBOX.mbox"), mbox).expect("the directory can be written to");
    let first = read(&root);
    assert_eq!(first, read(&root), "it is the same when it is opened again");
}

fn read(root: &Path) -> Vec<(u32, Vec<u8>)> {
    let backup = imap_backup::open(root).expect("a backup that can be written to is opened");
    let name = FolderName::new("INBOX", Some('/'));
    let kept = Backup::folders(&*backup).expect("its folders can be listed").into_iter().next();
    let identity = kept.map_or(Identity { uidvalidity: 7, mailboxid: None }, |kept| kept.identity);
    let folder = backup.open(&name, &identity).expect("whatever is there, the folder is opened");
    let mut found = Vec::new();
    for stored in folder.messages().expect("the journal was just written") {
        let uid = stored.expect("the journal was just written").uid;
        let mut bytes = Vec::new();
        folder
            .read(uid)
            .expect("it is there")
            .read_to_end(&mut bytes)
            .expect("what was taken over reads back");
        found.push((uid, bytes));
    }
    found
}
