//! Mail files of other programs: what import takes for mail, which flags count, where labels lead,
//! and the modes of an export.

#[path = "support/run.rs"]
mod run;

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use run::{ACCOUNT, Home, mbox, tree};
use serde_json::Value;

const OTHER: &str = "joe@example.org";

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn import(home: &Home, account: &str, args: &[&str]) -> (Value, i32) {
    home.json(&[&["import", "--account", account, "--password-file", "password"], args].concat())
}

/// How many messages each mailbox of an account has.
fn counts(home: &Home, account: &str) -> Vec<(String, u64)> {
    let stats = home.json(&["stats", "--account", account, "--password-file", "password"]).0;
    let account = stats["per_account"].as_array().unwrap().iter().find(|a| a["account"] == account).unwrap();
    let mailboxes = account["mailboxes"].as_array().unwrap().iter();
    let mut counts: Vec<_> = mailboxes
        .map(|m| (m["name"].as_str().unwrap().to_owned(), m["messages"].as_u64().unwrap()))
        .filter(|(_, messages)| *messages > 0)
        .collect();
    counts.sort();
    counts
}

/// The messages of a folder of a Maildir: flags, bytes.
fn messages(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let flags = |path: PathBuf| path.to_string_lossy().rsplit_once(":2,").unwrap().1.to_owned();
    let files = tree(&folder.join("cur")).into_iter();
    let mut messages: Vec<_> = files.map(|(path, bytes)| (flags(path), bytes)).collect();
    messages.sort_by(|a, b| a.1.cmp(&b.1));
    messages
}

#[test]
fn files_that_are_no_mail_are_reported_once() {
    let home = Home::with_account();
    for (name, content) in [
        ("logo.png", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..]),
        ("empty", b""),
        ("notes.txt", b"Dear all\n\nthese are notes.\n"),
        ("no.mbox", b"this is no mbox\n"),
        ("no.eml", b"this is no message\n"),
        ("store.sqlite", b"SQLite format 3\0"),
        ("mail.zip", b"PK\x03\x04"),
    ] {
        home.file(&format!("files/{name}"), content);
        let path = format!("files/{name}");
        let done = home.run(&["import", &path, "--account", ACCOUNT, "--password-file", "password"]);
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert_eq!(done.status.code(), Some(1), "{name}: {said}");
        assert_eq!(said.matches(&path).count(), 1, "{said}");
    }
    let (summary, status) = home.import("files");
    assert_eq!((status, &summary["failed"]), (1, &1.into()), "a directory without mail: {summary}");
    assert_eq!(summary["skipped"].as_array().unwrap().len(), 7);
    home.file("files/one.eml", "Subject: x\n\ny\n");
    let (summary, status) = home.import("files");
    assert_eq!((status, &summary["imported"]), (0, &1.into()), "with one message in it: {summary}");
    assert_eq!(home.import("/dev/null").1, 1);
    assert_eq!(counts(&home, ACCOUNT), [("INBOX".to_owned(), 1)]);
}

#[test]
fn compressed_files_and_standard_input_are_read() {
    let home = Home::with_account();
    let whole = gzip(mbox(300, 2000).as_bytes());
    home.file("old.mbox.gz", &whole);
    assert_eq!(home.import("old.mbox.gz").0["mailboxes"]["old"], 300);
    home.file("cut.mbox.gz", &whole[..whole.len() / 2]);
    let (summary, status) = home.import("cut.mbox.gz");
    let imported = summary["imported"].as_u64().unwrap();
    assert!(status == 1 && (1..300).contains(&imported), "{summary}");
    assert_eq!(summary["failed"], 1, "the message in which it ends: {summary}");
    // Padding of a tape costs no message, and neither does trailing data that is no gzip, but that
    // is reported.
    for (behind, status) in [(&[0; 1000][..], 0), (b"and more", 1)] {
        home.file("tape.mbox.gz", [&gzip(mbox(3, 100).as_bytes())[..], behind].concat());
        let (summary, done) = home.import("tape.mbox.gz");
        let there = summary["imported"].as_u64().unwrap() + summary["present"].as_u64().unwrap();
        assert_eq!((there, done, &summary["failed"]), (3, status, &status.into()), "{summary}");
    }
    let args = ["import", "-", "--account", ACCOUNT, "--password-file", "password"];
    let done = home.run_with(&args, &mbox(7, 100));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        counts(&home, ACCOUNT),
        [("INBOX", 7), ("cut", imported), ("old", 300), ("tape", 3)].map(|(name, n)| (name.to_owned(), n))
    );
    let both = home.run_with(&["import", "-", "--account", ACCOUNT, "--password-stdin"], "x");
    assert_eq!(both.status.code(), Some(2));
    let left = tree(&home.path("data"));
    assert!(left.iter().all(|(path, _)| !path.to_string_lossy().contains("tmp")), "nothing is left");
}

fn takeout(labels: &[&str]) -> String {
    let message = |(n, labels): (usize, &&str)| {
        format!(
            "From 1700@xxx Fri May 23 16:35:53 +0000 2025\r\nX-GM-THRID: 1\r\nX-Gmail-Labels: {labels}\r\nSubject: {n}\r\n\r\nx\r\n\r\n"
        )
    };
    labels.iter().enumerate().map(message).collect()
}

#[test]
fn labels_of_gmail_are_mailboxes_and_flags() {
    let home = Home::with_account();
    let file = takeout(&[
        "Inbox,Opened,Starred,Work/2026",
        "=?UTF-8?Q?Archiviert,Ungelesen,Wichtig?=",
        "Sent,Opened,\"a, b\"",
        "Drafts,Spam,Category Social",
        "Trash",
    ]);
    home.file("All mail.mbox", &file);
    let (summary, status) = home.import("All mail.mbox");
    assert_eq!((status, &summary["imported"]), (0, &5.into()), "{summary}");
    let expected = [
        ("Archive", 1),
        ("Drafts", 1),
        ("INBOX", 1),
        ("Junk", 1),
        ("Sent", 1),
        ("Trash", 1),
        ("Work/2026", 1),
        ("a, b", 1),
    ];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts(&home, ACCOUNT), expected);
    assert_eq!(
        home.json(&["check", "--password-file", "password"]).0["checked"]["messages"],
        5,
        "each is stored once"
    );
    assert_eq!(home.import("All mail.mbox").0["present"], 5);
    assert_eq!(counts(&home, ACCOUNT), expected, "nothing twice");
    home.export("maildir", "out");
    let flags = |mailbox: &str| messages(&home.path("out").join(mailbox)).remove(0).0;
    assert_eq!(
        (flags("."), flags(".Work.2026"), flags(".Sent"), flags(".Drafts")),
        ("FS".into(), "FS".into(), "S".into(), "D".into())
    );
    assert_eq!(flags(".Archive"), "a", "$Important");
    // A mailbox that lost its placement gets it again, and nothing is stored.
    let only = ["--mailbox", "INBOX", "All mail.mbox"];
    home.ok(&["account", "add", OTHER, "--password-file", "password"]);
    assert_eq!(import(&home, OTHER, &only).0["mailboxes"]["INBOX"], 5);
    let (healed, _) = import(&home, OTHER, &["All mail.mbox"]);
    assert_eq!((&healed["imported"], &healed["present"]), (&4.into(), &1.into()), "{healed}");
    assert_eq!(healed["mailboxes"]["Work/2026"], 1, "placed from INBOX: {healed}");
    let (keywords, _) = import(&home, OTHER, &["--labels", "keywords", "--prefix", "k", "All mail.mbox"]);
    assert_eq!(keywords["mailboxes"]["k/All mail"], 5);
    let (ignored, _) = import(&home, OTHER, &["--labels", "ignore", "--prefix", "i", "All mail.mbox"]);
    assert_eq!(ignored["mailboxes"]["i/All mail"], 5);
    let (below, _) = import(&home, OTHER, &["--prefix", "b", "All mail.mbox"]);
    assert_eq!((&below["mailboxes"]["b/INBOX"], &below["mailboxes"]["b/Work/2026"]), (&1.into(), &1.into()));
    // A message is in the file of each of its labels, and in Gmail once.
    for file in ["split/Inbox.mbox", "split/Work.mbox"] {
        home.file(file, takeout(&["Inbox,Work"]));
    }
    let (split, _) = import(&home, OTHER, &["--prefix", "s", "split"]);
    assert_eq!((&split["imported"], &split["mailboxes"]["s/Work"]), (&1.into(), &1.into()), "{split}");
    // What export writes of such a message is no file of Takeout's: it stays where it is.
    home.export("mbox", "again");
    assert_eq!(import(&home, OTHER, &["--prefix", "r", "again"]).0["mailboxes"]["r/Work/2026"], 1);
    assert_eq!(home.check().1, 0);
}

#[test]
fn status_fields_of_a_message_are_kept_as_text() {
    let home = Home::with_account();
    let own = "Status: RO\r\nX-Status: AFTD\r\nX-Keywords: evil\r\nX-Mozilla-Status: 0009\r\nX-Mozilla-Keys: evil\r\n\
               Content-Length: 3\r\nX-IMAP: 1 2\r\nX-Gmail-Labels: Trash\r\nX-Sealpost-Own-Status: x\r\n";
    for (name, header, flags) in [("a", own, "F"), ("b", "", ""), ("c", " folded\r\n", "S")] {
        let message = format!("{header}Subject: FOLDER INTERNAL DATA {name}\r\n\r\nx\r\r\n\r\nFrom a@b\r\n");
        home.file(&format!("Mail/cur/142007040{}.{name}:2,{flags}", name.len()), message);
    }
    std::fs::create_dir_all(home.path("Mail/new")).unwrap();
    home.import("Mail");
    home.export("mbox", "out");
    home.ok(&["account", "add", OTHER, "--password-file", "password"]);
    let (summary, status) = import(&home, OTHER, &["out/INBOX.mbox"]);
    assert_eq!((status, &summary["imported"]), (0, &3.into()), "{summary}");
    let exact = |account: &str, to: &str| {
        let export = [
            "export",
            "--crlf",
            "--format",
            "maildir",
            "--account",
            account,
            "--password-file",
            "password",
            to,
        ];
        home.ok(&export);
        messages(&home.path(to))
    };
    let there = exact(ACCOUNT, "one");
    assert_eq!(there, exact(OTHER, "two"));
    assert!(there.iter().any(|(flags, bytes)| flags == "F" && bytes.starts_with(own.as_bytes())));
    assert_eq!(home.import("out/INBOX.mbox").0["present"], 3, "and they are known again");
}

#[test]
fn changed_flags_are_reported_and_taken_over_on_request() {
    let home = Home::with_account();
    home.file("Mail/cur/1420070400.a:2,", "Subject: a\n\nx\n");
    home.file("Mail/cur/1420070401.b:2,S", "Subject: b\n\nx\n");
    home.import("Mail");
    std::fs::rename(home.path("Mail/cur/1420070400.a:2,"), home.path("Mail/cur/1420070400.a:2,FS")).unwrap();
    let (found, status) = home.import("Mail");
    assert_eq!(
        (status, &found["other_flags"], &found["flags_updated"]),
        (0, &1.into(), &0.into()),
        "{found}"
    );
    let (updated, _) = import(&home, ACCOUNT, &["--update-flags", "Mail"]);
    assert_eq!((&updated["other_flags"], &updated["flags_updated"]), (&1.into(), &1.into()), "{updated}");
    assert_eq!(home.import("Mail").0["other_flags"], 0);
    home.export("maildir", "out");
    let flags: Vec<_> = messages(&home.path("out")).into_iter().map(|(flags, _)| flags).collect();
    assert_eq!(flags, ["FS", "S"]);
}

#[test]
fn an_unwritable_mailbox_does_not_stop_the_others() {
    let home = Home::with_account();
    home.ok(&["account", "add", OTHER, "--password-file", "password"]);
    let long = "L".repeat(252);
    let below = format!("a/{}", "m".repeat(250));
    home.file("one.eml", "Subject: x\n\ny\n");
    for mailbox in ["AAA", &long, &below, "b/c", "zzz"] {
        import(&home, ACCOUNT, &["--mailbox", mailbox, "one.eml"]);
    }
    for format in ["mbox", "maildir"] {
        let (exported, status) = home.export(format, format);
        assert_eq!((status, &exported["exported"]), (0, &5.into()), "{exported}");
        let shortened: Vec<_> = exported["shortened"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["mailbox"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(shortened, [long.clone(), below.clone()], "{exported}");
        let args = ["--prefix", format, format];
        assert_eq!(import(&home, OTHER, &args).0["imported"], 5, "import reads them all");
    }
    // A file where a directory has to be.
    home.file("blocked/b", "mine");
    let (exported, status) = home.export("mbox", "blocked");
    assert_eq!((status, &exported["failed"]), (1, &1.into()), "{exported}");
    assert_eq!(exported["failures"][0]["mailbox"], "b/c");
    assert!(home.path("blocked/zzz.mbox").is_file() && home.path("blocked/AAA.mbox").is_file());
}

#[test]
fn exported_files_are_readable_by_their_owner_alone() {
    let home = Home::with_account();
    home.file("a.mbox", mbox(2, 100));
    import(&home, ACCOUNT, &["--mailbox", "a/b", "a.mbox"]);
    import(&home, ACCOUNT, &["--mailbox", "INBOX", "a.mbox"]);
    let modes = |path: &Path| -> Vec<u32> {
        let (mut modes, mut waiting) = (Vec::new(), vec![path.to_owned()]);
        while let Some(path) = waiting.pop() {
            modes.push(std::fs::metadata(&path).unwrap().mode() & 0o7777);
            if path.is_dir() {
                waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        modes.sort_unstable();
        modes.dedup();
        modes
    };
    for umask in ["000", "022", "077"] {
        for (format, to) in [("mbox", "mbox"), ("maildir", "maildir"), ("mbox --mailbox INBOX", "one.mbox")] {
            let to = format!("{to}{umask}");
            let sealpost = env!("CARGO_BIN_EXE_sealpost");
            let export = format!(
                "umask {umask}; exec {sealpost} --dir data export --account {ACCOUNT} --password-file password --format {format} {to}"
            );
            let done = std::process::Command::new("sh")
                .arg("-c")
                .arg(export)
                .current_dir(home.path(""))
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
            let expected: &[u32] = if format.contains("INBOX") { &[0o600] } else { &[0o600, 0o700] };
            assert_eq!(modes(&home.path(&to)), expected, "{to}");
        }
    }
    // An existing file keeps its mode.
    let shared = home.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.export("mbox", "shared");
    assert_eq!(std::fs::metadata(&shared).unwrap().mode() & 0o7777, 0o755);
}
