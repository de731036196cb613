//! Thousands of messages that come into a selected mailbox at once.

use sealpost_session::Settings;

use crate::imap_world::TestServer;

#[tokio::test]
async fn new_messages_are_reported_by_exists_only() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: x\r\n\r\n").await;
    let (mut here, mut there) = (world.login().await, world.login().await);
    here.ok("SELECT INBOX").await;
    for _ in 0..13 {
        here.ok("COPY 1:* Archive").await;
        here.ok("COPY 1:* INBOX").await;
        here.ok("NOOP").await;
    }
    there.ok("SELECT Archive").await;
    here.ok("COPY 1:* Archive").await;
    // One old message has other flags, and is reported with them.
    here.ok("SELECT Archive").await;
    here.ok("STORE 1 +FLAGS (\\Flagged)").await;
    let told = there.ok("NOOP").await;
    assert_eq!(told[0], "* 16383 EXISTS", "{} lines", told.len());
    let fetched: Vec<_> = told.iter().filter(|line| line.contains("FETCH")).collect();
    assert_eq!(fetched.len(), 1, "{} lines", told.len());
    assert!(fetched[0].starts_with("* 1 FETCH") && fetched[0].contains("\\Flagged"));
}
