//! Reading a backup changes nothing in it, whatever its state.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sealpost_base::Kind;

use crate::backup::convert::transfer;
use crate::backup::format_tests::*;
use crate::backup::{Backup, imap_backup, maildir};

/// The change of a file.
type Damage = fn(&mut Vec<u8>);
type OpenBackup = fn(&Path) -> sealpost_base::Result<Box<dyn Backup>>;

/// All names below `root`, with their bytes and modification times.
fn all(root: &Path) -> BTreeMap<String, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        let modified = entry.metadata().unwrap().modified().unwrap();
        let name = entry.path().display().to_string();
        if entry.file_type().unwrap().is_dir() {
            found.extend(all(&entry.path()));
            found.insert(name, (Vec::new(), modified));
        } else {
            found.insert(name, (fs::read(entry.path()).unwrap(), modified));
        }
    }
    found
}

fn mails() -> Mails {
    (1..=40).map(|uid| (uid, mail(&format!("Subject: {uid}\r\n\r\nnumber {uid}\r\n")))).collect()
}

fn make(open: OpenBackup, root: &Path) {
    let backup = open(root).unwrap();
    let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
    for (uid, mail) in &mails() {
        give(&mut *folder, *uid, mail, 1000).unwrap();
        if uid % 10 == 0 {
            folder.commit(&resume(uid + 1)).unwrap();
        }
    }
    folder.close().unwrap();
}

/// The readable messages of the backup, and the number of reported failures; nothing is changed.
fn read(open_to_read: OpenBackup, root: &Path) -> (Vec<u32>, usize) {
    let before = all(root);
    let backup = open_to_read(root).unwrap();
    let mut told = backup.unreadable().len();
    let mut uids = Vec::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let to = maildir::open(elsewhere.path()).unwrap();
    for kept in backup.folders().unwrap() {
        match backup.open_to_read(&kept.name) {
            Ok(folder) => {
                let target = to.open(&kept.name, &kept.identity).unwrap();
                told += transfer(&*folder, &[], target, &mut |_| true).unwrap().failed.len();
                uids = read_all(&*to.open_to_read(&kept.name).unwrap()).into_keys().collect();
            }
            Err(e) => {
                assert_ne!(e.kind(), Kind::Internal, "{e}");
                told += 1;
            }
        }
    }
    told += backup.unreported().len();
    drop(backup);
    assert_eq!(all(root), before, "nothing is changed");
    (uids, told)
}

#[test]
fn reading_a_damaged_copy_changes_nothing_in_it() {
    let formats: [(OpenBackup, OpenBackup, &str, &str); 2] = [
        (imap_backup::open, imap_backup::open_to_read, "INBOX.sealpost", "INBOX.imap"),
        (maildir::open, maildir::open_to_read, "sealpost.journal", ".uidvalidity"),
    ];
    for (open, open_to_read, journal, other) in formats {
        let damages: [(&str, Damage, &str); 7] = [
            ("nothing", |_| (), journal),
            ("the end is cut off", |bytes| bytes.truncate(bytes.len() - 9), journal),
            ("something in the middle", |bytes| bytes[200] ^= 1, journal),
            ("the beginning", |bytes| bytes[..40].fill(0), journal),
            ("noise at the end", |bytes| bytes.extend([7; 100]), journal),
            ("the other file is cut short", |bytes| bytes.truncate(bytes.len() / 2), other),
            ("the other file is empty", Vec::clear, other),
        ];
        for (what, damage, file) in damages {
            let directory = tempfile::tempdir().unwrap();
            make(open, directory.path());
            let path = directory.path().join(file);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let (uids, told) = read(open_to_read, directory.path());
            if what == "nothing" {
                assert_eq!(told, 0, "{file}: {what}");
            }
            let all = mails().len();
            assert!(uids.len() == all || told > 0, "{file}: {what}: {} of {all}, {told}", uids.len());
            assert!(uids.len() >= all / 4, "{file}: {what}: {} of {all}", uids.len());
        }
    }
}

#[test]
fn a_damaged_imap_backup_is_read_in_part() {
    for (cut, least) in [(0, 40), (1, 25), (2, 10)] {
        let directory = tempfile::tempdir().unwrap();
        make(imap_backup::open, directory.path());
        fs::remove_file(directory.path().join("INBOX.sealpost")).unwrap();
        fs::remove_file(directory.path().join("sealpost.lock")).unwrap();
        let path = directory.path().join("INBOX.imap");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() * (4 - cut) / 4]).unwrap();
        let (uids, told) = read(imap_backup::open_to_read, directory.path());
        assert!(uids.len() >= least && (told > 0) == (cut > 0), "{cut}: {} {told}", uids.len());
    }
    // A file without usable data yields no messages, and that is reported.
    let directory = tempfile::tempdir().unwrap();
    make(imap_backup::open, directory.path());
    fs::remove_file(directory.path().join("INBOX.sealpost")).unwrap();
    fs::write(directory.path().join("INBOX.imap"), b"?").unwrap();
    let (uids, told) = read(imap_backup::open_to_read, directory.path());
    assert_eq!((uids.len(), told), (0, 1));
}
