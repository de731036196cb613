//! A store that fails: temporary errors, never an OK, and everything as before once it works again.

use std::sync::Arc;

use object_store::memory::InMemory;
use sealpost_session::Settings;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Store;

use crate::imap_world::TestServer;

async fn world(plan: Plan, seed: u64) -> (TestServer, Faulty) {
    let faulty = Faulty::new(Arc::new(InMemory::new()), plan, seed);
    faulty.calm(true);
    let world = TestServer::over(Store::over(Arc::new(faulty.clone())), Settings::default(), None).await;
    (world, faulty)
}

#[tokio::test]
async fn without_the_store_commands_are_refused_and_sessions_stay() {
    let (mut world, faulty) = world(Plan { fail: 1000, ..Plan::default() }, 1).await;
    world.deliver(None, b"Subject: a\r\n\r\nbody\r\n").await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    // What makes messages not recent any longer is written in the background.
    client.ok("NOOP").await;
    faulty.calm(false);
    for command in [
        "STORE 1 +FLAGS (\\Flagged)",
        "COPY 1 Archive",
        "MOVE 1 Archive",
        "CREATE New",
        "FETCH 1 BODY.PEEK[]",
        "FETCH 1 ENVELOPE",
        "SEARCH BODY body",
        "APPEND INBOX {12+}\r\nSubject: x\r\n",
    ] {
        let lines = client.command(command).await;
        assert!(lines.last().unwrap().starts_with("x NO [UNAVAILABLE]"), "{command}: {lines:?}");
    }
    assert_eq!(client.ok("FETCH 1 (FLAGS RFC822.SIZE)").await.len(), 2);
    assert_eq!(client.ok("SEARCH UNFLAGGED").await[0], "* SEARCH 1");
    faulty.calm(true);
    let lines = client.ok("FETCH 1 (BODY[])").await;
    assert!(lines[0].contains("Subject: a\r\n\r\nbody\r\n"), "{lines:?}");
    client.ok("STORE 1 +FLAGS (\\Flagged)").await;
    client.ok("APPEND INBOX {12+}\r\nSubject: x\r\n").await;
    assert!(client.ok("STATUS INBOX (MESSAGES)").await[0].ends_with("(MESSAGES 2)"));
}

#[tokio::test]
async fn acknowledged_changes_survive_store_failures() {
    for seed in 0..5 {
        let plan = Plan { fail: 100, lose_reply: 100, ..Plan::default() };
        let (mut world, faulty) = world(plan, seed).await;
        let mut client = world.login().await;
        client.ok("SELECT INBOX").await;
        faulty.calm(false);
        let mut uids = Vec::new();
        for n in 0..40 {
            let message = format!("Subject: {n:03}\r\n\r\n");
            let command = format!("APPEND INBOX {{{}+}}\r\n{message}", message.len());
            let lines = client.command(&command).await;
            let completion = lines.last().unwrap();
            if let Some(code) = completion.strip_prefix("x OK [APPENDUID ") {
                let uid = code.split([' ', ']']).nth(1).unwrap().to_owned();
                uids.push((uid, n));
            } else {
                assert!(completion.starts_with("x NO [UNAVAILABLE]"), "{completion}");
            }
        }
        faulty.calm(true);
        assert!(uids.len() > 10 && uids.len() < 40, "{}", uids.len());
        let mut other = world.login().await;
        other.ok("EXAMINE INBOX").await;
        for (uid, n) in uids {
            let lines = other.ok(&format!("UID FETCH {uid} (BODY[HEADER.FIELDS (SUBJECT)])")).await;
            assert!(lines[0].contains(&format!("Subject: {n:03}\r\n")), "seed {seed}: {lines:?}");
        }
    }
}
