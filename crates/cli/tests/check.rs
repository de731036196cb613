//! `check` finds a problem, names the object, and continues.

#[path = "support/run.rs"]
mod run;

use std::path::Path;

use run::{ACCOUNT, Home, mbox};
use rusqlite::Connection;
use serde_json::Value;

/// A home with three small messages and a large one.
fn home() -> Home {
    let home = Home::with_account();
    home.file("small.mbox", mbox(3, 300));
    // Random enough to stay large when compressed.
    let mut n = 1u64;
    let noise: String = std::iter::repeat_with(|| {
        n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        format!("{n:016x}\n")
    })
    .take(20_000)
    .collect();
    home.file("large.eml", format!("Subject: large\n\n{noise}"));
    assert_eq!(home.import("small.mbox").1, 0);
    assert_eq!(home.import("large.eml").1, 0);
    assert_eq!(home.check().1, 0);
    home
}

fn database(home: &Home) -> Connection {
    Connection::open(home.path("data/objects.sqlite")).unwrap()
}

/// The path of the first object like `pattern`.
fn object(home: &Home, pattern: &str) -> String {
    let query = "SELECT path FROM objects WHERE path LIKE ?1 AND (file IS NULL OR path LIKE 'accounts/%')
                 ORDER BY path LIMIT 1";
    database(home).query_row(query, [pattern], |row| row.get(0)).unwrap()
}

/// Flips one bit of an object in the database, or of the file that a record is in.
fn flip(home: &Home, path: &str) {
    let database = database(home);
    let query = "SELECT file, head FROM objects WHERE path = ?1";
    let (file, head): (Option<String>, Option<Vec<u8>>) =
        database.query_row(query, [path], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    if let Some(file) = file {
        let file = home.path("data/objects").join(file);
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[40] ^= 4;
        return std::fs::write(&file, bytes).unwrap();
    }
    let mut head = head.unwrap();
    // In a message, the last of its bytes before the footer.
    let at = head.len().saturating_sub(40);
    head[at] ^= 4;
    assert_eq!(database.execute("UPDATE objects SET head = ?2 WHERE path = ?1", (path, head)).unwrap(), 1);
}

fn remove(home: &Home, path: &str) {
    assert_eq!(database(home).execute("DELETE FROM objects WHERE path = ?1", [path]).unwrap(), 1);
}

/// The only problem that is found.
fn problem(home: &Home) -> Value {
    let (report, status) = home.check();
    assert_eq!((status, &report["ok"], &report["problem_count"]), (1, &false.into(), &1.into()), "{report}");
    report["problems"][0].clone()
}

#[test]
fn all_is_well() {
    let home = home();
    let (report, status) = home.check();
    assert_eq!(
        (status, &report["ok"], &report["checked"]["messages"]),
        (0, &true.into(), &4.into()),
        "{report}"
    );
    let (sealed, status) = home.json(&["check"]);
    assert_eq!((status, &sealed["without_key"][0]), (0, &ACCOUNT.into()), "{sealed}");
    assert_eq!(
        (&sealed["checked"]["messages"], &sealed["checked"]["sealed_objects"]),
        (&0.into(), &4.into())
    );
    assert!(home.ok(&["check", "--password-file", "password"]).contains("no damage found"));
}

#[test]
fn a_flipped_bit_of_a_message() {
    let home = home();
    let path = object(&home, "acct/%/msg/%");
    flip(&home, &path);
    let problem = problem(&home);
    assert_eq!((&problem["path"], &problem["account"]), (&path.as_str().into(), &ACCOUNT.into()));
    assert!(problem["seen_as"][0].as_str().unwrap().starts_with("small UID "), "{problem}");
    // The rest is exported.
    let (exported, status) = home.export("mbox", "out");
    assert_eq!((&exported["exported"], &exported["failed"], status), (&3.into(), &1.into(), 1), "{exported}");
    let written = std::fs::read_to_string(home.path("out/small.mbox")).unwrap();
    assert_eq!(written.matches("\nSubject: ").count(), 2);
    // And importing the archive again brings back what is damaged.
    assert_eq!(home.import("small.mbox").0["imported"], 1);
}

#[test]
fn index_segments_are_looked_at() {
    let home = home();
    let message = object(&home, "acct/%/msg/%");
    let account = message.split('/').nth(1).unwrap();
    let path = format!("acct/{account}/idx/summary/00000000-00000001-00000002");
    let copy = "INSERT INTO objects (path, size, modified, head, rest) \
                SELECT ?1, size, modified, head, rest FROM objects WHERE path = ?2";
    assert_eq!(database(&home).execute(copy, (&path, &message)).unwrap(), 1);
    let problem = problem(&home);
    assert_eq!(problem["path"], path.as_str());
    assert!(problem["problem"].as_str().unwrap().contains("made again"), "{problem}");
    // It is found without a key too.
    let (sealed, status) = home.json(&["check"]);
    assert_eq!((status, &sealed["problems"][0]["path"]), (1, &path.as_str().into()), "{sealed}");
    assert_eq!(home.json(&["stats"]).0["kinds"]["index"]["objects"], 1);
}

#[test]
fn a_file_that_is_gone_or_cut_short() {
    let home = home();
    let name: String = database(&home)
        .query_row("SELECT file FROM objects WHERE file IS NOT NULL AND path LIKE 'acct/%'", [], |row| {
            row.get(0)
        })
        .unwrap();
    let file = home.path("data/objects").join(&name);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    assert!(problem(&home)["problem"].as_str().unwrap().contains("damaged"));
    std::fs::remove_file(&file).unwrap();
    let gone = problem(&home);
    assert!(gone["problem"].as_str().unwrap().contains(&name), "it names the file: {gone}");
    assert_eq!(gone["seen_as"][0], "INBOX UID 1");
    // This is found without the key, too.
    let (sealed, status) = home.json(&["check"]);
    assert_eq!((status, &sealed["problem_count"]), (1, &1.into()), "{sealed}");
}

#[test]
fn a_message_that_is_gone() {
    let home = home();
    let path = object(&home, "acct/%/msg/%");
    remove(&home, &path);
    let problem = problem(&home);
    assert_eq!(problem["path"], path);
    assert!(problem["problem"].as_str().unwrap().contains("missing"));
}

#[test]
fn a_record_that_was_changed() {
    let home = home();
    let path = object(&home, "accounts/%");
    flip(&home, &path);
    let (report, status) = home.check();
    assert_eq!((status, &report["problems"][0]["path"]), (1, &path.into()), "{report}");
}

#[test]
fn mail_that_no_record_names() {
    let home = home();
    let account = object(&home, "acct/%/log/%").split('/').take(2).collect::<Vec<_>>().join("/");
    home.ok(&["backup", "data", "backup"]);
    let records = "DELETE FROM objects WHERE path LIKE 'accounts/%' RETURNING file";
    let files: Vec<String> = {
        let database = database(&home);
        let mut delete = database.prepare(records).unwrap();
        delete.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    // Each version is there twice.
    assert_eq!(files.len(), 2);
    files.iter().for_each(|file| std::fs::remove_file(home.path("data/objects").join(file)).unwrap());
    let (report, status) = home.json(&["check"]);
    assert_eq!((status, &report["problems"][0]["path"]), (1, &account.into()), "{report}");
    // As it says, a backup brings the record back.
    let said = home.run(&["check"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("sealpost backup BACKUP STORE"), "{said:?}");
    home.ok(&["backup", "backup", "data"]);
    assert_eq!(home.check().1, 0);
}

#[test]
fn a_damaged_file_is_reported_and_restored_from_a_backup() {
    let home = home();
    home.ok(&["backup", "data", "backup"]);
    let name: String = database(&home)
        .query_row("SELECT file FROM objects WHERE file IS NOT NULL AND path LIKE 'acct/%'", [], |row| {
            row.get(0)
        })
        .unwrap();
    let file = home.path("data/objects").join(&name);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let problem = problem(&home);
    assert!(problem["problem"].as_str().unwrap().ends_with(&format!("data/objects/{name}")), "{problem}");
    std::fs::remove_file(&file).unwrap();
    home.ok(&["backup", "backup", "data"]);
    assert_eq!(home.check().1, 0);
}

#[test]
fn log_entries_that_were_changed_or_removed() {
    let home = home();
    let entries: Vec<String> = (1..=3).map(|n| object(&home, &format!("acct/%/log/%{n}"))).collect();
    flip(&home, &entries[1]);
    let (report, status) = home.check();
    assert_eq!((status, &report["problems"][0]["path"]), (1, &entries[1].as_str().into()), "{report}");
    // The chain shows it without the key.
    assert_eq!(home.status(&["check"]), 1);
    remove(&home, &entries[1]);
    let (report, _) = home.check();
    let what = report["problems"][0]["problem"].as_str().unwrap();
    assert!(what.contains("log entry 2 is missing"), "{report}");
    assert_eq!(home.status(&["check"]), 1);
}

/// Puts something that is no entry at a position of the only log.
fn plant(home: &Home, position: u64, like: Option<&str>) -> String {
    let entry = object(home, "acct/%/log/%");
    let path = format!("{}/{position:016x}", entry.rsplit_once('/').unwrap().0);
    match like {
        None => database(home).execute(
            "INSERT INTO objects (path, size, modified, head) VALUES (?1, 5, 0, ?2)",
            (&path, b"noise"),
        ),
        Some(like) => database(home).execute(
            "INSERT INTO objects (path, size, modified, file, head, rest)
             SELECT ?1, size, modified, file, head, rest FROM objects WHERE path = ?2",
            (&path, like),
        ),
    }
    .unwrap();
    path
}

#[test]
fn noise_in_a_log_is_reported_and_blocks_nothing() {
    let home = home();
    let first = object(&home, "acct/%/log/%");
    let entries: u64 = home.check().0["checked"]["log_entries"].as_u64().unwrap();
    let next = plant(&home, entries + 1, None);
    assert_eq!(problem(&home)["path"], next.as_str());
    assert!(problem(&home)["problem"].as_str().unwrap().contains("the log continues after it"));
    let far = [plant(&home, 0x8000_0000_0001, None), plant(&home, 1 << 30, Some(&first))];
    let (report, status) = home.check();
    assert_eq!((status, &report["problem_count"]), (1, &3.into()), "{report}");
    for path in far {
        let found =
            report["problems"].as_array().unwrap().iter().find(|found| found["path"] == path.as_str());
        assert!(found.unwrap()["problem"].as_str().unwrap().contains("far beyond the end"), "{report}");
    }
    // It is found without the key, and everything continues.
    assert_eq!(home.json(&["check"]).0["problem_count"], 3);
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    home.file("more.mbox", "From a Thu Jan  1 01:00:00 2015\nSubject: more\n\nx\n");
    assert_eq!(home.import("more.mbox").0["imported"], 1);
    assert!(server.logs_in("one and two"));
    drop(server);
    let (report, _) = home.check();
    assert_eq!(
        (&report["checked"]["messages"], &report["problem_count"]),
        (&5.into(), &3.into()),
        "{report}"
    );
}

#[test]
fn a_command_repairs_an_account_with_a_lost_entry() {
    let home = home();
    let entry = object(&home, "acct/%/log/%2");
    let (said, status) = home.json(&["account", "repair", ACCOUNT]);
    assert_eq!((status, said["logs"].as_array().map(Vec::len)), (0, Some(0)), "{said}");
    remove(&home, &entry);
    let refused =
        ["export", "--account", ACCOUNT, "--format", "mbox", "--password-file", "password", "refused"];
    assert_ne!(home.status(&refused), 0, "the account is not opened");
    let (said, status) = home.json(&["account", "repair", ACCOUNT]);
    assert_eq!((status, said["logs"].as_array().map(Vec::len)), (0, Some(1)), "{said}");
    assert_eq!(home.check().1, 0);
    assert_eq!(home.export("mbox", "out").1, 0);
}

#[test]
fn checkpoints_are_held_against_the_log() {
    let home = Home::with_account();
    // A mailbox and a message each: enough entries for two checkpoints.
    for i in 0..320 {
        let message = format!("From a Thu Jan  1 01:00:00 2015\nSubject: {i}\n\nx\n");
        home.file(&format!("tree/m{i:03}.mbox"), message);
    }
    assert_eq!(home.import("tree").1, 0);
    let (report, status) = home.check();
    assert_eq!(status, 0, "{report}");
    assert!(report["checked"]["checkpoints"].as_u64().unwrap() >= 1, "{report}");
    let (stats, _) = home.json(&["stats"]);
    assert_eq!(stats["per_account"][0]["checkpoints"], report["checked"]["checkpoints"], "{stats}");
    // As it is behind the older of two checkpoints, or from the first entry on.
    let entry: String = database(&home)
        .query_row(
            "SELECT path FROM objects WHERE path LIKE 'acct/%/log/%' ORDER BY path LIMIT 1 OFFSET 1",
            [],
            |r| r.get(0),
        )
        .unwrap();
    let rename = |from: &str, to: &str| {
        database(&home).execute("UPDATE objects SET path = ?2 WHERE path = ?1", (from, to)).unwrap();
    };
    rename(&entry, "acct/away");
    let (report, status) = home.check();
    assert_eq!(status, 1);
    assert!(report["problems"].to_string().contains("is missing, but a checkpoint covers"), "{report}");
    rename("acct/away", &entry);
    let chunk = object(&home, "acct/%/snap/%");
    flip(&home, &chunk);
    let found = problem(&home);
    assert_eq!(found["path"], chunk);
    remove(&home, &chunk);
    assert_eq!(problem(&home)["path"], chunk);
}

#[test]
fn it_works_while_the_server_runs() {
    let home = home();
    let server = home.serve();
    assert_eq!(home.check().1, 0);
    assert!(server.logs_in("one and two"));
    assert_eq!(home.import("small.mbox").0["present"], 3);
    assert_eq!(home.check().1, 0);
}

#[test]
fn objects_that_nothing_refers_to_are_no_damage() {
    let home = home();
    let path = object(&home, "acct/%/msg/%");
    let twin = Path::new(&path).with_file_name("f".repeat(32)).display().to_string();
    let copy = "INSERT INTO objects (path, size, modified, file, head, rest)
                SELECT ?2, size, modified, file, head, rest FROM objects WHERE path = ?1";
    database(&home).execute(copy, (&path, &twin)).unwrap();
    let (report, status) = home.check();
    assert_eq!((status, &report["checked"]["orphans"]), (0, &1.into()), "{report}");
}

#[test]
fn a_password_that_is_wrong() {
    let home = home();
    home.file("wrong", "no");
    assert_eq!(home.status(&["check", "--account", ACCOUNT, "--password-file", "wrong"]), 4);
    // Tried on all accounts, it opens none, and the command reports that.
    let (report, status) = home.json(&["check", "--password-file", "wrong"]);
    assert_eq!((status, &report["without_key"][0]), (0, &ACCOUNT.into()));
}

/// A password change that was killed after its first write: the version with the old slot is still there.
#[test]
fn a_half_withdrawn_password_is_named() {
    let home = Home::with_account();
    home.file("new", "three and four");
    let record = object(&home, "accounts/%");
    let query = "SELECT size, modified, file FROM objects WHERE path = ?1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (size, modified, file): (i64, i64, String) =
        database(&home).query_row(query, [&record], row).unwrap();
    let bytes = std::fs::read(home.path("data/objects").join(&file)).unwrap();
    home.ok(&[
        "account",
        "passwd",
        run::ACCOUNT,
        "--password-file",
        "password",
        "--new-password-file",
        "new",
    ]);
    home.ok(&["check"]);
    let again = "ff/half-withdrawn.slots";
    home.file(&format!("data/objects/{again}"), bytes);
    let insert = "INSERT INTO objects (path, size, modified, file) VALUES (?1, ?2, ?3, ?4)";
    database(&home).execute(insert, (&record, size, modified, again)).unwrap();
    let problem = problem_of(&home, &["check"]);
    assert_eq!(problem["path"], record.as_str());
    assert_eq!(
        problem["problem"],
        "it holds a password or app password that was withdrawn, because that change was interrupted: start the server, which \
         removes it, or repeat the change"
    );
    home.file("password", "three and four");
    let server = home.serve();
    let is_erased = goes(&home, &home.path("data/objects").join(again));
    server.stop();
    assert!(is_erased);
    home.ok(&["check"]);
}

/// The same, killed after the row was removed: a file that no row names.
#[test]
fn a_removed_records_file_is_reported_until_erased() {
    let home = Home::with_account();
    let left = home.file("data/objects/ff/left.slots", "a record with slots");
    let second = home.path("second-name");
    std::fs::hard_link(&left, &second).unwrap();
    let problem = problem_of(&home, &["check"]);
    assert_eq!(problem["path"], "objects/ff/left.slots");
    assert_eq!(
        problem["problem"],
        "a file of an account record that was removed: it may hold a password or app password that was withdrawn, because a \
         process was killed before it had erased it: start the server, which erases it"
    );
    let server = home.serve();
    let is_erased = goes(&home, &left);
    server.stop();
    assert!(is_erased && std::fs::read(second).unwrap().iter().all(|byte| *byte == 0));
    home.ok(&["check"]);
}

/// Whether a server that has just started removes the file, while a command runs a thousand times.
fn goes(home: &Home, file: &Path) -> bool {
    (0..1000).any(|_| {
        home.ok(&["account", "list"]);
        !file.exists()
    })
}

/// The only problem that this command finds.
fn problem_of(home: &Home, command: &[&str]) -> Value {
    let (report, status) = home.json(command);
    assert_eq!((status, &report["problem_count"]), (1, &1.into()), "{report}");
    report["problems"][0].clone()
}
