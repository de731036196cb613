//! `sealpost bench`: what it lists, runs, writes and refuses.

#[path = "support/run.rs"]
mod run;

use run::Home;
use serde_json::Value;

fn phase<'a>(document: &'a Value, name: &str) -> &'a Value {
    let phases = document["servers"][0]["phases"].as_array().unwrap();
    phases.iter().find(|phase| phase["name"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

fn count(document: &Value, of: &str, command: &str) -> u64 {
    let commands = phase(document, of)["commands"].as_array().unwrap();
    let command = commands
        .iter()
        .find(|c| c["name"] == command)
        .unwrap_or_else(|| panic!("no {command}: {commands:?}"));
    command["count"].as_u64().unwrap()
}

#[test]
fn scenarios_are_listed_shown_and_run_again_from_a_file() {
    let home = Home::new();
    let (list, status) = home.json(&["bench", "list"]);
    assert_eq!(status, 0);
    let names: Vec<_> =
        list["scenarios"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert!(names.len() == 13 && names.contains(&"thunderbird"), "{names:?}");
    assert!(home.ok(&["bench", "list"]).contains("mailbox-100"));
    home.file("mine.toml", home.ok(&["bench", "show", "refresh"]));
    let (document, status) = home.json(&["bench", "run", "mine.toml", "--null", "--set", "repeat=3"]);
    assert_eq!((status, count(&document, "refresh", "CHECK")), (0, 3), "{document}");
    assert_eq!(document["title"], "refresh");
    assert_eq!(document["parameters"]["repeat"], "3");
}

#[test]
fn mistakes_are_explained() {
    let home = Home::new();
    home.file("wrong.toml", "name = \"x\"\n[[phase]]\nstepz = []\n");
    home.file("inbox.toml", "name = \"x\"\n[[phase]]\nsteps = [\"SELECT INBOX\", \"EXPUNGE\"]\n");
    home.file("users", "somebody:secret\n");
    let here = ["--imap", "127.0.0.1:9", "--users-file", "users"];
    for (args, why) in [
        (vec!["run", "fech", "--null"], "there is no scenario fech; is it fetch?"),
        (vec!["run", "wrong.toml", "--null"], "wrong.toml:3: a phase has no key stepz; is it steps?"),
        (vec!["run", "fetch", "--null", "--rate", "5"], "this scenario has no parameter rate"),
        ([&["run", "inbox.toml"][..], &here].concat(), "--write-inbox lets it"),
        (vec!["run", "fetch", "--imap", "127.0.0.1:9"], "no account was given"),
        (vec!["run", "fetch", "--imap", "127.0.0.1:9", "--user", "me"], "--password-file"),
        ([&["run", "lmtp", "--write-inbox"][..], &here].concat(), "--lmtp HOST:PORT"),
        (vec!["show", "nothing"], "there is no scenario nothing"),
        (vec!["data", "tini", "--into", "x"], "is it tiny?"),
    ] {
        let output = home.run(&[&["bench"][..], &args].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(why), "{args:?}: {stderr}");
        assert!(!stderr.contains("secret"));
    }
}

#[test]
fn data_sets_are_written_and_compared_runs_shown() {
    let home = Home::new();
    let (written, status) = home.json(&["bench", "data", "tiny", "--count", "25", "--into", "Maildir"]);
    assert_eq!((status, written["messages"].as_u64()), (0, Some(25)));
    assert_eq!(std::fs::read_dir(home.path("Maildir/cur")).unwrap().count(), 25);
    for out in ["a", "b"] {
        let text = home.ok(&[
            "bench",
            "run",
            "lmtp",
            "--null",
            "--set",
            "data=Maildir",
            "--set",
            "duration=0.2s",
            "--out",
            out,
        ]);
        assert!(text.contains("DELIVER"), "{text}");
        let page = std::fs::read_to_string(home.path(&format!("{out}/report.html"))).unwrap();
        assert!(page.contains("<svg"));
    }
    let text = home.ok(&["bench", "compare", "a/report.json", "b/report.json"]);
    assert!(text.contains("ratio"), "{text}");
    let text = home.ok(&["bench", "compare", "a/report.json,b/report.json", "b/report.json"]);
    assert!(text.contains("2 runs, medians"), "{text}");
}

#[test]
fn a_study_needs_its_accounts() {
    let output = Home::new().run(&["bench", "seeds", "--null", "--users", "3"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("16 accounts take part; 3 were given"), "{stderr}");
}

/// Against a server of its own, with all that a scenario may do.
#[test]
fn a_server_of_its_own_is_measured_and_thrown_away() {
    let home = Home::new();
    let common = ["--sealpost", "--users", "2"];
    let run = |args: &[&str]| {
        let (document, status) = home.json(&[&["bench", "run"], args, &common].concat());
        assert_eq!(status, 0, "{document}");
        document
    };
    let fetch = run(&[
        "fetch",
        "--set",
        "data=tiny",
        "--set",
        "count=50",
        "--set",
        "distinct=5",
        "--set",
        "repeat=2",
    ]);
    assert_eq!(count(&fetch, "FETCH BODY[]", "FETCH 1:* BODY.PEEK[]"), 2);
    assert!(phase(&fetch, "FETCH BODY[]")["cpu_seconds"].is_number(), "its processes were watched");
    let idle = run(&["idle", "--connections", "4", "--ramp", "0s", "--set", "still=0s"]);
    assert_eq!(count(&idle, "deliver", "notification"), 4, "two accounts, each with two in IDLE");
    let moved = run(&["reorganize", "--set", "count=20", "--tls", "starttls"]);
    assert_eq!(count(&moved, "move", "MOVE back"), 5);
    let mix = run(&[
        "thunderbird",
        "--set",
        "count=20",
        "--set",
        "data=tiny",
        "--set",
        "think=5ms",
        "--duration",
        "2s",
        "--ramp",
        "0s",
        "--set",
        "arriving=20",
    ]);
    assert!(count(&mix, "people", "LOGIN") >= 4);
}

#[test]
fn a_server_that_runs_is_left_as_it_was() {
    let home = Home::with_account();
    let server = home.serve();
    let at = |protocol: &str| format!("127.0.0.1:{}", server.port(protocol));
    let (imap, lmtp) = (at("imap"), at("lmtp"));
    let account = ["--user", run::ACCOUNT, "--password-file", "password"];
    let args = ["bench", "run", "flags", "--imap", &imap, "--set", "count=10", "--set", "repeat=2"];
    let (document, status) = home.json(&[&args[..], &account].concat());
    assert_eq!(status, 0, "{document}");
    assert!(!document.to_string().contains("one and two"), "the password is in no report");
    let args = [
        "bench",
        "run",
        "smtp",
        "--smtp",
        &at("smtp"),
        "--duration",
        "0.3s",
        "--set",
        "data=tiny",
        "--write-inbox",
    ];
    assert_eq!(home.json(&[&args[..], &account].concat()).1, 0);
    let args = [
        "bench",
        "run",
        "lmtp",
        "--lmtp",
        &lmtp,
        "--duration",
        "0.3s",
        "--set",
        "data=tiny",
        "--write-inbox",
    ];
    assert_eq!(home.json(&[&args[..], &account].concat()).1, 0);
    drop(server);
    let (stats, _) = home.json(&["stats", "--account", run::ACCOUNT, "--password-file", "password"]);
    let mailboxes = stats["per_account"][0]["mailboxes"].to_string();
    assert!(!mailboxes.contains("SealpostBench"), "{mailboxes}");
}
