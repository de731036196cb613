//! A backup is of one account's mail, in every format.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use sealpost_base::Kind;

use super::super::{Options, pull};
use super::pulled::{options, tools};
use super::server::{Box_, Script};
use crate::backup::{Backup, imap_backup, maildir};
use crate::client::Server;

type OpenBackup = fn(&Path) -> sealpost_base::Result<Box<dyn Backup>>;

/// All files except the lock.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(self::files(&entry.path()));
        } else {
            files.insert(entry.path().display().to_string(), fs::read(entry.path()).unwrap());
        }
    }
    files
}

async fn pulled(
    server: &Server,
    root: &Path,
    open: OpenBackup,
    renamed: bool,
) -> Result<u64, sealpost_base::Error> {
    let (_stop, tools) = tools();
    let backup: Arc<dyn Backup> = loop {
        match open(root) {
            // Tasks left over from a pull release the backup a moment later.
            Err(e) if e.kind() == Kind::Conflict => tokio::task::yield_now().await,
            backup => break backup.unwrap().into(),
        }
    };
    let report = pull(server, backup, &Options { source_renamed: renamed, ..options() }, &tools).await?;
    Ok(report.new_messages().0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_account_is_refused_before_anything_is_touched() {
    for open in [imap_backup::open as OpenBackup, maildir::open as OpenBackup] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let jane = Script::start(Box_::with(3), "", &[]).await.server();
        let bobs = Box_ { uidvalidity: 8, ..Box_::with(5) };
        let bob = Server { user: "bob".into(), ..Script::start(bobs, "", &[]).await.server() };
        assert_eq!(pulled(&jane, root, open, false).await.unwrap(), 3);
        let before = files(root);
        let refused = pulled(&bob, root, open, false).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict);
        assert!(refused.to_string().contains("the mail of me at 127.0.0.1, not of bob at"), "{refused}");
        assert_eq!(files(root), before);
        // The owner confirms it.
        let renamed = Server { user: "jane".into(), ..jane.clone() };
        assert_eq!(pulled(&renamed, root, open, true).await.unwrap(), 0);
        assert_eq!(pulled(&renamed, root, open, false).await.unwrap(), 0);
        assert!(pulled(&jane, root, open, false).await.is_err());
        // A backup without folders accepts any account.
        let empty = tempfile::tempdir().unwrap();
        open(empty.path()).unwrap().set_source(&jane.source()).unwrap();
        assert_eq!(pulled(&bob, empty.path(), open, false).await.unwrap(), 5);
    }
}
