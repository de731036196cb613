//! What OBJECTID promises to stay the same, and what must differ (RFC 8474 §4, §5.1).

use crate::imap_world::TestServer;
use sealpost_session::Settings;

/// The id that follows `name (` in the responses.
fn id(lines: &[String], name: &str) -> String {
    let begin = format!("{name} (");
    let line =
        lines.iter().find(|line| line.contains(&begin)).unwrap_or_else(|| panic!("{name} in {lines:?}"));
    let (_, rest) = line.split_once(&begin).unwrap();
    rest.split_once(')').unwrap().0.to_owned()
}

#[tokio::test]
async fn ids_follow_mailboxes_and_messages() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: a\r\nMessage-ID: <a@x>\r\n\r\na\r\n").await;
    world.deliver(None, b"Subject: b\r\nMessage-ID: <b@x>\r\n\r\nb\r\n").await;
    let mut client = world.login().await;
    let foo = id(&client.ok("CREATE foo").await, "MAILBOXID");
    let inbox = id(&client.ok("SELECT INBOX").await, "MAILBOXID");
    assert_ne!(foo, inbox);
    let (email, thread) = {
        let lines = client.ok("FETCH 1 (EMAILID THREADID)").await;
        (id(&lines, "EMAILID"), id(&lines, "THREADID"))
    };
    let other = id(&client.ok("FETCH 2 (EMAILID)").await, "EMAILID");
    assert_ne!(email, other);

    // COPY and MOVE keep EMAILID and THREADID (§5.1), RENAME keeps MAILBOXID (§4).
    client.ok("COPY 1 foo").await;
    client.ok("MOVE 1 foo").await;
    client.ok("RENAME foo bar/foo").await;
    assert_eq!(id(&client.ok("STATUS bar/foo (MAILBOXID)").await, "MAILBOXID"), foo);
    assert_eq!(id(&client.ok("EXAMINE bar/foo").await, "MAILBOXID"), foo);
    for n in 1..=2 {
        let lines = client.ok(&format!("FETCH {n} (EMAILID THREADID)")).await;
        assert_eq!((id(&lines, "EMAILID"), id(&lines, "THREADID")), (email.clone(), thread.clone()));
    }
    let found = client.ok(&format!("SEARCH EMAILID {email}")).await;
    assert_eq!(found[0], "* SEARCH 1 2");
    let found = client.ok(&format!("UID SEARCH OR EMAILID {other} EMAILID {email}")).await;
    assert_eq!(found[0], "* SEARCH 1 2");

    // RENAME INBOX is a new mailbox, and INBOX stays what it is (§8.2).
    client.ok("UNSELECT").await;
    client.ok("RENAME INBOX was-inbox").await;
    let was = id(&client.ok("STATUS was-inbox (MAILBOXID)").await, "MAILBOXID");
    assert!(was != inbox && was != foo);
    assert_eq!(id(&client.ok("STATUS INBOX (MAILBOXID)").await, "MAILBOXID"), inbox);

    // A mailbox created again under an old name is another one.
    client.ok("DELETE bar/foo").await;
    assert_ne!(id(&client.ok("CREATE bar/foo").await, "MAILBOXID"), foo);
    assert!(foo.starts_with('F') && email.starts_with('M') && thread.starts_with('T'));
}
