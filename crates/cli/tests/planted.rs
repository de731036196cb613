//! Objects that an attacker with write access plants in a local store: `check` reports them, also
//! without a password, and nothing waits for them.

#[path = "support/run.rs"]
mod run;

use run::{ACCOUNT, Home, mbox};
use rusqlite::Connection;
use serde_json::Value;

/// A home with three messages, an entry each.
fn home() -> Home {
    let home = Home::with_account();
    for n in 1..=3 {
        home.file(
            &format!("tree/m{n}.mbox"),
            format!("From a Thu Jan  1 01:00:00 2015\nSubject: {n}\n\nx\n"),
        );
    }
    assert_eq!(home.import("tree").1, 0);
    assert_eq!(home.check().1, 0);
    home
}

fn database(home: &Home) -> Connection {
    Connection::open(home.path("data/objects.sqlite")).unwrap()
}

fn entries(home: &Home) -> Vec<String> {
    let database = database(home);
    let mut query =
        database.prepare("SELECT path FROM objects WHERE path LIKE 'acct/%/log/%' ORDER BY path").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Plants noise below the folder of the account that has a log.
fn plant(home: &Home, name: &str) -> String {
    let entry = entries(home).remove(0);
    let path = format!("{}/{name}", entry.rsplit_once("/log/").unwrap().0);
    plant_all(home, std::slice::from_ref(&path));
    path
}

/// Plants noise at these paths.
fn plant_all(home: &Home, paths: &[String]) {
    let mut database = database(home);
    let transaction = database.transaction().unwrap();
    for path in paths {
        let sql = "INSERT INTO objects (path, size, modified, head) VALUES (?1, 5, 0, ?2)";
        transaction.execute(sql, (path, b"noise")).unwrap();
    }
    transaction.commit().unwrap();
}

fn head(home: &Home, path: &str) -> Vec<u8> {
    let query = "SELECT head FROM objects WHERE path = ?1";
    database(home).query_row(query, [path], |row| row.get(0)).unwrap()
}

fn remove(home: &Home, path: &str) {
    assert_eq!(database(home).execute("DELETE FROM objects WHERE path = ?1", [path]).unwrap(), 1);
}

fn named(report: &Value) -> Vec<String> {
    let problems = report["problems"].as_array().unwrap();
    let mut paths: Vec<_> = problems.iter().map(|found| found["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    paths
}

#[test]
fn noise_among_manifests_is_named_and_nothing_waits_for_it() {
    let home = home();
    let next = entries(&home).len() as u64 + 1;
    let before = home.export("mbox", "before").0;
    let mut planted: Vec<String> = [
        format!("manifest/{next:016x}"),
        format!("manifest/{:016x}", next + 1),
        "manifest/0000800000000001".to_owned(),
        format!("manifest/s{next:016x}-0000000000000001"),
        "manifest/k0000000000000001".to_owned(),
        "log/0000000000000000".to_owned(),
    ]
    .map(|name| plant(&home, &name))
    .into();
    planted.sort();
    // Also without the account's password.
    let (report, status) = home.json(&["check"]);
    assert_eq!((status, named(&report)), (1, planted.clone()), "{report}");
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    home.file("more.mbox", mbox(1, 100));
    assert_eq!(home.import("more.mbox").0["imported"], 1);
    assert!(server.logs_in("one and two"));
    drop(server);
    let (report, _) = home.check();
    assert_eq!(named(&report), planted, "{report}");
    assert_eq!(home.export("mbox", "after").1, 0, "{before}");
}

#[test]
fn a_planted_entry_before_others_is_reported_as_closing() {
    for noise in [false, true] {
        let home = home();
        let second = entries(&home).remove(1);
        let bytes = match noise {
            true => b"noise".to_vec(),
            false => {
                let mut bytes = head(&home, &second);
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            }
        };
        let sql = "UPDATE objects SET head = ?2, size = length(?2) WHERE path = ?1";
        assert_eq!(database(&home).execute(sql, (&second, bytes)).unwrap(), 1);
        for report in [home.json(&["check"]).0, home.check().0] {
            let found = report["problems"].as_array().unwrap().iter().find(|p| p["path"] == second.as_str());
            let what = found.unwrap()["problem"].as_str().unwrap();
            assert!(what.contains("the account is not opened"), "{what}");
            assert!(what.contains("sealpost account repair"), "{what}");
        }
        home.ok(&["account", "repair", ACCOUNT]);
        let (report, _) = home.json(&["check"]);
        assert!(!report["problems"].to_string().contains("is not opened"), "{report}");
        assert_eq!(home.export("mbox", "out").1, 0);
    }
}

#[test]
fn a_backup_does_not_restore_entries_omitted_by_a_repair() {
    let home = home();
    home.ok(&["backup", "data", "backup"]);
    let second = entries(&home).remove(1);
    remove(&home, &second);
    home.ok(&["account", "repair", ACCOUNT]);
    let (said, status) = home.json(&["backup", "backup", "data"]);
    assert_eq!((status, &said["repaired_without"]), (1, &serde_json::json!([second])), "{said}");
    assert_eq!(home.check().1, 0);
    assert_eq!(home.export("mbox", "out").1, 0);
    // What the repair counted, and what is lost since, it does.
    let third = entries(&home).remove(1);
    home.ok(&["backup", "data", "later"]);
    remove(&home, &third);
    home.ok(&["backup", "later", "data"]);
    assert_eq!(home.check().1, 0);
}

#[test]
fn replacing_the_server_key_vouches_for_the_log() {
    let home = home();
    let count = entries(&home).len();
    let (rotated, status) = home.json(&["server", "key", "rotate"]);
    assert_eq!((status, &rotated["vouched_for"]), (0, &count.into()), "{rotated}");
    assert_eq!(home.check().1, 0);
    home.file("more.mbox", mbox(1, 100));
    assert_eq!(home.import("more.mbox").0["imported"], 1);
    let count = entries(&home).len();
    let (rotated, _) = home.json(&["server", "key", "rotate"]);
    assert_eq!(rotated["vouched_for"], count, "{rotated}");
    assert_eq!(home.check().1, 0);
    let vouching: String = database(&home)
        .query_row("SELECT path FROM objects WHERE path LIKE 'acct/%/manifest/k%'", [], |row| row.get(0))
        .unwrap();
    remove(&home, &vouching);
    let (report, status) = home.json(&["check"]);
    assert_eq!(status, 1);
    assert!(report["problems"].to_string().contains("a retired server key"), "{report}");
}

/// More of each than the limits, and than earlier versions endured: mail continues, and an operator
/// can remove them.
#[test]
fn any_number_of_planted_marks_stops_neither_mail_nor_rotation() {
    let home = home();
    let entry = entries(&home).remove(0);
    let folder = format!("{}/manifest", entry.rsplit_once("/log/").unwrap().0);
    let next = entries(&home).len() as u64 + 1;
    let mut planted: Vec<String> = (0..200).map(|n| format!("{folder}/k{n:016x}")).collect();
    planted.extend((0..1100).map(|n| format!("{folder}/{:016x}", next + n)));
    planted.extend((0..1100).map(|n| format!("{folder}/s{next:016x}-{n:016x}")));
    planted.sort();
    plant_all(&home, &planted);
    home.file("more.mbox", mbox(1, 100));
    assert_eq!(home.import("more.mbox").0["imported"], 1);
    assert_eq!(home.json(&["server", "key", "rotate"]).1, 0);
    let (report, status) = home.json(&["check"]);
    assert_eq!(status, 1);
    let named = named(&report);
    // A rotation replaces all lists of what retired keys count for.
    planted.retain(|path| !path.contains("/k"));
    assert_eq!(named, planted);
    let (repaired, status) = home.json(&["account", "repair", ACCOUNT, "--remove-noise"]);
    assert_eq!((status, &repaired["removed_count"]), (0, &planted.len().into()), "{repaired}");
    assert_eq!(home.check().1, 0);
}

#[test]
fn planted_records_stop_neither_logins_nor_starts() {
    let home = home();
    let mut planted = vec![
        format!("accounts/{ACCOUNT}/0000000000000009"),
        format!("accounts/{ACCOUNT}/ffffffffffffffff"),
        "server/key/0000000000000009".to_owned(),
    ];
    planted.extend((0..70).map(|n| format!("accounts/a{n:03}@localhost/0000000000000001")));
    plant_all(&home, &planted);
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    drop(server);
    let (report, status) = home.json(&["check"]);
    assert_eq!(status, 1);
    assert!(planted.iter().all(|path| report.to_string().contains(path)), "{report}");
    home.ok(&["account", "suspend", ACCOUNT]);
    home.ok(&["account", "resume", ACCOUNT]);
    assert!(home.serve().logs_in("one and two"));
}

/// Without the mail key only names tell what is noise below `push/`.
#[test]
fn noise_among_push_subscriptions_is_named() {
    let home = home();
    let folder = "push/accounts/0123456789abcdef0123456789abcdef";
    let strange = "push/keys/ffffffffffffffff".to_owned();
    let mut planted =
        vec![format!("{folder}/ffffffffffffffff"), "push/key".to_owned(), "push/keys/01".to_owned()];
    plant_all(&home, &planted);
    plant_all(&home, std::slice::from_ref(&strange));
    let (report, status) = home.json(&["check"]);
    assert_eq!((status, named(&report)), (1, vec![strange.clone()]), "{report}");
    let random = sealpost_base::SeededRandom::new(1);
    sealpost_vault::mail_key::MailKeys::load_or_create(&home.path("data/mail.key"), &random).unwrap();
    planted.push(strange);
    let (report, status) = home.json(&["check"]);
    assert_eq!((status, named(&report)), (1, planted), "{report}");
}

/// The record of an account is there twice: its key survives the damage of one.
#[test]
fn one_damaged_object_of_a_record_costs_nothing() {
    let home = home();
    // What holds slots is in a file of its own.
    let query = "SELECT path, file FROM objects WHERE path LIKE 'accounts/%' ORDER BY path DESC LIMIT 1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let (newest, file) = database(&home).query_row(query, [], row).unwrap();
    let file = home.path("data/objects").join(file);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(home.serve().logs_in("one and two"));
    let (report, status) = home.json(&["check"]);
    assert_eq!((status, named(&report)), (1, vec![newest]));
    home.ok(&["account", "suspend", ACCOUNT]);
    home.ok(&["account", "resume", ACCOUNT]);
    assert_eq!(home.check().1, 0);
}

#[test]
fn a_repair_removes_noise_behind_the_end_of_a_log() {
    let home = home();
    let next = entries(&home).len() as u64 + 1;
    let folder = entries(&home).remove(0).rsplit_once('/').unwrap().0.to_owned();
    let planted: Vec<String> = (0..90).map(|n| format!("{folder}/{:016x}", next + n)).collect();
    plant_all(&home, &planted);
    home.file("more.mbox", mbox(1, 100));
    let import = ["import", "more.mbox", "--account", ACCOUNT, "--password-file", "password"];
    assert!(!home.run(&import).status.success(), "nothing is appended behind so many");
    let (repaired, status) = home.json(&["account", "repair", ACCOUNT, "--remove-noise"]);
    // As many as may be skipped stay: 63.
    assert_eq!((status, &repaired["removed_count"]), (0, &27.into()), "{repaired}");
    assert_eq!(home.import("more.mbox").0["imported"], 1);
}

#[test]
fn objects_too_large_for_their_paths_are_reported_only() {
    let home = home();
    let next = entries(&home).len() + 1;
    let account = entries(&home).remove(0).rsplit_once("/log/").unwrap().0.to_owned();
    let mut planted = vec![
        "server/key/ffffffffffffffff".to_owned(),
        format!("accounts/{ACCOUNT}/ffffffffffffffff"),
        format!("{account}/manifest/s{next:016x}-0000000000000001"),
    ];
    planted.sort();
    let sql = "INSERT INTO objects (path, size, modified, head) VALUES (?1, length(?2), 0, ?2)";
    for path in &planted {
        database(&home).execute(sql, (path, vec![0; 1024 * 1024 + 1])).unwrap();
    }
    let (report, status) = home.check();
    assert_eq!((status, named(&report)), (1, planted), "{report}");
    let server = home.serve();
    assert!(server.logs_in("one and two"));
    drop(server);
    home.ok(&["account", "repair", ACCOUNT, "--remove-noise"]);
    home.ok(&["server", "key", "rotate"]);
    assert_eq!(home.export("mbox", "after").1, 0);
}
