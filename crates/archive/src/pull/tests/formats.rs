//! Pulls into the formats of files: what is there afterwards, also for other programs.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::super::{Options, Report};
use super::pulled::{options, pulled_into};
use super::server::{Box_, Script, text};
use crate::keep::{Copy, FolderName, imap_backup, maildir};

type Open = fn(&Path) -> sealpost_base::Result<Box<dyn Copy>>;

async fn pulled(script: &Script, copy: Arc<dyn Copy>) -> Report {
    let options = Options { connections: 2, delete: true, ..options() };
    pulled_into(script, copy, options).await.unwrap()
}

fn texts(copy: &dyn Copy) -> Vec<(u32, String)> {
    texts_of(copy, "INBOX")
}

fn texts_of(copy: &dyn Copy, name: &str) -> Vec<(u32, String)> {
    let folder = copy.look(&FolderName::new(name, Some('/'))).unwrap();
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
    for (format, open) in [("mbox", imap_backup::open as Open), ("maildir", maildir::open as Open)] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let script =
            Script::start(Box_::with(1500), "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS", &[]).await;
        let mut uids: Vec<u32> = (1..=1500).collect();
        for round in 0..3 {
            let copy: Arc<dyn Copy> = open(root).unwrap().into();
            let report = pulled(&script, copy.clone()).await;
            assert!(report.is_complete(), "{format}: {report:?}");
            let wanted: Vec<_> = uids.iter().map(|uid| (*uid, text(*uid))).collect();
            assert_eq!(texts(&*copy), wanted, "{format}");
            if format == "mbox" {
                // What imap-backup reads is up to date when the pull ends.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mailboxes_that_a_server_gives_one_id_are_kept_apart() {
    for (format, open) in [("mbox", imap_backup::open as Open), ("maildir", maildir::open as Open)] {
        let directory = tempfile::tempdir().unwrap();
        let alike = |first: u32| {
            let octets = |n| Some(format!("Subject: {first} {n}\r\n\r\n").into_bytes());
            let mut mailbox = Box_ { mailboxid: Some("M".into()), ..Box_::with(0) };
            for n in 0..20 {
                mailbox.add(octets(n));
            }
            mailbox
        };
        let capabilities = "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS OBJECTID";
        let script = Script::start(alike(0), capabilities, &[]).await;
        // At first there is one, and nothing is wrong with its id.
        for boxes in 1..4 {
            let copy: Arc<dyn Copy> = open(directory.path()).unwrap().into();
            let report = pulled(&script, copy.clone()).await;
            assert!(report.is_complete(), "{format}: {report:?}");
            assert_eq!(report.new_messages().0, 20, "{format}");
            for nth in 0..boxes {
                let name = if nth == 0 { "INBOX".to_owned() } else { format!("box-{nth}") };
                let wanted: Vec<_> =
                    (0..20).map(|n| (n + 1, format!("Subject: {nth} {n}\r\n\r\n"))).collect();
                assert_eq!(texts_of(&*copy, &name), wanted, "{format} {name}");
            }
            script.change(|world| drop(world.boxes.insert(format!("box-{boxes}"), alike(boxes))));
        }
    }
}
