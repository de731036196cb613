//! Two nodes on one store: a session that logs in or opens a mailbox on one sees everything that
//! the other has acknowledged, without a notification (decision 29).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{FakeClock, SeededRandom};
use sealpost_directory::{AccountRecord, Quotas};
use sealpost_imap_session::ImapShared;
use sealpost_session::{Context, Settings};
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;

use crate::imap_world::{NOW, TestServer, dial};

/// Another node on the store of [`TestServer`], whose clock stands still: it polls nothing.
fn another_node(store: Store) -> Arc<ImapShared> {
    let key = ServerKeys::generate(&SeededRandom::new(1));
    let (clock, random) = (Arc::new(FakeClock::new(NOW)), Arc::new(SeededRandom::new(2)));
    let ctx = Context::new(Settings::default(), store, key.clone(), None, clock, random).unwrap();
    Arc::new(ImapShared::new(Arc::new(ctx), &key))
}

#[tokio::test]
async fn login_and_select_see_changes_acknowledged_by_another_node() {
    let store = Store::memory();
    let mut world = TestServer::over(store.clone(), Settings::default(), None).await;
    let other = another_node(store);

    let (mut there, _) = dial(&other);
    there.login().await;
    there.ok("SELECT INBOX").await;

    let mut here = world.login().await;
    here.ok("CREATE New").await;
    here.ok("SUBSCRIBE New").await;
    world.deliver(None, b"Subject: x\r\n\r\n").await;

    let (mut later, _) = dial(&other);
    later.login().await;
    let listed = later.ok("LIST \"\" New").await;
    assert!(listed.iter().any(|line| line.contains("New")), "{listed:?}");

    here.ok("RENAME New Newer").await;
    let selected = there.ok("SELECT Newer").await;
    assert!(selected.iter().any(|line| line == "* 0 EXISTS"), "{selected:?}");
    let selected = there.ok("EXAMINE INBOX").await;
    assert!(selected.iter().any(|line| line == "* 1 EXISTS"), "{selected:?}");
}

/// `sealpost import` beside a server: its mailboxes are visible at once, before the store has
/// reported them.
#[tokio::test]
async fn names_that_another_process_has_just_made_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::local(dir.path());
    let mut world = TestServer::over(open().await.unwrap(), Settings::default(), None).await;
    let other = another_node(open().await.unwrap());
    let (mut there, _) = dial(&other);
    there.login().await;
    let mut here = world.login().await;
    let has = |lines: &[String], name: &str| lines.iter().any(|line| line.ends_with(&format!("\" {name}")));
    for n in 0..5 {
        for (command, is_right) in [
            ("LIST \"\" *", true),
            ("LSUB \"\" *", true),
            ("LIST (SUBSCRIBED) \"\" *", true),
            ("STATUS New (MESSAGES)", false),
            ("EXAMINE New", false),
            ("GETACL New", false),
            ("APPEND New {3+}\r\na\r\n", false),
            ("RENAME New Newer", false),
        ] {
            there.ok("CREATE New").await;
            there.ok("SUBSCRIBE New").await;
            let lines = here.ok(command).await;
            assert!(!is_right || has(&lines, "New"), "{n}: {command}: {lines:?}");
            here.command("UNSELECT").await;
            let gone = if command.starts_with("RENAME") { "Newer" } else { "New" };
            there.ok(&format!("DELETE {gone}")).await;
            assert!(!has(&here.ok("LIST \"\" *").await, gone), "{n}");
            here.ok("CREATE New").await;
            here.ok("DELETE New").await;
        }
    }
}

/// `sealpost account quota` beside a server: open sessions use it as soon as the store has reported
/// it.
#[tokio::test]
async fn a_limit_that_another_process_has_set_reaches_open_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let mut world =
        TestServer::over(Store::local(dir.path()).await.unwrap(), Settings::default(), None).await;
    let other = another_node(Store::local(dir.path()).await.unwrap());
    let mut here = world.login().await;
    here.ok("APPEND INBOX {3+}\r\na\r\n").await;
    let mut all: Vec<_> = other.context().directory.list().try_collect().await.unwrap();
    let mine = all.swap_remove(0);
    let limited = Quotas { messages: Some(1), ..Quotas::default() };
    let change = |record: &mut AccountRecord| {
        record.set_quotas(limited);
        Ok(())
    };
    other.context().directory.update(&mine.name, change).await.unwrap();
    // The clock stands still here: the session does not poll.
    for attempt in 0.. {
        let lines = here.command("APPEND INBOX {3+}\r\nb\r\n").await;
        if lines.last().unwrap().contains("NO [OVERQUOTA]") {
            break;
        }
        assert!(attempt < 200, "{lines:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A node can be suspended for longer than expunged messages are kept.
#[tokio::test]
async fn messages_collected_by_another_node_are_not_damaged() {
    let store = Store::memory();
    let mut world = TestServer::over(store.clone(), Settings::default(), None).await;
    world.deliver(None, b"Subject: 1\r\n\r\n").await;
    let first = messages(&store).await;
    world.deliver(None, b"Subject: 2\r\n\r\n").await;
    let both = messages(&store).await;
    world.deliver(None, b"Subject: 3\r\n\r\n").await;
    let (mut there, _) = dial(&another_node(store.clone()));
    there.login().await;
    there.ok("SELECT INBOX").await;

    let mut here = world.login().await;
    here.ok("SELECT INBOX").await;
    here.ok("STORE 2 +FLAGS (\\Deleted)").await;
    here.ok("EXPUNGE").await;
    let second = both.difference(&first).next().expect("the second message");
    store.delete(second).await.unwrap();
    let lines = there.command("FETCH 2 (BODY.PEEK[])").await;
    assert_eq!(lines, ["x NO [EXPUNGEISSUED] some of the messages no longer exist"]);
    let lines = there.ok("UID FETCH 2:3 (BODY.PEEK[])").await;
    assert!(lines.iter().any(|line| line.contains("Subject: 3")), "{lines:?}");

    // One that no node expunged is missed.
    store.delete(first.first().expect("the first message")).await.unwrap();
    let lines = there.command("UID FETCH 1 (BODY.PEEK[])").await;
    assert!(lines.iter().any(|line| line == "* NO [CORRUPTION] message UID 1 is damaged"), "{lines:?}");
}

/// The names of the messages in a store.
async fn messages(store: &Store) -> BTreeSet<String> {
    let paths = store.list("acct", None).map_ok(|listed| listed.path);
    paths.try_filter(|path| std::future::ready(path.contains("/msg/"))).try_collect().await.unwrap()
}
