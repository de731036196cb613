//! Hostile input: everything that can be made large has a limit, and what passes it gets an answer
//! or a goodbye.

use sealpost_account::event::Event;
use sealpost_base::{Budget, limits};
use sealpost_session::Settings;

use crate::imap_world::TestServer;

#[tokio::test]
async fn an_endless_line_before_login_ends_the_connection() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.connect();
    client.line().await;
    // More than is ever thrown away; the server may hang up before it has all.
    for _ in 0..3 {
        client.try_send(&vec![b'x'; 64 * 1024]).await;
    }
    let rest = client.rest_or_reset().await;
    assert!(rest.is_empty() || rest.contains("BAD") || rest.contains("* BYE"), "{rest}");
}

#[tokio::test]
async fn literals_before_login_are_small() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.connect();
    client.line().await;
    client.send(b"1 LOGIN {100000}\r\n").await;
    let line = client.line().await;
    assert!(line.starts_with("1 BAD") || line.starts_with("1 NO"), "{line}");
    client.send(b"2 APPEND INBOX {1000000000}\r\n").await;
    let line = client.line().await;
    assert!(line.starts_with("2 BAD") || line.starts_with("2 NO"), "{line}");
    client.send(b"3 NOOP\r\n").await;
    assert_eq!(client.line().await, "3 OK NOOP completed");
}

#[tokio::test]
async fn refuses_deep_nesting_and_long_lists() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: a\r\n\r\nb").await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let deep = format!("SEARCH {}ALL{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(client.command(&deep).await[0].starts_with("x BAD"));
    let deep = format!("SEARCH {}ALL", "NOT ".repeat(10_000));
    assert!(client.command(&deep).await[0].starts_with("x BAD"));
    let many = format!("SEARCH {}ALL", "SEEN ".repeat(10_000));
    assert!(client.command(&many).await[0].starts_with("x BAD"));
    let section = format!("FETCH 1 BODY[{}1]", "1.".repeat(5000));
    assert!(client.command(&section).await[0].starts_with("x BAD"));
    // As many ranges as are allowed, and each message once.
    let ranges = vec!["1"; 20_000].join(",");
    let lines = client.ok(&format!("FETCH {ranges} UID")).await;
    assert_eq!(lines[0], "* 1 FETCH (UID 1)");
    assert_eq!(lines.len(), 2);
    let ranges = vec!["1:*"; 40_000].join(",");
    assert!(client.command(&format!("FETCH {ranges} UID")).await[0].starts_with("x BAD"));
    client.ok("NOOP").await;
}

#[tokio::test]
async fn many_items_of_a_message_are_sent_one_by_one() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, &[b"Subject: a\r\n\r\n".to_vec(), vec![b'b'; 1000]].concat()).await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let lines = client.ok(&format!("FETCH 1 ({})", vec!["BODY.PEEK[TEXT]"; 100].join(" "))).await;
    assert_eq!(lines[0].matches("BODY[TEXT] {1000}").count(), 100);
}

#[tokio::test]
async fn too_many_keywords_are_refused_and_nothing_is_changed() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: a\r\n\r\nb").await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    let flags: Vec<_> = (0..300).map(|i| format!("k{i}")).collect();
    let lines = client.command(&format!("STORE 1 +FLAGS ({})", flags.join(" "))).await;
    assert!(lines[lines.len() - 1].starts_with("x NO [LIMIT]"), "{lines:?}");
    assert_eq!(client.ok("FETCH 1 FLAGS").await[0], "* 1 FETCH (FLAGS (\\Recent))");
}

#[tokio::test]
async fn a_stopping_server_says_goodbye() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut waiting = world.login().await;
    let mut idling = world.login().await;
    idling.send(b"1 IDLE\r\n").await;
    assert_eq!(idling.line().await, "+ idling");
    world.ctx.shutdown.begin();
    assert_eq!(waiting.rest().await, "* BYE server is shutting down\r\n");
    assert_eq!(idling.rest().await, "* BYE server is shutting down\r\n");
}

#[tokio::test(start_paused = true)]
async fn silent_clients_are_disconnected() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.connect();
    client.line().await;
    // Half a command is not a command.
    client.send(b"1 LOGIN ").await;
    tokio::time::sleep(world.ctx.settings.timeouts.imap_anonymous).await;
    assert_eq!(client.rest().await, "* BYE idle for too long\r\n");
}

/// Takes all memory that is free, and waits for more than that.
async fn use_up(budget: &Budget) {
    let mut held = Vec::new();
    while let Some(permit) = budget.try_acquire(usize::MAX) {
        held.push(permit);
    }
    budget.acquire(budget.total() - budget.in_use() + 1).await;
}

#[tokio::test]
async fn a_stalled_append_releases_its_memory_to_waiting_requests() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.login().await;
    client.send(b"1 APPEND INBOX {100000}\r\n").await;
    assert_eq!(client.line().await, "+ send the message");
    client.send(b"Subject: slow\r\n").await;
    tokio::time::pause();
    use_up(&world.ctx.budget).await;
    assert_eq!(client.rest().await, "* BYE idle for too long\r\n");
}

#[tokio::test]
async fn a_stalled_fetch_releases_its_memory_to_waiting_requests() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, &[b"Subject: large\r\n\r\n".to_vec(), vec![b'x'; 4_000_000]].concat()).await;
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    client.send(b"1 FETCH 1 BODY.PEEK[]\r\n").await;
    assert!(client.line().await.starts_with("* 1 FETCH"));
    tokio::time::pause();
    use_up(&world.ctx.budget).await;
}

/// A little memory: a request is a megabyte at most.
async fn small_world() -> TestServer {
    let memory = sealpost_base::MemoryDivision { work: 8 * 1024 * 1024, ..Default::default() };
    let world = TestServer::new(Settings { memory, ..Settings::default() }).await;
    world.deliver(None, &[b"Subject: large\r\n\r\n".to_vec(), vec![b'x'; 4_000_000]].concat()).await;
    world.add_account("you", None).await;
    world
}

/// Stores a message and reads it.
async fn stores_and_reads(world: &mut TestServer) {
    let mut client = world.connect();
    client.login_as("you").await;
    client.ok("SELECT INBOX").await;
    client.ok(&format!("APPEND INBOX {{20000+}}\r\n{}", "x".repeat(20_000))).await;
    assert!(client.ok("FETCH 1 BODY.PEEK[]").await[0].starts_with("* 1 FETCH"));
}

#[tokio::test]
async fn a_slow_reader_delays_only_readers_of_its_account() {
    let mut world = small_world().await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut client = world.login().await;
        client.ok("SELECT INBOX").await;
        client.send(b"1 FETCH 1 BODY.PEEK[]\r\n").await;
        slow.push(client);
    }
    // The account's share is a quarter of eight megabytes.
    while world.ctx.budget.waiting() < 10 {
        tokio::task::yield_now().await;
    }
    stores_and_reads(&mut world).await;
    world.deliver(None, b"Subject: to the account that is read\r\n\r\n").await;
    drop(slow);
    while world.ctx.budget.in_use() + world.ctx.budget.waiting() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_slow_sender_delays_no_reader() {
    let mut world = small_world().await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut client = world.login().await;
        client.send(b"1 APPEND INBOX {100000+}\r\nSubject: slow\r\n").await;
        slow.push(client);
    }
    // Their share is three quarters of eight megabytes.
    while world.ctx.budget.waiting() < 6 {
        tokio::task::yield_now().await;
    }
    let mut client = world.login().await;
    client.ok("SELECT INBOX").await;
    client.send(b"1 FETCH 1 BODY.PEEK[]<0.100000>\r\n").await;
    assert!(client.line().await.starts_with("* 1 FETCH"));
    client.bytes(100_000).await;
}

#[tokio::test]
async fn watching_too_many_mailboxes_is_refused() {
    let mut world = TestServer::new(Settings::default()).await;
    let account = world.account().await;
    let create = async |from: usize, to: usize| {
        let events = |from, to| {
            let name = |n| Event::MailboxCreated { name: format!("box{n}"), special_use: None };
            (from..to).map(name).collect::<Vec<_>>()
        };
        account.commit(|_| Ok((events(from, to), ()))).await.unwrap();
    };
    let mut client = world.login().await;
    create(0, limits::NOTIFY_MAILBOXES - 10).await;
    client.ok("NOTIFY SET (personal (MailboxName))").await;
    // As many as fit, and then more.
    create(limits::NOTIFY_MAILBOXES, limits::NOTIFY_MAILBOXES + 100).await;
    let lines = client.ok("NOOP").await;
    assert!(lines[0].starts_with("* OK [NOTIFICATIONOVERFLOW]"), "{lines:?}");
    // It is as after NOTIFY NONE.
    create(limits::NOTIFY_MAILBOXES + 100, limits::NOTIFY_MAILBOXES + 101).await;
    assert_eq!(client.ok("NOOP").await.len(), 1);
    let lines = client.command("NOTIFY SET (personal (MailboxName))").await;
    assert!(lines[0].starts_with("x NO [NOTIFICATIONOVERFLOW]"), "{lines:?}");
    client.ok("NOTIFY SET (mailboxes (box1 box2) (MailboxName))").await;
}

#[tokio::test]
async fn a_slow_reader_does_not_prevent_loads() {
    let memory =
        sealpost_base::MemoryDivision { work: 8 * 1024 * 1024, accounts: 128 * 1024, ..Default::default() };
    let mut world = TestServer::new(Settings { memory, ..Settings::default() }).await;
    world.deliver(None, &[b"Subject: large\r\n\r\n".to_vec(), vec![b'x'; 4_000_000]].concat()).await;
    let (you, _) = world.add_account("you", None).await;
    let mut honest = world.connect();
    honest.login_as("you").await;
    honest.ok("SELECT INBOX").await;
    let mut slow = Vec::new();
    for _ in 0..12 {
        let mut client = world.login().await;
        client.ok("SELECT INBOX").await;
        slow.push(client);
    }
    // There is no memory for another account beside the one that they read.
    let accounts = &world.ctx.accounts;
    let free = || accounts.account_memory().0.saturating_sub(accounts.account_memory().1);
    while accounts.peek(you.id).is_some() {
        assert!(accounts.try_reserve(free() + 1).is_none());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let _others = accounts.try_reserve(free() - 5000).unwrap();
    for client in &mut slow {
        client.send(b"1 FETCH 1 BODY.PEEK[]\r\n").await;
    }
    while world.ctx.budget.waiting() < 10 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    // Stalled clients are disconnected, and waiting ones get a temporary error.
    honest.ok("SELECT INBOX").await;
    tokio::time::resume();
    let mut refused = 0;
    for client in &mut slow {
        let line = client.line_or_end().await.unwrap_or_default();
        refused += usize::from(line.starts_with("1 NO [UNAVAILABLE]"));
    }
    assert!(refused > 0);
}
