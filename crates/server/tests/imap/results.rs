//! What sessions hold of what they found and watch: it is drawn from the memory it is bounded by,
//! and given back.

use sealpost_account::event::Event;
use sealpost_base::{MemoryDivision, limits};
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// The memory for work, of which results may hold an eighth.
const WORK: usize = 8 * 1024 * 1024;
/// Messages of the large mailbox: what searching it takes is all that results may hold.
const MANY: usize = 1 << 16;

async fn world_with_many() -> TestServer {
    let memory = MemoryDivision { work: WORK, ..MemoryDivision::default() };
    let mut world = TestServer::new(Settings { memory, ..Settings::default() }).await;
    world.deliver(None, b"Subject: one\r\n\r\n").await;
    let mut client = world.login().await;
    client.ok("CREATE Few").await;
    client.ok("SELECT INBOX").await;
    client.ok("COPY 1 Few").await;
    for _ in 0..MANY.ilog2() {
        client.ok("COPY 1:* INBOX").await;
    }
    client.ok("LOGOUT").await;
    world
}

async fn selected(world: &mut TestServer, mailbox: &str) -> Client {
    let mut client = world.login().await;
    client.ok(&format!("SELECT {mailbox}")).await;
    client
}

#[tokio::test]
async fn unread_results_are_counted_and_bounded() {
    for search in ["SEARCH ALL", "SORT (ARRIVAL) UTF-8 ALL", "SORT (SIZE) UTF-8 ALL"] {
        let mut world = world_with_many().await;
        let budget = world.ctx.budget.clone();
        let mut slow = selected(&mut world, "INBOX").await;
        slow.send(format!("1 {search}\r\n").as_bytes()).await;
        let begun = slow.bytes(1000).await;
        assert!(begun.starts_with(b"* S"), "{search}");
        assert!(budget.in_use() >= 8 * MANY, "{search}: {} are drawn", budget.in_use());

        // There is no memory for a second one as large.
        let mut second = selected(&mut world, "INBOX").await;
        second.send(b"2 UID SEARCH RETURN (COUNT) ALL\r\n").await;
        while budget.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        // But for one that is small, and for other work.
        let mut third = selected(&mut world, "Few").await;
        assert_eq!(third.ok("SEARCH ALL").await[0], "* SEARCH 1");
        assert!(third.ok("FETCH 1 BODY.PEEK[]").await[0].starts_with("* 1 FETCH"));

        drop(slow);
        assert_eq!(second.line().await, format!("* ESEARCH (TAG \"2\") UID COUNT {MANY}"));
        assert!(second.line().await.starts_with("2 OK"));
        while budget.in_use() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn very_many_results_reserve_memory_and_are_limited() {
    let mut world = world_with_many().await;
    let budget = world.ctx.budget.clone();
    let mut client = selected(&mut world, "INBOX").await;
    client.ok("COPY 1:* INBOX").await;
    let mut slow = selected(&mut world, "INBOX").await;
    slow.send(b"1 SEARCH ALL\r\n").await;
    assert!(slow.bytes(1000).await.starts_with(b"* S"));
    assert!(budget.in_use() >= 16 * MANY, "{} are drawn", budget.in_use());
    // Mailboxes that are not so large are searched meanwhile.
    let mut other = selected(&mut world, "Few").await;
    assert_eq!(other.ok("SEARCH ALL").await[0], "* SEARCH 1");
    drop(slow);
    client.ok("COPY 1:* INBOX").await;
    let refused = client.command("UID SEARCH RETURN (COUNT) ALL").await;
    assert!(refused[refused.len() - 1].starts_with("x NO [LIMIT]"), "{refused:?}");
    assert_eq!(other.ok("SEARCH ALL").await[0], "* SEARCH 1");
}

#[tokio::test]
async fn rows_with_long_flags_come_a_few_at_a_time() {
    const ROWS: usize = 60;
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.login().await;
    world.deliver(None, b"Subject: one\r\n\r\n").await;
    client.ok("SELECT INBOX").await;
    for _ in 1..ROWS {
        client.ok("COPY 1 INBOX").await;
    }
    let keyword = |n: usize| format!("{n:k>width$}", width = limits::KEYWORD_BYTES);
    let flags: Vec<_> = (0..200).map(keyword).collect();
    for flags in flags.chunks(40) {
        client.ok(&format!("STORE 1:* +FLAGS.SILENT ({})", flags.join(" "))).await;
    }
    // More than lies in sockets: the server waits until this is read.
    let row = flags.len() * (limits::KEYWORD_BYTES + 1);
    client.send(format!("x FETCH 1:{ROWS} (FLAGS)\r\n").as_bytes()).await;
    let first = client.line().await;
    assert!(first.starts_with("* 1 FETCH (FLAGS (") && first.len() > row, "{}", first.len());
    // Changes of rows that are not read yet are reported when they are.
    let mut other = world.login().await;
    other.ok("SELECT INBOX").await;
    other.ok(&format!("STORE {} FLAGS.SILENT (\\Flagged)", ROWS - 1)).await;
    other.ok(&format!("STORE {ROWS} +FLAGS.SILENT (\\Deleted)")).await;
    other.ok("EXPUNGE").await;
    let lines = client.answer().await;
    let long = lines.iter().filter(|line| line.contains(" FETCH (FLAGS (") && line.len() > row).count();
    assert_eq!(
        long,
        ROWS - 3,
        "all but the first, the one that has other flags by now, and the one that is gone"
    );
    let changed = format!("* {} FETCH ", ROWS - 1);
    let changed = lines.iter().find(|line| line.starts_with(&changed)).unwrap();
    assert!(changed.ends_with(" FETCH (FLAGS (\\Flagged \\Recent))"), "{changed}");
    let last = &lines[lines.len() - 1];
    assert!(last.starts_with("x NO [EXPUNGEISSUED]"), "{last}");
}

#[tokio::test]
async fn notify_is_refused_without_memory_for_its_mailboxes() {
    const MAILBOXES: usize = 1000;
    let memory = MemoryDivision { accounts: 6 * 1024 * 1024, ..MemoryDivision::default() };
    let mut world = TestServer::new(Settings { memory, ..Settings::default() }).await;
    let account = world.account().await;
    let name = |n: usize| format!("{n:x>width$}", width = limits::MAILBOX_NAME_BYTES);
    for first in (0..MAILBOXES).step_by(100) {
        let made = (first..first + 100).map(|n| Event::MailboxCreated { name: name(n), special_use: None });
        let made: Vec<_> = made.collect();
        account.commit(|_| Ok((made.clone(), ()))).await.unwrap();
    }
    drop(account);
    let mut clients = Vec::new();
    // Each keeps a megabyte of names.
    let refused = loop {
        assert!(clients.len() < 20, "as many as come are let watch");
        let mut client = world.login().await;
        let lines = client.command("NOTIFY SET (personal (MailboxName))").await;
        let last = lines[lines.len() - 1].clone();
        clients.push(client);
        if !last.starts_with("x OK") {
            break last;
        }
    };
    assert!(refused.starts_with("x NO [NOTIFICATIONOVERFLOW]"), "{refused}");
    assert!(clients.len() > 1);
    for client in &mut clients {
        client.ok("NOOP").await;
    }
    clients[0].ok("NOTIFY NONE").await;
    let last = clients.len() - 1;
    clients[last].ok("NOTIFY SET (personal (MailboxName))").await;
}
