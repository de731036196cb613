//! A damaged database: `check` reports it, a server reads from it and writes nothing, and `store
//! repair` repairs it. Also the operator's remedies for a full disk and a wrong clock.

#[path = "support/run.rs"]
mod run;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;

use run::{ACCOUNT, Home, mbox};

/// A home with so many messages, all of it in the database.
fn home(messages: usize) -> Home {
    let home = Home::with_account();
    // One entry of the log each.
    for n in 0..messages {
        home.file(&format!("{n}.eml"), format!("Subject: message {n}\n\ntext {n}\n"));
        assert_eq!(home.import(&format!("{n}.eml")).1, 0);
    }
    let connection = rusqlite::Connection::open(home.path("data/objects.sqlite")).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)).unwrap();
    home
}

/// Flips one bit of a log entry's path in the index of paths, wherever a page has it.
fn hide(home: &Home, position: u64) {
    let database = home.path("data/objects.sqlite");
    let bytes = std::fs::read(&database).unwrap();
    let end = format!("/log/{position:016x}");
    let file = std::fs::OpenOptions::new().write(true).open(&database).unwrap();
    let mut hidden = 0;
    for at in 0..bytes.len() - end.len() {
        if !bytes[at..].starts_with(end.as_bytes()) {
            continue;
        }
        let start = at - "acct/".len() - 32;
        // In the index the byte before the path is the type of a small number.
        if bytes[start..].starts_with(b"acct/") && (1..10).contains(&bytes[start - 1]) {
            file.write_all_at(&[bytes[start] ^ 8], start as u64).unwrap();
            hidden += 1;
        }
    }
    assert!(hidden > 0);
}

/// The replies of LMTP to a delivery.
fn deliver(port: u64) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    let envelope = format!("LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{ACCOUNT}>\r\n");
    write!(stream, "{envelope}DATA\r\nSubject: new\r\n\r\ntext\r\n.\r\nQUIT\r\n").unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

#[test]
fn a_flipped_index_bit_is_repaired_without_loss() {
    let home = home(12);
    hide(&home, 5);
    let (report, status) = home.check();
    assert_eq!((status, &report["needs_repair"]), (1, &true.into()), "{report}");
    let named = report["problems"].as_array().unwrap().iter().any(|problem| {
        problem["path"] == "objects.sqlite" && problem["problem"].as_str().unwrap().contains("index")
    });
    assert!(named, "{report}");

    let (copied, status) = home.json(&["backup", "data", "backup"]);
    assert!(status == 1 && !copied["damage"].as_array().unwrap().is_empty(), "a backup lacks it: {copied}");

    let server = home.serve();
    assert!(server.logs_in("one and two"), "is now read-only");
    let replies = deliver(server.port("lmtp"));
    assert!(!replies.contains("250 2.6.0") && replies.contains("\n45"), "nothing is acknowledged: {replies}");
    let busy = home.run(&["store", "repair"]);
    assert_eq!(busy.status.code(), Some(75), "{busy:?}");
    drop(server);

    let (repaired, status) = home.json(&["store", "repair"]);
    assert_eq!((status, &repaired["remedy"], &repaired["lost_count"]), (0, &"reindexed".into(), &0.into()));
    let (report, status) = home.check();
    assert_eq!((status, &report["checked"]["messages"]), (0, &12.into()), "{report}");
    let server = home.serve();
    assert!(deliver(server.port("lmtp")).contains("250 2.6.0"));
    drop(server);
    assert_eq!(home.json(&["store", "repair"]).0["remedy"], "none");
}

#[test]
fn only_a_local_store_that_is_there_is_repaired() {
    let home = Home::new();
    assert_eq!(home.status(&["store", "repair", "nowhere"]), 3);
    assert!(!home.path("nowhere").exists());
    home.file("bucket.toml", "[store]\nurl = \"s3://bucket\"\n");
    assert_eq!(home.status(&["store", "repair", "--config", "bucket.toml"]), 2);
}

#[test]
fn a_removed_account_is_purged_at_once_on_request() {
    let home = Home::with_account();
    home.file("mail.mbox", mbox(3, 300));
    assert_eq!(home.import("mail.mbox").1, 0);
    assert_eq!(home.status(&["account", "purge", ACCOUNT]), 2, "not without --now");
    assert_ne!(home.status(&["account", "purge", ACCOUNT, "--now"]), 0, "it was not removed");
    assert_eq!(home.check().0["checked"]["messages"], 3);
    home.ok(&["account", "remove", ACCOUNT]);
    let (purged, status) = home.json(&["account", "purge", ACCOUNT, "--now"]);
    assert_eq!((status, &purged["done"]), (0, &"purged".into()));
    assert!(purged["objects"].as_u64().unwrap() > 3);
    assert_ne!(home.status(&["account", "undelete", ACCOUNT]), 0);
    let (report, status) = home.check();
    assert_eq!((status, &report["checked"]["unclaimed"]), (0, &0.into()), "{report}");
    home.ok(&["account", "add", ACCOUNT, "--password-file", "password"]);
}

#[test]
fn a_command_confirms_the_clock_of_a_servers_data_directory() {
    let home = Home::with_account();
    let (confirmed, status) = home.json(&["store", "confirm-clock"]);
    assert_eq!((status, &confirmed["noted"]), (0, &serde_json::Value::Null));
    assert_eq!(std::fs::read_to_string(home.path("data/clock")).unwrap().len(), 16);
    assert!(home.json(&["store", "confirm-clock"]).0["noted"].is_string());
}
