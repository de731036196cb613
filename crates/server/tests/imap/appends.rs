//! Commands that bring messages: one log entry each, and what they may bring at most.

use sealpost_base::limits;
use sealpost_server::Settings;

use crate::imap_world::{World, dial};

#[tokio::test]
async fn however_many_messages_a_command_brings_it_is_one_entry() {
    let mut world = World::new(Settings::default()).await;
    let account = world.account().await;
    let mut client = world.login().await;
    let before = account.state().position().0;
    let entries = || account.state().position().0 - before;
    let many = " (\\Seen) {1+}\r\nx".repeat(limits::IMAP_APPEND_MESSAGES);
    let lines = client.ok(&format!("APPEND Archive{many}")).await;
    assert!(lines[0].contains(&format!(" 1:{}] ", limits::IMAP_APPEND_MESSAGES)), "{lines:?}");
    assert_eq!(entries(), 1);
    client.ok("APPEND INBOX CATENATE (URL /Archive/;UID=7 TEXT {1+}\r\ny)").await;
    assert_eq!(entries(), 2);
    client.ok("SELECT Drafts").await;
    client.ok("APPEND Drafts {1+}\r\nx").await;
    // That this message is not recent for anybody else is noted in the background, as an entry too.
    while account.state().mailbox_named("Drafts").unwrap().recent_from().get() < 2 {
        client.ok("NOOP").await;
    }
    let before = account.state().position().0;
    client.ok("UID REPLACE 1 Sent {1+}\r\nz").await;
    assert_eq!(account.state().position().0 - before, 1);
    assert_eq!(account.state().mailbox_named("Drafts").unwrap().len(), 0);
    assert_eq!(account.state().mailbox_named("Sent").unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_command_may_bring_at_most() {
    let mut world = World::new(Settings::default()).await;
    let account = world.account().await;
    let mut client = world.login().await;
    let at_start = account.state().position();
    let refused = |lines: Vec<String>, code: &str| {
        let last = lines.last().unwrap();
        assert!(last.starts_with(&format!("x NO [{code}] ")), "{last}");
    };
    let one_more = " {1+}\r\nx".repeat(limits::IMAP_APPEND_MESSAGES + 1);
    refused(client.command(&format!("APPEND Archive{one_more}")).await, "LIMIT");
    let parts = vec!["TEXT {0+}\r\n"; limits::IMAP_CATENATE_PARTS + 1].join(" ");
    refused(client.command(&format!("APPEND Archive CATENATE ({parts})")).await, "LIMIT");
    // As many names of keywords as many messages may have, and more than one command may.
    let keyword = |n| format!("{n:0width$}", width = limits::KEYWORD_BYTES);
    let keywords: Vec<String> = (0..limits::FLAG_SET_KEYWORDS).map(keyword).collect();
    let keywords = keywords.join(" ");
    let messages =
        limits::IMAP_APPEND_KEYWORD_BYTES / (limits::KEYWORD_BYTES * limits::FLAG_SET_KEYWORDS) + 1;
    let many = format!(" ({keywords}) {{1+}}\r\nx").repeat(messages);
    refused(client.command(&format!("APPEND Archive{many}")).await, "LIMIT");
    let url = format!("/{}/;UID=1", "x".repeat(limits::IMAP_URL_BYTES));
    let lines = client.command(&format!("APPEND Archive CATENATE (URL {url})")).await;
    assert!(lines[0].starts_with("x NO [BADURL /xxx") && lines[0].len() < 1200, "{lines:?}");
    client.ok("NOOP").await;
    assert_eq!(account.state().position(), at_start, "nothing was appended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_come_at_once_find_room_once() {
    let world = World::new(Settings::default()).await;
    let (record, root) = world.add_account("small", Some(10_000)).await;
    let mut talking = Vec::new();
    let message = format!("Subject: x\r\n\r\n{}", "x".repeat(3000));
    for _ in 0..8 {
        let (mut client, _) = dial(&world.ctx);
        let message = message.clone();
        talking.push(tokio::spawn(async move {
            client.login_as("small").await;
            let append = format!("APPEND Archive {{{}+}}\r\n{message}", message.len());
            let lines = client.command(&append).await;
            lines.last().unwrap().clone()
        }));
    }
    let mut fine = 0;
    for talking in talking {
        let completion = talking.await.unwrap();
        assert!(completion.starts_with("x OK") || completion.starts_with("x NO [OVERQUOTA]"), "{completion}");
        fine += usize::from(completion.starts_with("x OK"));
    }
    assert_eq!(fine, 3, "as many as fit");
    let account = world.ctx.accounts.open(record.id, &root).await.unwrap();
    assert!(account.state().mailbox_named("Archive").unwrap().bytes() <= 10_000);
}
