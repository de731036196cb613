//! A server that does nothing: it answers at once and stores nothing. To measure the bench itself,
//! and to test it.
//!
//! It implements as much of IMAP, SMTP, LMTP and JMAP as a client of the bench needs: every command is
//! answered OK, every mailbox has the given number of messages, [`MESSAGES`] by default, FETCH
//! returns a canned response for each requested one.

mod jmap;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::protocol::Protocol;
use super::target::{Endpoint, TargetAddr};
use super::wire::Io;

/// Messages in every mailbox by default.
pub const MESSAGES: u32 = 1000;
/// Bytes of each.
const MESSAGE_BYTES: usize = 1000;
/// The announced capabilities.
const CAPABILITIES: &str = "IMAP4rev1 LITERAL+ MULTIAPPEND IDLE MOVE NAMESPACE";
/// The longest accepted line.
const LINE_BYTES: usize = 64 * 1024;

/// Listens on a free port of this machine, on separate threads, until the process ends; with so
/// many messages in every mailbox.
///
/// # Errors
/// If there is no port, or no thread.
pub fn listen(protocol: Protocol, messages: u32) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(format!("null {}", protocol.name())).spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            let created = jmap::Created::default();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let created = created.clone();
                tokio::spawn(async move {
                    match protocol {
                        Protocol::Jmap => jmap::serve(stream, created, messages).await,
                        _ => serve(stream, protocol, messages).await,
                    }
                });
            }
        });
    })?;
    Ok(address)
}

/// One within the process, over pipes; its sessions run on the present `LocalSet`.
pub fn inside(protocol: Protocol) -> Endpoint {
    let created = jmap::Created::default();
    let connect = move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let created = created.clone();
        tokio::task::spawn_local(async move {
            match protocol {
                Protocol::Jmap => jmap::serve(theirs, created, MESSAGES).await,
                _ => serve(theirs, protocol, MESSAGES).await,
            }
        });
        Box::new(ours) as Box<dyn Io>
    };
    Endpoint { addr: TargetAddr::Inside(Arc::new(connect)), tls: None }
}

/// Serves one connection until it ends.
///
/// # Errors
/// If the connection breaks.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    protocol: Protocol,
    messages: u32,
) -> io::Result<()> {
    let mut session =
        Session { protocol, messages, data: false, literal: 0, idle: None, tag: Vec::new(), accepted: 0 };
    let mut input: Vec<u8> = Vec::new();
    let mut out: Vec<u8> = match protocol {
        Protocol::Imap => format!("* OK [CAPABILITY {CAPABILITIES}] null\r\n").into_bytes(),
        _ => b"220 null\r\n".to_vec(),
    };
    loop {
        stream.write_all(&out).await?;
        out.clear();
        if out.capacity() > LINE_BYTES {
            out = Vec::new();
        }
        if input.len() > LINE_BYTES || session.tag == b"bye" {
            return Ok(());
        }
        input.reserve(if session.literal > 0 || session.data { LINE_BYTES } else { 1024 });
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let used = session.take(&input, &mut out);
        input.drain(..used);
        if input.is_empty() {
            input.shrink_to(1024);
        }
    }
}

struct Session {
    protocol: Protocol,
    /// Messages in every mailbox.
    messages: u32,
    /// Within the message after DATA.
    data: bool,
    literal: usize,
    idle: Option<Vec<u8>>,
    /// The tag of the command whose literals are being received.
    tag: Vec<u8>,
    accepted: usize,
}

impl Session {
    /// Answers the complete part of `input`; returns its length.
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while at < input.len() {
            if self.literal > 0 {
                let skipped = self.literal.min(input.len() - at);
                self.literal -= skipped;
                at += skipped;
                continue;
            }
            let Some(end) = memchr(b'\n', &input[at..]) else { break };
            let line = &input[at..at + end];
            at += end + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match self.protocol {
                Protocol::Imap => self.imap(line, out),
                _ => self.smtp(line, out),
            }
        }
        at
    }

    fn imap(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if let Some(tag) = self.idle.take() {
            return ok(&tag, out);
        }
        let tag = if self.tag.is_empty() { word(line).0.to_vec() } else { std::mem::take(&mut self.tag) };
        if let Some((size, at_once)) = literal(line) {
            self.literal = size;
            self.tag = tag;
            if !at_once {
                out.extend_from_slice(b"+ go on\r\n");
            }
            return;
        }
        let (verb, rest) = word(word(line).1);
        let (verb, rest) = if verb.eq_ignore_ascii_case(b"UID") { word(rest) } else { (verb, rest) };
        match verb.to_ascii_uppercase().as_slice() {
            b"SELECT" | b"EXAMINE" => {
                let messages = self.messages;
                let next = messages.saturating_add(1);
                let lines =
                    format!("* {messages} EXISTS\r\n* OK [UIDVALIDITY 1] -\r\n* OK [UIDNEXT {next}] -\r\n");
                out.extend_from_slice(lines.as_bytes());
            }
            b"STATUS" => {
                let line = format!("* STATUS x (MESSAGES {})\r\n", self.messages);
                out.extend_from_slice(line.as_bytes());
            }
            b"CAPABILITY" => {
                out.extend_from_slice(format!("* CAPABILITY {CAPABILITIES}\r\n").as_bytes());
            }
            b"NAMESPACE" => out.extend_from_slice(b"* NAMESPACE ((\"\" \"/\")) NIL NIL\r\n"),
            b"SEARCH" => out.extend_from_slice(b"* SEARCH 1 2 3\r\n"),
            b"FETCH" => fetch(rest, self.messages, out),
            b"IDLE" => {
                self.idle = Some(tag);
                return out.extend_from_slice(b"+ idling\r\n");
            }
            b"LOGOUT" => {
                out.extend_from_slice(b"* BYE\r\n");
                ok(&tag, out);
                self.tag = b"bye".to_vec();
                return;
            }
            _ => {}
        }
        ok(&tag, out);
    }

    fn smtp(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if self.data {
            if line == b"." {
                self.data = false;
                let replies = if self.protocol == Protocol::Lmtp { self.accepted } else { 1 };
                out.extend_from_slice(&b"250 taken\r\n".repeat(replies));
            }
            return;
        }
        let reply: &[u8] = match word(line).0.to_ascii_uppercase().as_slice() {
            b"EHLO" | b"LHLO" => b"250-null\r\n250-PIPELINING\r\n250-AUTH PLAIN\r\n250 SIZE\r\n",
            b"MAIL" => {
                self.accepted = 0;
                b"250 go on\r\n"
            }
            b"RCPT" => {
                self.accepted += 1;
                b"250 go on\r\n"
            }
            b"DATA" => {
                self.data = true;
                b"354 go on\r\n"
            }
            b"QUIT" => {
                self.tag = b"bye".to_vec();
                b"221 bye\r\n"
            }
            _ => b"250 ok\r\n",
        };
        out.extend_from_slice(reply);
    }
}

fn ok(tag: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(tag);
    out.extend_from_slice(b" OK done\r\n");
}

fn word(line: &[u8]) -> (&[u8], &[u8]) {
    memchr(b' ', line).map_or((line, &[]), |at| (&line[..at], &line[at + 1..]))
}

/// `{5}` or `{5+}` at the end of a line: how many bytes follow, and whether the client waits for a
/// continuation request.
fn literal(line: &[u8]) -> Option<(usize, bool)> {
    let inner = line[memchr::memrchr(b'{', line)? + 1..].strip_suffix(b"}")?;
    let digits = inner.strip_suffix(b"+");
    let size = std::str::from_utf8(digits.unwrap_or(inner)).ok()?.parse().ok()?;
    Some((size, digits.is_some()))
}

fn fetch(rest: &[u8], messages: u32, out: &mut Vec<u8>) {
    let (set, items) = word(rest);
    let (first, last) = memchr(b':', set).map_or((set, set), |at| (&set[..at], &set[at + 1..]));
    let number =
        |text: &[u8]| std::str::from_utf8(text).ok().and_then(|n| n.parse().ok()).unwrap_or(messages);
    let body = memchr::memmem::find(items, b"BODY").is_some();
    for n in number(first)..=number(last).min(messages) {
        if body {
            out.extend_from_slice(format!("* {n} FETCH (UID {n} BODY[] {{{MESSAGE_BYTES}}}\r\n").as_bytes());
            out.resize(out.len() + MESSAGE_BYTES, b'x');
            out.extend_from_slice(b")\r\n");
        } else {
            out.extend_from_slice(format!("* {n} FETCH (UID {n} FLAGS (\\Seen))\r\n").as_bytes());
        }
    }
}
