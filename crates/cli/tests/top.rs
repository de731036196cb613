//! Watching a server from outside: `/metrics`, `/healthz`, the admin socket, `sealpost top`, the
//! dashboard, the guide.

#[path = "support/openmetrics.rs"]
mod openmetrics;
#[path = "support/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use server::{Client, Server, sealpost};

const JANE: &str = "jane@localhost";

/// A server with the account [`JANE`], as its administrator would run it.
fn serve(dir: &Path) -> Server {
    let config = "directory = \"data\"\nhostname = \"localhost\"\n[listen]\nsmtp = []\nimaps = []\n\
                  imap = [\"127.0.0.1:0\"]\nlmtp = [\"127.0.0.1:0\"]\n\
                  submission = [\"127.0.0.1:0\"]\n[metrics]\nlisten = [\"127.0.0.1:0\"]\n";
    std::fs::write(dir.join("sealpost.toml"), config).unwrap();
    std::fs::write(dir.join("password"), "one and two").unwrap();
    if !dir.join("data").exists() {
        let add = ["account", "add", JANE, "--password-file", "password", "--config", "sealpost.toml"];
        assert!(sealpost(dir, &add).output().unwrap().status.success());
    }
    Server::start(dir, &["serve", "--json", "--config", "sealpost.toml"])
}

/// Some of everything: a delivery, commands that succeed and fail, a login that fails. The session
/// continues.
fn use_it(server: &Server) -> Client {
    let mut imap = server.connect("imap");
    imap.send(&format!("x LOGIN {JANE} wrong"));
    assert!(imap.line().starts_with("x NO"));
    assert_eq!(server.connect("lmtp").lmtp(&[JANE], "Subject: hello\r\n\r\nworld\r\n"), [250]);
    imap.imap(&format!("LOGIN {JANE} \"one and two\""));
    imap.imap("SELECT INBOX");
    imap.imap("FETCH 1 BODY[]");
    imap.send("x FROB");
    assert!(imap.line().starts_with("x BAD"));
    imap.send("x SEARCH 0");
    assert!(imap.line().starts_with("x BAD"));
    imap
}

/// The status line, the header and the body of the answer to a request.
fn http(server: &Server, request: &str) -> (String, String, String) {
    let at = &server.ready["metrics"][0];
    let port = u16::try_from(at["port"].as_u64().unwrap()).unwrap();
    let mut stream = TcpStream::connect((at["host"].as_str().unwrap(), port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, header) = head.split_once("\r\n").unwrap();
    (status.to_owned(), header.to_owned(), body.to_owned())
}

fn scrape(server: &Server) -> String {
    let (status, header, body) = http(server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(header.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    body
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words in `text` that begin like names of metrics.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("sealpost_") || word.starts_with("process_")).collect()
}

#[test]
fn a_scrape_is_strict_openmetrics_with_correct_counts() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let _imap = use_it(&server);
    let page = scrape(&server);
    let families = openmetrics::parse(&page);
    assert!(families.values().all(|family| !family.help.is_empty()));
    let value = |family: &str, name: &str, wanted: &[(&str, &str)]| -> f64 {
        let family = &families[family];
        let matches = |labels: &std::collections::BTreeMap<String, String>| {
            wanted.iter().all(|(name, value)| labels.get(*name).is_some_and(|v| v == value))
        };
        family.samples.iter().filter(|(n, labels, _)| n == name && matches(labels)).map(|(.., v)| v).sum()
    };
    let counted = |family: &str, wanted: &[(&str, &str)]| value(family, &format!("{family}_total"), wanted);
    let imap = ("protocol", "imap");
    assert_eq!(counted("sealpost_commands", &[imap, ("command", "LOGIN"), ("result", "no")]), 1.0);
    assert_eq!(counted("sealpost_commands", &[imap, ("command", "LOGIN"), ("result", "ok")]), 1.0);
    assert_eq!(counted("sealpost_commands", &[imap, ("command", "SELECT"), ("result", "ok")]), 1.0);
    let fetch = [imap, ("command", "FETCH")];
    assert_eq!(value("sealpost_command_seconds", "sealpost_command_seconds_count", &fetch), 1.0);
    let data = [("protocol", "lmtp"), ("command", "DATA")];
    assert_eq!(value("sealpost_command_seconds", "sealpost_command_seconds_count", &data), 1.0);
    assert_eq!(counted("sealpost_logins", &[("slot", "password")]), 1.0);
    assert_eq!(counted("sealpost_login_failures", &[("reason", "credentials")]), 1.0);
    assert_eq!(counted("sealpost_deliveries", &[("protocol", "lmtp")]), 1.0);
    assert_eq!(counted("sealpost_connections_accepted", &[imap]), 1.0);
    assert!(
        counted("sealpost_received_bytes", &[imap]) > 0.0 && counted("sealpost_sent_bytes", &[imap]) > 0.0
    );
    assert_eq!(value("sealpost_sessions", "sealpost_sessions", &[imap, ("state", "selected")]), 1.0);
    assert_eq!(value("sealpost_accounts_loaded", "sealpost_accounts_loaded", &[]), 1.0);
    assert!(counted("sealpost_log_entries_appended", &[]) >= 1.0);
    assert!(counted("sealpost_store_fsyncs", &[]) >= 1.0);
    assert!(value("process_resident_memory_bytes", "process_resident_memory_bytes", &[]) > 1e6);
    // It contains no user's name and no address.
    assert!(!page.contains("jane") && !page.contains("127.0.0.1"));
    server.stop();
}

#[test]
fn the_guide_explains_every_metric_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let table = sealpost(dir.path(), &["config", "metrics"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/guide/monitoring.md")).unwrap();
    assert!(
        page.contains(&table),
        "put what `cargo run -p sealpost -- config metrics` prints into docs/guide/monitoring.md"
    );
    let server = serve(dir.path());
    let _imap = use_it(&server);
    let scraped = scrape(&server);
    let there = names(&scraped);
    for name in names(&page) {
        assert!(there.contains(name), "{name} is in the guide and in no scrape");
    }
    for family in openmetrics::parse(&scraped).keys() {
        assert!(table.contains(&format!("`{family}")), "{family} is not in the table");
    }
}

#[test]
fn the_dashboard_asks_for_nothing_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let _imap = use_it(&server);
    let scraped = scrape(&server);
    let there = names(&scraped);
    let dashboard = std::fs::read_to_string(repository().join("contrib/grafana/sealpost.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(target["expr"].as_str().unwrap());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        queries.extend(variable["definition"].as_str());
    }
    assert!(queries.len() > 20);
    for query in queries {
        let asked = names(query);
        assert!(!asked.is_empty(), "{query}");
        for name in asked {
            assert!(there.contains(name), "{name} is in no scrape: {query}");
        }
    }
}

#[test]
fn other_requests_are_answered_as_they_deserve() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let status = |request: &str| http(&server, request).0;
    let (ok, _, body) = http(&server, "GET /healthz HTTP/1.1\r\n\r\n");
    assert_eq!((ok.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "ok\n"));
    assert_eq!(http(&server, "HEAD /metrics HTTP/1.1\r\n\r\n").2, "");
    assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(status("DELETE /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(status("nonsense\r\n"), "HTTP/1.1 400 Bad Request");
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(status(&long), "HTTP/1.1 431 Request Header Fields Too Large");
    server.stop();
}

#[test]
fn top_shows_the_activity() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path());
    let mut imap = use_it(&server);
    imap.send("t IDLE");
    assert!(imap.line().starts_with('+'));
    let top = |args: &[&str]| {
        let output = sealpost(dir.path(), &[&["top", "--dir", "data"], args].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let stats: Value = serde_json::from_str(&top(&["--json"])).unwrap();
    assert_eq!(stats["pid"], server.ready["pid"]);
    let session = &stats["sessions"][0];
    assert_eq!(
        (&session["user"], &session["state"], &session["command"]),
        (&JANE.into(), &"selected".into(), &"IDLE".into())
    );
    assert_eq!(stats["accounts"]["largest"][0]["name"], JANE);
    assert!(stats["memory"]["total"].as_u64() > Some(0));
    // Not on a terminal, so once, as text without anything for terminals.
    for args in [&["--once"][..], &[], &["--order", "age"]] {
        let text = top(args);
        assert!(text.contains(JANE) && text.contains("IDLE") && !text.contains('\x1b'), "{text}");
    }
    server.stop();
}

#[test]
fn the_socket_is_private_and_every_server_has_one() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("data/admin.sock");
    let top = |args: &[&str]| sealpost(dir.path(), &[&["top", "--json"], args].concat()).output().unwrap();
    let (one, two) = (serve(dir.path()), serve(dir.path()));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let stats: Value = serde_json::from_slice(&top(&["--dir", "data"]).stdout).unwrap();
    assert_eq!(stats["pid"], one.ready["pid"]);
    let stats: Value = serde_json::from_slice(&top(&["--socket", "data/admin-2.sock"]).stdout).unwrap();
    assert_eq!(stats["pid"], two.ready["pid"]);
    two.stop();
    // The remains of a killed server do not interfere.
    one.signal("KILL");
    one.wait();
    assert!(socket.exists());
    let none = top(&["--dir", "data"]);
    let stderr = String::from_utf8(none.stderr).unwrap();
    assert_eq!((none.status.code(), none.stdout.len()), (Some(75), 0), "{stderr}");
    assert!(stderr.contains("no server runs on data"), "{stderr}");
    let again = serve(dir.path());
    let stats: Value = serde_json::from_slice(&top(&["--dir", "data"]).stdout).unwrap();
    assert_eq!(stats["pid"], again.ready["pid"]);
    again.stop();
    assert!(!socket.exists());
}
