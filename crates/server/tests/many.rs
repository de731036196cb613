//! A mailbox of very many messages in a server with little memory: a million in 256 MiB is what
//! fifty thousand are here.
//!
//! One test in a process of its own, which measures the peak memory of the process.

#[path = "support/deflate_wire.rs"]
mod deflate_wire;
#[path = "support/imap_world.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod imap_world;
#[path = "support/peak.rs"]
mod peak;

use std::collections::BTreeSet;

use futures::TryStreamExt;
use sealpost_account::event::Event;
use sealpost_account::{Flags, Message, ThreadId};
use sealpost_base::{MemoryDivision, ObjectId, Random, SeededRandom, Timestamp};
use sealpost_session::Settings;
use sealpost_vault::Store;
use sealpost_vault::message::{Layout, MessageKey};

use imap_world::TestServer;
use peak::{forget_peak, peak};

const MESSAGES: usize = 50_000;
/// What loaded accounts may take: 87 MiB for a million is as much for each.
const ACCOUNTS: usize = 87 * 1024 * 1024 / (1_000_000 / MESSAGES);
/// What the process may take beyond what it took with an empty mailbox: the accounts, and as much
/// for the work, its threads, and what the allocator holds back.
const GROWTH: usize = ACCOUNTS + 16 * 1024 * 1024;

/// Stalled clients.
const SLOW: usize = 60;

/// The number behind that in one of the lines.
fn number(lines: &[String], before: &str) -> u64 {
    let line = lines.iter().find_map(|line| line.split_once(before)).unwrap();
    line.1.split(']').next().unwrap().parse().unwrap()
}

/// A message of which nothing is stored: nothing here reads any.
fn message(random: &SeededRandom, n: usize) -> Message {
    let (mut object, mut key) = ([0; 16], [0; 32]);
    random.fill(&mut object);
    random.fill(&mut key);
    let layout = Layout {
        raw_bytes: 1000 + random.below(20_000),
        sealed_raw: 500 + random.below(10_000),
        sealed_text: 200 + random.below(4000) as u32,
        sealed_structure: 200 + random.below(500) as u32,
        sealed_index: 0,
    };
    let received = Timestamp(1_600_000_000_000 + n as i64 * 300_000);
    let (object, key, thread) =
        (ObjectId(object), MessageKey::from_bytes(key), ThreadId::of_object(ObjectId(object)));
    Message { object, key, layout, received, origin: None, thread, links: Vec::new() }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn very_many_messages_are_usable_in_little_memory() {
    let memory = MemoryDivision { accounts: ACCOUNTS, work: 16 * 1024 * 1024, ..Default::default() };
    let store = Store::memory();
    let mut world = TestServer::over(store.clone(), Settings { memory, ..Settings::default() }, None).await;
    let account = world.account().await;
    let (mut client, mut other) = (world.login().await, world.login().await);
    client.ok("SELECT Archive").await;
    client.ok("UNSELECT").await;
    // The check of a password took more than what is in use now.
    forget_peak();
    let before = peak();

    let random = SeededRandom::new(5);
    let archive = account.state().mailbox_named("Archive").unwrap().id();
    for first in (0..MESSAGES).step_by(1000) {
        let messages: Vec<_> = (first..first + 1000).map(|n| message(&random, n)).collect();
        let events = |mailbox| {
            let event = |message: &Message| {
                let flags = Flags::default();
                Event::Appended { mailbox, message: message.clone(), flags }
            };
            messages.iter().map(event).collect()
        };
        account.commit(|_| Ok((events(archive), ()))).await.unwrap();
    }
    drop(account);

    let selected = client.ok("SELECT Archive").await;
    assert!(selected.contains(&format!("* {MESSAGES} EXISTS")), "{selected:?}");
    other.ok("ENABLE QRESYNC").await;
    let selected = other.ok("SELECT Archive").await;
    let validity = number(&selected, "[UIDVALIDITY ");
    other.ok("UNSELECT").await;
    let lines = client.ok("SEARCH RETURN (COUNT) SMALLER 100000").await;
    assert!(lines[0].ends_with(&format!("COUNT {MESSAGES}")), "{lines:?}");
    client.ok("STORE 1:* +FLAGS.SILENT (\\Seen)").await;
    client.send(b"x STORE 1:* +FLAGS (\\Flagged)\r\n").await;
    let mut told = 0;
    while client.line().await.contains(" FETCH (") {
        told += 1;
    }
    assert_eq!(told, MESSAGES);
    client.ok("SEARCH RETURN (SAVE) FLAGGED").await;
    let sorted = client.ok("SORT RETURN (COUNT) (REVERSE SIZE) UTF-8 ALL").await;
    assert!(sorted[0].ends_with(&format!("COUNT {MESSAGES}")), "{sorted:?}");
    client.ok("COPY $ Sent").await;
    client.ok("MOVE 1:* Trash").await;
    client.ok("SELECT Trash").await;
    client.ok("STORE 1:* +FLAGS.SILENT (\\Deleted)").await;
    client.ok("EXPUNGE").await;
    let missed = other.ok(&format!("SELECT Archive (QRESYNC ({validity} 1))")).await;
    assert!(missed.contains(&format!("* VANISHED (EARLIER) 1:{MESSAGES}")), "{missed:?}");
    let left = other.ok("STATUS Sent (MESSAGES UNSEEN)").await;
    assert_eq!(left[0], format!("* STATUS Sent (MESSAGES {MESSAGES} UNSEEN 0)"));

    // Every second message changes. A client that reads slowly gets all updates.
    let mut waiting = Vec::new();
    for _ in 0..SLOW {
        let mut client = world.login().await;
        client.ok("ENABLE QRESYNC").await;
        let selected = client.ok("SELECT Sent").await;
        waiting.push((client, number(&selected, "[UIDVALIDITY "), number(&selected, "[HIGHESTMODSEQ ")));
    }
    let second: Vec<String> = (1..=MESSAGES).step_by(2).map(|uid| uid.to_string()).collect();
    client.ok("SELECT Sent").await;
    client.ok(&format!("UID STORE {} +FLAGS.SILENT (\\Answered)", second.join(","))).await;
    for (n, (client, validity, known)) in waiting.iter_mut().enumerate() {
        let command = match n % 3 {
            0 => "NOOP".to_owned(),
            1 => format!("FETCH 1:* (FLAGS) (CHANGEDSINCE {known})"),
            _ => format!("SELECT Sent (QRESYNC ({validity} {known}))"),
        };
        client.send(format!("x {command}\r\n").as_bytes()).await;
        while !client.line().await.contains(" FETCH (") {}
    }
    for (client, ..) in waiting.iter_mut().take(3) {
        let lines = client.answer().await;
        let told = lines.iter().filter_map(|line| line.split_once(" FETCH (")).map(|(number, _)| number);
        let told: BTreeSet<&str> = told.collect();
        assert!((second.len() - 1..=second.len()).contains(&told.len()), "{}", told.len());
    }

    // The store is in memory, too: it is no part of what the server takes.
    let stored: u64 = store
        .list("", None)
        .map_ok(|listed| listed.size)
        .try_fold(0, async |sum, size| Ok(sum + size))
        .await
        .unwrap();
    let grown = (peak() - before).saturating_sub(stored as usize);
    assert!(grown < GROWTH, "{grown} bytes more than before, of {GROWTH}");
}
