//! `store probe` and `store copy`, between local stores.

#[path = "support/run.rs"]
mod run;

use run::{Home, mbox};

#[test]
fn a_probe_says_what_the_local_store_does() {
    let home = Home::with_account();
    let (found, status) = home.json(&["store", "probe"]);
    assert_eq!(status, 0);
    assert_eq!((&found["conditional_create"], &found["appends"]), (&"kept".into(), &"conditional".into()));
    assert!(home.ok(&["store", "probe"]).contains("conditional create  works"));
    assert_eq!(home.status(&["store", "probe", "ftp://x"]), 2);
    assert_eq!(home.status(&["store", "probe", "s3://no"]), 2);
}

#[test]
fn a_copy_is_the_store_and_another_one_only_what_is_new() {
    let home = Home::with_account();
    home.file("first.mbox", mbox(30, 300));
    home.file("second.mbox", mbox(35, 400));
    home.file("large.eml", format!("Subject: large\n\n{}", "a line that compresses well\n".repeat(400_000)));
    assert_eq!(home.import("first.mbox").1, 0);
    // While a server has it open.
    let server = home.serve();
    let (copied, status) = home.json(&["store", "copy", "data", "backup"]);
    assert_eq!(status, 0, "{copied}");
    assert!(copied["copied"].as_u64().unwrap() > 30 && copied["already"] == 0, "{copied}");
    let (again, _) = home.json(&["store", "copy", "data", "backup"]);
    assert_eq!((&again["copied"], &again["already"]), (&0.into(), &copied["copied"]));
    assert_eq!(home.import("second.mbox").1, 0);
    assert_eq!(home.import("large.eml").1, 0);
    let (more, _) = home.json(&["store", "copy", "data", "backup"]);
    assert!(more["copied"].as_u64().unwrap() >= 6, "{more}");
    drop(server);
    std::fs::copy(home.path("data/server.key"), home.path("backup/server.key")).unwrap();
    let whole = ["check", "--password-file", "password", "--json", "--dir"];
    let checked = |dir: &str| {
        let output = home.run(&[&whole[..], &[dir]].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap()).unwrap()
    };
    let (original, backup) = (checked("data"), checked("backup"));
    assert_eq!(original["checked"], backup["checked"]);
    assert!(backup["checked"]["messages"].as_u64().unwrap() > 30, "{backup}");
    // One account alone is all there is here.
    let (one, _) = home.json(&["store", "copy", "data", "one", "--account", "jane@example.org"]);
    assert_eq!(one["copied"], home.json(&["store", "copy", "data", "all"]).0["copied"]);
    assert_eq!(home.status(&["store", "copy", "data", "one", "--account", "nobody@example.org"]), 3);
}

#[test]
fn what_is_not_there_is_not_copied_and_nothing_is_made() {
    let home = Home::with_account();
    home.file("file", "no directory");
    assert_eq!(home.status(&["store", "copy", "nowhere", "new"]), 3);
    std::fs::create_dir(home.path("empty")).unwrap();
    assert_eq!(home.status(&["store", "copy", "empty", "new"]), 3);
    assert_eq!(home.status(&["store", "copy", "data", "file"]), 2);
    assert_eq!(home.status(&["store", "copy", "file", "new"]), 2);
    assert!(!home.path("nowhere").exists() && !home.path("new").exists());
    assert_eq!(std::fs::read_dir(home.path("empty")).unwrap().count(), 0);
}

#[test]
fn damage_of_the_same_size_is_found_when_asked_for() {
    let home = Home::with_account();
    // What does not compress is a file of its own, and is compared in pieces.
    let letters = (0u64..8_000_000).map(|n| {
        let mixed = (n ^ 0x9e37_79b9).wrapping_mul(0xff51_afd7_ed55_8ccd);
        char::from(b'0' + ((mixed ^ (mixed >> 29)).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 58) as u8)
    });
    let lines: Vec<String> =
        letters.collect::<Vec<char>>().chunks(70).map(|line| line.iter().collect()).collect();
    home.file("large.eml", format!("Subject: large\n\n{}\n", lines.join("\n")));
    assert_eq!(home.import("large.eml").1, 0);
    assert_eq!(home.json(&["store", "copy", "data", "backup"]).1, 0);
    let (verified, status) = home.json(&["store", "copy", "data", "backup", "--verify"]);
    assert_eq!((status, &verified["copied"]), (0, &0.into()), "{verified}");
    let mut files = vec![home.path("backup/objects")];
    let mut damaged = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    assert!(damaged > 0);
    let (found, status) = home.json(&["store", "copy", "data", "backup", "--verify"]);
    assert_eq!((status, found["differing"].as_array().unwrap().len()), (1, damaged), "{found}");
}

#[test]
fn what_is_another_stores_is_named_and_stays() {
    let (home, other) = (Home::with_account(), Home::with_account());
    let to = other.path("data").display().to_string();
    let (summary, status) = home.json(&["store", "copy", "data", &to]);
    assert_eq!(status, 1, "{summary}");
    let differing = summary["differing"].as_array().unwrap();
    assert!(differing.iter().any(|path| path.as_str().unwrap().starts_with("accounts/jane@example.org/")));
    assert_eq!(other.check().1, 0);
}
