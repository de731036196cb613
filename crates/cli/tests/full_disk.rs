//! What frees room works on a disk that is full to the last byte.

#[path = "support/run.rs"]
mod run;

use std::io::Write;
use std::process::Command;

use run::Home;

const OTHER: &str = "joe@example.org";
/// More than the reserve of a store, and some mail.
const DISK: &str = "size=96m";

#[test]
#[allow(clippy::print_stderr, reason = "a test that cannot run here has to say so")]
fn accounts_are_removed_and_purged_on_a_full_disk() {
    let may_mount = Command::new("unshare").args(["-Urm", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        eprintln!("not tested: mounting is not allowed here");
        return;
    }
    let mut inside = Command::new("unshare");
    inside.arg("-Urm").arg(std::env::current_exe().unwrap());
    let output = inside.args(["--exact", "--ignored", "--nocapture", "on_a_full_disk"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

#[test]
#[ignore = "started by accounts_are_removed_and_purged_on_a_full_disk, where it may mount"]
fn on_a_full_disk() {
    let home = Home::new();
    home.file("password", "one and two");
    let data = home.path("data");
    std::fs::create_dir(&data).unwrap();
    let mount = ["-t", "tmpfs", "-o", DISK, "tmpfs", data.to_str().unwrap()];
    assert!(Command::new("mount").args(mount).status().unwrap().success());
    for name in [run::ACCOUNT, OTHER] {
        home.ok(&["account", "add", name, "--password-file", "password"]);
        let text: String =
            (0..60_000u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let file = home.file("message.eml", format!("Subject: x\n\n{text}")).display().to_string();
        home.ok(&["import", &file, "--account", name, "--password-file", "password"]);
    }
    // The server makes the reserve.
    let server = home.serve();
    let reserved = || std::fs::metadata(data.join("reserve")).unwrap().len();
    assert!(reserved() > 0);
    let mut other = std::fs::File::create(data.join("of-another-program")).unwrap();
    let mut fill = || {
        for piece in [1 << 20, 4096, 1] {
            while other.write_all(&vec![1; piece]).is_ok() {}
        }
    };
    fill();
    let quota = ["account", "quota", OTHER, "--storage", "1GiB"];
    assert_eq!(home.status(&quota), 75, "the disk is full, and that frees nothing");
    for (name, server) in [(run::ACCOUNT, Some(server)), (OTHER, None)] {
        home.ok(&["account", "remove", name]);
        let (purged, status) = home.json(&["account", "purge", name, "--now"]);
        assert!(status == 0 && purged["objects"].as_u64().unwrap() >= 2, "{purged}");
        fill();
        if let Some(server) = server {
            server.stop();
        }
    }
    drop(other);
    std::fs::remove_file(data.join("of-another-program")).unwrap();
    let (found, status) = home.json(&["check"]);
    assert_eq!(status, 0, "{found}");
    drop(Command::new("umount").arg("-l").arg(&data).status());
}
