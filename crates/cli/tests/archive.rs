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
fn stats_counts_the_messages_of_imap_backup() {
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

#[test]
fn a_dry_run_of_export_lists_files_and_writes_none() {
    let home = Home::new();
    imap_backup(&home);
    let export = ["archive", "export", "--from", "copy", "--from-format", "mbox", "--folder", "INBOX"];
    let into = |to: &'static str| [&export[..], &["--format", "maildir", "--into", to]].concat();
    let dry = |to| [&into(to)[..], &["--dry-run"]].concat();
    // What was never pulled is not taken over either.
    let before = files(&home.path("copy"));
    let (document, status) = home.json(&dry("new"));
    assert_eq!(
        (status, &document["messages"], &document["dry_run"]),
        (0, &2.into(), &true.into()),
        "{document}"
    );
    assert_eq!((files(&home.path("copy")), home.path("new").exists()), (before, false));
    let size = 2 * "Subject: one\r\n\r\ntext\r\n".len();
    let (done, _) = home.json(&into("old"));
    assert_eq!(
        (&done["messages"], &done["bytes"], &done["dry_run"]),
        (&2.into(), &size.into(), &false.into())
    );
    let before = (files(&home.path("copy")), files(&home.path("old")));
    let (document, _) = home.json(&dry("new"));
    assert_eq!((&document["messages"], &document["bytes"]), (&2.into(), &size.into()), "{document}");
    assert!(home.ok(&dry("new")).starts_with("INBOX: would export 2 messages, "));
    let (document, _) = home.json(&dry("old"));
    assert_eq!((&document["messages"], &document["present"]), (&0.into(), &2.into()), "{document}");
    // What would be mended is left alone.
    home.file("copy/INBOX.mbox", TEXT);
    let (document, status) = home.json(&dry("new"));
    assert!(status == 1 && document["failed"][0]["reason"].as_str().unwrap().contains("pull"), "{document}");
    home.file("copy/INBOX.mbox", TEXT.repeat(2));
    assert_eq!((files(&home.path("copy")), files(&home.path("old"))), before);
    assert!(!home.path("new").exists());
}

#[test]
fn an_export_into_the_copy_itself_is_refused_as_that() {
    let home = Home::new();
    imap_backup(&home);
    let server = ["--host", "127.0.0.1", "--user", "jane", "--password-file", "none", "--no-check"];
    home.ok(&[&["archive", "add", "work", "--format", "mbox", "--into", "copy"], &server[..]].concat());
    for from in [&["work"][..], &["--from", "copy", "--from-format", "mbox"]] {
        let into = ["--format", "mbox", "--into", "./copy"];
        let output = home.run(&[&["archive", "export"], from, &into].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("--into is where the backup is"), "{told}");
    }
}

/// What a server takes for a user's name need be no address; the account of a sealed backup has one
/// all the same.
#[test]
fn a_sealed_copy_can_be_made_for_every_users_name() {
    let home = Home::new();
    imap_backup(&home);
    home.file("password", "correct horse battery");
    let sealed = |from: &[&str], into: &str, more: &[&str]| {
        let into = ["--format", "sealpost", "--into", into, "--copy-password-file", "password"];
        let export = ["archive", "export", "--folder", "INBOX"];
        let (document, status) = home.json(&[&export, from, &into, more].concat());
        assert_eq!(status, 0, "{document}");
    };
    let called = |directory: &str, name: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sealpost"));
        let list = command.current_dir(home.path("")).args(["--dir", directory, "account", "list"]);
        let list = list.output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        assert!(list.lines().count() == 1 && list.contains(name), "{list}, not {name}");
    };
    for (at, (user, host, name)) in [
        ("jane", "imap.example.org", "jane@imap.example.org"),
        ("CORP\\Jane Doe", "192.0.2.1", "corp.jane.doe@localhost"),
        ("jane@example.org", "imap.example.org", "jane@example.org"),
    ]
    .into_iter()
    .enumerate()
    {
        let (account, into) = (format!("work{at}"), format!("sealed{at}"));
        let add = ["archive", "add", &account, "--format", "mbox", "--into", "copy", "--no-check"];
        let server = ["--host", host, "--user", user, "--password-file", "password"];
        home.ok(&[&add[..], &server].concat());
        // The second time it is found again.
        for _ in 0..2 {
            sealed(&[&account], &into, &[]);
            called(&into, name);
        }
    }
    let from = ["--from", "copy", "--from-format", "mbox"];
    sealed(&from, "unknown", &[]);
    called("unknown", "archive@localhost");
    for account in ["jane", "jane@localhost"] {
        sealed(&from, "said", &["--copy-account", account]);
        called("said", "jane@localhost");
    }
}

/// The system sends a signal besides the error, which would end the process without a word.
#[test]
fn a_limit_on_file_sizes_is_reported_without_loss() {
    let home = Home::new();
    let messages = 3000;
    let entry =
        |at: usize| format!(r#"{{"uid":{},"offset":{},"length":{}}}"#, at + 1, at * TEXT.len(), TEXT.len());
    let entries: Vec<String> = (0..messages).map(entry).collect();
    let json = format!(r#"{{"version":3,"uid_validity":7,"messages":[{}]}}"#, entries.join(","));
    home.file("copy/INBOX.imap", json);
    home.file("copy/INBOX.mbox", TEXT.repeat(messages));
    let export = |format, into| {
        ["archive", "export", "--from", "copy", "--from-format", "mbox", "--format", format, "--into", into]
    };
    // The first one takes the backup over, the second one writes.
    for (format, into) in [("maildir", "first"), ("mbox", "second")] {
        let (args, binary) = (export(format, into), env!("CARGO_BIN_EXE_sealpost"));
        let mut limited = std::process::Command::new("sh");
        limited.current_dir(home.path("."));
        limited.args(["-c", "ulimit -f 100; exec \"$@\"", "sh", binary, "--dir", "data"]).args(args);
        let output = limited.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(75) && told.contains("ulimit -f"),
            "{:?}: {told}",
            output.status
        );
        let (done, status) = home.json(&export(format, into));
        assert_eq!((status, &done["messages"]), (0, &messages.into()), "{done}");
    }
}

#[test]
fn a_dry_run_of_remove_lists_files_and_removes_none() {
    let home = Home::new();
    home.file("secret", "one and two");
    home.ok(&[
        "archive",
        "add",
        "work",
        "--host",
        "imap.example.org",
        "--user",
        "jane",
        "--password-file",
        "secret",
        "--format",
        "mbox",
        "--into",
        "copy",
        "--no-check",
    ]);
    let before = files(&home.path("data"));
    let (document, status) = home.json(&["archive", "remove", "work", "--dry-run"]);
    let named: Vec<_> =
        document["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert!(status == 0 && named.len() == 1 && named[0].ends_with("work.toml"), "{document}");
    assert!(home.ok(&["archive", "remove", "work", "--dry-run"]).starts_with("would forget work"));
    assert_eq!(files(&home.path("data")), before);
    assert_eq!(home.status(&["archive", "remove", "none", "--dry-run"]), 3);
    assert!(home.ok(&["archive", "remove", "work"]).starts_with("forgot work"));
    assert_eq!(home.status(&["archive", "remove", "work"]), 3);
}

/// What `add` says to do next finds the account, from the same directory and as a shell takes it.
#[test]
fn the_command_that_add_prints_works() {
    let home = Home::new();
    home.file("secret", "one and two");
    home.file("my.toml", "directory = \"configured\"\n");
    let add = ["archive", "add", "my-work", "--host", "127.0.0.1", "--port", "1", "--user", "jane"];
    let add = [&add[..], &["--password-file", "secret", "--format", "mbox", "--into", "copy", "--no-check"]]
        .concat();
    for options in [&["--dir", "my mail"][..], &["--dir", "a/b$c"], &["--config", "my.toml"], &[]] {
        let sealpost = |args: &[&str]| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sealpost"));
            command.current_dir(home.path("")).args(args).output().unwrap()
        };
        let added = sealpost(&[options, &add].concat());
        let text = String::from_utf8(added.stdout).unwrap();
        let next = text.lines().find_map(|line| line.strip_prefix("now: ")).unwrap();
        let mut shell = std::process::Command::new("sh");
        let pulled = shell.current_dir(home.path("")).args(["-c", next]).output().unwrap();
        // No server listens at that port, but the account is known.
        assert_eq!(pulled.status.code(), Some(75), "{next}: {pulled:?}");
        let quiet = sealpost(&[options, &["--quiet", "archive", "remove", "my-work"]].concat());
        assert!(quiet.status.success() && quiet.stdout.is_empty() && quiet.stderr.is_empty(), "{quiet:?}");
    }
}

#[test]
fn one_timer_pulls_all_accounts_and_is_silent_on_success() {
    let home = Home::new();
    let schedule = ["archive", "schedule", "--as", "cron"];
    assert_eq!(home.status(&schedule), 2, "there is no account");
    let server = ["--host", "127.0.0.1", "--user", "jane", "--password-file", "none", "--no-check"];
    for account in ["one", "two"] {
        home.ok(&[&["archive", "add", account, "--format", "mbox", "--into", account], &server[..]].concat());
    }
    let line = home.ok(&schedule);
    assert!(line.contains(" --quiet --dir ") && line.trim_end().ends_with(" archive pull"), "{line}");
    let line = home.ok(&[&schedule[..], &["two"]].concat());
    assert!(line.trim_end().ends_with(" archive pull two"), "{line}");
    assert!(home.ok(&["archive", "schedule"]).contains("/sealpost-archive.timer\n"));
    assert_eq!(home.status(&["archive", "schedule", "three"]), 3);
}

#[test]
fn an_unreadable_account_does_not_stop_the_others() {
    let home = Home::new();
    let server = ["--host", "127.0.0.1", "--user", "jane", "--password-file", "none", "--no-check"];
    for account in ["one", "two"] {
        home.ok(&[&["archive", "add", account, "--format", "mbox", "--into", account], &server[..]].concat());
    }
    home.file("data/archive/broken.toml", "format = ");
    for (command, tried) in [(&["pull"][..], "two: "), (&["pull", "unknown", "two"][..], "two: ")] {
        let output = home.run(&[&["archive"], command].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(tried), "{told}");
    }
    let listed = home.run(&["archive", "list"]);
    let (shown, told) = (String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr));
    assert_eq!((shown.lines().count(), listed.status.code()), (2, Some(1)), "{shown}{told}");
    assert!(told.contains("broken.toml"), "{told}");
}

#[test]
fn superseded_folders_are_listed_and_exported() {
    use sealpost_archive::backup::{Arrived, Backup, Flags, FolderName, Identity, Resume, imap_backup};
    let home = Home::new();
    let copy: Box<dyn Backup> = imap_backup::open(&home.path("copy")).unwrap();
    for (uidvalidity, messages) in [(7, 2), (8, 1)] {
        let server = Identity { uidvalidity, mailboxid: None };
        let mut folder = copy.open(&FolderName::new("INBOX", Some('/')), &server).unwrap();
        for uid in 1..=messages {
            let message = Arrived { uid, flags: Flags::default(), internaldate: None };
            folder.put(&message, b"Subject: one\r\n\r\n".to_vec()).unwrap();
        }
        folder.commit(&Resume::default()).unwrap();
        folder.close().unwrap();
    }
    drop(copy);
    // Which format it has is found.
    let stats = ["archive", "stats", "--from", "copy"];
    assert_eq!(home.status(&[&stats[..], &["--format", "maildir"]].concat()), 2);
    assert_eq!(home.status(&["archive", "stats", "--from", "none"]), 3);
    let (document, _) = home.json(&stats);
    let aside = &document["superseded"][0];
    assert_eq!(
        (&document["messages"], &aside["name"], &aside["messages"]),
        (&1.into(), &"INBOX-7".into(), &2.into())
    );
    let text = home.ok(&stats);
    assert!(text.contains("\n         2  INBOX-7  (superseded"), "{text}");
    let export = ["archive", "export", "--from", "copy", "--format", "maildir", "--into", "new"];
    assert!(!home.ok(&export).contains("INBOX-7"));
    for folders in [&["--folder", "INBOX"][..], &["--folder", "INBOX-7"], &[]] {
        let text = home.ok(&[&export[..], &["--include-superseded"], folders].concat());
        assert!(text.contains("INBOX-7: exported "), "{text}");
    }
    let exported = |folder: &str| fs::read_dir(home.path("new").join(folder).join("cur")).unwrap().count();
    assert_eq!((exported(""), exported(".INBOX-7")), (1, 2));
}

/// For every end of the run: signals that it catches, and one that it cannot.
#[test]
fn a_token_command_and_its_children_end_with_the_run() {
    use rustix::process::{Pid, Signal, kill_process};
    use sealpost_base::{Clock, SystemClock};
    use std::io::Write;
    use std::time::Duration;
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        let greeting = b"* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=XOAUTH2] hello\r\n";
        let greeted = server.incoming().map_while(Result::ok).map(|mut s| s.write_all(greeting).map(|()| s));
        greeted.collect::<Vec<_>>()
    });
    let clock = SystemClock::new();
    let by = |what: &dyn Fn() -> bool| {
        let until = clock.monotonic() + Duration::from_secs(30);
        while !what() {
            assert!(clock.monotonic() < until);
            std::thread::yield_now();
        }
    };
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let home = Home::new();
        let command = "(sleep 600; :) & echo $! > new; mv new child; wait";
        let place = ["--host", "127.0.0.1", "--port", &port, "--tls", "none", "--user", "jane"];
        let copy = ["--token-command", command, "--format", "mbox", "--into", "copy"];
        let mut run = home.command(&[&["archive", "pull"][..], &place, &copy].concat()).spawn().unwrap();
        by(&|| home.path("child").exists());
        let child = fs::read_to_string(home.path("child")).unwrap();
        kill_process(Pid::from_child(&run), signal).unwrap();
        by(&|| fs::read(format!("/proc/{}/cmdline", child.trim())).unwrap_or_default().is_empty());
        run.wait().unwrap();
    }
}
