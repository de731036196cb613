//! Shared mailboxes from the command line: exported, checked and counted.

#[path = "support/run.rs"]
mod run;

use run::{ACCOUNT, Home, mbox, tree};

/// A home with three messages in `Archive`, which is shared with another account.
fn home() -> Home {
    let home = Home::with_account();
    home.ok(&["account", "add", "bob@example.org", "--password-file", "password"]);
    home.file("small.mbox", mbox(3, 300));
    assert_eq!(home.import("small.mbox").1, 0);
    let server = home.serve();
    server.commands(&[
        "SELECT small",
        "COPY 1:* Archive",
        "UNSELECT",
        "SETACL Archive bob@example.org lr",
        "STATUS Archive (MESSAGES)",
    ]);
    home
}

#[test]
fn they_are_exported_checked_and_counted() {
    let home = home();
    let (exported, status) = home.export("maildir", "out");
    assert_eq!((status, exported["exported"].as_u64()), (0, Some(6)), "{exported}");
    // For users with whom it is shared too.
    let as_bob =
        ["export", "--account", "bob@example.org", "--format", "maildir", "--password-file", "password"];
    let (exported, status) = home.json(&[&as_bob[..], &["bob"]].concat());
    assert_eq!((status, exported["exported"].as_u64()), (0, Some(3)), "{exported}");
    assert!(tree(&home.path("bob")).iter().any(|(path, _)| path.to_string_lossy().contains("Other Users")));

    let (report, status) = home.check();
    assert_eq!(
        (status, &report["ok"], report["checked"]["shares"].as_u64()),
        (0, &true.into(), Some(1)),
        "{report}"
    );
    assert_eq!(
        (report["checked"]["unlocked"].as_u64(), report["checked"]["unclaimed"].as_u64()),
        (Some(2), Some(0))
    );
    // Three in the inbox, three that are still kept where they were, three in the share.
    assert!(report["checked"]["messages"].as_u64() >= Some(6), "{report}");
    // Without a key the report names the unchecked parts.
    let (report, _) = home.json(&["check"]);
    let without = report["without_key"].as_array().unwrap();
    assert!(without.iter().any(|name| name.as_str().unwrap().contains("shared mailbox")), "{report}");

    let (stats, _) = home.json(&["stats", "--account", ACCOUNT, "--password-file", "password"]);
    let jane = stats["per_account"].as_array().unwrap().iter().find(|a| a["account"] == ACCOUNT).unwrap();
    let archive = jane["mailboxes"].as_array().unwrap().iter().find(|m| m["name"] == "Archive").unwrap();
    assert_eq!(archive["messages"], 3, "{stats}");

    // Import does not put messages into a mailbox that no client shows.
    let into = home.run(&[
        "import",
        "small.mbox",
        "--account",
        ACCOUNT,
        "--password-file",
        "password",
        "--mailbox",
        "Archive",
    ]);
    assert!(String::from_utf8_lossy(&into.stderr).contains("is shared"), "{into:?}");
}

#[test]
fn shares_get_new_keys_with_the_account_or_without_readers() {
    let home = home();
    let server = home.serve();
    let rekey = |account: &str| {
        let (done, status) = home.json(&["account", "rekey", account, "--password-file", "password"]);
        assert_eq!(status, 0, "{done}");
        (done["mailboxes"].clone(), done["mailboxes_due"].clone())
    };
    let checked = || {
        let (report, status) = home.check();
        assert_eq!((status, &report["ok"]), (0, &true.into()), "{report}");
    };
    // The owner's: a session that is open meanwhile logs in again.
    assert_eq!(rekey(ACCOUNT), (serde_json::json!(["Archive"]), serde_json::json!([])));
    checked();
    server.commands(&["SELECT Archive", "FETCH 1 BODY[]", "STORE 1 +FLAGS (\\Flagged)"]);
    // The reader's: the owner does it.
    let theirs = format!("Other Users/{ACCOUNT}/Archive");
    assert_eq!(rekey("bob@example.org"), (serde_json::json!([]), serde_json::json!([theirs])));
    server.commands(&["SELECT Archive", "FETCH 2 BODY[]"]);
    checked();
    let as_bob =
        ["export", "--account", "bob@example.org", "--format", "mbox", "--password-file", "password"];
    let (exported, status) = home.json(&[&as_bob[..], &["bob.mbox"]].concat());
    assert_eq!((status, exported["exported"].as_u64()), (0, Some(3)), "{exported}");
    server.commands(&["SETACL Archive bob@example.org \"\"", "SELECT small", "COPY 1 Archive"]);
    let (exported, status) = home.json(&[&as_bob[..], &["none.mbox"]].concat());
    assert_eq!((status, exported["exported"].as_u64()), (0, Some(0)), "{exported}");
    server.stop();
    checked();
    // What is deleted comes back, whatever its key.
    let server = home.serve();
    server.commands(&["DELETE Archive", "LIST \"\" *"]);
    server.stop();
    let undelete =
        ["account", "undelete", ACCOUNT, "--messages", "--since", "1h", "--password-file", "password"];
    assert_eq!(home.status(&undelete), 0);
    checked();
}
