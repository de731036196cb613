//! Complete pulls: the backup afterwards, and the reports about missing messages.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::Kind;

use super::super::{Options, pull};
use super::memory::Memory;
use super::pulled::{options, pulled, pulled_with, tools};
use super::server::{Box_, Fault, Script, text};
use crate::backup::Flags;

pub(super) const QRESYNC: &str = "ENABLE CONDSTORE QRESYNC ESEARCH LIST-STATUS OBJECTID";

pub(super) fn texts(uids: impl IntoIterator<Item = u32>) -> Vec<(u32, String)> {
    uids.into_iter().map(|uid| (uid, text(uid))).collect()
}

#[tokio::test]
async fn everything_comes_and_the_second_time_nothing_is_asked() {
    for capabilities in ["", "LIST-STATUS", "ESEARCH", "CONDSTORE LIST-STATUS", QRESYNC] {
        let script = Script::start(Box_::with(1000), capabilities, &[]).await;
        let backup = Memory::default();
        let report = pulled(&script, &backup).await;
        assert!(report.is_complete(), "{capabilities}: {report:?}");
        assert_eq!(backup.texts("INBOX"), texts(1..=1000), "{capabilities}");
        let message = &backup.folder("INBOX").messages[&3].arrived;
        assert_eq!(message.flags.system, Flags::SEEN);
        assert_eq!(message.internaldate.unwrap().zone_minutes(), -420);
        let asked = script.asked("UID FETCH");
        let report = pulled(&script, &backup).await;
        assert!(report.is_complete() && report.new_messages().0 == 0);
        let again = script.asked("UID FETCH") - asked;
        // Without mod-sequences all flags are compared, by one command.
        assert_eq!(again, usize::from(!capabilities.contains("CONDSTORE")), "{capabilities}");
        assert_eq!(script.asked("EXAMINE") > 1, !capabilities.contains("CONDSTORE"));
    }
}

#[tokio::test]
async fn a_server_with_a_message_limit_is_pulled_completely() {
    for capabilities in ["", "ESEARCH LIST-STATUS", "CONDSTORE", QRESYNC] {
        let mut inbox = Box_::with(1000);
        // A gap in the UIDs makes a SEARCH necessary.
        inbox.expunge(500);
        let script = Script::start(inbox, capabilities, &[Fault::MessageLimit(100)]).await;
        let backup = Memory::default();
        let report = pulled(&script, &backup).await;
        assert!(report.is_complete(), "{capabilities}: {report:?}");
        assert_eq!(backup.texts("INBOX").len(), 999, "{capabilities}");
        script.inbox(|inbox| (1..400).for_each(|uid| inbox.set_flags(uid, "\\Flagged")));
        script.inbox(|inbox| inbox.expunge(7));
        let report = pulled(&script, &backup).await;
        assert!(report.is_complete(), "{capabilities}: {report:?}");
        let flagged = |contents: &super::memory::Contents| {
            contents.messages.values().filter(|m| m.arrived.flags.system == Flags::FLAGGED).count()
        };
        let contents = backup.folder("INBOX");
        assert_eq!((flagged(&contents), contents.messages[&7].gone), (398, true), "{capabilities}");
    }
}

#[tokio::test]
async fn delete_also_removes_messages_gone_before() {
    for capabilities in ["", "ESEARCH LIST-STATUS", "CONDSTORE LIST-STATUS", QRESYNC] {
        let script = Script::start(Box_::with(20), capabilities, &[]).await;
        let backup = Memory::default();
        pulled(&script, &backup).await;
        script.inbox(|inbox| (5..8).for_each(|uid| inbox.expunge(uid)));
        pulled(&script, &backup).await;
        assert_eq!(backup.texts("INBOX").len(), 20, "{capabilities}");
        // First nothing changed on the server, then something did.
        for (more, left) in [(None, 17), (Some(9), 16)] {
            if let Some(uid) = more {
                script.inbox(|inbox| inbox.expunge(uid));
            }
            let report = pulled_with(&script, &backup, Options { delete: true, ..options() }).await.unwrap();
            assert!(report.is_complete(), "{capabilities}: {report:?}");
            assert_eq!(backup.texts("INBOX").len(), left, "{capabilities}");
        }
    }
}

#[tokio::test]
async fn changes_are_followed() {
    for capabilities in ["", "ESEARCH LIST-STATUS", "CONDSTORE", QRESYNC] {
        for delete in [false, true] {
            let script = Script::start(Box_::with(20), capabilities, &[]).await;
            let backup = Memory::default();
            pulled(&script, &backup).await;
            script.inbox(|inbox| {
                inbox.set_flags(3, "\\Flagged work");
                inbox.expunge(5);
                inbox.expunge(20);
                inbox.add(None);
                let short_lived = inbox.add(None);
                inbox.expunge(short_lived);
            });
            let report = pulled_with(&script, &backup, Options { delete, ..options() }).await.unwrap();
            assert!(report.is_complete(), "{capabilities}: {report:?}");
            let folder = backup.folder("INBOX");
            let flags = &folder.messages[&3].arrived.flags;
            assert_eq!(flags.names().collect::<Vec<_>>(), ["\\Flagged", "work"]);
            let gone: Vec<u32> =
                folder.messages.iter().filter(|(_, m)| m.gone).map(|(uid, _)| *uid).collect();
            if delete {
                assert_eq!(backup.texts("INBOX"), texts((1..=4).chain(6..=19).chain([21])), "{capabilities}");
            } else {
                assert_eq!(backup.texts("INBOX"), texts(1..=21), "{capabilities}");
                assert_eq!(gone, [5, 20]);
            }
            assert_eq!(
                (report.of[0].new, report.of[0].flags, report.of[0].gone),
                (1, 1, 2),
                "{capabilities}"
            );
            assert!(folder.resume.whole);
        }
    }
}

#[tokio::test]
async fn a_lost_connection_costs_nothing() {
    let faults = [
        Fault::Bye(10, "restarting"),
        Fault::Bye(300, "Request is throttled. Suggested Backoff Time: 3 milliseconds"),
        Fault::CutOnceAt(700),
        Fault::CutOnceAt(701),
        Fault::Busy(2),
    ];
    let script = Script::start(Box_::with(1000), QRESYNC, &faults).await;
    let backup = Memory::default();
    let report = pulled(&script, &backup).await;
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(backup.texts("INBOX"), texts(1..=1000));
    assert!(report.reconnects >= 4, "{}", report.reconnects);
}

#[tokio::test]
async fn missing_messages_are_reported_skipped_and_retried() {
    for fault in [Fault::CutAt(77), Fault::RefuseAt(77), Fault::Skip(77), Fault::NilAt(77)] {
        let script = Script::start(Box_::with(200), QRESYNC, std::slice::from_ref(&fault)).await;
        let backup = Memory::default();
        let report = pulled(&script, &backup).await;
        let failed: Vec<u32> = report.of[0].failed.iter().map(|failure| failure.uid).collect();
        assert_eq!(failed, [77], "{fault:?}: {report:?}");
        assert!(!report.is_complete());
        assert_eq!(backup.texts("INBOX"), texts((1..=76).chain(78..=200)), "{fault:?}");
        script.change(|world| world.faults.clear());
        let report = pulled(&script, &backup).await;
        assert!(report.is_complete(), "{fault:?}: {report:?}");
        assert_eq!(backup.texts("INBOX"), texts(1..=200));
    }
}

#[tokio::test]
async fn responses_in_other_shapes_are_understood() {
    let faults = [Fault::Reordered, Fault::Quoted(2), Fault::Literal8(3)];
    let mut inbox = Box_::with(3);
    let large = inbox.add(Some([vec![0, b'\n', 0xff], vec![b'y'; 300_000]].concat()));
    let script = Script::start(inbox, "", &faults).await;
    let backup = Memory::default();
    let report = pulled(&script, &backup).await;
    assert!(report.is_complete(), "{report:?}");
    let folder = backup.folder("INBOX");
    assert_eq!(folder.messages[&2].bytes, b"quoted \"text\"");
    assert_eq!(folder.messages[&3].bytes, text(3).as_bytes());
    assert_eq!(folder.messages[&large].bytes.len(), 300_003);
    assert_eq!(folder.messages[&large].arrived.flags.system, Flags::SEEN);
}

#[tokio::test]
async fn a_large_message_that_is_cut_is_not_there() {
    let mut inbox = Box_::with(3);
    let large = inbox.add(Some(vec![b'z'; 1_000_000]));
    inbox.add(None);
    let script = Script::start(inbox, QRESYNC, &[Fault::CutAt(large)]).await;
    let backup = Memory::default();
    let report = pulled(&script, &backup).await;
    assert_eq!(report.of[0].failed.len(), 1);
    assert_eq!(backup.texts("INBOX"), texts([1, 2, 3, 5]));
}

#[tokio::test]
async fn messages_that_the_backup_refuses_are_reported() {
    let mut inbox = Box_::with(3);
    inbox.add(Some(vec![b'z'; 1000]));
    inbox.add(Some(vec![b'z'; 100_000]));
    inbox.add(None);
    let script = Script::start(inbox, QRESYNC, &[]).await;
    let backup = Memory { most: Some(500), ..Memory::default() };
    let report = pulled(&script, &backup).await;
    assert_eq!(report.of[0].failed.iter().map(|f| f.uid).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(backup.texts("INBOX"), texts([1, 2, 3, 6]));
    assert!(!backup.folder("INBOX").resume.whole);
}

#[tokio::test]
async fn a_full_disk_ends_the_pull_but_keeps_commits() {
    let script = Script::start(Box_::with(10_000), QRESYNC, &[]).await;
    let backup = Memory { full: Some(5000), ..Memory::default() };
    let report = pulled(&script, &backup).await;
    assert!(!report.is_complete());
    let (committed, new) = (backup.texts("INBOX").len(), report.new_messages().0);
    assert!((2048..=5000).contains(&committed), "{committed}");
    assert_eq!(new, committed as u64);
    assert_eq!(report.broken.map(|e| e.kind()), Some(Kind::Retry));
    let backup = Memory { full: None, ..backup };
    assert!(pulled(&script, &backup).await.is_complete());
    assert_eq!(backup.texts("INBOX"), texts(1..=10_000));
}

#[tokio::test]
async fn a_new_uidvalidity_starts_a_new_backup() {
    let script = Script::start(Box_::with(10), QRESYNC, &[]).await;
    let backup = Memory::default();
    pulled(&script, &backup).await;
    script.inbox(|inbox| *inbox = Box_ { uidvalidity: 8, ..Box_::with(4) });
    assert!(pulled(&script, &backup).await.is_complete());
    assert_eq!(backup.texts("INBOX"), texts(1..=4));
    assert_eq!(backup.texts("INBOX-7"), texts(1..=10));
}

#[tokio::test]
async fn uidvalidity_that_changes_while_pulling_mixes_nothing() {
    let faults = [Fault::RestlessUidValidity, Fault::Bye(50, "restarting")];
    let script = Script::start(Box_::with(200), QRESYNC, &faults).await;
    let backup = Memory::default();
    let report = pulled(&script, &backup).await;
    assert!(report.of[0].error.as_deref().is_some_and(|e| e.contains("replaced")), "{report:?}");
    assert!(!backup.folder("INBOX").resume.whole);
}

#[tokio::test]
async fn a_mailbox_that_is_gone_does_not_stop_the_others() {
    let script = Script::start(Box_::with(5), QRESYNC, &[]).await;
    script.change(|world| drop(world.boxes.insert("Work".into(), Box_::with(6))));
    let backup = Memory::default();
    // It is listed, and gone when its turn comes.
    script.change(|world| world.faults.push(Fault::MailboxGone));
    let report = pulled(&script, &backup).await;
    assert!(report.of.iter().all(|folder| folder.error.is_some()));
    script.change(|world| world.faults.clear());
    assert!(pulled(&script, &backup).await.is_complete());
    assert_eq!(backup.texts("Work"), texts(1..=6));
}

#[tokio::test]
async fn a_renamed_mailbox_is_not_fetched_again() {
    let inbox = Box_ { mailboxid: Some("I1".into()), ..Box_::with(5) };
    let script = Script::start(inbox, QRESYNC, &[]).await;
    let work = Box_ { mailboxid: Some("W1".into()), ..Box_::with(50) };
    script.change(|world| drop(world.boxes.insert("Work".into(), work)));
    let backup = Memory::default();
    pulled(&script, &backup).await;
    script.change(|world| {
        let work = world.boxes.remove("Work").unwrap();
        world.boxes.insert("Play".into(), work);
    });
    let report = pulled(&script, &backup).await;
    assert_eq!((report.is_complete(), report.new_messages().0), (true, 0));
    assert_eq!(backup.texts("Play"), texts(1..=50));
    assert!(backup.texts("Work").is_empty());
}

#[tokio::test]
async fn a_server_that_contradicts_itself_makes_nothing_vanish() {
    for capabilities in ["", "CONDSTORE ESEARCH"] {
        let script = Script::start(Box_::with(40), capabilities, &[]).await;
        let backup = Memory::default();
        pulled(&script, &backup).await;
        script.change(|world| world.faults.push(Fault::HalfListed));
        script.inbox(|inbox| {
            inbox.add(None);
        });
        let options = Options { delete: true, ..options() };
        let report = pulled_with(&script, &backup, options).await.unwrap();
        assert_eq!(report.of[0].gone, 0, "{capabilities}");
        assert!(backup.texts("INBOX").len() >= 40);
        assert!(!backup.folder("INBOX").resume.whole);
    }
}

#[tokio::test]
async fn messages_that_are_not_listed_are_missed() {
    for capabilities in ["", "ESEARCH LIST-STATUS", "CONDSTORE", QRESYNC] {
        for (fault, listed) in [(Fault::More(4), 9), (Fault::HalfListed, 4)] {
            // Once at the first pull, once later; a gap in the UIDs makes a listing necessary.
            for later in [false, true] {
                let mut inbox = Box_::with(10);
                inbox.expunge(2);
                let script = Script::start(inbox, capabilities, &[]).await;
                let backup = Memory::default();
                if later {
                    assert!(pulled(&script, &backup).await.is_complete());
                    script.inbox(|inbox| inbox.set_flags(3, "\\Flagged"));
                }
                script.change(|world| world.faults.push(fault.clone()));
                if later && capabilities == QRESYNC && fault == Fault::HalfListed {
                    // Nothing is listed where the server reports changes.
                    continue;
                }
                for _ in 0..2 {
                    let report = pulled(&script, &backup).await;
                    let error = report.of[0].error.clone().unwrap_or_default();
                    let said = format!("messages but lists {listed}");
                    assert!(error.ends_with(&said), "{capabilities} {fault:?} {later}: {report:?}");
                    assert!(!report.is_complete() && !backup.folder("INBOX").resume.whole);
                }
                script.change(|world| world.faults.clear());
                assert!(pulled(&script, &backup).await.is_complete());
                assert_eq!(backup.texts("INBOX"), texts([1].into_iter().chain(3..=10)));
            }
        }
    }
}

#[tokio::test]
async fn flags_and_dates_that_cannot_be_read_cost_no_message() {
    for capabilities in ["", QRESYNC] {
        let script = Script::start(Box_::with(5), capabilities, &[Fault::Date(4, "NIL")]).await;
        script.inbox(|inbox| {
            inbox.set_flags(2, "\\Flagged a]b {3}\r\nabc");
            inbox.set_flags(4, " \\Seen  \u{e4}");
        });
        let backup = Memory::default();
        let report = pulled(&script, &backup).await;
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(backup.texts("INBOX"), texts(1..=5));
        let folder = backup.folder("INBOX");
        assert_eq!(folder.messages[&2].arrived.flags.names().collect::<Vec<_>>(), ["\\Flagged"]);
        assert_eq!(folder.messages[&4].arrived.flags.system, Flags::SEEN);
        assert_eq!(folder.messages[&4].arrived.internaldate, None);
        let unread = &report.of[0].unread;
        assert_eq!((report.of[0].unread_all, unread[0].uid, unread[1].uid), (2, 2, 4));
        assert!(unread[0].reason.ends_with("left out: \"a]b\" \"abc\""), "{unread:?}");
        assert!(unread[1].reason.ends_with("since this is none: \"NIL\""), "{unread:?}");
        // Without mod-sequences all flags are compared, and nothing has changed.
        let again = pulled(&script, &backup).await;
        assert!(again.is_complete() && again.new_messages().0 == 0, "{again:?}");
        // A response that cannot be parsed at all is reported as that.
        script.inbox(|inbox| {
            let uid = inbox.add(None);
            inbox.set_flags(uid, ") FLAGS oops (");
        });
        let report = pulled(&script, &backup).await;
        if let [failure] = &report.of[0].failed[..] {
            assert!(failure.reason.contains("sends an invalid response"), "{failure:?}");
        } else {
            assert!(report.of[0].error.as_deref().unwrap_or_default().contains("lists 5"), "{report:?}");
        }
    }
}

#[tokio::test]
async fn new_messages_that_do_not_come_are_missed() {
    let script = Script::start(Box_::with(5), QRESYNC, &[]).await;
    let backup = Memory::default();
    assert!(pulled(&script, &backup).await.is_complete());
    script.inbox(|inbox| {
        for _ in 0..3 {
            inbox.add(None);
        }
    });
    script.change(|world| world.faults.push(Fault::Skip(7)));
    for _ in 0..2 {
        let report = pulled(&script, &backup).await;
        let failed: Vec<u32> = report.of[0].failed.iter().map(|failure| failure.uid).collect();
        assert_eq!(failed, [7], "{report:?}");
    }
    script.change(|world| world.faults.clear());
    assert!(pulled(&script, &backup).await.is_complete());
    assert_eq!(backup.texts("INBOX"), texts(1..=8));
}

#[tokio::test]
async fn hostile_servers_are_abandoned() {
    for fault in [Fault::EndlessLine, Fault::Silent] {
        let script = Script::start(Box_::with(3), QRESYNC, std::slice::from_ref(&fault)).await;
        let backup = Memory::default();
        let mut server = script.server();
        server.timeouts.answer = Duration::from_millis(50);
        let (_stop, tools) = tools();
        let report = pull(&server, Arc::new(backup.clone()), &options(), &tools).await.unwrap();
        assert!(!report.is_complete(), "{fault:?}");
        assert!(backup.texts("INBOX").is_empty());
    }
}

#[tokio::test]
async fn several_connections_share_the_folders() {
    let script = Script::start(Box_::with(300), QRESYNC, &[]).await;
    for n in 0..20 {
        script.change(|world| drop(world.boxes.insert(format!("box-{n}"), Box_::with(n * 10))));
    }
    let backup = Memory::default();
    let report = pulled_with(&script, &backup, Options { connections: 4, ..options() }).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    for n in 1..20 {
        assert_eq!(backup.texts(&format!("box-{n}")), texts(1..=n * 10));
    }
    assert!(script.world.lock().unwrap().connections > 1);
}

#[tokio::test]
async fn an_empty_mailbox_needs_no_connection() {
    let script = Script::start(Box_::with(10), QRESYNC, &[]).await;
    for n in 0..20 {
        script.change(|world| drop(world.boxes.insert(format!("box-{n}"), Box_::with(0))));
    }
    let backup = Memory::default();
    let report = pulled_with(&script, &backup, Options { connections: 4, ..options() }).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.of.len(), script.asked("EXAMINE")), (21, 1));
    assert_eq!(script.world.lock().unwrap().connections, 1);
    // They are unchanged.
    let report = pulled(&script, &backup).await;
    assert_eq!((report.of.len(), script.asked("EXAMINE")), (0, 1));
    script.change(|world| drop(world.boxes.insert("box-7".into(), Box_::with(3))));
    assert!(pulled(&script, &backup).await.is_complete());
    assert_eq!(backup.texts("box-7"), texts(1..=3));
}

#[tokio::test]
async fn complete_messages_are_committed_on_stop() {
    let script = Script::start(Box_::with(500), QRESYNC, &[Fault::Silent]).await;
    let backup = Memory::default();
    let (stop, tools) = tools();
    let server = script.server();
    let pulling = tokio::spawn({
        let (backup, tools) = (backup.clone(), tools.clone());
        async move { pull(&server, Arc::new(backup), &options(), &tools).await }
    });
    while script.asked("UID FETCH") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stop.send_replace(true);
    let report = pulling.await.unwrap().unwrap();
    assert!(report.interrupted && !report.is_complete());
    script.change(|world| world.faults.clear());
    assert!(pulled(&script, &backup).await.is_complete());
    assert_eq!(backup.texts("INBOX"), texts(1..=500));
}
