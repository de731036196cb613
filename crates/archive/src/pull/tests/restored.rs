//! Alternating restores and pulls, in every format: a message stays one message, and duplicates of
//! the server stay duplicates.

use std::io::Read;
use std::sync::{Arc, Mutex};

use sealpost_base::Timestamp;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::super::{FolderReport, Observer, Options, Reason, Report, Tools, pull};
use super::copies::{BackupPlace, FORMATS, Format};
use super::pulled::{options, tools};
use super::server::{Box_, Fault, Script, ServerState};
use super::whole::QRESYNC;
use crate::backup::format_tests::{folder_name, give, identity, mail, resume};
use crate::backup::{Flags, KnownMessages};
use crate::push::tests::{Nobody, options as put};
use crate::push::{self, MapFile, UidMap, restore};
use crate::restored::{RECORD_FILE, Restored};

/// A backup and its server.
struct Both {
    place: BackupPlace,
    script: Script,
    told: Arc<Notes>,
}

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

/// Distinct messages, three identical ones, and one too long for one piece.
fn mailbox() -> Box_ {
    let mut inbox = Box_::with(4);
    (0..3).for_each(|_| _ = inbox.add(Some(b"Subject: same\r\n\r\nsame\n".to_vec())));
    inbox.add(Some([b"Message-ID: <large@x>\r\n\r\n".to_vec(), vec![b'z'; 200_000]].concat()));
    inbox.set_flags(2, "\\Flagged work");
    inbox
}

fn empty(script: &Script) {
    script.inbox(|inbox| {
        let uids: Vec<u32> = inbox.messages.keys().copied().collect();
        uids.into_iter().for_each(|uid| inbox.expunge(uid));
    });
}

/// Flags and bytes of a mailbox, without the UIDs.
fn there(script: &Script, name: &str) -> Vec<(String, Vec<u8>)> {
    let world = script.world.lock().unwrap();
    let mut there: Vec<_> =
        world.boxes.get(name).map(|b| b.messages.values().cloned().collect()).unwrap_or_default();
    there.sort();
    there
}

impl Both {
    async fn new(format: Format, capabilities: &str, faults: &[Fault]) -> Self {
        let script = Script::start(mailbox(), capabilities, faults).await;
        let both = Both { place: BackupPlace::new(format), script, told: Arc::default() };
        both.pull().await;
        both
    }

    async fn pull(&self) -> Report {
        self.pull_with(options()).await
    }

    async fn pull_with(&self, options: Options) -> Report {
        let server = self.script.server();
        let restored = Restored::read(self.place.path(), &[], &server.source(), false).unwrap();
        let (_stop, tools) = tools();
        let tools = Tools { observer: self.told.clone(), ..tools };
        let options = Options { restored: Arc::new(restored), ..options };
        let report = pull(&server, self.place.open().await, &options, &tools).await.unwrap();
        assert!(report.is_complete(), "{report:?}");
        report
    }

    async fn restore(&self) -> push::Report {
        self.restore_with(&self.script, |_| ()).await
    }

    async fn restore_with(&self, to: &Script, with: impl FnOnce(&mut push::Options)) -> push::Report {
        let server = to.server();
        let backup = self.place.open().await;
        let owner = backup.source().unwrap().unwrap();
        let (_stop, watched) = watch::channel(false);
        let mut options = put(&watched);
        let path = self.place.path().join(RECORD_FILE);
        let map =
            UidMap::open(&[MapFile { path: &path, from: "this copy", write: true }], &server.to_string());
        *options.map.lock().unwrap() = map.unwrap();
        options.restored = Arc::new(Restored::read(self.place.path(), &[], &owner, true).unwrap());
        with(&mut options);
        let report = restore(backup, &server, &options, Arc::new(Nobody)).await.unwrap();
        assert!(
            report.folders.iter().all(|folder| folder.failures == 0 && folder.error.is_none()),
            "{report:?}"
        );
        report
    }

    /// Bytes of the backup's messages of a folder, those that the server no longer has, and how
    /// many these are.
    async fn copied(&self, folder: &'static str) -> (Vec<Vec<u8>>, u64) {
        let backup = self.place.open().await;
        spawn_blocking(move || {
            let Ok(folder) = backup.open_to_read(&folder_name(folder)) else { return Default::default() };
            let read = |uid| {
                let mut bytes = Vec::new();
                folder.read(uid).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            };
            let uids: Vec<u32> = folder.messages().unwrap().map(|stored| stored.unwrap().uid).collect();
            let mut bytes: Vec<_> = uids.into_iter().map(read).collect();
            bytes.sort();
            (bytes, folder.known().deleted_upstream())
        })
        .await
        .unwrap()
    }

    /// The backup has the server's messages, and no others, under the server's UIDs.
    async fn is_the_same(&self, folder: &'static str) {
        let mut bytes: Vec<_> = there(&self.script, folder).into_iter().map(|(_, bytes)| bytes).collect();
        bytes.sort();
        assert_eq!(self.copied(folder).await, (bytes, 0), "{:?}", self.place.format);
        let backup = self.place.open().await;
        let uids = |known: &KnownMessages| known.uids().iter().map(|uid| uid.get()).collect::<Vec<_>>();
        let kept = spawn_blocking(move || uids(backup.open_to_read(&folder_name(folder)).unwrap().known()))
            .await
            .unwrap();
        let world = self.script.world.lock().unwrap();
        let wanted: Vec<u32> = world.boxes[folder].messages.keys().copied().collect();
        assert_eq!(kept, wanted, "{:?}", self.place.format);
    }
}

fn recognized(report: &Report) -> (u64, u64) {
    (report.new_messages().0, report.of.iter().map(|folder| folder.recognized).sum())
}

fn was_put(report: &push::Report) -> u64 {
    report.folders.iter().map(|folder| folder.put).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_restores_make_one_message() {
    for format in FORMATS {
        for (capabilities, faults) in [
            ("LITERAL+", vec![]),
            (QRESYNC, vec![]),
            ("LITERAL+ MULTIAPPEND", vec![Fault::Adds]),
            ("", vec![Fault::NoUidplus]),
            ("LITERAL+", vec![Fault::NoUidplus, Fault::Adds]),
        ] {
            let both = Both::new(format, capabilities, &faults).await;
            let before: Vec<_> = both.copied("INBOX").await.0;
            for cycle in 0..3 {
                // With a pull between, which finds all of them gone, and without.
                empty(&both.script);
                if cycle == 1 {
                    both.pull().await;
                }
                assert_eq!(was_put(&both.restore().await), 8, "{format:?} {faults:?}");
                assert_eq!(was_put(&both.restore().await), 0, "{format:?} {faults:?}");
                let fetched = both.script.asked_for("BODY.PEEK[]");
                let report = both.pull().await;
                assert_eq!(recognized(&report), (0, 8), "{format:?} {faults:?} {report:?}");
                assert_eq!(both.script.asked_for("BODY.PEEK[]"), fetched, "nothing is fetched for it");
                assert_eq!(both.copied("INBOX").await, (before.clone(), 0), "{format:?} {faults:?}");
                assert_eq!(both.pull().await.of.iter().map(|folder| folder.recognized).sum::<u64>(), 0);
            }
            assert_eq!(there(&both.script, "INBOX").len(), 8);
            assert!(both.told.0.lock().unwrap().is_empty(), "{:?}", both.told.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_that_is_partly_lost_comes_back_once() {
    for format in FORMATS {
        for delete in [false, true] {
            let both = Both::new(format, QRESYNC, &[]).await;
            let before = there(&both.script, "INBOX");
            for lost in [[1, 5], [6, 9], [8, 7]] {
                both.script.inbox(|inbox| lost.into_iter().for_each(|uid| inbox.expunge(uid)));
                assert_eq!(was_put(&both.restore().await), 2, "{format:?}");
                both.pull_with(Options { delete, ..options() }).await;
                both.is_the_same("INBOX").await;
                assert_eq!(there(&both.script, "INBOX"), before, "{format:?}");
            }
        }
    }
}

/// The run was killed, or the record is lost: returning messages are recognized by bytes and date
/// only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrecorded_restores_are_recognized_by_bytes() {
    for format in FORMATS {
        for keep_intents in [false, true] {
            let faults = if keep_intents {
                [Fault::Date(12, "\"18-Jul-1996 02:44:25 -0700\"")].to_vec()
            } else {
                vec![]
            };
            let both = Both::new(format, "LITERAL+", &faults).await;
            both.script.inbox(|inbox| (1..=6).for_each(|uid| inbox.expunge(uid)));
            both.restore().await;
            // Another message, unlike all others.
            both.script.inbox(|inbox| _ = inbox.add(Some(b"Subject: other\r\n\r\nsame\n".to_vec())));
            let path = both.place.path().join(RECORD_FILE);
            let record = std::fs::read_to_string(&path).unwrap();
            let intents = record.lines().filter(|line| keep_intents && !line.contains("\"there\""));
            std::fs::write(&path, intents.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
            let report = both.pull().await;
            assert_eq!(recognized(&report), (1, 6), "{format:?} {report:?}");
            both.is_the_same("INBOX").await;
        }
    }
}

/// A backup from older versions, which did not recognize returning messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_duplicates_of_older_versions_are_removed() {
    for format in FORMATS {
        let (place, script) = (BackupPlace::new(format), Script::start(Box_::with(0), QRESYNC, &[]).await);
        let text = |n: u32| format!("Message-ID: <{n}@x>\r\n\r\ntext {n}\r\n");
        script.inbox(|inbox| {
            inbox.uidnext = 11;
            (1..=5).for_each(|n| _ = inbox.add(Some(text(n).into_bytes())));
            inbox.set_flags(13, "\\Seen \\Answered");
        });
        let backup = place.open().await;
        let date = sealpost_imap::types::DateTime::utc(Timestamp(837_596_665_000));
        let source = script.server().source();
        let fill = move || {
            backup.set_source(&source).unwrap();
            let mut folder = backup.open(&folder_name("INBOX"), &identity(7)).unwrap();
            let flags =
                |n| Flags::from_names(if n == 13 { vec!["\\Seen", "\\Answered"] } else { vec!["\\Seen"] });
            // The second one of 5 was put back from the first one, that of 4 by hand.
            for (uid, n) in
                [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 5), (11, 1), (12, 2), (13, 3), (14, 4), (15, 5)]
            {
                let mail = crate::backup::format_tests::Mail {
                    date: Some(date),
                    flags: flags(uid),
                    ..mail(&text(n))
                };
                give(&mut *folder, uid, &mail, 9999).unwrap();
            }
            (1..=6).for_each(|uid| folder.mark_deleted_upstream(uid).unwrap());
            folder.commit(&resume(16)).unwrap();
            folder.close().unwrap();
        };
        spawn_blocking(fill).await.unwrap();
        let mut record = format!("{{\"from\":\"this copy\",\"to\":\"{}\"}}\n", script.server());
        for (uid, there) in [(1, 11), (2, 12), (3, 13), (5, 6), (6, 15)] {
            record.push_str(&format!(
                "{{\"folder\":\"INBOX\",\"from_uidvalidity\":7,\"uid\":{uid},\"to\":\"INBOX\",\"uidvalidity\":7,\"there\":{there}}}\n"
            ));
        }
        std::fs::write(place.path().join(RECORD_FILE), record).unwrap();
        let both = Both { place, script, told: Arc::default() };
        // Nothing is appended twice even before that; 4 is not recognized as one message.
        empty(&both.script);
        assert_eq!(was_put(&both.restore_with(&both.script, |options| options.dry_run = true).await), 6);
        both.script.inbox(|inbox| {
            inbox.uidnext = 11;
            (1..=5).for_each(|n| _ = inbox.add(Some(text(n).into_bytes())));
            inbox.set_flags(13, "\\Seen \\Answered");
        });
        let report = both.pull().await;
        assert_eq!((report.of[0].doubles, recognized(&report)), (4, (0, 0)), "{format:?} {report:?}");
        let (bytes, gone) = both.copied("INBOX").await;
        // The flags of 3 differ, and nothing records that 4 was put back.
        assert_eq!((bytes.len(), gone), (7, 2), "{format:?}");
        let told = both.told.0.lock().unwrap().join(" ");
        assert!(
            told.contains("1 message stays in the backup twice") && told.ends_with("UID 3 and 13"),
            "{told}"
        );
        empty(&both.script);
        assert_eq!(was_put(&both.restore().await), 6, "{format:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_folder_gets_the_superseded_messages() {
    for format in FORMATS {
        let both = Both::new(format, QRESYNC, &[]).await;
        for uidvalidity in [8, 9] {
            both.script.change(|world| {
                let fresh = Box_ { uidvalidity, ..Box_::with(0) };
                world.boxes.insert("INBOX".into(), fresh);
            });
            assert_eq!(was_put(&both.restore().await), 8, "{format:?}");
            let fetched = both.script.asked_for("BODY.PEEK[]");
            let report = both.pull().await;
            assert_eq!(recognized(&report), (0, 8), "{format:?} {report:?}");
            assert_eq!(both.script.asked_for("BODY.PEEK[]"), fetched, "{format:?}");
            both.is_the_same("INBOX").await;
            let backup = both.place.open().await;
            let superseded = spawn_blocking(move || backup.superseded().unwrap()).await.unwrap();
            assert!(superseded.is_empty(), "{format:?} {superseded:?}");
            let all = both.restore_with(&both.script, |options| options.include_superseded = true).await;
            assert_eq!(was_put(&all), 0, "{format:?}");
        }
    }
}

/// The account is on another server now, which has another hierarchy separator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_restored_under_another_name_is_recognized() {
    for format in FORMATS {
        let script = Script::start(mailbox(), QRESYNC, &[]).await;
        let boxes = |world: &mut ServerState| {
            for name in ["book.club", "a.b", "a_b"] {
                world.boxes.insert(name.into(), mailbox());
            }
        };
        script.change(boxes);
        let mut both = Both { place: BackupPlace::new(format), script, told: Arc::default() };
        both.pull().await;
        let club = there(&both.script, "book.club");
        both.script.change(|world| drop(world.boxes.remove("a.b")));
        let other = Script::start(Box_::with(0), QRESYNC, &[Fault::Dots]).await;
        let report = {
            let backup = both.place.open().await;
            let (_stop, watched) = watch::channel(false);
            let options = put(&watched);
            let path = both.place.path().join(RECORD_FILE);
            let file = MapFile { path: &path, from: "this copy", write: true };
            *options.map.lock().unwrap() = UidMap::open(&[file], &other.server().to_string()).unwrap();
            restore(backup, &other.server(), &options, Arc::new(Nobody)).await.unwrap()
        };
        let of = |name: &str| report.folders.iter().find(|folder| folder.name == name).unwrap();
        assert_eq!((of("book.club").to.as_deref(), of("book.club").put), (Some("book_club"), 8));
        assert_eq!((of("a_b").put, of("a.b").put), (8, 0));
        assert!(
            of("a.b").error.as_deref().unwrap().contains("a_b has the same name at the destination"),
            "{report:?}"
        );
        both.script = other;
        let report = both.pull().await;
        let moved = report.of.iter().find(|folder| folder.name == "book_club").unwrap();
        assert_eq!((moved.new, moved.recognized), (0, 8), "{format:?} {report:?}");
        assert_eq!(there(&both.script, "book_club"), club);
        both.is_the_same("book_club").await;
        assert!(both.copied("book.club").await.0.is_empty(), "{format:?}");
        // No message of it could be appended twice.
        let without = |options: &mut push::Options| options.wanted = Arc::new(|name| name != "a.b");
        for _ in 0..2 {
            assert_eq!(was_put(&both.restore_with(&both.script, without).await), 0, "{format:?}");
            both.pull().await;
        }
    }
}

/// A restore creates a folder again, and a user renames it before the next pull.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_renamed_after_a_restore_is_recognized() {
    for format in FORMATS {
        for is_fresh in [true, false] {
            let script = Script::start(Box_::with(0), QRESYNC, &[]).await;
            script.change(|world| drop(world.boxes.insert("F".into(), mailbox())));
            let both = Both { place: BackupPlace::new(format), script, told: Arc::default() };
            both.pull().await;
            let mail = there(&both.script, "F");
            both.script.change(|world| match is_fresh {
                true => {
                    world.boxes.insert("F".into(), Box_ { uidvalidity: 8, ..Box_::with(0) });
                }
                false => {
                    let f = world.boxes.get_mut("F").unwrap();
                    let uids: Vec<u32> = f.messages.keys().copied().collect();
                    uids.into_iter().for_each(|uid| f.expunge(uid));
                }
            });
            assert_eq!(was_put(&both.restore().await), 8, "{format:?}");
            both.script.change(|world| {
                let f = world.boxes.remove("F").unwrap();
                world.boxes.insert("G".into(), f);
            });
            let report = both.pull().await;
            assert_eq!(there(&both.script, "G"), mail);
            both.is_the_same("G").await;
            assert!(both.copied("F").await.0.is_empty(), "{format:?} {is_fresh} {report:?}");
            for _ in 0..2 {
                assert_eq!(was_put(&both.restore().await), 0, "{format:?} {is_fresh}");
                both.pull().await;
            }
            assert!(there(&both.script, "F").is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_below_a_folder_are_not_restored_again() {
    let both = Both::new(Format::Mbox, "LITERAL+", &[]).await;
    let below = |options: &mut push::Options| options.below = vec!["Old".into()];
    for put in [8, 0, 0] {
        let report = both.restore_with(&both.script, below).await;
        assert_eq!(was_put(&report), put, "{report:?}");
        both.pull().await;
    }
    let folders: Vec<String> = both.script.world.lock().unwrap().boxes.keys().cloned().collect();
    assert_eq!(
        (there(&both.script, "Old/INBOX").len(), folders),
        (8, vec!["INBOX".into(), "Old/INBOX".into()])
    );
    assert_eq!((both.copied("INBOX").await.0.len(), both.copied("Old/INBOX").await.0.len()), (8, 8));
    // It is in two folders, and so it comes back.
    both.script.change(|world| drop(world.boxes.remove("Old/INBOX")));
    empty(&both.script);
    assert_eq!(was_put(&both.restore().await), 16);
}

/// Messages put into another account do not concern this one's backup; that account's backup has
/// them from before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_copies_know_each_others_restores_by_bytes() {
    for format in FORMATS {
        let first = Both::new(format, QRESYNC, &[]).await;
        let second = Both {
            place: BackupPlace::new(format),
            script: Script::start(mailbox(), QRESYNC, &[]).await,
            told: Arc::default(),
        };
        second.pull().await;
        empty(&second.script);
        second.pull().await;
        assert_eq!(was_put(&first.restore_with(&second.script, |_| ()).await), 8);
        let report = second.pull().await;
        assert_eq!(recognized(&report), (0, 8), "{format:?} {report:?}");
        second.is_the_same("INBOX").await;
        first.pull().await;
        first.is_the_same("INBOX").await;
        assert_eq!(was_put(&second.restore().await), 0);
    }
}

/// The record is read once: what it lists was applied, and a pull without news asks as little as
/// before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_was_read_opens_no_folder() {
    let both = Both::new(Format::Mbox, QRESYNC, &[]).await;
    empty(&both.script);
    both.restore().await;
    both.pull().await;
    assert!(both.pull().await.of.is_empty());
    let path = both.place.path().join(RECORD_FILE);
    let mut record = std::fs::read_to_string(&path).unwrap();
    record.push_str("{}\n");
    std::fs::write(&path, record).unwrap();
    let report = both.pull().await;
    assert_eq!(report.of.iter().map(|folder| folder.reason).collect::<Vec<_>>(), [Some(Reason::Restored)]);
    assert!(both.pull().await.of.is_empty());
}
