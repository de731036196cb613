//! Additional connections for a folder.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{FakeClock, Result, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::{Options, Report, Tools, pull};
use super::memory::Memory;
use super::pulled::{options, tools};
use super::server::{Box_, Fault, Script};
use super::whole::{QRESYNC, texts};
use crate::client::{Server, Timeouts};

/// A pull of `script` over two connections, and what ends it; it has run long enough for the second
/// one to join.
async fn helped(
    script: &Script,
    server: Server,
    backup: &Memory,
) -> (watch::Sender<bool>, JoinHandle<Result<Report>>) {
    let (stop, tools) = tools();
    let clock = Arc::new(FakeClock::new(Timestamp(0)));
    let tools = Tools { clock: clock.clone(), ..tools };
    let (backup, options) = (backup.clone(), Options { connections: 2, ..options() });
    let pulling = tokio::spawn(async move { pull(&server, Arc::new(backup), &options, &tools).await });
    let helps = async {
        while script.world.lock().unwrap().connections < 2 {
            clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), helps).await.unwrap();
    (stop, pulling)
}

#[tokio::test]
async fn another_connection_helps_where_much_is_left_and_little_comes() {
    let script = Script::start(Box_::with(2000), QRESYNC, &[Fault::Silent]).await;
    let (stop, pulling) = helped(&script, script.server(), &Memory::default()).await;
    stop.send_replace(true);
    assert!(pulling.await.unwrap().unwrap().interrupted);
}

#[tokio::test]
async fn a_refused_helper_does_not_keep_a_pull_incomplete() {
    // It uses up its attempts, or still waits for an hour when the other one is done.
    for (retry, logins) in [(Duration::from_millis(1), 9), (Duration::from_secs(3600), 2)] {
        let script = Script::start(Box_::with(2000), QRESYNC, &[Fault::Held]).await;
        let server = Server { timeouts: Timeouts { retry, ..script.server().timeouts }, ..script.server() };
        let backup = Memory::default();
        let refuse = async {
            while script.asked_for("BODY.PEEK[]") == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            script.change(|world| world.faults.push(Fault::Busy(usize::MAX)));
        };
        let ((_stop, pulling), ()) = tokio::join!(helped(&script, server, &backup), refuse);
        while script.asked("LOGIN") < logins {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        script.change(|world| world.faults.retain(|fault| *fault != Fault::Held));
        let report = tokio::time::timeout(Duration::from_secs(60), pulling).await.unwrap();
        let report = report.unwrap().unwrap();
        assert!(report.is_complete(), "{retry:?}: {report:?}");
        assert_eq!(backup.texts("INBOX"), texts(1..=2000));
        assert_eq!(script.asked("LOGIN"), logins);
    }
}

/// Connections that are not established get no folders, so no folder waits for one that the server
/// refuses.
#[tokio::test]
async fn a_server_that_wants_one_connection_is_pulled_over_one() {
    for refusal in ["NO Too many simultaneous connections", "NO [AUTHENTICATIONFAILED] not again"] {
        let script = Script::start(Box_::with(9), QRESYNC, &[Fault::OneLogin(refusal)]).await;
        script.change(|world| {
            for name in ["Work", "More"] {
                world.boxes.insert(name.into(), Box_::with(6));
            }
        });
        // A refused connection waits for an hour.
        let timeouts = Timeouts { retry: Duration::from_secs(3600), ..script.server().timeouts };
        let server = Server { timeouts, ..script.server() };
        let ((_stop, tools), backup) = (tools(), Memory::default());
        let options = Options { connections: 4, ..options() };
        let pulling = pull(&server, Arc::new(backup.clone()), &options, &tools);
        let report = tokio::time::timeout(Duration::from_secs(60), pulling).await.unwrap().unwrap();
        assert!(report.is_complete(), "{refusal}: {report:?}");
        for (name, messages) in [("INBOX", 9), ("Work", 6), ("More", 6)] {
            assert_eq!(backup.texts(name), texts(1..=messages), "{refusal}: {name}");
        }
    }
}
