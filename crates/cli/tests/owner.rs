//! File owners and permissions: what root leaves behind in another user's data, what a missing
//! permission looks like, and data that cannot be written.
//!
//! Root runs the binary as another user here; other users take permissions away from files of their
//! own.

#![allow(clippy::print_stderr, reason = "what is not tested is said")]

#[path = "support/run.rs"]
mod run;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use run::{ACCOUNT, Home};

/// A user id that needs no account.
const SOMEBODY: u32 = 54_321;
const PASSWORD: [&str; 2] = ["--password-file", "password"];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A home with a small message and a large one, which is a file of its own. Root gives it to
/// another user.
fn home() -> Home {
    let home = Home::with_account();
    let noise = noise();
    home.file("small.eml", "Subject: small\n\nx\n");
    home.file("large.eml", format!("Subject: large\n\n{noise}"));
    if is_root() {
        std::fs::set_permissions(home.path("."), PermissionsExt::from_mode(0o755)).unwrap();
        give(&home.path("."), SOMEBODY);
    }
    for file in ["small.eml", "large.eml"] {
        let import = [&["import", file, "--account", ACCOUNT][..], &PASSWORD].concat();
        assert!(as_owner(&home, &import).status.success());
    }
    home
}

/// Random enough to stay large when compressed.
fn noise() -> String {
    let mut n = 1u64;
    let numbers = std::iter::repeat_with(|| {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{n:016x}\n")
    });
    numbers.take(20_000).collect()
}

fn give(path: &Path, to: u32) {
    chown(path, Some(to), Some(to)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), to);
        }
    }
}

fn belongs_to_somebody(path: &Path) {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (SOMEBODY, SOMEBODY), "{}", path.display());
    if metadata.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| belongs_to_somebody(&entry.unwrap().path()));
    }
}

/// Runs the binary as the owner of the data.
fn as_owner(home: &Home, args: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_sealpost"));
    if !is_root() {
        return home.run(args);
    }
    let run = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(home.path(".")).args(["--dir", "data"]).args(args);
        command.uid(SOMEBODY).gid(SOMEBODY).output()
    };
    // The build directory may be where others may not go.
    run(program).unwrap_or_else(|_| {
        let reachable = home.path("sealpost");
        if !reachable.exists() {
            std::fs::hard_link(program, &reachable)
                .or_else(|_| std::fs::copy(program, &reachable).map(drop))
                .unwrap();
        }
        run(&reachable).unwrap()
    })
}

/// The files that are messages.
fn large_files(home: &Home) -> Vec<PathBuf> {
    let below = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    // Those of account records are small.
    let is_large = |path: &PathBuf| path.extension().is_none();
    below(home.path("data/objects")).flat_map(below).filter(is_large).collect()
}

/// Takes from the owner of the data the right to read `path`.
fn lock(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
    if is_root() {
        chown(path, Some(0), Some(0)).unwrap();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn files_created_by_root_get_the_data_owner() {
    if !is_root() {
        eprintln!("not tested: only root has another user's files to leave behind");
        return;
    }
    let home = home();
    home.file("more.eml", format!("Subject: more\n\n{}", noise()));
    assert_eq!(home.import("more.eml").1, 0);
    let add = ["account", "add", "joe@example.org", "--password-file", "password"];
    assert_eq!(home.status(&add), 0);
    drop(home.serve());
    assert!(home.path("data/admin.sock").exists());
    belongs_to_somebody(&home.path("data"));
    assert_eq!(home.check().1, 0);
    // A data directory that root makes below another user's.
    std::fs::create_dir(home.path("home")).unwrap();
    give(&home.path("home"), SOMEBODY);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealpost"));
    command.current_dir(home.path(".")).args(["--dir", "home/a/mail"]).args(add);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    belongs_to_somebody(&home.path("home"));
}

/// What root restores, the owner pulls into next.
#[test]
fn files_that_root_writes_into_a_backup_get_its_owner() {
    let home = home();
    let server = home.serve();
    let port = server.port("imap").to_string();
    let there = ["--host", "127.0.0.1", "--port", &port, "--tls", "none", "--user", ACCOUNT];
    let archive = |args: &[&str]| {
        let output = home.run(&[&["archive"], args, &there[..], &PASSWORD].concat());
        assert!(output.status.success(), "{}", text(&output));
    };
    archive(&["pull", "--format", "mbox", "--into", "copy"]);
    archive(&["restore", "--from", "copy", "--map", "map"]);
    for file in ["copy/sealpost.restored", "map"] {
        let mode = std::fs::metadata(home.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    if is_root() {
        for made in ["copy", "map"] {
            belongs_to_somebody(&home.path(made));
        }
    }
}

#[test]
fn a_permission_is_never_damage() {
    let home = home();
    let files = large_files(&home);
    lock(&files[0]);
    for with_key in [false, true] {
        let args = if with_key { &["check", "--password-file", "password"][..] } else { &["check"] };
        let checked = as_owner(&home, args);
        let said = text(&checked);
        assert_eq!(checked.status.code(), Some(1), "{said}");
        assert!(
            said.contains("permission denied: ")
                && said.contains(files[0].to_str().unwrap().rsplit_once("objects/").unwrap().1),
            "{said}"
        );
        assert!(said.contains("no sign of damage"), "{said}");
        for advice in ["removed", "backup", "damaged"] {
            assert!(!said.contains(advice), "{advice}: {said}");
        }
    }
    let json = as_owner(&home, &["check", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&report["problem_count"], &report["unread_count"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["problems"][0]["damage"], false, "{report}");
    // A directory of objects that may not be entered.
    lock(files[0].parent().unwrap());
    let said = text(&as_owner(&home, &["check", "--password-file", "password"]));
    assert!(said.contains("permission denied: ") && !said.contains("removed"), "{said}");
    let out = [&["export", "--account", ACCOUNT, "--format", "maildir"][..], &PASSWORD, &["out"]].concat();
    let exported = as_owner(&home, &out);
    assert_ne!(exported.status.code(), Some(0));
    assert!(text(&exported).contains("permission denied: "), "{exported:?}");
}

#[test]
fn root_is_warned_of_files_that_the_server_cannot_read() {
    if !is_root() {
        eprintln!("not tested: root alone reads what the server cannot");
        return;
    }
    let home = home();
    let file = &large_files(&home)[0];
    chown(file, Some(0), Some(0)).unwrap();
    let checked = home.run(&["check", "--password-file", "password"]);
    let said = text(&checked);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("belongs to root") && said.contains("chown -R --reference="), "{said}");
    give(&home.path("data"), SOMEBODY);
    assert_eq!(home.check().1, 0);
}

#[test]
fn a_forbidden_directory_does_not_count_as_empty() {
    let home = home();
    for locked in ["data/objects.sqlite", "data/server.key", "data"] {
        lock(&home.path(locked));
        for command in
            [&["account", "list"][..], &["stats"], &["check"], &["alias", "add", "a@x.org", ACCOUNT]]
        {
            let refused = as_owner(&home, command);
            let said = text(&refused);
            assert_eq!(refused.status.code(), Some(1), "{locked} {command:?}: {said}");
            assert!(
                said.contains("permission denied: ") && said.contains(locked),
                "{locked} {command:?}: {said}"
            );
        }
        if is_root() {
            give(&home.path(locked), SOMEBODY);
        }
        std::fs::set_permissions(home.path(locked), PermissionsExt::from_mode(0o700)).unwrap();
    }
    assert!(as_owner(&home, &["stats"]).status.success());
}

#[test]
fn data_that_cannot_be_written_is_read() {
    let home = home();
    // As a read-only mount shows it; root would write nevertheless.
    let mut modes = BTreeMap::new();
    for path in ["data", "data/objects.sqlite", "data/objects.sqlite-wal", "data/objects.sqlite-shm"] {
        if let Ok(metadata) = std::fs::metadata(home.path(path)) {
            modes.insert(path, metadata.permissions());
            let read_only = metadata.mode() & 0o7555;
            std::fs::set_permissions(home.path(path), PermissionsExt::from_mode(read_only)).unwrap();
        }
    }
    let before = run::tree(&home.path("data"));
    let export = [&["export", "--account", ACCOUNT, "--format", "maildir"][..], &PASSWORD, &["out"]].concat();
    for command in [
        &["check"][..],
        &["check", "--password-file", "password"],
        &["stats", "--account", ACCOUNT, "--password-file", "password"],
        &["account", "list"],
        &["account", "show", ACCOUNT],
        &["account", "quota", ACCOUNT],
        &["account", "app-password", "list", ACCOUNT],
        &["alias", "list"],
        &export,
        &["backup", "data", "copy"],
    ] {
        let done = as_owner(&home, command);
        assert!(done.status.success(), "{command:?}: {done:?}");
    }
    let refused = as_owner(&home, &["account", "add", "joe@example.org", "--password-file", "password"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused).contains("permission denied: "), "{refused:?}");
    assert_eq!(run::tree(&home.path("data")), before, "nothing was written");
    for (path, permissions) in modes {
        std::fs::set_permissions(home.path(path), permissions).unwrap();
    }
    assert_eq!(large_files(&home).len(), 1);
}
