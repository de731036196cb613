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
fn what_is_another_stores_is_named_and_stays() {
    let (home, other) = (Home::with_account(), Home::with_account());
    let to = other.path("data").display().to_string();
    let (summary, status) = home.json(&["store", "copy", "data", &to]);
    assert_eq!(status, 1, "{summary}");
    let differing = summary["differing"].as_array().unwrap();
    assert!(differing.iter().any(|path| path.as_str().unwrap().starts_with("accounts/jane@example.org/")));
    assert_eq!(other.check().1, 0);
}
