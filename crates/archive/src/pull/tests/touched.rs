//! Changes of a backup's files between two pulls are noticed although the server has nothing new.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::super::{FolderReport, Observer, Options, Reason, Report, Tools, pull};
use super::pulled::{options, tools};
use super::server::{Box_, Fault, Script};
use super::whole::{QRESYNC, texts};
use crate::backup::format_tests::{leave_unclosed, read_all};
use crate::backup::{Backup, FolderName, imap_backup, maildir};

type OpenBackup = fn(&Path) -> sealpost_base::Result<Box<dyn Backup>>;

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn begins(&self, _: &str, _: u64) {}
    fn stored(&self, _: &str, _: u64, _: u64) {}
    fn ended(&self, _: &FolderReport) {}
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Tasks left over from a pull release the backup a moment later.
async fn opened(open: OpenBackup, root: &Path) -> Box<dyn Backup> {
    loop {
        match open(root) {
            Err(e) if e.kind() == sealpost_base::Kind::Conflict => tokio::task::yield_now().await,
            backup => break backup.unwrap(),
        }
    }
}

/// A directory with a backup of twenty messages, and their server.
async fn pulled(open: OpenBackup) -> (tempfile::TempDir, Script) {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::start(Box_::with(20), QRESYNC, &[]).await;
    told(&script, open, directory.path(), options()).await;
    (directory, script)
}

/// Pulls; returns the report, and the notes.
async fn told(script: &Script, open: OpenBackup, root: &Path, options: Options) -> (Report, String) {
    let backup: Arc<dyn Backup> = opened(open, root).await.into();
    let notes = Arc::new(Notes::default());
    let (_stop, tools) = tools();
    let tools = Tools { observer: notes.clone(), ..tools };
    let report = pull(&script.server(), backup, &options, &tools).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    let notes = notes.0.lock().unwrap().join("\n");
    (report, notes)
}

fn cut(path: &Path, by: impl Fn(u64) -> u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(by(length)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_were_cut_or_removed_are_noticed_and_mended() {
    type Damage = (OpenBackup, &'static str, fn(&Path), &'static str, u64);
    let damages: [Damage; 9] = [
        (
            imap_backup::open,
            "cut mbox",
            |root| cut(&root.join("INBOX.mbox"), |n| n - 1),
            "shorter; fetching 1 ",
            1,
        ),
        (
            imap_backup::open,
            "no mbox",
            |root| fs::remove_file(root.join("INBOX.mbox")).unwrap(),
            "shorter; fetching 19 messages again; 1 message is lost",
            19,
        ),
        (
            imap_backup::open,
            "cut .imap",
            |root| cut(&root.join("INBOX.imap"), |n| n - 1),
            ".imap file was removed",
            0,
        ),
        (
            imap_backup::open,
            "no .imap",
            |root| fs::remove_file(root.join("INBOX.imap")).unwrap(),
            ".imap file was removed",
            0,
        ),
        (
            imap_backup::open,
            "cut journal",
            |root| cut(&root.join("INBOX.sealpost"), |n| n - 1),
            "journal ends in",
            0,
        ),
        (
            imap_backup::open,
            "half a journal",
            |root| cut(&root.join("INBOX.sealpost"), |n| n / 2),
            "adopted 20",
            0,
        ),
        (
            imap_backup::open,
            "no journal",
            |root| fs::remove_file(root.join("INBOX.sealpost")).unwrap(),
            "adopted 20",
            0,
        ),
        (
            maildir::open,
            "no cur",
            |root| fs::remove_dir_all(root.join("cur")).unwrap(),
            "20 files are missing; fetching 19 ",
            19,
        ),
        (
            maildir::open,
            "a file less",
            |root| {
                let mut files: Vec<_> =
                    fs::read_dir(root.join("cur")).unwrap().map(|e| e.unwrap().path()).collect();
                files.sort();
                fs::remove_file(files.last().unwrap()).unwrap();
            },
            "1 file is missing; fetching 1 ",
            1,
        ),
    ];
    for (open, what, damage, said, again) in damages {
        let (directory, script) = pulled(open).await;
        let root = directory.path();
        script.inbox(|inbox| inbox.expunge(3));
        told(&script, open, root, options()).await;
        let selected = script.asked("EXAMINE");
        let (report, notes) = told(&script, open, root, options()).await;
        assert_eq!((report.of.len(), &*notes), (0, ""), "{what}");
        damage(root);
        let (planned, _) = told(&script, open, root, Options { dry_run: true, ..options() }).await;
        let reason = planned.of[0].reason;
        assert!(matches!(reason, Some(Reason::Touched | Reason::Unfinished)), "{what}: {reason:?}");
        let (report, notes) = told(&script, open, root, options()).await;
        assert!(notes.contains(said), "{what}: {notes}");
        assert_eq!(report.new_messages().0, again, "{what}");
        let backup = opened(open, root).await;
        let folder = backup.open_to_read(&FolderName::new("INBOX", Some('/'))).unwrap();
        let mut kept: Vec<(u32, String)> = read_all(&*folder)
            .into_iter()
            .map(|(uid, mail)| (uid, String::from_utf8(mail.bytes).unwrap()))
            .collect();
        drop((folder, backup));
        // The server no longer has it, so it may be kept or not.
        kept.retain(|(uid, _)| *uid != 3);
        let mut expected = texts((1..=2).chain(4..=20));
        if said.starts_with("adopted") {
            // The mbox alone does not show how a message's last line ends.
            let trimmed = |(_, text): &mut (u32, String)| text.truncate(text.trim_end().len());
            kept.iter_mut().chain(&mut expected).for_each(trimmed);
        }
        assert_eq!(kept, expected, "{what}");
        // Then everything is in order.
        let before = script.asked("EXAMINE");
        let (report, notes) = told(&script, open, root, options()).await;
        assert_eq!((report.of.len(), &*notes), (0, ""), "{what}");
        assert_eq!((script.asked("EXAMINE"), before), (before, selected + 1), "{what}");
    }
}

/// Messages taken over from imap-backup have no dates, and get them by the pull that takes them
/// over, or by the next one that can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_dates_are_asked_for_once() {
    for capabilities in ["", "ESEARCH LIST-STATUS", QRESYNC] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let odd = [Fault::Date(3, "NIL"), Fault::CutOnceAt(1201)];
        let mut inbox = Box_::with(1200);
        inbox.messages.get_mut(&5).unwrap().1 = b"A: b\r\n\r\nLF\nand\r\nCRLF\n".to_vec();
        inbox.expunge(4);
        let script = Script::start(inbox, capabilities, &[]).await;
        told(&script, imap_backup::open, root, options()).await;
        fs::remove_file(root.join("INBOX.sealpost")).unwrap();
        script.change(|world| world.faults = odd.to_vec());
        script.inbox(|inbox| {
            inbox.expunge(7);
            // With recorded line ends, in the rewritten journal.
            assert_eq!(inbox.add(Some(b"A: b\r\n\r\nLF\nand\r\nCRLF\n".to_vec())), 1201);
        });
        told(&script, imap_backup::open, root, options()).await;
        let backup = opened(imap_backup::open, root).await;
        let folder = backup.open_to_read(&FolderName::new("INBOX", Some('/'))).unwrap();
        let mails = read_all(&*folder);
        let undated: Vec<u32> = mails.iter().filter(|(_, m)| m.date.is_none()).map(|(uid, _)| *uid).collect();
        assert_eq!((mails.len(), &*undated), (1200, &[3, 7][..]), "{capabilities}");
        assert!(mails.values().filter_map(|mail| mail.date).all(|date| date.zone_minutes() == -420));
        assert_eq!(mails[&1201].bytes, b"A: b\r\n\r\nLF\nand\r\nCRLF\n");
        assert!(folder.known().is_deleted_upstream(7));
        drop((folder, backup));
        let commands = 1199usize.div_ceil(500);
        assert_eq!(script.asked_for("(UID INTERNALDATE)"), commands, "{capabilities}");
        // The date that could not be parsed is asked for when the folder is looked into, and
        // nothing else.
        script.change(|world| world.faults.clear());
        script.inbox(|inbox| inbox.set_flags(9, "\\Flagged"));
        told(&script, imap_backup::open, root, options()).await;
        told(&script, imap_backup::open, root, options()).await;
        assert_eq!(script.asked_for("UID FETCH 3 (UID INTERNALDATE)"), 1, "{capabilities}");
        assert_eq!(script.asked_for("(UID INTERNALDATE)"), commands + 1, "{capabilities}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_shortened_by_a_pull_raise_no_warning() {
    for open in [imap_backup::open as OpenBackup, maildir::open as OpenBackup] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let script = Script::start(Box_::with(20), QRESYNC, &[]).await;
        let delete = || Options { delete: true, ..options() };
        told(&script, open, root, delete()).await;
        for last in (0..=20).rev() {
            script.inbox(|inbox| match last {
                0 => assert_eq!(inbox.add(None), 21),
                last => inbox.expunge(last),
            });
            assert_eq!(told(&script, open, root, delete()).await.1, "");
            let (report, notes) = told(&script, open, root, delete()).await;
            assert_eq!((report.of.len(), &*notes), (0, ""), "{last}");
        }
    }
}

/// A server that ends the connection when asked for the date of a message that was taken over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_date_that_ends_connections_blocks_no_new_message() {
    let (directory, script) = pulled(imap_backup::open).await;
    let root = directory.path();
    fs::remove_file(root.join("INBOX.sealpost")).unwrap();
    script.change(|world| world.faults = vec![Fault::CutAt(3)]);
    script.inbox(|inbox| {
        inbox.add(None);
    });
    let backup: Arc<dyn Backup> = opened(imap_backup::open, root).await.into();
    let (_stop, tools) = tools();
    pull(&script.server(), backup, &options(), &tools).await.unwrap();
    let backup = opened(imap_backup::open, root).await;
    let folder = backup.open_to_read(&FolderName::new("INBOX", Some('/'))).unwrap();
    assert!(folder.known().contains(21));
}

/// A run that ended after its last commit, and before it had closed the folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_run_closes_an_unclosed_folder() {
    let (directory, script) = pulled(imap_backup::open).await;
    let root = directory.path();
    let before = fs::read(root.join("INBOX.imap")).unwrap();
    script.inbox(|inbox| {
        inbox.add(None);
    });
    told(&script, imap_backup::open, root, options()).await;
    let after = fs::read(root.join("INBOX.imap")).unwrap();
    leave_unclosed(&root.join("INBOX.sealpost"));
    fs::write(root.join("INBOX.imap"), &before).unwrap();
    let (report, _) = told(&script, imap_backup::open, root, options()).await;
    assert_eq!((report.of.len(), fs::read(root.join("INBOX.imap")).unwrap()), (1, after));
    let (report, _) = told(&script, imap_backup::open, root, options()).await;
    assert_eq!(report.of.len(), 0);

    let (directory, script) = pulled(maildir::open).await;
    let root = directory.path();
    leave_unclosed(&root.join("sealpost.journal"));
    // Not yet where readers look.
    for entry in fs::read_dir(root.join("cur")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        fs::rename(entry.path(), root.join("tmp").join(name.split(":2,").next().unwrap())).unwrap();
    }
    told(&script, maildir::open, root, options()).await;
    assert_eq!(fs::read_dir(root.join("tmp")).unwrap().count(), 0);
}

/// Listing a backup's folders takes nothing over and puts nothing aside.
#[test]
fn an_unreadable_backup_is_not_as_left() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("INBOX.imap"), r#"{"version":3,"uid_validity":7,"messages":["#).unwrap();
    fs::write(root.join("INBOX.mbox"), "From a@b Mon Nov 16 09:05:07 2020\nSubject: one\n\ntext\n\n")
        .unwrap();
    let kept = imap_backup::open(root).unwrap().folders().unwrap();
    assert!(kept.len() == 1 && !kept[0].as_left);
}
