//! The attacks, each attacker on its own connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sealpost_base::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::server::{PASSWORD, Server};

/// The account that attackers log in to.
pub(super) const VICTIM: &str = "victim@localhost";
/// What an attacker sends in one piece.
const PIECE: usize = 8 * 1024;
/// Hosts of one attacking network.
const HOSTS: usize = 200;

#[derive(Debug, Clone, Copy)]
pub(super) enum Attack {
    Literal,
    Line,
    Smtp,
    LiteralLoggedIn,
    Header,
    Nest,
    ZipBomb,
    SlowReaders,
    Pipelines,
    HalfOpen,
    SlowHandshake,
    SlowCommand,
    Recipients,
    EveryUid,
    EmptyString,
}

pub(super) const ATTACKS: [(Attack, &str); 15] = [
    (Attack::Literal, "literals without end, before login"),
    (Attack::Line, "lines without end, before login"),
    (Attack::Smtp, "LMTP lines without end"),
    (Attack::LiteralLoggedIn, "literals without end, logged in"),
    (Attack::Header, "header fields without end"),
    (Attack::Nest, "MIME nested without end"),
    (Attack::ZipBomb, "compressed nothing that expands a thousandfold"),
    (Attack::SlowReaders, "FETCH of everything, and nothing read"),
    (Attack::Pipelines, "commands by the hundred, and no answer read"),
    (Attack::HalfOpen, "TLS handshakes that are never finished"),
    (Attack::SlowHandshake, "TLS handshakes, one byte at a time"),
    (Attack::SlowCommand, "LMTP commands, one byte at a time"),
    (Attack::Recipients, "LMTP recipients without end"),
    (Attack::EveryUid, "UID FETCH 1:4294967295"),
    (Attack::EmptyString, "SEARCH for the empty string"),
];

#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    imap: SocketAddr,
    imaps: SocketAddr,
    lmtp: SocketAddr,
}

impl Ports {
    pub(super) fn of(server: &Server) -> Result<Self> {
        let imaps = server.imaps.context("the server has no TLS port")?;
        Ok(Ports { imap: server.imap, imaps, lmtp: server.lmtp })
    }
}

/// The pace of the attackers of one attack, and whether they kept it: they have the lowest priority
/// on this machine.
pub(super) struct AttackPace {
    /// The pause of each between two pieces.
    pause: Duration,
    /// Pieces that were sent.
    sent: AtomicU64,
    /// Completed pauses, and by how much they were too long together.
    rests: AtomicU64,
    late_us: AtomicU64,
    clock: SystemClock,
}

impl AttackPace {
    /// Before anything is sent.
    pub(super) fn new(pause: Duration) -> Self {
        let (sent, rests, late_us) = Default::default();
        AttackPace { pause, sent, rests, late_us, clock: SystemClock::new() }
    }

    async fn rest(&self) {
        let due = self.clock.monotonic() + self.pause;
        tokio::time::sleep(self.pause).await;
        let late_us = self.clock.monotonic().saturating_sub(due).as_micros();
        self.rests.fetch_add(1, Ordering::Relaxed);
        self.late_us.fetch_add(u64::try_from(late_us).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Pieces so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Pauses so far.
    pub(super) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    /// By how much these were too long together.
    pub(super) fn late(&self) -> Duration {
        Duration::from_micros(self.late_us.load(Ordering::Relaxed))
    }
}

impl Attack {
    /// Runs one attacker, until it is disconnected or stopped.
    pub(super) async fn run(self, nth: usize, ports: Ports, pace: Arc<AttackPace>) -> Result<()> {
        match self {
            Attack::Literal => {
                let mut attacker = Attacker::connect(nth, ports.imap, pace).await?;
                // As many as are allowed, each as long as is allowed.
                attacker.flood(b"a ID (\"name\" ", "{4096+}\r\n", b'x').await
            }
            Attack::Line => {
                let mut attacker = Attacker::connect(nth, ports.imap, pace).await?;
                attacker.flood(b"a LOGIN ", "", b'x').await
            }
            Attack::Smtp => {
                let mut attacker = Attacker::connect(nth, ports.lmtp, pace).await?;
                attacker.flood(b"LHLO ", "", b'x').await
            }
            Attack::LiteralLoggedIn => {
                let mut attacker = Attacker::login(nth, ports.imap, pace).await?;
                attacker.flood(b"b SEARCH SUBJECT {200000+}\r\n", "", b'x').await
            }
            Attack::Header => {
                message(nth, ports.lmtp, pace, |nth| format!("X-Field-{nth}: some value\r\n")).await
            }
            Attack::Nest => {
                let part =
                    |nth| format!("Content-Type: multipart/mixed; boundary=b{nth}\r\n\r\n--b{nth}\r\n");
                message(nth, ports.lmtp, pace, part).await
            }
            Attack::ZipBomb => {
                let mut attacker = Attacker::login(nth, ports.imap, pace).await?;
                attacker.say(b"b COMPRESS DEFLATE\r\n").await?;
                attacker.until(b"b ").await?;
                loop {
                    attacker.say(&ZIPPED_ZEROS.repeat(16)).await?;
                    attacker.pace.rest().await;
                }
            }
            Attack::SlowReaders => {
                let mut attacker = Attacker::login(nth, ports.imap, pace).await?;
                attacker.say(b"b EXAMINE INBOX\r\nc FETCH 1:* (BODY.PEEK[] ENVELOPE)\r\n").await?;
                std::future::pending().await
            }
            Attack::Pipelines => {
                let mut attacker = Attacker::login(nth, ports.imap, pace).await?;
                attacker.say(b"b EXAMINE INBOX\r\n").await?;
                loop {
                    attacker.say(&b"c FETCH 1:* FULL\r\n".repeat(100)).await?;
                    attacker.pace.rest().await;
                }
            }
            Attack::HalfOpen => {
                let mut attacker = Attacker::connect_silently(nth, ports.imaps, pace).await?;
                // The beginning of a ClientHello in a record of 16 KiB, for every second one.
                if nth.is_multiple_of(2) {
                    attacker
                        .say(&[&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3][..], &[7; 8192]].concat())
                        .await?;
                }
                attacker.until(b"never").await
            }
            Attack::SlowHandshake => {
                let mut attacker = Attacker::connect_silently(nth, ports.imaps, pace).await?;
                attacker.dribble(&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3], 7).await
            }
            Attack::SlowCommand => {
                let mut attacker = Attacker::connect(nth, ports.lmtp, pace).await?;
                attacker.dribble(b"LHLO ", b'x').await
            }
            Attack::Recipients => recipients(nth, ports.lmtp, pace).await,
            Attack::EveryUid => {
                let mut attacker = Attacker::login(nth, ports.imap, pace).await?;
                attacker
                    .again(
                        b"b EXAMINE INBOX\r\n",
                        b"c UID FETCH 1:4294967295 (FLAGS ENVELOPE BODYSTRUCTURE)\r\n",
                    )
                    .await
            }
            Attack::EmptyString => {
                let mut attacker = Attacker::login(nth, ports.imap, pace).await?;
                attacker.again(b"b EXAMINE INBOX\r\n", b"c SEARCH TEXT \"\" BODY \"\"\r\n").await
            }
        }
    }
}

/// 64 KiB of zeros, as zlib compresses them, up to a full flush: it can be sent repeatedly.
const ZIPPED_ZEROS: &[u8] = include_bytes!("zeros.deflate");

/// A message without an end, of numbered pieces.
async fn message(
    nth: usize,
    lmtp: SocketAddr,
    pace: Arc<AttackPace>,
    piece: impl Fn(usize) -> String,
) -> Result<()> {
    let mut attacker = Attacker::connect(nth, lmtp, pace).await?;
    let head = format!("LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{VICTIM}>\r\nDATA\r\n");
    attacker.say(head.as_bytes()).await?;
    attacker.until(b"354").await?;
    for block in 0.. {
        let text: String = (0..PIECE / 64).map(|line| piece(block * PIECE / 64 + line)).collect();
        attacker.say(text.as_bytes()).await?;
        attacker.pace.rest().await;
    }
    Ok(())
}

/// The maximum of recipients of one message and many more, and then the message; again and again.
async fn recipients(nth: usize, lmtp: SocketAddr, pace: Arc<AttackPace>) -> Result<()> {
    let mut attacker = Attacker::connect(nth, lmtp, pace).await?;
    attacker.say(b"LHLO x\r\n").await?;
    loop {
        attacker.say(b"RSET\r\nMAIL FROM:<>\r\n").await?;
        for block in 0..50 {
            let each = (0..100).map(|n| format!("RCPT TO:<victim+{}@localhost>\r\n", 100 * block + n));
            // Only VRFY is answered 252.
            attacker.say((each.collect::<String>() + "VRFY x\r\n").as_bytes()).await?;
            attacker.until(b"252").await?;
            attacker.pace.rest().await;
        }
        attacker.say(b"DATA\r\nSubject: x\r\n\r\nx\r\n.\r\nVRFY x\r\n").await?;
        attacker.until(b"252").await?;
    }
}

/// A connection that is cheap on this side.
struct Attacker {
    stream: TcpStream,
    pace: Arc<AttackPace>,
}

impl Attacker {
    async fn connect_silently(nth: usize, to: SocketAddr, pace: Arc<AttackPace>) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        let host = nth % HOSTS;
        let from = IpAddr::from([127, 1 + u8::try_from(nth / HOSTS % 200)?, 0, 1 + u8::try_from(host)?]);
        socket.bind(SocketAddr::new(from, 0))?;
        socket.set_recv_buffer_size(8 * 1024)?;
        Ok(Attacker { stream: socket.connect(to).await?, pace })
    }

    async fn connect(nth: usize, to: SocketAddr, pace: Arc<AttackPace>) -> Result<Self> {
        let mut attacker = Self::connect_silently(nth, to, pace).await?;
        attacker.until(b"\r\n").await?;
        Ok(attacker)
    }

    async fn login(nth: usize, to: SocketAddr, pace: Arc<AttackPace>) -> Result<Self> {
        let mut attacker = Self::connect(nth, to, pace).await?;
        attacker.say(format!("a LOGIN {VICTIM} \"{PASSWORD}\"\r\n").as_bytes()).await?;
        attacker.until(b"a OK").await?;
        Ok(attacker)
    }

    async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        self.pace.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends `head`, then `before` and filling forever.
    async fn flood(&mut self, head: &[u8], before: &str, filling: u8) -> Result<()> {
        self.say(head).await?;
        let piece =
            [before.as_bytes(), &vec![filling; if before.is_empty() { PIECE } else { 4096 }], b" "].concat();
        let piece = if before.is_empty() { &piece[..PIECE] } else { &piece[..] };
        loop {
            self.say(piece).await?;
            self.pace.rest().await;
        }
    }

    /// Sends `head` and then filling forever, a byte at a time.
    async fn dribble(&mut self, head: &[u8], filling: u8) -> Result<()> {
        for byte in head.iter().copied().chain(std::iter::repeat(filling)) {
            self.say(&[byte]).await?;
            self.pace.rest().await;
        }
        Ok(())
    }

    /// Sends `first`, then `command` whenever the previous one was answered.
    async fn again(&mut self, first: &[u8], command: &[u8]) -> Result<()> {
        self.say(first).await?;
        self.until(b"b OK").await?;
        loop {
            self.say(command).await?;
            self.until(b"c ").await?;
            self.pace.rest().await;
        }
    }

    /// Reads until these bytes come at the beginning of a line, or at its end.
    async fn until(&mut self, what: &[u8]) -> Result<()> {
        let mut tail = vec![b'\n'];
        let mut piece = [0; 4096];
        loop {
            let count = self.stream.read(&mut piece).await?;
            if count == 0 {
                bail!("sent away");
            }
            tail.extend_from_slice(&piece[..count]);
            let found = memchr::memmem::find_iter(&tail, what)
                .any(|at| what == b"\r\n" || at > 0 && tail[at - 1] == b'\n');
            if found {
                return Ok(());
            }
            tail.drain(..tail.len().saturating_sub(what.len() + 1));
        }
    }
}
