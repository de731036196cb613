//! The configuration, and `sealpost serve` as it says.

#[path = "support/server.rs"]
mod server;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;
use server::{Server, sealpost};

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

fn output(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = sealpost(dir, args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const QUIET: &str = "directory = \"mail\"\n[listen]\nsmtp = []\nimap = [\"127.0.0.1:0\"]\nimaps = []\n\
                     lmtp_unix = [\"lmtp.sock\"]\n[timeouts]\nshutdown_grace = \"3s\"\n";

#[test]
fn show_prints_values_in_force_and_their_sources() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s.toml", QUIET);
    let (status, shown, _) =
        output(dir.path(), &["config", "show", "--config", "s.toml", "--log-level", "info"]);
    assert_eq!(status, 0);
    let line = |start: &str| shown.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert!(line("shutdown_grace = \"3s\"").ends_with("# s.toml:8"));
    assert!(line("level = \"info\"").ends_with("# --log-level"));
    assert!(line("memory = ").ends_with("# default"));

    let (_, json, _) = output(dir.path(), &["--json", "--dir", "elsewhere", "config", "show"]);
    let keys: Value = serde_json::from_str(&json).unwrap();
    let of = |name: &str| keys.as_array().unwrap().iter().find(|key| key["key"] == name).unwrap().clone();
    assert_eq!(
        (of("directory")["value"].as_str(), of("directory")["flag"].as_str()),
        (Some("elsewhere"), Some("--dir"))
    );
    assert_eq!(of("recipients")["source"], "default");

    let (status, file, _) = output(dir.path(), &["config", "default"]);
    write(dir.path(), "default.toml", &file);
    assert_eq!(status, 0);
    assert_eq!(output(dir.path(), &["config", "show", "--config", "default.toml"]).0, 0);
}

#[test]
fn the_version_names_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["--version"][..], &["account", "--version"]] {
        let (status, version, _) = output(dir.path(), args);
        assert_eq!(status, 0);
        let (_, commit) = version.trim_end().split_once(" (").unwrap();
        let commit = commit.strip_suffix(')').unwrap();
        let is_commit = commit.len() >= 12 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(commit == "unknown" || is_commit, "{version}");
    }
}

#[test]
fn the_environment_names_a_configuration_for_every_command_but_try() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s.toml", QUIET);
    write(dir.path(), "pw", "secret\n");
    let run = |file: &str, args: &[&str]| {
        let output = sealpost(dir.path(), args).env("SEALPOST_CONFIG", file).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (_, shown, _) = run("s.toml", &["config", "show"]);
    assert!(
        shown.starts_with("# read from s.toml (named by SEALPOST_CONFIG)\ndirectory = \"mail\""),
        "{shown}"
    );
    let add = ["account", "add", "me@localhost", "--password-file", "pw"];
    assert_eq!(run("s.toml", &add).0, 0);
    assert!(dir.path().join("mail/server.key").exists());
    assert_eq!(run("s.toml", &["account", "list"]).1, "me@localhost\n");
    let server = Server::spawn({
        let mut serve = sealpost(dir.path(), &["serve", "--json"]);
        serve.env("SEALPOST_CONFIG", "s.toml");
        serve
    });
    assert_eq!(run("s.toml", &["top", "--once"]).0, 0);
    server.stop();

    write(dir.path(), "other.toml", "directory = \"other\"\n");
    let (_, shown, _) = run("s.toml", &["config", "show", "--config", "other.toml"]);
    assert!(shown.starts_with("# read from other.toml\n"), "the option comes first: {shown}");
    assert!(run("", &["config", "show"]).1.starts_with("# no file is read: "));
    let (status, _, said) = run("absent.toml", &["account", "list"]);
    assert!(status == 2 && said.contains("absent.toml (named by SEALPOST_CONFIG): No such file"), "{said}");
    let trial = ["try", "--json", "--ports", "free", "--no-samples"];
    let mut trial = sealpost(dir.path(), &trial);
    trial.env("SEALPOST_CONFIG", "absent.toml");
    Server::spawn(trial).stop();
}

#[test]
fn mistakes_are_named_with_their_line_and_nothing_is_done() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s.toml", "memmory = \"1GiB\"\n[listen]\nimap = [\"everywhere\", \"localhost:143\"]\n");
    for command in [&["serve"][..], &["config", "show"], &["account", "list"], &["try", "--ports", "free"]] {
        let (status, _, stderr) = output(dir.path(), &[&["--config", "s.toml"], command].concat());
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains("s.toml:1: there is no key memmory; is it memory?"), "{stderr}");
        assert!(stderr.contains("s.toml:3: listen.imap is a list of addresses"), "{stderr}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn it_serves_as_the_file_says() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s.toml", QUIET);
    write(dir.path(), "pw", "secret\n");
    let add = ["account", "add", "me@localhost", "--password-file", "pw", "--config", "s.toml"];
    assert_eq!(output(dir.path(), &add).0, 0);
    let server = Server::start(dir.path(), &["serve", "--config", "s.toml", "--json"]);
    assert_eq!(server.ready["smtp"], Value::Array(Vec::new()));

    let socket = UnixStream::connect(dir.path().join("lmtp.sock")).unwrap();
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
    let text = "LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<me@localhost>\r\nDATA\r\n";
    (&socket).write_all(text.as_bytes()).unwrap();
    assert!(lines.by_ref().any(|line| line.unwrap().starts_with("354")));
    (&socket).write_all(b"Subject: by socket\r\n\r\n.\r\nQUIT\r\n").unwrap();
    assert!(lines.next().unwrap().unwrap().starts_with("250"));

    let mut imap = server.connect("imap");
    imap.imap("LOGIN me@localhost secret");
    assert!(imap.imap("SELECT INBOX").contains(&"* 1 EXISTS".to_owned()));
    // Commands work while it runs, and it sees what they do.
    let token =
        ["--json", "account", "app-password", "add", "me@localhost", "phone", "--password-file", "pw"];
    let (status, made, stderr) = output(dir.path(), &[&token[..], &["--config", "s.toml"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let made: Value = serde_json::from_str(&made).unwrap();
    let mut phone = server.connect("imap");
    phone.imap(&format!("LOGIN me@localhost {}", made["app_password"].as_str().unwrap()));
    server.stop();
    assert!(!dir.path().join("lmtp.sock").exists());
}

#[test]
fn a_node_keeps_its_bus_id_across_restarts() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s.toml", &format!("{QUIET}[bus]\nurl = \"nats://127.0.0.1:1\"\n"));
    let serve = || {
        Server::start(dir.path(), &["serve", "--config", "s.toml", "--json"]).stop();
        std::fs::read_to_string(dir.path().join("mail/node-1.id")).unwrap()
    };
    let id = serve();
    assert_eq!(id.len(), 17, "{id:?}");
    assert_eq!(serve(), id);
}

#[test]
fn a_hang_up_loads_a_changed_certificate() {
    let dir = tempfile::tempdir().unwrap();
    Server::trial(dir.path(), &["--no-samples"]).stop();
    for (name, to) in [("tls-certificate.pem", "cert.pem"), ("tls-key.pem", "key.pem")] {
        std::fs::copy(dir.path().join("sealpost-data").join(name), dir.path().join(to)).unwrap();
    }
    write(dir.path(), "s.toml", &format!("{QUIET}[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n"));
    let mut server =
        Server::start(dir.path(), &["serve", "--config", "s.toml", "--json", "--log-level", "info"]);
    let mut log = server.stderr().lines().map_while(Result::ok);
    server.signal("HUP");
    assert!(log.any(|line| line.contains("the certificate has not changed")));
    let pem = std::fs::read_to_string(dir.path().join("cert.pem")).unwrap();
    write(dir.path(), "cert.pem", &format!("a comment before it\n{pem}"));
    server.signal("HUP");
    assert!(log.any(|line| line.contains("the certificate was replaced")));
    write(dir.path(), "cert.pem", "nonsense");
    server.signal("HUP");
    assert!(log.any(|line| line.contains("the old one stays")));
    server.signal("TERM");
    assert!(log.any(|line| line.contains("stopping")));
}

#[test]
fn the_log_is_json_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "s.toml", &format!("{QUIET}[log]\nlevel = \"info\"\nformat = \"json\"\n"));
    let mut server = Server::start(dir.path(), &["serve", "--config", "s.toml", "--json"]);
    let log = server.stderr();
    server.signal("TERM");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "stopping" && line["level"] == "INFO"), "{lines:?}");
}
