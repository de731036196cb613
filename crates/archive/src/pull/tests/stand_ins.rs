//! Replacements for messages, and unsolicited messages: they are not stored, but reported and asked
//! for again.

use std::io::Read;
use std::sync::Arc;

use sealpost_base::{Clock, FakeClock, Timestamp};
use tokio::task::spawn_blocking;

use super::super::report::Silent;
use super::super::reunite::Reunited;
use super::super::work::{Work, work};
use super::super::writer::Writer;
use super::super::{Options, Report};
use super::copies::{BackupPlace, FORMATS};
use super::memory::Memory;
use super::pulled::{copy_of, options, pulled, pulled_into};
use super::server::{Box_, Fault, Script, text};
use super::whole::{QRESYNC, texts};
use crate::backup::format_tests::{folder_name, identity};
use crate::backup::{Arrived, Backup, Flags};

const LARGE: usize = 200_000;

/// Messages 1 to 9, of which 5 and 7 are large.
fn inbox() -> Box_ {
    let mut inbox = Box_::with(4);
    for large in [true, false, true, false, false] {
        inbox.add(large.then(|| vec![b'x'; LARGE]));
    }
    inbox
}

fn there(script: &Script, without: &[u32]) -> Vec<(u32, Vec<u8>)> {
    let world = script.world.lock().unwrap();
    let messages = world.boxes["INBOX"].messages.iter().filter(|(uid, _)| !without.contains(uid));
    messages.map(|(uid, (_, bytes))| (*uid, bytes.clone())).collect()
}

async fn kept(place: &BackupPlace) -> Vec<(u32, Vec<u8>)> {
    let backup = place.open().await;
    spawn_blocking(move || {
        let folder = backup.open_to_read(&folder_name("INBOX")).unwrap();
        let read = |uid| {
            let mut bytes = Vec::new();
            folder.read(uid).unwrap().read_to_end(&mut bytes).unwrap();
            (uid, bytes)
        };
        let mut all: Vec<_> = folder.messages().unwrap().map(|stored| read(stored.unwrap().uid)).collect();
        all.sort();
        all
    })
    .await
    .unwrap()
}

fn failed(report: &Report) -> Vec<u32> {
    let mut failed: Vec<u32> = report.of[0].failed.iter().map(|failure| failure.uid).collect();
    failed.sort_unstable();
    failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_with_a_tagged_no_are_dropped_and_refetched() {
    for format in FORMATS {
        let bad = [3, 5, 8];
        let faults: Vec<_> = bad.iter().map(|uid| Fault::StandInAt(*uid)).collect();
        let script = Script::start(inbox(), QRESYNC, &faults).await;
        let place = BackupPlace::new(format);
        for round in 0..2 {
            let report = pulled_into(&script, place.open().await, options()).await.unwrap();
            assert!(!report.is_complete(), "{format:?}");
            assert_eq!(failed(&report), bad, "{format:?} {round}");
            assert!(report.of[0].failed[0].reason.contains("NO"), "{report:?}");
            assert_eq!(kept(&place).await, there(&script, &bad), "{format:?} {round}");
        }
        script.change(|world| world.faults.clear());
        let report = pulled_into(&script, place.open().await, options()).await.unwrap();
        assert!(report.is_complete(), "{format:?} {report:?}");
        assert_eq!(report.new_messages().0, 3, "{format:?}");
        assert_eq!(kept(&place).await, there(&script, &[]), "{format:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stand_in_before_a_disconnect_is_not_stored() {
    for uid in [3, 5] {
        let script = Script::start(inbox(), QRESYNC, &[Fault::StandInThenEnd(uid)]).await;
        let place = BackupPlace::new(super::copies::Format::Mbox);
        let report = pulled_into(&script, place.open().await, options()).await.unwrap();
        assert!(report.is_complete() && report.reconnects == 1, "{report:?}");
        assert_eq!(kept(&place).await, there(&script, &[]));
    }
}

/// A replacement for a stored message has to be right.
#[tokio::test]
async fn a_stand_in_does_not_replace_a_message() {
    let script = Script::start(inbox(), QRESYNC, &[]).await;
    let backup = copy_of(&script).await;
    let before = backup.texts("INBOX");
    let bad = [3, 5];
    script.change(|world| world.faults = bad.iter().map(|uid| Fault::StandInAt(*uid)).collect());
    let again = bad.iter().filter_map(|uid| sealpost_base::Uid::new(*uid)).collect();
    let again = Arc::new([("INBOX".to_owned(), again)].into());
    let options = Options { again, ..options() };
    let report = pulled_into(&script, Arc::new(backup.clone()), options).await.unwrap();
    assert_eq!(failed(&report), bad, "{report:?}");
    assert_eq!(backup.texts("INBOX"), before);
}

#[tokio::test]
async fn unsolicited_messages_are_not_stored() {
    // One that does not exist, one that does, and one that the backup has.
    for uid in [99, 4, 1] {
        let script = Script::start(Box_::with(2), "ESEARCH", &[]).await;
        let backup = copy_of(&script).await;
        script.inbox(|inbox| (0..3).for_each(|_| assert!(inbox.add(None) > 0)));
        script.change(|world| world.faults.push(Fault::Unasked(uid)));
        let report = pulled(&script, &backup).await;
        let expected = if uid == 4 { [1, 2, 3, 5].to_vec() } else { [1, 2, 3, 4, 5].to_vec() };
        let wrong = |(at, bytes): &(u32, String)| *at != uid || *bytes == text(uid);
        let kept: Vec<_> = backup.texts("INBOX").into_iter().filter(wrong).collect();
        // Which of two answers is right cannot be known.
        assert!(kept == texts(expected) || kept == texts(1..=5), "{uid}: {report:?} {kept:?}");
        assert!(backup.texts("INBOX").iter().all(|(uid, _)| *uid < 6));
    }
}

#[test]
fn a_commit_waits_for_unconfirmed_messages() {
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let (backup, name) = (Memory::default(), folder_name("INBOX"));
    let folder = backup.open(&name, &identity(7)).unwrap();
    let of: Arc<dyn Clock> = clock.clone();
    let (to, from) = work(&of);
    let writer = Writer::new(folder, "INBOX", Reunited::default(), false, of, Arc::new(Silent));
    let message =
        |uid| (Arrived { uid, flags: Flags::default(), internaldate: None }, text(uid).into_bytes());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let writing = std::thread::spawn(move || writer.run(from));
    let mut to = to;
    runtime.block_on(async {
        to.send(Work::Messages(vec![message(1)])).await.unwrap();
        to.send(Work::Unconfirmed(vec![message(2), message(3)])).await.unwrap();
        to.send(Work::Confirmed(vec![2])).await.unwrap();
        // The writer decides when it takes its work.
        while !to.is_held_up() {
            clock.advance(std::time::Duration::from_secs(1));
            to.send(Work::Confirmed(Vec::new())).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(backup.texts("INBOX").is_empty(), "3 is unconfirmed");
        to.send(Work::Undo(vec![3])).await.unwrap();
        to.go_on().await.unwrap();
        assert_eq!(backup.texts("INBOX"), texts([1, 2]));
        // The sender ends before it confirms this message.
        to.send(Work::Unconfirmed(vec![message(4)])).await.unwrap();
        drop(to);
    });
    let (written, done) = writing.join().unwrap();
    done.unwrap();
    assert_eq!((written.new, backup.texts("INBOX")), (2, texts([1, 2])));
}
