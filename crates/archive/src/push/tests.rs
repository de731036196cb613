//! Restoring and migrating between servers of the script.

use std::sync::{Arc, Mutex};

use sealpost_base::{FakeClock, Kind, SeededRandom, Timestamp};
use tokio::sync::watch;

use super::{FolderReport, Observer, Options, Report, migrate, restore};
use crate::pull::tests::memory::Memory;
use crate::pull::tests::server::{Box_, Fault, Script};
use crate::pull::{self, Silent, Tools};

/// The UID a message had, and UIDVALIDITY and UID that it got.
type Put = (u32, Option<(u32, u32)>);

#[derive(Default)]
struct Map(Mutex<Vec<Put>>);

impl Observer for Map {
    fn begins(&self, _: &str, _: u64) {}
    fn put(&self, _: &str, uid: u32, there: Option<(u32, u32)>) {
        self.0.lock().unwrap().push((uid, there));
    }
    fn ended(&self, _: &FolderReport) {}
}

fn options(stop: &watch::Receiver<bool>) -> Options {
    Options { wanted: Arc::new(|_| true), below: Vec::new(), dry_run: false, stop: stop.clone() }
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

fn octets(script: &Script, name: &str) -> Vec<(String, Vec<u8>)> {
    script
        .world
        .lock()
        .unwrap()
        .boxes
        .get(name)
        .map(|b| b.messages.values().cloned().collect())
        .unwrap_or_default()
}

async fn copy_of(script: &Script) -> Memory {
    let copy = Memory::default();
    let (_stop, watched) = watch::channel(false);
    let tools = Tools {
        clock: Arc::new(FakeClock::new(Timestamp(0))),
        random: Arc::new(SeededRandom::new(1)),
        observer: Arc::new(Silent),
        stop: watched,
    };
    let options = pull::Options { connections: 1, delete: false, wanted: Arc::new(|_| true), dry_run: false };
    let report = pull::pull(&script.server(), Arc::new(copy.clone()), &options, &tools).await.unwrap();
    assert!(report.is_complete());
    copy
}

fn counts(report: &Report) -> (u64, u64, usize) {
    let folders = &report.folders;
    let (put, there) = (folders.iter().map(|f| f.put).sum(), folders.iter().map(|f| f.there).sum());
    (put, there, folders.iter().map(|f| f.failed.len()).sum())
}

#[tokio::test]
async fn what_is_restored_is_there_once_however_often() {
    for capabilities in ["", "LITERAL+", "LITERAL-"] {
        let from = Script::start(mailbox(), "", &[]).await;
        let copy: Arc<Memory> = Arc::new(copy_of(&from).await);
        let to = Script::start(Box_::with(0), capabilities, &[]).await;
        let (_stop, watched) = watch::channel(false);
        let map = Arc::new(Map::default());
        let report = restore(copy.clone(), &to.server(), &options(&watched), map.clone()).await.unwrap();
        assert_eq!(counts(&report), (53, 0, 0), "{capabilities}: {report:?}");
        assert_eq!(octets(&to, "INBOX"), octets(&from, "INBOX"), "{capabilities}");
        assert_eq!(map.0.lock().unwrap()[2], (3, Some((7, 3))));
        let report = restore(copy, &to.server(), &options(&watched), map).await.unwrap();
        assert_eq!(counts(&report), (0, 53, 0));
        assert_eq!(octets(&to, "INBOX").len(), 53);
    }
}

#[tokio::test]
async fn a_lost_connection_and_another_run_make_no_doubles() {
    let from = Script::start(mailbox(), "", &[]).await;
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    // Some messages are there already when the connection ends.
    let copy: Arc<Memory> = Arc::new(copy_of(&from).await);
    let mut runs = 0;
    loop {
        let fault = if runs < 3 { vec![Fault::EndAtAppend] } else { vec![] };
        to.change(|world| world.faults = fault);
        runs += 1;
        match restore(copy.clone(), &to.server(), &options(&watched), Arc::new(Map::default())).await {
            Ok(report) => {
                assert_eq!(counts(&report).2, 0);
                break;
            }
            Err(e) => assert_eq!(e.kind(), Kind::Retry),
        }
    }
    assert_eq!(runs, 4);
    assert_eq!(octets(&to, "INBOX").len(), 53);
}

#[tokio::test]
async fn a_mailbox_migrates_and_what_is_refused_is_told() {
    let mut inbox = mailbox();
    inbox.add(Some(b"Refuse: me\r\n\r\n".to_vec()));
    let from = Script::start(inbox, "", &[]).await;
    from.change(|world| drop(world.boxes.insert("Work".into(), Box_::with(10))));
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let report =
        migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Map::default())).await.unwrap();
    assert_eq!(counts(&report), (63, 0, 1), "{report:?}");
    assert_eq!(octets(&to, "INBOX"), octets(&from, "INBOX")[..53]);
    assert_eq!(octets(&to, "Work"), octets(&from, "Work"));
    from.inbox(|inbox| {
        inbox.add(Some(b"Message-ID: <new@x>\r\n\r\n".to_vec()));
    });
    let report =
        migrate(&from.server(), &to.server(), &options(&watched), Arc::new(Map::default())).await.unwrap();
    assert_eq!(counts(&report), (1, 63, 1));
}

#[tokio::test]
async fn below_and_dry() {
    let from = Script::start(mailbox(), "", &[]).await;
    let copy: Arc<Memory> = Arc::new(copy_of(&from).await);
    let to = Script::start(Box_::with(0), "LITERAL+", &[]).await;
    let (_stop, watched) = watch::channel(false);
    let below = Options { below: vec!["Old".into()], dry_run: true, ..options(&watched) };
    let report = restore(copy.clone(), &to.server(), &below, Arc::new(Map::default())).await.unwrap();
    assert_eq!((counts(&report).0, to.asked("CREATE"), to.asked("APPEND")), (53, 0, 0));
    let below = Options { dry_run: false, ..below };
    restore(copy, &to.server(), &below, Arc::new(Map::default())).await.unwrap();
    assert_eq!(octets(&to, "Old/INBOX").len(), 53);
}
