//! What the log says of failed logins: operators read it, and so does the filter in `contrib/fail2ban`.

#[path = "support/server.rs"]
mod server;

use std::io::BufRead;
use std::path::Path;

use serde_json::Value;
use server::{Server, sealpost};

const JANE: &str = "jane@localhost";

fn serve(dir: &Path, format: &str, options: &[&str]) -> Server {
    let config = format!(
        "directory = \"data\"\nhostname = \"localhost\"\ndomain = \"localhost\"\n[listen]\nsmtp = []\nimaps = []\nlmtp = []\n\
         imap = [\"127.0.0.1:0\"]\n[log]\nformat = \"{format}\"\n"
    );
    std::fs::write(dir.join("sealpost.toml"), config).unwrap();
    std::fs::write(dir.join("password"), "one and two").unwrap();
    if !dir.join("data").exists() {
        let add = ["account", "add", JANE, "--password-file", "password", "--config", "sealpost.toml"];
        assert!(sealpost(dir, &add).output().unwrap().status.success());
    }
    Server::start(dir, &[&["serve", "--json", "--config", "sealpost.toml"], options].concat())
}

/// Fails to log in: names and mechanisms, each of which is one line.
fn guess(server: &Server) {
    let mut imap = server.connect("imap");
    for command in [
        format!("LOGIN {JANE} guess-1"),
        "LOGIN jane guess-2".to_owned(),
        "LOGIN Nobody@localhost guess-3".to_owned(),
        // The password, where the name should be.
        "LOGIN \"one and two\" guess-4".to_owned(),
        "LOGIN \"x\\\" peer=\\\"192.0.2.1@localhost\" guess-5".to_owned(),
        // `jane@localhost NUL guess-6`, once right and once to act for another.
        "AUTHENTICATE PLAIN AGphbmVAbG9jYWxob3N0AGd1ZXNzLTY=".to_owned(),
        "AUTHENTICATE PLAIN cm9vdABqYW5lQGxvY2FsaG9zdABndWVzcy02".to_owned(),
        // `user=jane@localhost SOH auth=Bearer guess-8 SOH SOH`, without TLS.
        "AUTHENTICATE XOAUTH2 dXNlcj1qYW5lQGxvY2FsaG9zdAFhdXRoPUJlYXJlciBndWVzcy04AQE=".to_owned(),
    ] {
        imap.send(&format!("x {command}"));
        let answer = imap.line();
        assert!(answer.starts_with("x NO"), "{command}: {answer}");
    }
}

/// Reason and name of each line that [`guess`] makes.
const LINES: [(&str, &str); 8] = [
    ("credentials", "jane@localhost"),
    ("credentials", "jane@localhost"),
    ("credentials", "nobody@localhost"),
    ("credentials", "-"),
    ("credentials", "-"),
    ("credentials", "jane@localhost"),
    ("authorization", "jane@localhost"),
    ("cleartext", "jane@localhost"),
];

/// Ends the server; what it wrote.
fn written(mut server: Server) -> Vec<String> {
    let stderr = server.stderr();
    server.signal("TERM");
    stderr.lines().map(Result::unwrap).collect()
}

#[test]
fn each_failure_is_a_default_log_line_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), "text", &[]);
    guess(&server);
    let lines = written(server);
    let expected: Vec<String> = LINES
        .iter()
        .map(|(reason, user)| {
            format!(
                " WARN sealpost::logins: login failed protocol=\"imap\" peer=\"127.0.0.1\" reason=\"{reason}\" \
                 user=\"{user}\" suppressed=0"
            )
        })
        .collect();
    let without_time: Vec<&str> = lines.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(without_time, expected);
    assert!(!lines.concat().contains("guess") && !lines.concat().contains("one and two"));
}

#[test]
fn in_json_the_same_is_in_fields() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), "json", &[]);
    guess(&server);
    let lines = written(server);
    assert_eq!(lines.len(), LINES.len());
    for (line, (reason, user)) in lines.iter().zip(LINES) {
        let expected = format!(
            "\",\"level\":\"WARN\",\"message\":\"login failed\",\"protocol\":\"imap\",\"peer\":\"127.0.0.1\",\
             \"reason\":\"{reason}\",\"user\":\"{user}\",\"suppressed\":0,\"target\":\"sealpost::logins\"}}"
        );
        assert!(line.starts_with("{\"timestamp\":\"") && line.ends_with(&expected), "{line}");
        serde_json::from_str::<Value>(line).unwrap();
    }
}

/// More than so many lines say nothing more; how many there were is in the next one.
#[test]
fn many_failures_are_few_lines() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), "text", &[]);
    let mut imap = server.connect("imap");
    // These are not delayed: no secret is checked.
    for n in 0..60 {
        imap.send("x AUTHENTICATE XOAUTH2 dXNlcj1qYW5lQGxvY2FsaG9zdAFhdXRoPUJlYXJlciBndWVzcy04AQE=");
        assert!(imap.line().starts_with("x NO"), "{n}");
    }
    let lines = written(server);
    assert!((20..30).contains(&lines.len()), "{lines:?}");
}

#[test]
fn a_higher_level_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), "text", &["--log-level", "error"]);
    guess(&server);
    assert_eq!(written(server), Vec::<String>::new());
}
