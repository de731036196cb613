//! Runs the binary in a directory of its own.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A directory with data, password files and archives.
pub struct Home {
    dir: tempfile::TempDir,
}

pub const ACCOUNT: &str = "jane@example.org";

impl Home {
    pub fn new() -> Self {
        Home { dir: tempfile::tempdir().unwrap() }
    }

    /// A home with the account [`ACCOUNT`], whose password is in the file `password`.
    pub fn with_account() -> Self {
        let home = Home::new();
        home.file("password", "one and two");
        home.ok(&["account", "add", ACCOUNT, "--password-file", "password"]);
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealpost"));
        command.current_dir(self.dir.path()).args(["--dir", "data"]).args(args).stdin(Stdio::null());
        command.env("SEALPOST_CONFIG", "");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs it with `input` on standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may end without reading all of it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What it prints when it succeeds.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The JSON it prints, and its exit status.
    pub fn json(&self, args: &[&str]) -> (Value, i32) {
        let output = self.run(&[args, &["--json"]].concat());
        let value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {args:?}: {output:?}"));
        (value, output.status.code().unwrap())
    }

    /// The exit status.
    pub fn status(&self, args: &[&str]) -> i32 {
        self.run(args).status.code().unwrap()
    }

    pub fn import(&self, from: &str) -> (Value, i32) {
        self.json(&["import", from, "--account", ACCOUNT, "--password-file", "password"])
    }

    pub fn export(&self, format: &str, to: &str) -> (Value, i32) {
        self.json(&["export", "--account", ACCOUNT, "--format", format, "--password-file", "password", to])
    }

    pub fn check(&self) -> (Value, i32) {
        self.json(&["check", "--password-file", "password"])
    }

    /// Starts a server on this data.
    pub fn serve(&self) -> Server {
        let args = ["try", "--json", "--ports", "free", "--no-samples"];
        let named = ["--account", ACCOUNT, "--password-file", "password"];
        let mut command = self.command(&[&args[..], &named].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        Server { child, ready }
    }
}

/// A server that ends with the test.
pub struct Server {
    child: Child,
    ready: Value,
}

impl Server {
    /// Where it serves `protocol`.
    pub fn port(&self, protocol: &str) -> u64 {
        self.ready[protocol]["port"].as_u64().unwrap()
    }

    /// Whether an IMAP login succeeds.
    pub fn logs_in(&self, password: &str) -> bool {
        let imap = &self.ready["imap"];
        let port = u16::try_from(imap["port"].as_u64().unwrap()).unwrap();
        let mut stream = TcpStream::connect((imap["host"].as_str().unwrap(), port)).unwrap();
        write!(stream, "a LOGIN {ACCOUNT} \"{password}\"\r\nb LOGOUT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().any(|line| line.starts_with("a OK"))
    }
}

impl Server {
    /// Ends it as an operator does.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap();
    }

    /// Delivers a message over LMTP.
    pub fn deliver(&self, to: &str, message: &str) {
        let (accepted, replies) = self.lmtp(to, message);
        assert!(accepted.is_some_and(|line| line.starts_with("250")), "{replies}");
    }

    /// What is answered to a message over LMTP, if it gets so far; and all answers.
    pub fn lmtp(&self, to: &str, message: &str) -> (Option<String>, String) {
        let lmtp = &self.ready["lmtp"];
        let port = u16::try_from(lmtp["port"].as_u64().unwrap()).unwrap();
        let mut stream = TcpStream::connect((lmtp["host"].as_str().unwrap(), port)).unwrap();
        let envelope = format!("LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{to}>\r\n");
        write!(stream, "{envelope}DATA\r\n{message}\r\n.\r\nQUIT\r\n").unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        let accepted = replies.lines().skip_while(|line| !line.starts_with("354")).nth(1);
        (accepted.map(str::to_owned), replies)
    }

    /// Logs in and has these commands done.
    pub fn commands(&self, commands: &[&str]) {
        let imap = &self.ready["imap"];
        let port = u16::try_from(imap["port"].as_u64().unwrap()).unwrap();
        let mut stream = TcpStream::connect((imap["host"].as_str().unwrap(), port)).unwrap();
        write!(stream, "a LOGIN {ACCOUNT} \"one and two\"\r\n").unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
        for (i, command) in commands.iter().enumerate() {
            write!(stream, "c{i} {command}\r\n").unwrap();
            let completes = format!("c{i} ");
            let completion = answers.by_ref().map_while(Result::ok).find(|line| line.starts_with(&completes));
            let fine = completion.as_ref().is_some_and(|line| line[completes.len()..].starts_with("OK"));
            assert!(fine, "{command}: {completion:?}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An mbox of `count` different messages, some of which have lines that need quoting.
pub fn mbox(count: usize, body_bytes: usize) -> String {
    let mut mbox = String::new();
    for i in 0..count {
        let status =
            if i % 3 == 0 { "Status: RO\nX-Status: F\nX-Keywords: work $Forwarded\n" } else { "Status: O\n" };
        let body = "text of a line \n".repeat(body_bytes / 16);
        let (minute, second) = (i / 60 % 60, i % 60);
        mbox.push_str(&format!(
            "From a@example.org Thu Jan  1 01:{minute:02}:{second:02} 2015\n{status}Return-Path: <a@example.org>\n\
             Subject: number {i}\n\n>From the start {i}\n{body}\n"
        ));
    }
    mbox
}

/// All files below a directory, with their contents.
pub fn tree(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push((path.strip_prefix(root).unwrap().to_owned(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
