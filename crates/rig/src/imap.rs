//! A raw IMAP client: sends a command line, reads until its tagged reply (RFC 3501 §2.2).
//!
//! Two ways to read: [`Imap::run`] keeps the untagged responses for the caller, [`Imap::count`]
//! only counts them, so that hundreds of megabytes cost the client little.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};

use crate::server::{PASSWORD, Server};
use crate::wire::Wire;

/// A connection to an IMAP server.
pub struct Imap {
    wire: Wire,
    tag: u32,
}

/// A new session of a server under test, logged in.
///
/// # Errors
/// If the server does not answer, or refuses.
pub async fn login(server: &Server, account: &str) -> Result<Imap> {
    Imap::login(server.imap, account, PASSWORD).await.with_context(|| format!("{} login", server.name))
}

/// The reply to one command.
#[derive(Debug, Default)]
pub struct Reply {
    /// The tagged line after the tag: `OK [COPYUID 1 2 3] done`.
    pub status: String,
    /// Untagged responses without `* `, literals in place, in order.
    pub untagged: Vec<Vec<u8>>,
}

/// The size of the reply to one command.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Untagged responses.
    pub responses: u64,
    /// Untagged FETCH responses.
    pub fetches: u64,
    /// Bytes inside literals.
    pub literal_bytes: u64,
    /// All bytes of the reply.
    pub bytes: u64,
}

impl Reply {
    /// Whether the tagged reply was OK.
    pub fn is_ok(&self) -> bool {
        self.status.starts_with("OK")
    }

    /// The arguments of response code `name`, anywhere in the reply: `COPYUID` gives `1 2:4 7:9`.
    pub fn code(&self, name: &str) -> Option<String> {
        let open = format!("[{name} ");
        let untagged = self.untagged.iter().map(|line| String::from_utf8_lossy(line).into_owned());
        std::iter::once(self.status.clone()).chain(untagged).find_map(|line| {
            let rest = &line[line.find(&open)? + open.len()..];
            Some(rest[..rest.find(']')?].to_owned())
        })
    }
}

impl Imap {
    /// Connects and reads the greeting.
    pub async fn connect(addr: SocketAddr) -> Result<Self> {
        let mut wire = Wire::connect(addr).await?;
        let greeting = wire.line().await.context("greeting")?;
        ensure!(greeting.starts_with(b"* OK"), "greeting {:?}", String::from_utf8_lossy(&greeting));
        Ok(Imap { wire, tag: 0 })
    }

    /// Connects and logs in.
    pub async fn login(addr: SocketAddr, user: &str, password: &str) -> Result<Self> {
        let mut imap = Self::connect(addr).await?;
        imap.ok(&format!("LOGIN {user} \"{password}\"")).await?;
        Ok(imap)
    }

    /// Sends `command` and collects its reply, of any status. An error means the connection is
    /// lost.
    pub async fn run(&mut self, command: &str) -> Result<Reply> {
        let tag = self.start(command).await?;
        self.reply(&tag).await
    }

    /// Sends `command`; any reply but OK is an error.
    pub async fn ok(&mut self, command: &str) -> Result<Reply> {
        let reply = self.run(command).await.with_context(|| brief(command))?;
        ensure!(reply.is_ok(), "{}: {}", brief(command), reply.status);
        Ok(reply)
    }

    /// Sends `command` and counts the reply; any reply but OK is an error.
    pub async fn count(&mut self, command: &str) -> Result<Tally> {
        self.each_literal_byte(command, |_| {}).await
    }

    /// Like [`Imap::count`], passing all bytes inside literals to `sink`.
    pub async fn each_literal_byte(&mut self, command: &str, mut sink: impl FnMut(&[u8])) -> Result<Tally> {
        let before = self.wire.received();
        let tag = self.start(command).await?;
        let mut tally = Tally::default();
        loop {
            let mut line = self.wire.line().await.with_context(|| brief(command))?;
            if let Some(status) = tagged(&line, &tag) {
                ensure!(status.starts_with("OK"), "{}: {status}", brief(command));
                tally.bytes = self.wire.received() - before;
                return Ok(tally);
            }
            tally.responses += 1;
            tally.fetches +=
                u64::from(memchr::memmem::find(&line[..line.len().min(24)], b" FETCH ").is_some());
            while let Some(size) = literal(&line) {
                self.wire.take(size, &mut sink).await?;
                tally.literal_bytes += size;
                line = self.wire.line().await?;
            }
        }
    }

    /// Appends a message with a non-synchronizing literal (RFC 7888), in one round trip.
    pub async fn append(&mut self, mailbox: &str, flags: &str, message: &[u8]) -> Result<Reply> {
        let tag = self.append_begin(mailbox, flags, message.len() as u64).await?;
        self.wire.send(message).await?;
        self.append_end(&tag).await
    }

    /// Appends messages with their flags and dates in one command (RFC 3502).
    pub async fn append_all(&mut self, mailbox: &str, messages: &[(String, Vec<u8>)]) -> Result<Reply> {
        self.tag += 1;
        let tag = format!("a{}", self.tag);
        let mut bytes = format!("{tag} APPEND {mailbox}").into_bytes();
        for (about, message) in messages {
            bytes.extend_from_slice(format!(" {about} {{{}+}}\r\n", message.len()).as_bytes());
            bytes.extend_from_slice(message);
        }
        self.wire.send(&bytes).await?;
        self.append_end(&tag).await
    }

    /// The head of an APPEND whose literal the caller sends with [`Imap::send`].
    pub async fn append_begin(&mut self, mailbox: &str, flags: &str, size: u64) -> Result<String> {
        self.tag += 1;
        let tag = format!("a{}", self.tag);
        self.wire.send(format!("{tag} APPEND {mailbox} ({flags}) {{{size}+}}\r\n").as_bytes()).await?;
        Ok(tag)
    }

    /// Ends an APPEND and reads its reply.
    pub async fn append_end(&mut self, tag: &str) -> Result<Reply> {
        self.wire.send(b"\r\n").await?;
        self.reply(tag).await
    }

    /// Sends raw bytes.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.wire.send(bytes).await
    }

    /// The underlying connection, for clients that misbehave.
    pub fn into_wire(self) -> Wire {
        self.wire
    }

    async fn start(&mut self, command: &str) -> Result<String> {
        self.tag += 1;
        let tag = format!("a{}", self.tag);
        self.wire.send(format!("{tag} {command}\r\n").as_bytes()).await?;
        Ok(tag)
    }

    async fn reply(&mut self, tag: &str) -> Result<Reply> {
        let mut untagged = Vec::new();
        loop {
            let mut line = self.wire.line().await?;
            if let Some(status) = tagged(&line, tag) {
                return Ok(Reply { status: status.into_owned(), untagged });
            }
            if line.starts_with(b"* BYE") && !line.starts_with(b"* BYE Logging out") {
                // The tagged reply of LOGOUT still follows; after any other BYE the next read
                // fails.
                untagged.push(line);
                continue;
            }
            let mut whole = Vec::new();
            loop {
                let size = literal(&line);
                whole.append(&mut line);
                let Some(size) = size else { break };
                self.wire.take(size, |bytes| whole.extend_from_slice(bytes)).await?;
                line = self.wire.line().await?;
            }
            let keep = whole.strip_prefix(b"* ").map(<[u8]>::to_vec).unwrap_or(whole);
            untagged.push(keep);
        }
    }
}

/// The rest of `line` after its tag, if it is `tag`'s reply.
fn tagged<'a>(line: &'a [u8], tag: &str) -> Option<std::borrow::Cow<'a, str>> {
    let rest = line.strip_prefix(tag.as_bytes())?.strip_prefix(b" ")?;
    Some(String::from_utf8_lossy(rest))
}

/// The size of the literal announced at the end of `line` (RFC 3501 §4.3).
fn literal(line: &[u8]) -> Option<u64> {
    let inside = line.strip_suffix(b"}")?;
    let open = memchr::memrchr(b'{', inside)?;
    std::str::from_utf8(&inside[open + 1..]).ok()?.parse().ok()
}

/// The number of messages an untagged `EXISTS` in `reply` names.
pub fn exists(reply: &Reply) -> Result<u32> {
    for line in &reply.untagged {
        if let Some(count) = line.strip_suffix(b" EXISTS") {
            return Ok(std::str::from_utf8(count)?.parse()?);
        }
    }
    bail!("no EXISTS in the reply")
}

/// The UIDs of a set like `4,7:9`, in the order written (RFC 4315 §3).
pub fn uids(set: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<Vec<u32>> {
        let (from, to) = part.split_once(':').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        Some(if from <= to { (from..=to).collect() } else { (to..=from).rev().collect() })
    };
    set.split(',').filter_map(range).flatten().collect()
}

/// A set of UIDs as IMAP writes it, runs joined.
pub fn set(uids: &[u32]) -> String {
    let mut sorted = uids.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for uid in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 >= uid => *last = uid,
            _ => ranges.push((uid, uid)),
        }
    }
    let text: Vec<String> =
        ranges.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}:{b}") }).collect();
    text.join(",")
}

fn brief(command: &str) -> String {
    let words: Vec<&str> = command.split(' ').collect();
    // Never a password in an error message.
    if words.first() == Some(&"LOGIN") { "LOGIN".into() } else { command.chars().take(120).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_round_trip() {
        assert_eq!(set(&[5, 1, 2, 3, 9]), "1:3,5,9");
        assert_eq!(uids("1:3,5,9"), [1, 2, 3, 5, 9]);
        assert_eq!(uids("3:1"), [3, 2, 1]);
    }

    #[test]
    fn finds_literals_and_codes() {
        assert_eq!(literal(b"* 1 FETCH (BODY[] {42}"), Some(42));
        assert_eq!(literal(b"* 1 FETCH (FLAGS ())"), None);
        let reply = Reply { status: "OK [APPENDUID 7 12] done".into(), untagged: vec![] };
        assert_eq!(reply.code("APPENDUID").as_deref(), Some("7 12"));
    }
}
