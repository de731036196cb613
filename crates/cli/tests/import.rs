//! Import and export through the binary: nothing twice, nothing lost, the same bytes out as in.

#[path = "support/run.rs"]
mod run;

use std::process::Stdio;
use std::thread::park_timeout;
use std::time::Duration;

use run::{ACCOUNT, Home, mbox, tree};

#[test]
fn an_mbox_comes_out_as_it_went_in() {
    let home = Home::with_account();
    let archive = mbox(100, 600);
    home.file("old.mbox", &archive);
    let (summary, status) = home.import("old.mbox");
    assert_eq!((status, &summary["imported"], &summary["present"]), (0, &100.into(), &0.into()));
    assert_eq!(summary["mailboxes"]["old"], 100);
    let (again, _) = home.import("old.mbox");
    assert_eq!((&again["imported"], &again["present"]), (&0.into(), &100.into()));

    let (exported, _) = home.export("mbox", "out");
    assert_eq!((&exported["exported"], &exported["failed"]), (&100.into(), &0.into()));
    let written = std::fs::read_to_string(home.path("out/old.mbox")).unwrap();
    // The fields for flags are in the writer's own order; dates, senders, quoting and bytes are as they were.
    let plain = |mbox: &str| -> Vec<String> {
        mbox.lines()
            .filter(|l| !l.starts_with("X-Status:") && !l.starts_with("Status:") && !l.starts_with("X-Key"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(plain(&written), plain(&archive));
    for (field, count) in [("Status: RO", 34), ("X-Status: F", 34), ("X-Keywords: ", 34), ("Status: O", 66)] {
        assert_eq!(written.lines().filter(|line| line.starts_with(field)).count(), count, "{field}");
    }
    // The same once more, from the export.
    home.ok(&["account", "add", "joe@example.org", "--password-file", "password"]);
    home.ok(&["import", "out/old.mbox", "--account", "joe@example.org", "--password-file", "password"]);
    let export =
        ["export", "--account", "joe@example.org", "--format", "mbox", "--password-file", "password"];
    home.ok(&[&export[..], &["--mailbox", "old", "again.mbox"]].concat());
    assert_eq!(std::fs::read_to_string(home.path("again.mbox")).unwrap(), written);
    assert_eq!(home.check().1, 0);
}

#[test]
fn duplicates_in_an_archive_stay_duplicates_in_the_mailbox() {
    let home = Home::with_account();
    let one = mbox(1, 100);
    home.file("a.mbox", format!("{one}{one}{one}"));
    assert_eq!(home.import("a.mbox").0["imported"], 3);
    assert_eq!(home.import("a.mbox").0["imported"], 0);
    home.file("a.mbox", format!("{one}{one}{one}{one}"));
    let (grown, _) = home.import("a.mbox");
    assert_eq!((&grown["imported"], &grown["present"]), (&1.into(), &3.into()));
    // Another mailbox is another matter.
    let args = ["import", "a.mbox", "--mailbox", "b", "--account", ACCOUNT, "--password-file", "password"];
    assert_eq!(home.json(&args).0["imported"], 4);
}

#[test]
fn a_maildir_keeps_folders_flags_keywords_and_dates() {
    let home = Home::with_account();
    home.file("Mail/cur/1420070400.a.host:2,FS", "Subject: a\n\nbody\n");
    home.file("Mail/cur/1420070401.b.host:2,Tb", "Subject: b\n\nbody\n");
    home.file("Mail/new/1420070402.c.host", "Subject: c\n\nbody\n");
    home.file("Mail/dovecot-keywords", "0 first\n1 second\n");
    home.file("Mail/.Work.2026/cur/1420070403.d.host:2,RP", "Subject: d\n\nbody\n");
    home.file("Mail/.Work.2026/cur/1420070404.large.host:2,", large());
    let (summary, _) = home.import("Mail");
    assert_eq!(summary["imported"], 5, "{summary}");
    assert_eq!(summary["mailboxes"]["Work/2026"], 2);

    let (exported, _) = home.export("maildir", "out");
    assert_eq!(exported["exported"], 5);
    let files = tree(&home.path("out"));
    let find = |subject: &str| {
        let content = format!("Subject: {subject}\n");
        let found = files.iter().find(|(_, bytes)| bytes.starts_with(content.as_bytes()));
        found.unwrap_or_else(|| panic!("{subject}")).0.display().to_string()
    };
    assert!(find("a").starts_with("cur/1420070400.") && find("a").ends_with(":2,FS"), "{}", find("a"));
    assert!(find("b").ends_with(":2,Ta"), "{}", find("b"));
    assert!(find("c").ends_with(":2,"), "{}", find("c"));
    assert!(
        find("d").starts_with(".Work.2026/cur/1420070403.") && find("d").ends_with(":2,PR"),
        "{}",
        find("d")
    );
    let keywords = files.iter().find(|(path, _)| path.ends_with("dovecot-keywords")).unwrap();
    assert_eq!(keywords.1, b"0 second\n");
    assert!(files.iter().any(|(_, bytes)| *bytes == large().as_bytes()), "a large message keeps its bytes");

    let (again, _) = home.export("maildir", "out");
    assert_eq!((&again["exported"], &again["present"]), (&0.into(), &5.into()));
    assert_eq!(tree(&home.path("out")), files);
    assert_eq!(home.import("out").0["present"], 5);
    assert_eq!(home.check().1, 0);
}

fn large() -> String {
    format!("Subject: large\n\n{}", "0123456789abcdef\n".repeat(40_000))
}

#[test]
fn an_eml_gets_the_date_of_its_header() {
    let home = Home::with_account();
    home.file(
        "x.eml",
        "Received: from a by b; Thu, 1 Jan 2015 01:02:03 +0000\nDate: nonsense\nSubject: a\n\nb\n",
    );
    let (summary, _) = home.import("x.eml");
    assert_eq!(summary["mailboxes"]["INBOX"], 1);
    home.export("mbox", "out");
    let written = std::fs::read_to_string(home.path("out/INBOX.mbox")).unwrap();
    assert!(written.starts_with("From MAILER-DAEMON Thu Jan  1 01:02:03 2015\n"), "{written}");
}

#[test]
fn a_failed_file_does_not_stop_the_import() {
    let home = Home::with_account();
    home.file("tree/good.mbox", mbox(3, 100));
    home.file("tree/good.eml", "Subject: a\n\nb\n");
    home.file("tree/notes.txt", "no mail");
    home.file("tree/Mail/cur/1420070400.a.host:2,", "Subject: a\n\nb\n");
    std::fs::create_dir_all(home.path("tree/Mail/new")).unwrap();
    std::fs::create_dir_all(home.path("tree/Other/cur")).unwrap();
    // A folder that is a file where a directory should be.
    std::fs::write(home.path("tree/Other/new"), "").unwrap();
    let (summary, status) = home.import("tree");
    assert_eq!((&summary["imported"], &summary["failed"], status), (&5.into(), &1.into(), 1), "{summary}");
    assert!(summary["failures"][0]["place"].as_str().unwrap().contains("Other"));
    let skipped = summary["skipped"].as_array().unwrap();
    assert!(
        skipped.iter().any(|skipped| skipped["place"].as_str().unwrap().ends_with("notes.txt")),
        "{summary}"
    );
    assert_eq!(home.status(&["import", "absent", "--account", ACCOUNT, "--password-file", "password"]), 2);
}

#[test]
fn a_quota_is_kept() {
    let home = Home::new();
    home.file("password", "pw");
    home.ok(&["account", "add", ACCOUNT, "--quota", "1000", "--password-file", "password"]);
    home.file("a.mbox", mbox(10, 160));
    let (summary, status) = home.import("a.mbox");
    let imported = summary["imported"].as_u64().unwrap();
    assert!(status == 1 && (1..10).contains(&imported), "{summary}");
    assert_eq!(summary["failed"], 10 - imported);
}

#[test]
fn exports_overwrite_nothing() {
    let home = Home::with_account();
    home.file("a.mbox", mbox(2, 100));
    home.import("a.mbox");
    home.file("out/a.mbox", "mine");
    let (summary, status) = home.export("mbox", "out");
    assert_eq!((&summary["failed"], status), (&1.into(), 1));
    assert_eq!(std::fs::read(home.path("out/a.mbox")).unwrap(), b"mine");
    home.file("full/x", "mine");
    assert_eq!(
        home.run(&[
            "export",
            "--account",
            ACCOUNT,
            "--format",
            "maildir",
            "--password-file",
            "password",
            "full"
        ])
        .status
        .code(),
        Some(2)
    );
    assert_eq!(tree(&home.path("full")).len(), 1);
}

/// Killed at moments that have nothing to do with what it is doing, and run again until it is done.
#[test]
fn an_import_that_is_killed_again_and_again() {
    const MESSAGES: usize = 1500;
    let home = Home::with_account();
    home.file("old.mbox", mbox(MESSAGES, 1500));
    let mut kills = 0;
    for round in 0..12u64 {
        let args = ["import", "old.mbox", "--account", ACCOUNT, "--password-file", "password"];
        let mut child = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Unlocking alone takes some of this.
        let mut milliseconds = 20 + round * round * 7 % 150;
        while milliseconds > 0 && child.try_wait().unwrap().is_none() {
            park_timeout(Duration::from_millis(1));
            milliseconds -= 1;
        }
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (summary, status) = home.import("old.mbox");
    assert_eq!(status, 0);
    let count = |key: &str| usize::try_from(summary[key].as_u64().unwrap()).unwrap();
    assert_eq!(count("imported") + count("present"), MESSAGES, "{kills} kills: {summary}");
    assert!(kills > 0);
    let (exported, _) = home.export("mbox", "out");
    assert_eq!(exported["exported"], MESSAGES, "each message once");
    let written = std::fs::read_to_string(home.path("out/old.mbox")).unwrap();
    let subjects: Vec<_> = written.lines().filter(|line| line.starts_with("Subject: ")).collect();
    let expected: Vec<_> = (0..MESSAGES).map(|i| format!("Subject: number {i}")).collect();
    assert_eq!(subjects, expected, "in the order of the archive");
    let (checked, status) = home.check();
    assert_eq!(status, 0, "{checked}");
}

#[test]
fn two_imports_at_once_do_not_double() {
    let home = Home::with_account();
    home.file("old.mbox", mbox(300, 1000));
    let args = ["import", "old.mbox", "--account", ACCOUNT, "--password-file", "password"];
    let spawn = || home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut one, mut two) = (spawn(), spawn());
    let done = [one.wait().unwrap().success(), two.wait().unwrap().success()];
    assert!(done.contains(&true));
    assert_eq!(home.import("old.mbox").0["imported"], 0);
    assert_eq!(home.export("mbox", "out").0["exported"], 300);
}

/// All of one size, as in an archive that a program wrote: what is there is found without comparing
/// each with each.
#[test]
fn many_messages_of_one_size() {
    let home = Home::with_account();
    let archive: String =
        (1000..4000).map(|i| format!("From a Thu Jan  1 01:00:00 2015\nSubject: {i}\n\ntext\n\n")).collect();
    home.file("even.mbox", &archive);
    assert_eq!(home.import("even.mbox").0["imported"], 3000);
    assert_eq!(home.import("even.mbox").0["present"], 3000);
    // In another order, with one that is new among them.
    let mut messages: Vec<_> = archive.split_inclusive("text\n\n").collect();
    messages.reverse();
    messages.insert(7, "From a Thu Jan  1 01:00:00 2015\nSubject: 5000\n\ntext\n\n");
    home.file("even.mbox", messages.concat());
    let (summary, _) = home.import("even.mbox");
    assert_eq!((&summary["imported"], &summary["present"]), (&1.into(), &3000.into()));
    assert_eq!(home.check().1, 0);
}
