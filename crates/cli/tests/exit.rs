//! Exit statuses: what a failure means decides, for every command alike (the table in `--help` and
//! in the guide).

#[path = "support/run.rs"]
mod run;

use std::net::TcpListener;
use std::process::Output;

use run::{ACCOUNT, Home};

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const DENIED: i32 = 4;
const TEMPORARY: i32 = 75;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs each, and compares its status.
fn all(home: &Home, rows: &[(&[&str], i32)]) {
    for (args, status) in rows {
        let output = home.run(args);
        assert_eq!(output.status.code(), Some(*status), "{args:?}: {output:?}");
        assert!(said(&output).starts_with("sealpost: "), "it says why: {args:?}: {output:?}");
        assert!(!said(&output).contains("(os error"), "{output:?}");
    }
}

#[test]
fn a_wrong_configuration_is_2_for_every_command() {
    let home = Home::with_account();
    home.file("key.toml", "no_such_key = 1\n");
    home.file("latin1.toml", b"hostname = \"caf\xe9\"\n");
    home.file("large.toml", " ".repeat(1024 * 1024 + 1));
    for config in ["absent.toml", ".", "key.toml", "latin1.toml", "large.toml", "password/x"] {
        for command in [
            &["account", "list"][..],
            &["serve"],
            &["try"],
            &["stats"],
            &["check"],
            &["config", "show"],
            &["top", "--once"],
            &["import", "a", "--account", ACCOUNT],
            &["store", "probe"],
            &["backup", "data", "copy"],
        ] {
            all(&home, &[(&[&["--config", config], command].concat(), USAGE)]);
        }
    }
    let refused = home.run(&["--config", "absent.toml", "account", "list"]);
    assert_eq!(said(&refused), "sealpost: the configuration absent.toml: No such file or directory\n");
}

#[test]
fn files_named_in_the_configuration_must_exist() {
    let home = Home::with_account();
    let serve = |name: &str, text: &str| {
        home.file(name, format!("directory = \"never\"\n{text}"));
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_sealpost"))
            .current_dir(home.path("."))
            .args(["serve", "--config", name])
            .output()
            .unwrap();
        assert!(
            !home.path("never").join("objects.sqlite").exists() || !name.starts_with("tls"),
            "nothing was done"
        );
        (output.status.code().unwrap(), said(&output))
    };
    let listen = "[listen]\nsmtp = []\nimap = [\"127.0.0.1:0\"]\nimaps = []\n";
    let tls = "[tls]\ncertificate = \"none.pem\"\nkey = \"none.key\"\n";
    assert_eq!(serve("tls.toml", &format!("{listen}{tls}")).0, USAGE);
    home.file("none.pem", "no certificate");
    home.file("none.key", "no key");
    let (status, why) = serve("tls2.toml", &format!("{listen}{tls}"));
    assert!(status == USAGE && why.contains("none.pem: it has no certificate"), "{why}");
    let socket = "lmtp_unix = [\"nowhere/lmtp.sock\"]\n";
    assert_eq!(serve("socket.toml", &format!("{listen}{socket}")).0, USAGE);
    let socket = "lmtp_unix = [\"password\"]\n";
    assert_eq!(serve("file.toml", &format!("{listen}{socket}")).0, USAGE);
    let store =
        "[store]\nurl = \"s3://mail-test\"\nendpoint = \"http://127.0.0.1:9\"\ncredentials = \"none\"\n";
    assert_eq!(serve("store.toml", &format!("{listen}{store}")).0, USAGE);
}

#[test]
fn a_taken_port_is_always_exit_status_75() {
    let home = Home::with_account();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    home.file("s.toml", format!("[listen]\nsmtp = []\nimaps = []\nimap = [\"{at}\"]\n"));
    all(&home, &[(&["--config", "s.toml", "serve"], TEMPORARY)]);
    home.file("m.toml", format!("[metrics]\nlisten = [\"{at}\"]\n"));
    let args = ["--config", "m.toml", "try", "--ports", "free", "--password-file", "password"];
    all(&home, &[(&args, TEMPORARY)]);
    // The usual ports of `try`: if another program has one, it is as good.
    let _usual = TcpListener::bind("127.0.0.1:1143");
    all(&home, &[(&["try", "--password-file", "password"], TEMPORARY)]);
    let socket = std::os::unix::net::UnixListener::bind(home.path("lmtp.sock")).unwrap();
    home.file("u.toml", "[listen]\nsmtp = []\nimaps = []\nimap = []\nlmtp_unix = [\"lmtp.sock\"]\n");
    all(&home, &[(&["--config", "u.toml", "serve"], TEMPORARY)]);
    drop(socket);
}

#[test]
fn a_wrong_command_line_is_2_and_nothing_is_done() {
    let home = Home::with_account();
    home.file("empty", "\n");
    home.file("a.eml", "Subject: a\n\nb\n");
    home.file("out.mbox", "");
    let account = ["--account", ACCOUNT, "--password-file", "password"];
    let with = |args: &[&'static str]| [args, &account].concat();
    all(
        &home,
        &[
            (&["account", "add", "joe@example.org", "--password-file", "absent"], USAGE),
            (&["account", "add", "joe@example.org", "--password-file", "."], USAGE),
            (&["account", "add", "joe@example.org", "--password-file", "empty"], USAGE),
            (&["account", "add", "two words@example.org", "--password-file", "password"], USAGE),
            (&["account", "show", "jane"], USAGE),
            (&["account", "quota", "<jane@example.org>"], USAGE),
            (&["account", "app-password", "list", "jane,joe@example.org"], USAGE),
            (&["account", "passwd", ACCOUNT, "--password-file", "absent"], USAGE),
            (&["account", "undelete", ACCOUNT, "--messages", "--since", "yore"], USAGE),
            (&["alias", "add", "a b@example.org", ACCOUNT], USAGE),
            (&["alias", "add", "@-example.org", ACCOUNT], USAGE),
            (&["check", "--account", "a@b@c"], USAGE),
            (&["stats", "--account", ACCOUNT, "--password-file", "absent"], USAGE),
            (&with(&["import", "absent.mbox"]), USAGE),
            (&with(&["import", "a.eml", "absent.mbox"]), USAGE),
            (&with(&["export", "--format", "maildir", "password/x"]), USAGE),
            (&with(&["export", "--format", "mbox", "--mailbox", "INBOX", "out.mbox"]), USAGE),
            (&["backup", "data", "password"], USAGE),
            (&["backup", "ftp://a", "copy"], USAGE),
            (&["store", "probe", "s3://no"], USAGE),
            (&["bench", "run", "nothing"], USAGE),
        ],
    );
    assert_eq!(home.json(&["account", "list"]).0.as_array().unwrap().len(), 1);
    let file = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sealpost"));
        command.current_dir(home.path(".")).args(args).stdin(std::process::Stdio::null()).output().unwrap()
    };
    let add = ["account", "add", "joe@example.org", "--password-file", "password"];
    for dir in ["password", "password/x"] {
        let output = file(&[&["--dir", dir][..], &add].concat());
        assert_eq!(output.status.code(), Some(USAGE), "{output:?}");
    }
}

#[test]
fn missing_objects_exit_with_3_and_wrong_passwords_with_4() {
    let home = Home::with_account();
    home.file("wrong", "wrong");
    home.file("a.eml", "Subject: a\n\nb\n");
    let account =
        |name: &'static str, password: &'static str| ["--account", name, "--password-file", password];
    let nobody = account("nobody@example.org", "password");
    let wrong = account(ACCOUNT, "wrong");
    let right = account(ACCOUNT, "password");
    all(
        &home,
        &[
            (&["account", "show", "nobody@example.org"], NOT_FOUND),
            (&["account", "remove", "nobody@example.org"], NOT_FOUND),
            (&["account", "suspend", "nobody@example.org"], NOT_FOUND),
            (&["account", "resume", "nobody@example.org"], NOT_FOUND),
            (&["account", "undelete", "nobody@example.org"], NOT_FOUND),
            (&["account", "app-password", "revoke", ACCOUNT, "phone"], NOT_FOUND),
            (&["account", "passwd", "nobody@example.org", "--password-file", "password"], NOT_FOUND),
            (&["alias", "remove", "nobody@example.org"], NOT_FOUND),
            (&["alias", "add", "a@example.org", "nobody@example.org"], NOT_FOUND),
            (&["check", "--account", "nobody@example.org"], NOT_FOUND),
            (&[&["stats"][..], &nobody].concat(), NOT_FOUND),
            (&[&["import", "a.eml"][..], &nobody].concat(), NOT_FOUND),
            (&[&["export", "--format", "maildir"][..], &nobody, &["out"]].concat(), NOT_FOUND),
            (
                &[&["export", "--format", "mbox", "--mailbox", "none"][..], &right, &["x.mbox"]].concat(),
                NOT_FOUND,
            ),
            (&["backup", "nothing", "copy"], NOT_FOUND),
            (&["store", "probe", "nothing"], NOT_FOUND),
            (&[&["stats"][..], &wrong].concat(), DENIED),
            (&[&["check"][..], &wrong].concat(), DENIED),
            (&[&["import", "a.eml"][..], &wrong].concat(), DENIED),
            (&[&["export", "--format", "maildir"][..], &wrong, &["out"]].concat(), DENIED),
            (&["account", "recovery", ACCOUNT, "--password-file", "wrong"], DENIED),
            (&["account", "add", ACCOUNT, "--password-file", "password"], FAILED),
            (&["account", "undelete", ACCOUNT], FAILED),
            (&["top", "--once"], TEMPORARY),
        ],
    );
    let empty = Home::new();
    empty.file("password", "x");
    all(
        &empty,
        &[
            (&["account", "list"], NOT_FOUND),
            (&["check"], NOT_FOUND),
            (&["stats"], NOT_FOUND),
            (&["top", "--once"], NOT_FOUND),
            (&["alias", "list"], NOT_FOUND),
        ],
    );
}

#[test]
fn quiet_commands_print_nothing_on_success() {
    let home = Home::with_account();
    let quiet = |args: &[&str]| {
        let output = home.run(&[args, &["--quiet"]].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
    };
    for args in [
        &["account", "add", "joe@example.org", "--password-file", "password"][..],
        &["account", "suspend", "joe@example.org"],
        &["account", "resume", "joe@example.org"],
        &["alias", "add", "info@example.org", "joe@example.org"],
        &["alias", "set", "info@example.org", ACCOUNT],
        &["alias", "remove", "info@example.org"],
        &["account", "remove", "joe@example.org"],
        &["account", "undelete", "joe@example.org"],
        &["check"],
        &["check", "--account", ACCOUNT, "--password-file", "password"],
        &["backup", "data", "copy"],
    ] {
        assert_eq!(quiet(args), (String::new(), String::new()), "{args:?}");
    }
    // Results and errors are printed all the same.
    assert_eq!(quiet(&["account", "list"]).0.lines().count(), 2);
    assert!(!quiet(&["account", "recovery", ACCOUNT, "--password-file", "password"]).0.is_empty());
    let refused = home.run(&["--quiet", "account", "show", "nobody@example.org"]);
    assert!(!refused.status.success() && !refused.stderr.is_empty());
}
