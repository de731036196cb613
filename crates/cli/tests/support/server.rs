//! A server as a process, and clients on plain sockets.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The binary, in `dir`.
pub fn sealpost(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealpost"));
    command.current_dir(dir).args(args).stdin(Stdio::null()).env("SEALPOST_CONFIG", "");
    command
}

/// A server that is ready; killed when dropped.
pub struct Server {
    child: Child,
    pub ready: Value,
    /// Kept open: a server must not fail because its output is not read.
    stdout: BufReader<std::process::ChildStdout>,
}

impl Server {
    /// `sealpost try --json --ports free`, and `args`.
    pub fn trial(dir: &Path, args: &[&str]) -> Self {
        Self::start(dir, &[&["try", "--json", "--ports", "free"], args].concat())
    }

    /// Any command that prints one line of JSON when it is ready.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        Self::spawn(sealpost(dir, args))
    }

    /// A command that was prepared.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str(&line) else {
            let output = child.wait_with_output().unwrap();
            panic!("{command:?} said {line:?} and {output:?}");
        };
        Server { child, ready, stdout }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn password(&self) -> &str {
        self.ready["password"].as_str().unwrap()
    }

    /// A connection to one of its protocols, after the greeting.
    pub fn connect(&self, protocol: &str) -> Client {
        let at = match &self.ready[protocol] {
            Value::Array(all) => &all[0],
            one => one,
        };
        let port = u16::try_from(at["port"].as_u64().unwrap()).unwrap();
        Client::new(TcpStream::connect((at["host"].as_str().unwrap(), port)).unwrap())
    }

    /// An IMAP session of the first account, with the inbox selected; and how many messages are there.
    pub fn inbox(&self) -> (Client, usize) {
        let mut imap = self.connect("imap");
        let login = format!("LOGIN {} \"{}\"", self.ready["account"].as_str().unwrap(), self.password());
        imap.imap(&login);
        let exists = imap
            .imap("SELECT INBOX")
            .into_iter()
            .find_map(|line| line.strip_prefix("* ")?.strip_suffix(" EXISTS")?.parse().ok());
        (imap, exists.unwrap())
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for its end; what it wrote to standard error until then.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap(), stderr)
    }

    /// SIGTERM, and a good end.
    pub fn stop(self) {
        self.signal("TERM");
        let (status, stderr) = self.wait();
        assert!(status.success(), "{status} {stderr}");
    }

    /// Its standard error, as it comes.
    pub fn stderr(&mut self) -> impl BufRead + use<> {
        BufReader::new(self.child.stderr.take().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection, in lines.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Client { stream: BufReader::new(stream) };
        assert!(!client.line().is_empty(), "a greeting");
        client
    }

    /// The next line, without its end; empty when the connection is closed.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn send(&mut self, line: &str) {
        write!(self.stream.get_mut(), "{line}\r\n").unwrap();
    }

    /// An IMAP command that must succeed; the lines before its completion.
    pub fn imap(&mut self, command: &str) -> Vec<String> {
        self.send(&format!("t {command}"));
        let mut lines = Vec::new();
        loop {
            match self.line() {
                line if line.starts_with("t ") => {
                    assert!(line.starts_with("t OK"), "{command}: {line}");
                    return lines;
                }
                line if line.is_empty() && lines.last().is_some_and(String::is_empty) => {
                    panic!("{command}: closed")
                }
                line => lines.push(line),
            }
        }
    }

    /// An SMTP or LMTP command, and the code of its reply.
    pub fn smtp(&mut self, command: &str) -> u16 {
        self.send(command);
        self.reply()
    }

    /// The code of the next SMTP or LMTP reply.
    pub fn reply(&mut self) -> u16 {
        loop {
            let line = self.line();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.get(..3).unwrap_or_default().parse().unwrap_or(0);
            }
        }
    }

    /// Delivers `message` to each of `to`; the code for each.
    pub fn lmtp(&mut self, to: &[&str], message: &str) -> Vec<u16> {
        assert_eq!(self.smtp("LHLO test.example"), 250);
        assert_eq!(self.smtp("MAIL FROM:<you@example.org>"), 250);
        for recipient in to {
            assert_eq!(self.smtp(&format!("RCPT TO:<{recipient}>")), 250, "{recipient}");
        }
        assert_eq!(self.smtp("DATA"), 354);
        self.send(&format!("{message}\r\n."));
        to.iter().map(|_| self.reply()).collect()
    }
}
