//! `sealpost archive`, as far as it needs no server.

#[path = "support/run.rs"]
mod run;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use run::Home;

const TEXT: &str = "From a@example.org Mon Nov 16 09:05:07 2020\nSubject: one\n\ntext\n\n";

/// A directory as imap-backup leaves it: INBOX with two messages, Work/2024 with one.
fn imap_backup(home: &Home) {
    let entry = |uid: usize| {
        let (offset, length) = ((uid - 1) * TEXT.len(), TEXT.len());
        format!(r#"{{"uid":{uid},"offset":{offset},"length":{length},"flags":["Seen"]}}"#)
    };
    for (folder, count) in [("INBOX", 2), ("Work/2024", 1)] {
        let entries: Vec<String> = (1..=count).map(entry).collect();
        let json = format!(r#"{{"version":3,"uid_validity":7,"messages":[{}]}}"#, entries.join(","));
        home.file(&format!("copy/{folder}.imap"), json);
        home.file(&format!("copy/{folder}.mbox"), TEXT.repeat(count));
    }
}

/// All files below, but locks.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.file_name() != "sealpost.lock" {
            found.insert(entry.path().display().to_string(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[test]
fn stats_counts_what_another_program_left() {
    let home = Home::new();
    imap_backup(&home);
    let before = files(&home.path("copy"));
    let stats = ["archive", "stats", "--from", "copy", "--format", "mbox"];
    let (document, status) = home.json(&stats);
    assert_eq!(
        (status, &document["messages"], &document["pulled"]),
        (0, &3.into(), &false.into()),
        "{document}"
    );
    assert_eq!(document["folders"][1]["name"], "Work/2024");
    let text = home.ok(&stats);
    assert!(text.contains("not pulled yet; the files of another program have 3 messages"), "{text}");
    assert_eq!(files(&home.path("copy")), before);
    // What cannot be read is not counted.
    home.file("copy/INBOX.imap", r#"{"version":3,"uid_validity":7,"messages":["#);
    assert_eq!(home.json(&stats).0["messages"], 1);
}
