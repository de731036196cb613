//! Servers that would keep the client busy forever.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::limits;

use super::super::{Options, pull};
use super::memory::Memory;
use super::pulled::{options, pulled, pulled_with, tools};
use super::server::{Box_, Fault, Script};
use super::whole::{QRESYNC, texts};
use crate::client::{Server, Timeouts};

#[tokio::test]
async fn a_server_that_never_completes_a_command_is_abandoned() {
    for begin in ["CAPABILITY", "LOGIN", "LIST", "EXAMINE", "UID SEARCH", "UID FETCH"] {
        // A gap in the UIDs makes a SEARCH necessary.
        let mut inbox = Box_::with(5);
        inbox.expunge(2);
        let script = Script::start(inbox, QRESYNC, &[Fault::Chatter(begin, usize::MAX)]).await;
        let backup = Memory::default();
        let error = match pulled_with(&script, &backup, options()).await {
            Ok(report) => report.of[0].error.clone().unwrap(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("without completing a command"), "{begin}: {error}");
        assert!(backup.texts("INBOX").is_empty());
        assert!(script.world.lock().unwrap().connections < 20);
    }
}

/// They are reported, and the others are fetched.
#[tokio::test]
async fn endless_messages_are_abandoned() {
    let huge = limits::ARCHIVE_MESSAGE_BYTES + 1;
    let faults = [Fault::DripAt(2), Fault::HugeAt(4, huge)];
    let script = Script::start(Box_::with(5), QRESYNC, &faults).await;
    let server = script.server();
    let timeouts = Timeouts { within: Duration::from_millis(200), ..server.timeouts };
    let backup = Memory::default();
    let (_stop, tools) = tools();
    let options = Options { connections: 4, ..options() };
    let server = Server { timeouts, ..server };
    let report = pull(&server, Arc::new(backup.clone()), &options, &tools).await.unwrap();
    let mut failed = report.of[0].failed.clone();
    failed.sort_by_key(|failure| failure.uid);
    assert_eq!(failed.iter().map(|failure| failure.uid).collect::<Vec<_>>(), [2, 4], "{report:?}");
    assert!(failed[0].reason.contains("during a response"), "{failed:?}");
    assert!(failed[1].reason.contains("the limit is 4294967295"), "{failed:?}");
    assert_eq!(backup.texts("INBOX").iter().map(|(uid, _)| *uid).collect::<Vec<_>>(), [1, 3, 5]);
    assert!(!backup.folder("INBOX").resume.whole);
}

#[tokio::test]
async fn a_server_that_talks_and_answers_is_listened_to() {
    let chatter = Fault::Chatter("", limits::ARCHIVE_REMARKS - 100);
    let script = Script::start(Box_::with(5), QRESYNC, &[chatter]).await;
    let backup = Memory::default();
    let report = pulled(&script, &backup).await;
    assert!(report.is_complete() && report.reconnects == 0, "{report:?}");
    assert_eq!(backup.texts("INBOX"), texts(1..=5));
}

#[tokio::test]
async fn nonexistent_messages_are_not_asked_for_without_end() {
    let most = limits::ARCHIVE_EMPTY_FETCHES as usize;
    // With an empty backup; and with messages in it, where the claim comes later.
    for before in [0, 3] {
        let script = Script::start(Box_::with(before), QRESYNC, &[]).await;
        let backup = Memory::default();
        pulled(&script, &backup).await;
        let asked = script.asked("UID FETCH");
        script.change(|world| world.faults.push(Fault::Claims(5_000_000)));
        let report = pulled(&script, &backup).await;
        let error = report.of[0].error.clone().unwrap();
        assert!(error.contains("FETCH commands returned none"), "{error}");
        let asked = script.asked("UID FETCH") - asked;
        assert!((most..most + 10).contains(&asked), "{asked}");
        assert!(!backup.folder("INBOX").resume.whole);
        assert_eq!(backup.texts("INBOX"), texts(1..=before));
        // Once the server is honest again, nothing is lost.
        script.change(|world| world.faults.clear());
        assert!(pulled(&script, &backup).await.is_complete());
    }
}

#[tokio::test]
async fn a_folder_with_an_impossible_message_count_is_skipped() {
    for claim in [limits::ARCHIVE_FOLDER_MESSAGES + 1, u32::MAX - 1] {
        let script = Script::start(Box_::with(3), QRESYNC, &[Fault::Claims(claim)]).await;
        script.change(|world| drop(world.boxes.insert("Work".into(), Box_::with(6))));
        let report = pulled(&script, &Memory::default()).await;
        assert_eq!(report.of.len(), 2);
        for folder in &report.of {
            let error = folder.error.as_deref().unwrap();
            assert!(error.contains(&format!("{claim} messages; the limit")), "{error}");
        }
        assert_eq!(script.asked("UID"), 0);
    }
}
