//! A repeated sort has the same result as a new one, and reads nothing for it.

use std::sync::Arc;

use object_store::memory::InMemory;
use sealpost_base::SeededRandom;
use sealpost_session::Settings;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::Store;

use crate::imap_world::{Client, TestServer};

/// Enough to be worth a segment.
const MESSAGES: usize = 300;
const CRITERIA: [&str; 10] = [
    "ARRIVAL",
    "CC",
    "DATE",
    "REVERSE FROM",
    "SIZE REVERSE TO",
    "SUBJECT",
    "REVERSE SUBJECT",
    "TO REVERSE DATE TO",
    "DISPLAYFROM",
    "REVERSE DISPLAYTO SUBJECT",
];

fn message(random: &SeededRandom) -> String {
    let word = || ["apple", "Re: apple", "pear", "Fig", "plum"][random.below(5) as usize];
    let (from, to, day) = (random.below(4), random.below(4), random.below(5) + 1);
    format!(
        "Date: {day} Mar 2020 10:00:00 +0000\r\nFrom: N{to} <f{from}@x>\r\nTo: t{to}@x\r\nCc: c{day}@x\r\n\
         Subject: {}\r\n\r\n{}\r\n",
        word(),
        word()
    )
}

async fn append(client: &mut Client, random: &SeededRandom) {
    let message = message(random);
    client.ok(&format!("APPEND INBOX {{{}+}}\r\n{message}", message.len())).await;
}

/// As usual, and in a way that no order is kept for: all messages are equally relevant.
async fn sort_twice(client: &mut Client, criteria: &str, key: &str) {
    let sorted = client.ok(&format!("UID SORT ({criteria}) UTF-8 {key}")).await;
    let anew = client.ok(&format!("UID SORT ({criteria} RELEVANCY) UTF-8 FUZZY ALL {key}")).await;
    let line = |lines: &[String]| lines.iter().find(|line| line.starts_with("* SORT")).cloned();
    assert!(line(&sorted).is_some());
    assert_eq!(line(&sorted), line(&anew), "{criteria} {key}");
}

#[tokio::test]
async fn cached_orders_equal_new_ones_while_messages_change() {
    for seed in 0..4 {
        let random = SeededRandom::new(seed);
        let mut world = TestServer::new(Settings::default()).await;
        let (mut client, mut other) = (world.login().await, world.login().await);
        for _ in 0..20 {
            append(&mut client, &random).await;
        }
        client.ok("SELECT INBOX").await;
        other.ok("SELECT INBOX").await;
        for _ in 0..150 {
            let uid = random.below(60) + 1;
            let changes = match random.below(8) {
                0 => {
                    append(&mut other, &random).await;
                    continue;
                }
                1 => format!("UID STORE {uid}:{} +FLAGS.SILENT (\\Deleted)", uid + 2),
                2 => "EXPUNGE".to_owned(),
                3 => format!("UID MOVE {uid} Archive"),
                4 => format!("UID COPY {uid} INBOX"),
                _ => "NOOP".to_owned(),
            };
            other.ok(&changes).await;
            let criteria = CRITERIA[random.below(CRITERIA.len() as u64) as usize];
            let key =
                ["ALL", "ALL", "UNDELETED", "DELETED", "UID 7:30", "SUBJECT pear"][random.below(6) as usize];
            // The mailbox is sorted as the client knows it, and the client gets the changes after
            // that.
            let first = ["NOOP".to_owned(), format!("UID SORT ({criteria}) UTF-8 ALL")];
            client.ok(&first[random.below(2) as usize]).await;
            sort_twice(&mut client, criteria, key).await;
        }
    }
}

#[tokio::test]
async fn a_repeated_sort_reads_nothing() {
    let faulty = Faulty::new(Arc::new(InMemory::new()), Plan { fail: 1000, ..Plan::default() }, 1);
    faulty.calm(true);
    let store = Store::over(Arc::new(faulty.clone()));
    let mut world = TestServer::over(store, Settings::default(), None).await;
    let random = SeededRandom::new(1);
    for _ in 0..MESSAGES {
        world.deliver(None, message(&random).as_bytes()).await;
    }
    let (mut client, mut other) = (world.login().await, world.login().await);
    client.ok("SELECT INBOX").await;
    other.ok("SELECT INBOX").await;
    let sorted = client.ok("SORT (SUBJECT) UTF-8 ALL").await;
    // A part that is not most of the mailbox leaves nothing.
    client.ok("SORT (CC) UTF-8 1:150").await;
    faulty.calm(false);
    assert_eq!(other.ok("SORT (SUBJECT REVERSE SUBJECT) UTF-8 ALL").await, sorted);
    assert_eq!(
        other.ok("SORT RETURN (COUNT) (SUBJECT) UTF-8 5:9").await[0].split("COUNT ").nth(1),
        Some("5")
    );
    for criteria in ["FROM", "REVERSE SUBJECT", "CC"] {
        let lines = other.command(&format!("SORT ({criteria}) UTF-8 1:150")).await;
        assert!(lines.last().unwrap().starts_with("x NO [UNAVAILABLE]"), "{criteria}: {lines:?}");
        let lines = other.command(&format!("SORT ({criteria}) UTF-8 ALL")).await;
        assert!(lines.last().unwrap().starts_with("x NO [UNAVAILABLE]"), "{criteria}: {lines:?}");
    }
    faulty.calm(true);
    // What could not be done has left nothing behind.
    for criteria in CRITERIA {
        sort_twice(&mut client, criteria, "ALL").await;
        sort_twice(&mut client, criteria, "ALL").await;
    }
}
