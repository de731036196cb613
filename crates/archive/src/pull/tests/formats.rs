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
    let folder = copy.look(&FolderName::new("INBOX", Some('/'))).unwrap();
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
