//! Transcripts: what a client sends and what the server has to answer, line by line, run against a
//! real session.
//!
//! ```text
//! # a comment
//! set message_size 1000          settings, before the first other line
//! C: NOOP                        sends the line with CRLF; lines in a row leave as one write (pipelined)
//! C| half a line                 sends it without CRLF
//! S: 250 * Ok                    expects exactly this line; `*` stands for anything
//! S!                             expects the server to have hung up
//! C2: NOOP                       the same on a second connection (up to 9), opened at its first line
//! tls                            speaks TLS from here on; `tls2` on the second connection
//! anything else                  is given to the test itself
//! ```
//! In what is sent, `\r`, `\n`, `\0`, `\t`, `\\` and `\xHH` stand for what they stand for.

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long the server may take for a line.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection over any stream.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// What a transcript talks to.
pub trait TestServer {
    /// Opens connection `n`.
    async fn connect(&mut self, n: usize) -> Box<dyn Wire>;
    /// Performs the client's side of a TLS handshake.
    async fn start_tls(&mut self, plain: Box<dyn Wire>) -> Box<dyn Wire>;
    /// A line that is none of the transcript's own; panics if it does not hold.
    async fn line(&mut self, line: &str);
}

/// The settings at the top of a transcript: pairs of name and value.
pub fn settings(text: &str) -> Vec<(&str, &str)> {
    let sets = text.lines().filter_map(|line| line.strip_prefix("set "));
    sets.map(|set| set.split_once(' ').unwrap_or((set, ""))).collect()
}

/// Runs a transcript; panics at the first line that does not hold, with its number.
pub async fn run(name: &str, text: &str, world: &mut impl TestServer) {
    let mut connections: HashMap<usize, Connection> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let at = format!("{name}:{}", number + 1);
        if line.trim().is_empty() || line.starts_with('#') || line.starts_with("set ") {
            continue;
        }
        let Some((verb, n, rest)) = split(line) else {
            flush(&mut connections, &at).await;
            world.line(line).await;
            continue;
        };
        if let std::collections::hash_map::Entry::Vacant(entry) = connections.entry(n) {
            entry.insert(Connection::new(world.connect(n).await));
        }
        match verb {
            "C:" | "C|" => {
                let connection = connections.get_mut(&n).expect("it was opened above");
                connection.out.extend(unescape(rest));
                if verb == "C:" {
                    connection.out.extend_from_slice(b"\r\n");
                }
                continue;
            }
            _ => flush(&mut connections, &at).await,
        }
        let mut connection = connections.remove(&n).expect("it was opened above");
        match verb {
            "S:" => {
                let got = connection.read_line(&at).await;
                assert!(matches(rest, &got), "{at}: expected {rest:?}, got {got:?}");
            }
            "S!" => {
                let left = connection.read_to_end(&at).await;
                assert_eq!(left, "", "{at}: expected the server to hang up");
                continue;
            }
            _ => connection = Connection::new(world.start_tls(connection.wire).await),
        }
        connections.insert(n, connection);
    }
    flush(&mut connections, name).await;
}

/// `C2: rest` as its parts; `None` if it is no line of the transcript's own.
fn split(line: &str) -> Option<(&'static str, usize, &str)> {
    if let Some(n) = line.strip_prefix("tls") {
        return Some(("tls", if n.is_empty() { 1 } else { n.parse().ok()? }, ""));
    }
    let head = line.split(' ').next().unwrap_or(line);
    let verb = [("C", ":", "C:"), ("C", "|", "C|"), ("S", ":", "S:"), ("S", "!", "S!")];
    let (verb, digits) = verb
        .into_iter()
        .find_map(|(begin, end, verb)| Some((verb, head.strip_prefix(begin)?.strip_suffix(end)?)))?;
    let n = if digits.is_empty() { 1 } else { digits.parse().ok()? };
    Some((verb, n, line[head.len()..].strip_prefix(' ').unwrap_or("")))
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().expect("something follows a backslash") {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => 0,
            b'x' => {
                let hex = [bytes.next().expect("two digits"), bytes.next().expect("two digits")];
                u8::from_str_radix(std::str::from_utf8(&hex).expect("two digits"), 16).expect("two digits")
            }
            other => other,
        });
    }
    out
}

/// Whether `pattern` fits the whole of `text`; `*` fits anything.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

async fn flush(connections: &mut HashMap<usize, Connection>, at: &str) {
    for connection in connections.values_mut() {
        let out = std::mem::take(&mut connection.out);
        if out.is_empty() {
            continue;
        }
        let sent = async {
            connection.wire.write_all(&out).await?;
            connection.wire.flush().await
        };
        tokio::time::timeout(TIMEOUT, sent).await.expect(at).expect(at);
    }
}

struct Connection {
    wire: Box<dyn Wire>,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    fn new(wire: Box<dyn Wire>) -> Self {
        Connection { wire, out: Vec::new(), input: Vec::new() }
    }

    async fn read_line(&mut self, at: &str) -> String {
        loop {
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            let read = tokio::time::timeout(TIMEOUT, self.wire.read_buf(&mut self.input)).await;
            let read = read.unwrap_or_else(|_| panic!("{at}: no answer")).expect(at);
            assert!(read > 0, "{at}: the server hung up after {:?}", String::from_utf8_lossy(&self.input));
        }
    }

    async fn read_to_end(&mut self, at: &str) -> String {
        let read = tokio::time::timeout(TIMEOUT, self.wire.read_to_end(&mut self.input)).await;
        read.unwrap_or_else(|_| panic!("{at}: the server does not hang up")).expect(at);
        String::from_utf8_lossy(&self.input).into_owned()
    }
}
