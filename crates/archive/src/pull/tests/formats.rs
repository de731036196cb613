//! Pulls into the file formats: the result, also as other programs read it.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::super::{Options, Report};
use super::pulled::{options, pulled_into};
use super::server::{Box_, Script, text};
use crate::backup::{Backup, FolderName, imap_backup, maildir};

type OpenBackup = fn(&Path) -> sealpost_base::Result<Box<dyn Backup>>;

async fn pulled(script: &Script, backup: Arc<dyn Backup>) -> Report {
    let options = Options { connections: 2, delete: true, ..options() };
    pulled_into(script, backup, options).await.unwrap()
}

fn texts(backup: &dyn Backup) -> Vec<(u32, String)> {
    texts_of(backup, "INBOX")
}

fn texts_of(backup: &dyn Backup, name: &str) -> Vec<(u32, String)> {
    let folder = backup.open_to_read(&FolderName::new(name, Some('/'))).unwrap();
    let uids: Vec<u32> = folder.messages().unwrap().map(|stored| stored.unwrap().uid).collect();
    let read = |uid| {
        let mut text = String::new();
        folder.read(uid).unwrap().read_to_string(&mut text).unwrap();
        (uid, text)
    };
    let mut texts: Vec<_> = uids.into_iter().map(read).collect();
    texts.sort();
    texts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_in_files_follow_the_server() {
    for (format, open) in
        [("mbox", imap_backup::open as OpenBackup), ("maildir", maildir::open as OpenBackup)]
    {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let script =
            Script::start(Box_::with(1500), "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS", &[]).await;
        let mut uids: Vec<u32> = (1..=1500).collect();
        for round in 0..3 {
            let backup: Arc<dyn Backup> = open(root).unwrap().into();
            let report = pulled(&script, backup.clone()).await;
            assert!(report.is_complete(), "{format}: {report:?}");
            let wanted: Vec<_> = uids.iter().map(|uid| (*uid, text(*uid))).collect();
            assert_eq!(texts(&*backup), wanted, "{format}");
            if format == "mbox" {
                // The file that imap-backup reads is up to date when the pull ends.
                let json = std::fs::read_to_string(root.join("INBOX.imap")).unwrap();
                assert_eq!(json.matches("\"uid\":").count(), uids.len());
            }
            script.inbox(|inbox| {
                inbox.set_flags(3 + round, "\\Flagged work");
                inbox.expunge(10 + round);
                uids.retain(|uid| *uid != 10 + round);
                uids.push(inbox.add(None));
            });
        }
    }
}

/// The files below `root` that contain `text`.
fn files_with(root: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text) {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_and_restored_file_is_found_again() {
    for (format, open) in
        [("mbox", imap_backup::open as OpenBackup), ("maildir", maildir::open as OpenBackup)]
    {
        let directory = tempfile::tempdir().unwrap();
        let (root, away) = (directory.path().join("copy"), directory.path().join("away"));
        let data = root.join(if format == "mbox" { "INBOX.mbox" } else { "cur" });
        let script = Script::start(Box_::with(4), "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS", &[]).await;
        let keeping = Options { connections: 1, ..options() };
        let all: Vec<_> = (1..=4).map(|uid| (uid, text(uid))).collect();
        for expunge in [None, Some(2)] {
            script.inbox(|inbox| expunge.into_iter().for_each(|uid| inbox.expunge(uid)));
            let backup: Arc<dyn Backup> = open(&root).unwrap().into();
            assert!(pulled_into(&script, backup, keeping.clone()).await.unwrap().is_complete());
        }
        for _ in 0..2 {
            std::fs::rename(&data, &away).unwrap();
            let backup = open(&root).unwrap();
            let folder = backup.open_to_read(&FolderName::new("INBOX", Some('/'))).unwrap();
            assert_eq!(folder.messages().unwrap().count(), 4, "{format}");
            let reads =
                |uid| folder.read(uid).is_ok_and(|mut bytes| bytes.read_to_end(&mut Vec::new()).is_ok());
            assert!((1..=4).all(|uid| !reads(uid)), "{format}");
            drop(folder);
            assert!(
                backup.unreported().iter().any(|told| told.contains("restore the missing files")),
                "{format}"
            );
            drop(backup);
            restore(&away, &data);
            assert_eq!(texts(&*open(&root).unwrap()), all, "{format}");
        }
        // A pull fetches what it can. Messages put back later stay; with one file per message they
        // belong to the backup again.
        let put_back = if format == "mbox" { 3 } else { 4 };
        std::fs::rename(&data, &away).unwrap();
        let backup: Arc<dyn Backup> = open(&root).unwrap().into();
        let report = pulled_into(&script, backup, keeping.clone()).await.unwrap();
        assert_eq!(report.new_messages().0, 3, "{format}");
        restore(&away, &data);
        for _ in 0..2 {
            let backup: Arc<dyn Backup> = open(&root).unwrap().into();
            assert!(pulled_into(&script, backup.clone(), keeping.clone()).await.unwrap().is_complete());
            assert_eq!(texts(&*backup).len(), put_back, "{format}");
            assert!(!files_with(&root, "Subject: message 2").is_empty(), "{format}");
        }
    }
}

/// Puts a file or a directory back, where another one may be by now.
fn restore(away: &Path, to: &Path) {
    if to.is_dir() {
        for entry in std::fs::read_dir(away).unwrap() {
            let entry = entry.unwrap();
            std::fs::rename(entry.path(), to.join(entry.file_name())).unwrap();
        }
        std::fs::remove_dir(away).unwrap();
    } else {
        std::fs::rename(away, to).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mailboxes_that_a_server_gives_one_id_are_kept_apart() {
    for (format, open) in
        [("mbox", imap_backup::open as OpenBackup), ("maildir", maildir::open as OpenBackup)]
    {
        let directory = tempfile::tempdir().unwrap();
        let alike = |first: u32| {
            let bytes = |n| Some(format!("Subject: {first} {n}\r\n\r\n").into_bytes());
            let mut mailbox = Box_ { mailboxid: Some("M".into()), ..Box_::with(0) };
            for n in 0..20 {
                mailbox.add(bytes(n));
            }
            mailbox
        };
        let capabilities = "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS OBJECTID";
        let script = Script::start(alike(0), capabilities, &[]).await;
        // At first there is one, and nothing is wrong with its id.
        for boxes in 1..4 {
            let backup: Arc<dyn Backup> = open(directory.path()).unwrap().into();
            let report = pulled(&script, backup.clone()).await;
            assert!(report.is_complete(), "{format}: {report:?}");
            assert_eq!(report.new_messages().0, 20, "{format}");
            for nth in 0..boxes {
                let name = if nth == 0 { "INBOX".to_owned() } else { format!("box-{nth}") };
                let wanted: Vec<_> =
                    (0..20).map(|n| (n + 1, format!("Subject: {nth} {n}\r\n\r\n"))).collect();
                assert_eq!(texts_of(&*backup, &name), wanted, "{format} {name}");
            }
            script.change(|world| drop(world.boxes.insert(format!("box-{boxes}"), alike(boxes))));
        }
    }
}
