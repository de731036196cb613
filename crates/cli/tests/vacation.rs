//! `sealpost account vacation`, through the binary: the text, the dates, and what other commands say.

#[path = "support/run.rs"]
mod run;

use std::process::Command;

use run::{ACCOUNT, Home};
use serde_json::{Value, json};

/// The command line: an action, the account, options of the action.
fn of_account<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let (action, options) = args.split_first().unwrap();
    [&["account", "vacation", action, ACCOUNT], options].concat()
}

fn vacation(home: &Home, args: &[&str]) -> (Value, i32) {
    home.json(&of_account(args))
}

#[test]
fn a_response_is_set_shown_and_switched_off() {
    let home = Home::with_account();
    let empty = json!({
        "account": ACCOUNT, "enabled": false, "from": null, "to": null, "subject": null, "text": null, "html": null
    });
    assert_eq!(vacation(&home, &["show"]), (empty, 0));
    let html = home.file("away.html", "<p>Away</p>");
    let set = ["set", "--text", "Back soon.", "--from", "2026-12-24", "--to", "2026-12-28T12:00:00Z"];
    let (set, status) = vacation(&home, &set);
    let dates = (&set["from"], &set["to"]);
    assert_eq!((status, dates), (0, (&"2026-12-24T00:00:00Z".into(), &"2026-12-28T12:00:00Z".into())));
    // What is not given stays.
    let more = ["set", "--subject", "Away", "--html-file", html.to_str().unwrap()];
    let (now, _) = vacation(&home, &more);
    assert_eq!((&now["text"], &now["html"]), (&"Back soon.".into(), &"<p>Away</p>".into()));
    let text = home.ok(&["account", "vacation", "show", ACCOUNT]);
    for part in [
        "state    on",
        "from     2026-12-24T00:00:00Z",
        "subject  Away",
        "text:\nBack soon.",
        "html:\n<p>Away</p>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (off, _) = vacation(&home, &["off"]);
    assert_eq!((&off["enabled"], &off["text"]), (&false.into(), &"Back soon.".into()));
    let input = home
        .run_with(&["account", "vacation", "set", ACCOUNT, "--reset", "--text-file", "-"], "From stdin.\n");
    assert!(input.status.success(), "{input:?}");
    let (now, _) = vacation(&home, &["show"]);
    assert_eq!(
        (&now["enabled"], &now["text"], &now["html"]),
        (&true.into(), &"From stdin.\n".into(), &Value::Null)
    );
    assert_eq!(home.check().1, 0, "check knows the objects");
}

#[test]
fn wrong_dates_and_long_texts_are_usage_errors() {
    let home = Home::with_account();
    let long = home.file("long.txt", "x".repeat(70_000));
    for args in [
        &["set", "--from", "tomorrow"][..],
        &["set", "--from", "2026-12-28", "--to", "2026-12-24"],
        &["set", "--text", "a", "--text-file", "b"],
        &["set", "--text-file", long.to_str().unwrap()],
        &["set", "--text-file", "-", "--html-file", "-"],
        &["set", "--subject", "a\nb"],
    ] {
        let status = home.status(&of_account(args));
        assert_eq!(status, 2, "{args:?}");
    }
    assert_eq!(home.status(&["account", "vacation", "off", "nobody@example.org"]), 3, "not found");
}

#[test]
fn a_backup_of_one_account_has_its_response() {
    let home = Home::with_account();
    vacation(&home, &["set", "--text", "Away."]);
    let (_, status) = home.json(&["backup", "data", "copy", "--account", ACCOUNT]);
    assert_eq!(status, 0);
    for file in ["server.key", "mail.key"] {
        std::fs::copy(home.path("data").join(file), home.path("copy").join(file)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealpost"));
    command.current_dir(home.path("")).env("SEALPOST_CONFIG", "");
    command.args(["--dir", "copy", "account", "vacation", "show", ACCOUNT, "--json"]);
    let shown: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(shown["text"], "Away.");
    // Without the key nothing shows it, and none is made in its place.
    std::fs::remove_file(home.path("data/mail.key")).unwrap();
    for args in [&["show"][..], &["set", "--text", "x"]] {
        assert_ne!(home.status(&of_account(args)), 0, "{args:?}");
    }
    assert!(!home.path("data/mail.key").exists());
}
