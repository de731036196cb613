//! Commands that bring messages: one log entry each, and what they may bring at most.

use sealpost_base::{MemoryDivision, Random, SeededRandom, limits};
use sealpost_session::Settings;
use sealpost_vault::Store;

use crate::imap_world::{TestServer, dial};

#[tokio::test]
async fn however_many_messages_a_command_brings_it_is_one_entry() {
    let mut world = TestServer::new(Settings::default()).await;
    let account = world.account().await;
    let mut client = world.login().await;
    let before = account.state().position().0;
    let entries = || account.state().position().0 - before;
    let many = " (\\Seen) {1+}\r\nx".repeat(limits::APPEND_MESSAGES);
    let lines = client.ok(&format!("APPEND Archive{many}")).await;
    assert!(lines[0].contains(&format!(" 1:{}] ", limits::APPEND_MESSAGES)), "{lines:?}");
    assert_eq!(entries(), 1);
    client.ok("APPEND INBOX CATENATE (URL /Archive/;UID=7 TEXT {1+}\r\ny)").await;
    assert_eq!(entries(), 2);
    client.ok("SELECT Drafts").await;
    client.ok("APPEND Drafts {1+}\r\nx").await;
    // The claim that this message is recent for this session only is logged in the background, as
    // an entry too.
    while account.state().mailbox_named("Drafts").unwrap().recent_from().get() < 2 {
        client.ok("NOOP").await;
    }
    let before = account.state().position().0;
    client.ok("UID REPLACE 1 Sent {1+}\r\nz").await;
    assert_eq!(account.state().position().0 - before, 1);
    assert_eq!(account.state().mailbox_named("Drafts").unwrap().len(), 0);
    assert_eq!(account.state().mailbox_named("Sent").unwrap().len(), 1);
}

/// Each transaction of the store is a wait for the disk.
#[tokio::test]
async fn small_messages_of_a_command_become_durable_together() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::local(dir.path()).await.unwrap();
    let mut world = TestServer::over(store.clone(), Settings::default(), None).await;
    let mut client = world.login().await;
    // A few that are stored alone, one that comes in pieces, and many that are small.
    let size = |nth| match nth {
        7 => 5_000,
        27 => 30_000,
        47 => 200_000,
        _ => 100,
    };
    let message = |nth: usize| {
        let mut noise = vec![0; size(nth)];
        SeededRandom::new(nth as u64).fill(&mut noise);
        let letters: String = noise.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
        format!("Subject: {nth}\r\n\r\n{letters}")
    };
    let literal = |nth| format!(" {{{}+}}\r\n{}", message(nth).len(), message(nth));
    let before = store.stats().commits;
    client.ok(&format!("APPEND Archive{}", (0..200).map(literal).collect::<String>())).await;
    let commits = store.stats().commits - before;
    assert!(commits < 30, "{commits}");
    client.ok("SELECT Archive").await;
    for nth in 0..200 {
        let lines = client.ok(&format!("FETCH {} BODY.PEEK[]", nth + 1)).await;
        assert!(lines[0].ends_with(&format!("\r\n{})", message(nth))), "message {nth}");
    }
}

#[tokio::test]
async fn messages_of_one_append_are_bounded() {
    let mut world = TestServer::new(Settings::default()).await;
    let account = world.account().await;
    let mut client = world.login().await;
    let at_start = account.state().position();
    let refused = |lines: Vec<String>, code: &str| {
        let last = lines.last().unwrap();
        assert!(last.starts_with(&format!("x NO [{code}] ")), "{last}");
    };
    let one_more = " {1+}\r\nx".repeat(limits::APPEND_MESSAGES + 1);
    refused(client.command(&format!("APPEND Archive{one_more}")).await, "LIMIT");
    let parts = vec!["TEXT {0+}\r\n"; limits::IMAP_CATENATE_PARTS + 1].join(" ");
    refused(client.command(&format!("APPEND Archive CATENATE ({parts})")).await, "LIMIT");
    // As many names of keywords as many messages may have, and more than one command may.
    let keyword = |n| format!("{n:0width$}", width = limits::KEYWORD_BYTES);
    let keywords: Vec<String> = (0..limits::FLAG_SET_KEYWORDS).map(keyword).collect();
    let keywords = keywords.join(" ");
    let messages = limits::APPEND_KEYWORD_BYTES / (limits::KEYWORD_BYTES * limits::FLAG_SET_KEYWORDS) + 1;
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
    let world = TestServer::new(Settings::default()).await;
    let (record, root) = world.add_account("small", Some(10_000)).await;
    let mut talking = Vec::new();
    let message = format!("Subject: x\r\n\r\n{}", "x".repeat(3000));
    for _ in 0..8 {
        let (mut client, _) = dial(&world.imap);
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

/// A little memory for work, of which the messages that commands have brought may hold an eighth.
async fn small_world() -> TestServer {
    let memory = MemoryDivision { work: 8 * 1024 * 1024, ..MemoryDivision::default() };
    TestServer::new(Settings { memory, ..Settings::default() }).await
}

/// So many messages, no two that follow each other with the same set of keywords.
fn with_keywords(messages: usize) -> String {
    let keyword = |n: usize| format!("k{:020}", n % 200);
    let flags = |n: usize| (n * 7..n * 7 + 40).map(keyword).collect::<Vec<_>>().join(" ");
    (0..messages).map(|n| format!(" ({}) {{1+}}\r\nx", flags(n))).collect()
}

#[tokio::test]
async fn messages_of_an_append_are_charged_until_it_ends() {
    let world = small_world().await;
    let budget = world.ctx.budget.clone();
    let (mut client, session) = dial(&world.imap);
    client.login().await;
    // Keywords that many messages have are held once.
    client.send(format!("1 APPEND INBOX{}", " (one two three) {1+}\r\nx".repeat(200)).as_bytes()).await;
    client.send(with_keywords(60).as_bytes()).await;
    client.send(b" (\\Seen) {10}\r\n").await;
    assert_eq!(client.line().await, "+ send the message");
    // One message is being stored, a request of a megabyte at most.
    let held = budget.in_use() - budget.fair_part();
    assert!((60 * 40 * 45..400_000).contains(&held), "{held} are drawn");
    client.send(b"0123456789\r\n").await;
    let completion = client.line().await;
    assert!(completion.starts_with("1 OK [APPENDUID "), "{completion}");
    drop(client);
    session.await.unwrap();
    assert_eq!(budget.in_use(), 0);
}

#[tokio::test]
async fn a_command_cannot_exceed_its_part_of_the_memory() {
    let mut world = small_world().await;
    let mut client = world.login().await;
    let lines = client.command(&format!("APPEND INBOX{}", with_keywords(400))).await;
    assert!(lines.last().unwrap().starts_with("x NO [LIMIT] too many messages"), "{lines:?}");
    let many = " (\\Seen $one $two) {1+}\r\nx".repeat(limits::APPEND_MESSAGES);
    client.ok(&format!("APPEND INBOX{many}")).await;
    assert_eq!(world.ctx.budget.in_use(), 0);
}

#[tokio::test]
async fn an_append_whose_client_is_gone_ends_while_it_waits() {
    let world = small_world().await;
    let (mut client, session) = dial(&world.imap);
    client.login().await;
    let mut held = Vec::new();
    while let Some(permit) = world.ctx.budget.try_acquire(usize::MAX) {
        held.push(permit);
    }
    // All of it has been sent already, and the client does not wait for the reply.
    client.send(b"1 APPEND INBOX {1+}\r\nx\r\n").await;
    while world.ctx.budget.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(client);
    tokio::time::pause();
    session.await.unwrap();
    assert_eq!(world.ctx.budget.waiting(), 0);
}
