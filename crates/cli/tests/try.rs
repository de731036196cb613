//! `sealpost try`: what it prints is true, what it keeps is kept, and it stops politely.

#[path = "support/server.rs"]
mod server;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sealpost_base::{Clock, SystemClock};
use server::{Server, sealpost};

const BARE: [&str; 1] = ["--no-samples"];

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

#[test]
fn it_serves_where_it_says_and_stops_politely() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "pw", "it's \"quoted\\\" enough\n");
    write(dir.path(), "plain", "correct horse\n");
    let named = ["--no-samples", "--account", "A@localhost", "--account", "b", "--password-file", "plain"];
    let server = Server::trial(dir.path(), &named);
    let ready = &server.ready;
    assert_eq!((ready["account"].as_str(), server.password()), (Some("a@localhost"), "correct horse"));
    assert!(ready["pid"].as_u64().is_some() && Path::new(ready["dir"].as_str().unwrap()).is_absolute());
    for protocol in ["imap", "imaps", "smtp", "smtps", "lmtp"] {
        assert!(ready[protocol]["port"].as_u64().unwrap() > 0 && ready[protocol]["host"] == "127.0.0.1");
    }

    let mut lmtp = server.connect("lmtp");
    let to = ["a@localhost", "b@localhost", "a+tag@localhost", "postmaster@localhost"];
    assert_eq!(lmtp.lmtp(&to, "Subject: one\r\n\r\nHello"), [250; 4]);
    let mut smtp = server.connect("smtp");
    assert_eq!((smtp.smtp("EHLO x.example"), smtp.smtp("MAIL FROM:<y@x.example>")), (250, 250));
    assert_eq!(smtp.smtp("RCPT TO:<me@localhost>"), 550, "it is not made when others are asked for");
    let (mut imap, exists) = server.inbox();
    assert!(exists >= 1);
    let fetched = imap.imap("FETCH 1 BODY[]");
    assert!(fetched.iter().any(|line| line == "Subject: one") && fetched.iter().any(|line| line == "Hello"));

    let clock = SystemClock::new();
    server.signal("TERM");
    assert!(imap.line().starts_with("* BYE"));
    assert_eq!(lmtp.reply(), 421);
    assert_eq!(smtp.reply(), 421);
    let (status, stderr) = server.wait();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    assert!(clock.monotonic() < Duration::from_secs(5));
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn the_allocator_is_configured_to_return_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = sealpost(dir.path(), &["try", "--json", "--ports", "free", "--no-samples"]);
    command.env_remove("GLIBC_TUNABLES").env_remove("SEALPOST_STARTED_AGAIN").env_remove("MALLOC_ARENA_MAX");
    command.env("MALLOC_TRIM_THRESHOLD_", "1000000");
    let server = Server::spawn(command);
    let environment = std::fs::read(format!("/proc/{}/environ", server.ready["pid"])).unwrap();
    let count = |variable: &str| {
        environment.split(|byte| *byte == 0).filter(|one| *one == variable.as_bytes()).count()
    };
    assert_eq!(count("MALLOC_ARENA_MAX=2"), 1);
    assert_eq!(count("MALLOC_TRIM_THRESHOLD_=1000000"), 1, "what was set stays");
    assert_eq!(server.ready["pid"], server.id(), "it is the process that was started");
}

#[test]
fn mail_and_password_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let first = Server::trial(dir.path(), &BARE);
    assert_eq!(first.ready["account"], "me@localhost");
    assert_eq!(first.connect("lmtp").lmtp(&["me@localhost"], "Subject: kept\r\n\r\n"), [250]);
    let password = first.password().to_owned();
    first.signal("INT");
    assert!(first.wait().0.success());
    let remembered = dir.path().join("sealpost-data/try-password");
    assert_eq!(std::fs::metadata(remembered).unwrap().permissions().mode() & 0o777, 0o600);

    let again = Server::trial(dir.path(), &BARE);
    assert_eq!(again.password(), password);
    assert_eq!(again.inbox().1, 1);
    // Killed, it loses nothing either.
    again.signal("KILL");
    assert!(!again.wait().0.success());
    assert_eq!(Server::trial(dir.path(), &BARE).inbox().1, 1);
}

#[test]
fn samples_come_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::trial(dir.path(), &[]);
    let (mut imap, exists) = server.inbox();
    assert!(exists >= 24, "{exists} samples");
    let large = imap.imap("SEARCH LARGER 5000000");
    assert!(large[0].len() > "* SEARCH".len(), "{large:?}");
    assert_ne!(imap.imap("SEARCH CHARSET UTF-8 TEXT {12+}\r\nStraßenbahn")[0], "* SEARCH");
    server.stop();
    let server = Server::trial(dir.path(), &[]);
    assert_eq!(server.inbox().1, exists);
    server.stop();
}

#[test]
fn two_may_run_on_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Server::trial(dir.path(), &BARE), Server::trial(dir.path(), &BARE));
    assert_eq!(one.password(), two.password());
    let (mut imap, exists) = two.inbox();
    assert_eq!(exists, 0);
    imap.send("t IDLE");
    assert!(imap.line().starts_with('+'));
    assert_eq!(one.connect("lmtp").lmtp(&["me@localhost"], "Subject: over there\r\n\r\n"), [250]);
    assert_eq!(imap.line(), "* 1 EXISTS");
    one.stop();
    two.stop();
}

#[test]
fn a_port_in_use_is_reported_before_any_change() {
    let dir = tempfile::tempdir().unwrap();
    // Another process that uses it continues to serve.
    let _other = TcpListener::bind(("127.0.0.1", 1143));
    let output = sealpost(dir.path(), &["try"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(75), "{stderr}");
    assert!(stderr.contains("1143") && stderr.contains("--ports free"), "{stderr}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_password_that_was_changed_is_not_the_remembered_one() {
    let dir = tempfile::tempdir().unwrap();
    Server::trial(dir.path(), &BARE).stop();
    let old = dir.path().join("sealpost-data/try-password");
    let new = std::fs::read_to_string(&old).unwrap().to_uppercase();
    std::fs::write(&old, new).unwrap();
    let server = Server::trial(dir.path(), &BARE);
    assert!(server.ready["password"].is_null());
    server.stop();
    std::fs::remove_file(&old).unwrap();
    let server = Server::trial(dir.path(), &BARE);
    assert!(server.ready["password"].is_null());
    server.stop();

    write(dir.path(), "pw", "another");
    let named = ["try", "--ports", "free", "--account", "me@localhost", "--password-file", "pw"];
    let output = sealpost(dir.path(), &named).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn the_usual_account_takes_a_password_too() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "pw", "correct horse");
    for _ in 0..2 {
        let server = Server::trial(dir.path(), &["--no-samples", "--password-file", "pw"]);
        assert_eq!(
            (server.ready["account"].as_str(), server.password()),
            (Some("me@localhost"), "correct horse")
        );
        server.connect("imap").imap("LOGIN me \"correct horse\"");
        server.stop();
    }
}

#[test]
fn contradictory_arguments_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "pw", "x");
    write(dir.path(), "empty", "\n");
    for (args, status) in [
        (&["--account", "a@localhost"][..], 2),
        (&["--ports", "some"], 2),
        (&["--ports", "free", "--account", "a@b c", "--password-file", "pw"], 2),
        (&["--ports", "free", "--account", "a@localhost", "--password-file", "empty"], 2),
        (&["--ports", "free", "--account", "a@localhost", "--password-file", "absent"], 2),
    ] {
        let output = sealpost(dir.path(), &[&["try"], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}
