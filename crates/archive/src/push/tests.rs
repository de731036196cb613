//! Restoring and migrating between scripted servers.

mod mirrors;
mod recognized;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use sealpost_base::SeededRandom;
use tokio::sync::{mpsc, watch};

use super::deliver::Delivery;
use super::delivery_state::{DeliveryState, SizeRefusals};
use super::message_chunk::{MessageChunk, MessageMeta, ProgressSink};
use super::{FolderReport, Observer, Options, Report, UidMap, migrate, restore};
use crate::backup::{Backup, Flags};
use crate::client::Connection;
use crate::pull::tests::memory::Memory;
use crate::pull::tests::pulled::copy_of;
use crate::pull::tests::server::{Box_, Fault, Script};

pub(crate) struct Nobody;

impl Observer for Nobody {
    fn begins(&self, _: &str, _: u64) {}
    fn put(&self) {}
    fn note(&self, _: &str) {}
    fn ended(&self, _: &FolderReport) {}
}

pub(crate) fn options(stop: &watch::Receiver<bool>) -> Options {
    Options {
        wanted: Arc::new(|_| true),
        include_superseded: false,
        below: Vec::new(),
        dry_run: false,
        map: Arc::new(Mutex::new(UidMap::default())),
        restored: Arc::default(),
        random: Arc::new(SeededRandom::new(1)),
        stop: stop.clone(),
    }
}

/// Messages with and without Message-ID, one of them twice, one large.
fn mailbox() -> Box_ {
    let mut inbox = Box_::with(0);
    for n in 0..50 {
        inbox.add(Some(format!("Message-ID: <{n}@x>\r\n\r\ntext {n}").into_bytes()));
    }
    inbox.add(Some(b"Message-ID: <7@x>\r\n\r\ntext 7".to_vec()));
    inbox.add(Some(b"Subject: none\r\n\r\nwithout".to_vec()));
    let large = inbox.add(Some([b"Message-ID: <large@x>\r\n\r\n".to_vec(), vec![b'z'; 300_000]].concat()));
    inbox.set_flags(large, "\\Flagged work");
    inbox
}

fn bytes(script: &Script, name: &str) -> Vec<(String, Vec<u8>)> {
    script
        .world
        .lock()
        .unwrap()
        .boxes
        .get(name)
        .map(|b| b.messages.values().cloned().collect())
        .unwrap_or_default()
}

fn counts(report: &Report) -> (u64, u64, u64) {
    let folders = &report.folders;
    let (put, there) = (folders.iter().map(|f| f.put).sum(), folders.iter().map(|f| f.there).sum());
    (put, there, folders.iter().map(|f| f.failures).sum())
}

#[tokio::test]
async fn repeated_restores_make_no_duplicates() {
    for capabilities in
        ["", "LITERAL+", "LITERAL-", "MULTIAPPEND", "LITERAL+ MULTIAPPEND", "LITERAL- MULTIAPPEND"]
    {
        let from = Script::start(mailbox(), "", &[]).await;
        let backup: Arc<Memory> = Arc::new(copy_of(&from).await);
        let to = Script::start(Box_::with(0), capabilities, &[]).await;
        let (_stop, watched) = watch::channel(false);
        let (options, nobody) = (options(&watched), Arc::new(Nobody));
        let report = restore(backup.clone(), &to.server(), &options, nobody.clone()).await.unwrap();
        assert_eq!(counts(&report), (53, 0, 0), "{capabilities}: {report:?}");
        assert_eq!(bytes(&to, "INBOX"), bytes(&from, "INBOX"), "{capabilities}");
        let pairs: Vec<_> = {
            let map = options.map.lock().unwrap();
            map.known("INBOX", "INBOX").unwrap().pairs(7, 7).collect()
        };
        assert_eq!((pairs.len(), pairs[2]), (53, (3, 3)), "{capabilities}");
        let report = restore(backup, &to.server(), &options, nobody).await.unwrap();
        assert_eq!(counts(&report), (0, 53, 0));
        assert_eq!(bytes(&to, "INBOX").len(), 53);
    }
}

/// Except those that are too large to be held until they are verified.
#[tokio::test]
async fn a_message_is_read_once_to_be_restored() {
    let mut inbox = Box_::with(3);
    let large = |bytes| [b"Subject: x\r\n\r\n".to_vec(), vec![b'z'; bytes]].concat();
    for bytes in [100_000, 1_000_000, 4_000_000, 5_000_000] {
        inbox.add(Some(large(bytes)));
    }
    let from = Script::start(inbox, "", &[]).await;
    let backup = Arc::new(copy_of(&from).await);
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let report = restore(backup.clone(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (7, 0, 0));
    assert!(bytes(&to, "INBOX") == bytes(&from, "INBOX"));
    assert_eq!(backup.reads.load(Ordering::Relaxed), 8);
}

/// A server was set up again with less mail: the backup's messages of the old one are restored,
/// beside the present ones.
#[tokio::test]
async fn superseded_folders_are_restored_once() {
    use crate::backup::format_tests::{folder_name, give, identity, mail, resume};
    let directory = tempfile::tempdir().unwrap();
    let backup: Arc<dyn Backup> = crate::backup::imap_backup::open(directory.path()).unwrap().into();
    let message = |n: u32| mail(&format!("Message-ID: <{n}@x>\r\n\r\ntext {n}"));
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    for (uidvalidity, uids) in [(7, 1..=5), (8, 5..=6)] {
        let folder = &mut *backup.open(&folder_name("INBOX"), &identity(uidvalidity)).unwrap();
        uids.for_each(|uid| give(folder, uid, &message(uid), 99).unwrap());
        folder.commit(&resume(9)).unwrap();
    }
    to.inbox(|inbox| _ = inbox.add(Some(message(6).bytes)));
    let (_stop, watched) = watch::channel(false);
    let restored = async |include_superseded| {
        let options = Options { include_superseded, ..options(&watched) };
        restore(backup.clone(), &to.server(), &options, Arc::new(Nobody)).await.unwrap()
    };
    assert_eq!(counts(&restored(false).await), (1, 1, 0));
    let report = restored(true).await;
    assert_eq!(counts(&report), (4, 3, 0), "{report:?}");
    assert_eq!((bytes(&to, "INBOX").len(), bytes(&to, "INBOX-7").len()), (6, 0));
    assert_eq!(counts(&restored(true).await), (0, 7, 0));
}

/// However many there are in a row, small and large: no connection is lost for any of them.
#[tokio::test]
async fn damaged_messages_are_named_and_all_others_are_restored() {
    use crate::backup::format_tests::{folder_name, give, identity, mail, resume};
    let directory = tempfile::tempdir().unwrap();
    let backup: Arc<dyn Backup> = crate::backup::imap_backup::open(directory.path()).unwrap().into();
    let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
    for n in 1..=30 {
        let lines = if n % 2 == 0 { 1 } else { 9000 };
        let text = format!("Message-ID: <{n}@x>\r\n\r\n{}", format!("text {n}\r\n").repeat(lines));
        give(&mut *folder, n, &mail(&text), 9999).unwrap();
    }
    folder.commit(&resume(31)).unwrap();
    folder.close().unwrap();
    let path = directory.path().join("INBOX.mbox");
    let mut text = std::fs::read(&path).unwrap();
    for n in 5..=20 {
        let line = format!("text {n}\n\nFrom ");
        let at = text.windows(line.len()).position(|window| window == line.as_bytes()).unwrap();
        text[at] ^= 1;
    }
    std::fs::write(&path, text).unwrap();
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let report = restore(backup.clone(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!((counts(&report), report.reconnects), ((14, 0, 16), 0), "{report:?}");
    let failed: Vec<u32> = report.folders[0].failed.iter().map(|(uid, _)| *uid).collect();
    assert_eq!(failed, (5..=20).collect::<Vec<u32>>());
    assert_eq!(bytes(&to, "INBOX").len(), 14);
}

/// A message that a damaged journal does not name does not count as deleted: the rest is restored
/// and exported, and both report that messages are missing.
#[tokio::test]
async fn messages_lost_with_a_journal_are_reported() {
    use crate::backup::convert::transfer;
    use crate::backup::format_tests::{folder_name, give, identity, mail, resume};
    use crate::backup::maildir;
    let directory = tempfile::tempdir().unwrap();
    let backup: Arc<dyn Backup> = maildir::open(directory.path()).unwrap().into();
    let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
    for n in 1..=12 {
        give(&mut *folder, n, &mail(&format!("Message-ID: <{n}@x>\r\n\r\ntext {n}\r\n")), 99).unwrap();
        if n % 4 == 0 {
            folder.commit(&resume(n + 1)).unwrap();
        }
    }
    folder.close().unwrap();
    drop(backup);
    let path = directory.path().join("sealpost.journal");
    let journal = std::fs::read(&path).unwrap();
    // Not every record is a message.
    let backup = (journal.len() / 2..journal.len()).find_map(|at| {
        let mut changed = journal.clone();
        changed[at] ^= 0x10;
        std::fs::write(&path, changed).unwrap();
        let backup = maildir::open(directory.path()).unwrap();
        let misses = backup.open_to_read(&folder_name("INBOX")).unwrap().unread() == 1;
        misses.then(|| Arc::<dyn Backup>::from(backup))
    });
    let backup = backup.unwrap();
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    for counted in [(11, 0, 0), (0, 11, 0)] {
        let report =
            restore(backup.clone(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
        assert_eq!(counts(&report), counted, "{report:?}");
        let why = report.folders[0].error.as_deref().unwrap_or_default();
        assert!(why.contains("does not list all messages"), "{report:?}");
    }
    let folder = backup.open_to_read(&folder_name("INBOX")).unwrap();
    let exported = maildir::open(&directory.path().join("exported")).unwrap();
    let target = exported.open(&folder_name("INBOX"), &identity(7)).unwrap();
    let done = transfer(&*folder, &[], target, &mut |_| true).unwrap();
    assert_eq!((done.messages, done.failed.len()), (11, 1));
    assert!(done.failed[0].1.starts_with("1 message from the damaged part"), "{:?}", done.failed);
}

/// Messages taken over from a program that keeps no INTERNALDATE.
#[tokio::test]
async fn undated_messages_are_recognized_and_get_header_dates() {
    let mut inbox = mailbox();
    inbox.add(Some(b"Date: Mon, 16 Nov 2020 09:05:07 +0100\r\nSubject: one\r\n\r\n".to_vec()));
    inbox.add(Some(b"Date: Mon, 16 Nov 2020 09:05:07 +0100\r\nSubject: one\r\n\r\n".to_vec()));
    let from = Script::start(inbox, "", &[]).await;
    let backup: Arc<Memory> = Arc::new(copy_of(&from).await);
    for folder in backup.folders.lock().unwrap().values_mut() {
        folder.messages.values_mut().for_each(|message| message.arrived.internaldate = None);
    }
    let (_stop, watched) = watch::channel(false);
    // Into their own account, where one of two identical ones is missing.
    from.inbox(|inbox| inbox.expunge(55));
    let report = restore(backup.clone(), &from.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (1, 54, 0), "{report:?}");
    let dated = "APPEND INBOX (\\Seen) \"16-Nov-2020 09:05:07 +0100\" {";
    assert_eq!((from.asked("APPEND"), from.asked(dated)), (1, 1));
    // Into another account, twice.
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    for counted in [(55, 0, 0), (0, 55, 0)] {
        let report =
            restore(backup.clone(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
        assert_eq!(counts(&report), counted, "{report:?}");
    }
    assert_eq!(to.asked(dated), 2);
    // Exported messages have only their header's date, too.
    for folder in backup.folders.lock().unwrap().values_mut() {
        folder.messages.values_mut().for_each(|message| {
            message.arrived.internaldate = crate::backup::sent::sent(&message.bytes);
        });
    }
    let report = restore(backup, &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (0, 55, 0), "{report:?}");
}

#[tokio::test]
async fn a_mailbox_migrates_and_refusals_are_reported() {
    let mut inbox = mailbox();
    inbox.add(Some(b"Refuse: me\r\n\r\n".to_vec()));
    let from = Script::start(inbox, "", &[]).await;
    from.change(|world| drop(world.boxes.insert("Work".into(), Box_::with(10))));
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let report = migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (63, 0, 1), "{report:?}");
    assert_eq!(bytes(&to, "INBOX"), bytes(&from, "INBOX")[..53]);
    assert_eq!(bytes(&to, "Work"), bytes(&from, "Work"));
    from.inbox(|inbox| {
        inbox.add(Some(b"Message-ID: <new@x>\r\n\r\n".to_vec()));
    });
    let report = migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (1, 63, 1));
}

#[tokio::test]
async fn keywords_that_are_refused_cost_no_message() {
    for capabilities in ["", "LITERAL+", "LITERAL+ MULTIAPPEND"] {
        let from = Script::start(mailbox(), "", &[]).await;
        from.inbox(|inbox| inbox.set_flags(4, "$a \\Seen"));
        from.inbox(|inbox| {
            inbox.add(Some(b"Refuse: me\r\n\r\n".to_vec()));
        });
        from.inbox(|inbox| inbox.set_flags(54, "$b"));
        let to = Script::start(Box_::with(0), capabilities, &[Fault::NoKeywords]).await;
        let (_stop, watched) = watch::channel(false);
        let report =
            migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
        assert_eq!(counts(&report), (53, 0, 1), "{capabilities}: {report:?}");
        assert_eq!(report.folders[0].without_keywords, 2);
        let mut flags: Vec<String> = bytes(&to, "INBOX").into_iter().map(|(flags, _)| flags).collect();
        flags.sort();
        assert_eq!((&*flags[0], &*flags[52]), ("\\Flagged", "\\Seen"));
    }
}

#[tokio::test]
async fn a_folder_whose_name_is_refused_gets_another_one() {
    let from = Script::start(mailbox(), "", &[]).await;
    from.change(|world| drop(world.boxes.insert("v1.2".into(), Box_::with(10))));
    let to = Script::start(Box_::with(0), "LITERAL+", &[Fault::NoDots]).await;
    let (_stop, watched) = watch::channel(false);
    let options = options(&watched);
    let dry = Options { dry_run: true, ..options.clone() };
    for (options, counted) in [(&options, (63, 0, 0)), (&options, (0, 63, 0)), (&dry, (0, 63, 0))] {
        let report = migrate(&from.server(), &to.server(), options, Arc::new(Nobody)).await.unwrap();
        assert_eq!(counts(&report), counted, "{report:?}");
        assert_eq!(bytes(&to, "v1_2"), bytes(&from, "v1.2"));
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_selected_is_made() {
    let from = Script::start(mailbox(), "", &[]).await;
    from.change(|world| drop(world.boxes.insert("Work".into(), Box_::with(10))));
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    to.change(|world| world.unselectable.push("Work".into()));
    let (_stop, watched) = watch::channel(false);
    let report = migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap();
    assert_eq!(counts(&report), (63, 0, 0), "{report:?}");
    assert_eq!(bytes(&to, "Work"), bytes(&from, "Work"));
}

#[tokio::test]
async fn below_and_dry() {
    let from = Script::start(mailbox(), "", &[]).await;
    let backup: Arc<Memory> = Arc::new(copy_of(&from).await);
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let below = Options { below: vec!["Old".into()], dry_run: true, ..options(&watched) };
    let report = restore(backup.clone(), &to.server(), &below, Arc::new(Nobody)).await.unwrap();
    assert_eq!((counts(&report).0, to.asked("CREATE"), to.asked("APPEND")), (53, 0, 0));
    let below = Options { dry_run: false, ..below };
    restore(backup, &to.server(), &below, Arc::new(Nobody)).await.unwrap();
    assert_eq!(bytes(&to, "Old/INBOX").len(), 53);
}

/// From a server to another one with these faults.
async fn migrated(capabilities: &str, faults: &[Fault]) -> (Script, Script, Report) {
    let from = Script::start(mailbox(), "", &[]).await;
    let to = Script::start(Box_::with(0), capabilities, faults).await;
    let report = migrate_between(&from, &to).await;
    (from, to, report)
}

async fn migrate_between(from: &Script, to: &Script) -> Report {
    let (_stop, watched) = watch::channel(false);
    migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Nobody)).await.unwrap()
}

/// Bytes in sorted order.
fn sorted(script: &Script) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = bytes(script, "INBOX").into_iter().map(|(_, bytes)| bytes).collect();
    all.sort();
    all
}

#[tokio::test]
async fn lost_connections_are_made_again_and_nothing_is_there_twice() {
    for capabilities in ["", "LITERAL+", "LITERAL+ MULTIAPPEND"] {
        // Ended before and after it was executed, and answered "later".
        let faults = [
            Fault::EndAtAppend,
            Fault::EndAfterAppend,
            Fault::Throttle(2),
            Fault::EndAfterAppend,
            Fault::EndAtAppend,
        ];
        let (from, to, report) = migrated(capabilities, &faults).await;
        assert_eq!(counts(&report).2, 0, "{capabilities}: {report:?}");
        assert_eq!(sorted(&to), sorted(&from), "{capabilities}");
        assert!(report.reconnects >= 4, "{capabilities}: {report:?}");
        assert_eq!(to.world.lock().unwrap().faults, []);
    }
}

#[tokio::test]
async fn a_source_that_ends_is_gone_on_with() {
    let from = Script::start(mailbox(), "", &[Fault::CutOnceAt(20), Fault::Bye(3, "shutting down")]).await;
    let to = Script::start(Box_::with(0), "LITERAL+ MULTIAPPEND", &[]).await;
    let report = migrate_between(&from, &to).await;
    assert_eq!((sorted(&to), counts(&report).2), (sorted(&from), 0));
    // Only the one that it never sends completely fails.
    let from = Script::start(mailbox(), "", &[Fault::CutAt(20)]).await;
    let to = Script::start(Box_::with(0), "LITERAL+ MULTIAPPEND", &[]).await;
    let report = migrate_between(&from, &to).await;
    assert_eq!((report.folders[0].failed[0].0, counts(&report)), (20, (52, 0, 1)), "{report:?}");
    assert_eq!(sorted(&to).len(), 52);
}

#[tokio::test]
async fn only_a_refused_or_disconnecting_message_is_missing() {
    for begin in ["Poison", "Refuse", "Limit"] {
        for capabilities in ["", "LITERAL+", "MULTIAPPEND LITERAL+"] {
            let mut inbox = Box_::with(20);
            inbox.add(Some(format!("{begin}: me\r\n\r\n").into_bytes()));
            for _ in 0..20 {
                inbox.add(None);
            }
            let from = Script::start(inbox, "", &[]).await;
            let to = Script::start(Box_::with(0), capabilities, &[]).await;
            let report = migrate_between(&from, &to).await;
            assert_eq!(counts(&report), (40, 0, 1), "{begin} {capabilities}: {report:?}");
            assert_eq!((report.folders[0].failed[0].0, sorted(&to).len()), (21, 40));
        }
    }
}

#[tokio::test]
async fn several_messages_share_a_command_if_the_server_can() {
    let (_, to, _) = migrated("LITERAL+ MULTIAPPEND", &[]).await;
    assert!(to.asked("APPEND") < 20, "{}", to.asked("APPEND"));
    assert_eq!(sorted(&to).len(), 53);
}

#[tokio::test]
async fn an_account_that_is_full_is_left_alone() {
    for capabilities in ["", "LITERAL+ MULTIAPPEND"] {
        let (_, to, report) = migrated(capabilities, &[Fault::Room(10)]).await;
        assert_eq!(bytes(&to, "INBOX").len(), 10, "{capabilities}");
        let folder = &report.folders[0];
        assert!(folder.error.as_ref().is_some_and(|e| e.contains("no more")), "{folder:?}");
        assert!(to.asked("APPEND") < 53 + 10, "{}", to.asked("APPEND"));
    }
}

#[tokio::test]
async fn messages_above_append_limit_are_not_sent() {
    let (_, to, report) = migrated("LITERAL+ APPENDLIMIT=1000", &[]).await;
    assert_eq!((counts(&report), bytes(&to, "INBOX").len()), ((52, 0, 1), 52));
    assert_eq!(to.asked("APPEND"), 52);
}

#[tokio::test]
async fn wrong_sizes_no_uidplus_and_limits_make_no_doubles() {
    for fault in [Fault::WrongSizes, Fault::NoUidplus, Fault::MessageLimit(7)] {
        let (from, to, report) = migrated("LITERAL+", std::slice::from_ref(&fault)).await;
        assert_eq!(counts(&report), (53, 0, 0), "{fault:?}");
        assert_eq!(counts(&migrate_between(&from, &to).await), (0, 53, 0), "{fault:?}");
    }
}

#[tokio::test]
async fn nothing_is_appended_to_an_incomplete_listing() {
    let (from, to, _) = migrated("LITERAL+", &[]).await;
    to.change(|world| world.faults.push(Fault::HalfListed));
    let report = migrate_between(&from, &to).await;
    assert!(report.folders[0].error.is_some(), "{report:?}");
    assert_eq!(bytes(&to, "INBOX").len(), 53);
}

#[tokio::test]
async fn complete_messages_count_when_the_source_ends_early() {
    for capabilities in ["", "LITERAL+", "LITERAL+ MULTIAPPEND"] {
        let to = Script::start(Box_::with(0), capabilities, &[]).await;
        let mut connection = Connection::open(&to.server()).await.unwrap();
        let (sender, items) = mpsc::channel(8);
        for (uid, bytes, ends) in [(1, "first", true), (2, "sec", false)] {
            let size = if uid == 1 { 5 } else { 1 << 20 };
            let head = MessageMeta { uid, flags: Flags::default(), date: None, size };
            sender.send(MessageChunk::Begin(head)).await.unwrap();
            sender.send(MessageChunk::Bytes(bytes.into())).await.unwrap();
            if ends {
                sender.send(MessageChunk::End).await.unwrap();
            }
        }
        drop(sender);
        let (_stop, stop) = watch::channel(false);
        let (mut tried, mut room) = (DeliveryState::default(), SizeRefusals::default());
        let (map, mut report) = (Mutex::new(UidMap::default()), FolderReport::default());
        let mut told = ProgressSink {
            observer: &Nobody,
            map: &map,
            report: &mut report,
            uidvalidity: 7,
            to: "INBOX".into(),
        };
        let parts = (&mut tried, &mut room, &mut told);
        let delivery = Delivery::new(&mut connection, b"INBOX", items, stop, false, parts);
        assert!(delivery.run().await.is_err());
        assert_eq!((report.put, bytes(&to, "INBOX").len()), (1, 1), "{capabilities}");
    }
}
