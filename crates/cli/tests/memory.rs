//! What a server that runs has in its memory: each key once while it is used, and not at all afterwards.

#[path = "support/server.rs"]
mod server;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use sealpost_base::{SystemClock, SystemRandom};
use sealpost_directory::{AccountName, Directory, Secret};
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;
use server::{Server, sealpost};

const ACCOUNT: &str = "jane@example.org";
const PASSWORD: &str = "one and two";
/// The time within which the server forgets: a second that it remembers logins, and five each until
/// an account is unloaded and until the next sweep; a slow machine takes longer.
const LOOKS: usize = 240;
const TEXT: &str = "a sentence that is nowhere else, zyzzyva-quokka";
const SUBJECT: &str = "a subject that is nowhere else, axolotl-numbat";

fn configuration(inspection: &str) -> String {
    format!(
        "hostname = \"mx.example.org\"\ninspection = \"{inspection}\"\n\
         [listen]\nsmtp = []\nimaps = []\nimap = [\"127.0.0.1:0\"]\nlmtp = [\"127.0.0.1:0\"]\n\
         [login]\ncache_ttl = \"1s\"\n"
    )
}

fn serve(dir: &Path, inspection: &str) -> Server {
    std::fs::write(dir.join("sealpost.toml"), configuration(inspection)).unwrap();
    Server::start(dir, &["--dir", "data", "--config", "sealpost.toml", "serve", "--json"])
}

fn run(dir: &Path, args: &[&str]) -> String {
    let output =
        sealpost(dir, &[&["--dir", "data"], args].concat()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The account's root key, derived from the data and the password.
fn root_key(dir: &Path) -> Vec<u8> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let root = runtime.block_on(async {
        let key = ServerKeys::load_or_create(&dir.join("data/server.key"), &SystemRandom).unwrap();
        let store = Store::local(&dir.join("data")).await.unwrap();
        let directory = Directory::new(store, key, Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let secret = Secret::new(PASSWORD.as_bytes()).unwrap();
        directory.unlock(&AccountName::parse(ACCOUNT).unwrap(), secret).await.unwrap().1
    });
    // Two bytes say that 32 follow.
    minicbor::to_vec(root).unwrap()[2..].to_vec()
}

/// How often `bytes` are in what the process can write to.
fn copies(server: &Server, bytes: &[u8]) -> usize {
    copies_of(server, [bytes])[0]
}

/// The same of several, in one look.
fn copies_of<const N: usize>(server: &Server, all: [&[u8]; N]) -> [usize; N] {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.id())).unwrap();
    let memory = File::open(format!("/proc/{}/mem", server.id())).unwrap();
    let (finders, mut found, mut buffer) = (all.map(memmem::Finder::new), [0; N], Vec::new());
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with("rw") {
            continue;
        }
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        buffer.resize((end - start) as usize, 0);
        // It may have been unmapped since.
        if memory.read_exact_at(&mut buffer, start).is_ok() {
            for (finder, found) in finders.iter().zip(&mut found) {
                *found += finder.find_iter(&buffer).count();
            }
        }
    }
    found
}

/// Nine copies of the root key were found 75 seconds after the last session had ended.
#[test]
fn a_key_is_in_memory_once_and_then_no_more() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("password"), PASSWORD).unwrap();
    run(dir.path(), &["account", "add", ACCOUNT, "--password-file", "password"]);
    let token =
        run(dir.path(), &["account", "app-password", "add", ACCOUNT, "phone", "--password-file", "password"]);
    let token = token.split_whitespace().find(|word| word.starts_with("sp_")).unwrap();
    let root = root_key(dir.path());
    let server = serve(dir.path(), "on");
    let message = format!("From: you@example.org\r\nSubject: {SUBJECT}\r\n\r\n{TEXT}\r\n");
    assert_eq!(server.connect("lmtp").lmtp(&[ACCOUNT], &message), [250]);
    assert_eq!(copies(&server, &root), 0, "whoever delivers has none");
    let mut sessions = [PASSWORD, token, PASSWORD].map(|secret| {
        let mut session = server.connect("imap");
        session.imap(&format!("LOGIN {ACCOUNT} \"{secret}\""));
        session.imap("SELECT INBOX");
        session
    });
    for session in &mut sessions {
        assert!(session.imap("FETCH 1 BODY[]").iter().any(|line| line == TEXT));
        session.imap("SEARCH TEXT zyzzyva");
        let derived = session.imap("FETCH 1 (ENVELOPE PREVIEW)").join("");
        assert!(derived.contains(SUBJECT) && derived.contains("zyzzyva"), "{derived}");
        session.imap("SORT (SUBJECT) UTF-8 SUBJECT axolotl");
        session.imap("STORE 1 +FLAGS (\\Flagged)");
    }
    assert_eq!(copies(&server, &root), 1, "all sessions share it");
    for session in &mut sessions {
        session.imap("LOGOUT");
    }
    drop(sessions);
    assert_ne!(copies(&server, SUBJECT.as_bytes()), 0, "caches have it while the account is in use");
    let mut left = [1; 3];
    for _ in 0..LOOKS {
        if left == [0; 3] {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(500));
        left = copies_of(&server, [&root, TEXT.as_bytes(), SUBJECT.as_bytes()]);
    }
    assert_eq!(left, [0; 3], "copies of the key, of the text, which the preview is, and of the subject");
    server.stop();
}

#[test]
fn a_server_leaves_no_core_dumps() {
    let dir = tempfile::tempdir().unwrap();
    for (inspection, limited) in [("off", true), ("on", false)] {
        let server = serve(dir.path(), inspection);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
        let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let own = std::fs::read_to_string("/proc/self/limits").unwrap();
        let is_off = cores.split_whitespace().nth(4) == Some("0");
        assert_eq!(is_off, limited || own.contains(cores) && is_off, "{cores}");
        // Root may always.
        let is_root = rustix::process::getuid().is_root();
        let readable = File::open(format!("/proc/{}/mem", server.id())).is_ok();
        assert_eq!(readable, is_root || !limited);
        server.stop();
    }
}
