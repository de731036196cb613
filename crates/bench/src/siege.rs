//! Thousands of hostile connections at once, and what honest users notice of them.
//!
//! The honest ones run on a thread of their own, so that the time the attackers take from this program is not
//! counted as the server's. Attackers come from many addresses of the loopback network, so that
//! limits by address do not end the attack before it begins, and send at a pace at which this program stays idle
//! most of the time.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sealpost_base::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::imap::Imap;
use crate::mail;
use crate::process::{Every, Sampler};
use crate::result::{Latency, Recorder};
use crate::server::{PASSWORD, STOP_TIMEOUT, Server, Target};

/// Honest users.
const HONEST: usize = 4;
/// Accounts that attackers have logged in to.
const TAKEN: usize = 20;
/// How long honest users are watched in each wave.
const WATCHED: Duration = Duration::from_secs(6);
/// How long attackers get to take their places before that.
const ADVANCE: Duration = Duration::from_secs(2);
/// Between two commands of an honest user.
const THINK: Duration = Duration::from_millis(15);
/// Between two pieces of an attacker.
const PACE: Duration = Duration::from_millis(200);
/// An attacker's piece.
const PIECE: usize = 4096;
/// Attackers from one address.
const PER_ADDRESS: usize = 8;

/// What one wave did.
#[derive(Debug, Clone)]
pub struct Wave {
    /// What the attackers did.
    pub name: &'static str,
    /// How many attackers there were.
    pub tried: usize,
    /// How many of them were connected at the end, and had not been thrown out.
    pub connections: usize,
    /// The server's highest resident set, in bytes.
    pub peak_bytes: u64,
    /// How long the commands of honest users took.
    pub honest: Latency,
    /// How many those were.
    pub answered: u64,
    /// Commands of honest users that failed or were not answered in time.
    pub errors: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    Nobody,
    Literal,
    Line,
    Header,
    Nest,
    Bomb,
    SlowReader,
    HalfOpen,
    WholeRange,
    EmptySearch,
}

const ATTACKS: &[Attack] = &[
    Attack::Nobody,
    Attack::Literal,
    Attack::Line,
    Attack::Header,
    Attack::Nest,
    Attack::Bomb,
    Attack::SlowReader,
    Attack::HalfOpen,
    Attack::WholeRange,
    Attack::EmptySearch,
];

/// Runs all waves against one server.
pub async fn measure(target: &Target, dir: &Path) -> Result<Vec<Wave>> {
    let honest = (0..HONEST).map(honest_account);
    let accounts: Vec<String> = honest.chain((0..TAKEN).map(taken_account)).collect();
    let mut server = target.start(&dir.join("data"), &accounts).await?;
    fill(&server, &accounts).await?;
    let mut waves = Vec::new();
    for attack in ATTACKS {
        let wave = attack.wave(&server).await.with_context(|| attack.name())?;
        server.alive().with_context(|| attack.name())?;
        println!(
            "siege: {}: {} connected, peak {} MiB, honest p50 {} µs, p99 {} µs, {} errors",
            wave.name,
            wave.connections,
            wave.peak_bytes >> 20,
            wave.honest.p50_us,
            wave.honest.p99_us,
            wave.errors
        );
        waves.push(wave);
    }
    server.stop(STOP_TIMEOUT).await?;
    Ok(waves)
}

fn honest_account(nth: usize) -> String {
    format!("honest{nth}@localhost")
}

fn taken_account(nth: usize) -> String {
    format!("taken{:02}@localhost", nth % TAKEN)
}

/// A mailbox of 23 MB for everybody.
async fn fill(server: &Server, accounts: &[String]) -> Result<()> {
    let mails = mail::mailbox_100(5);
    for account in accounts {
        let mut imap = server.login(account).await?;
        for mail in &mails {
            let reply = imap.append("INBOX", "", mail).await?;
            ensure!(reply.is_ok(), "{}", reply.status);
        }
    }
    Ok(())
}

impl Attack {
    fn name(self) -> &'static str {
        match self {
            Attack::Nobody => "nobody else",
            Attack::Literal => "literals without end",
            Attack::Line => "lines without end",
            Attack::Header => "header fields without end, by LMTP",
            Attack::Nest => "nested parts without end, by LMTP",
            Attack::Bomb => "COMPRESS: a line of zeros that never ends",
            Attack::SlowReader => "FETCH of everything, nothing is read",
            Attack::HalfOpen => "TLS handshakes that stop after the first bytes",
            Attack::WholeRange => "UID FETCH 1:4294967295, over and over",
            Attack::EmptySearch => "SEARCH TEXT of the empty string, over and over",
        }
    }

    /// How many try.
    fn attackers(self) -> usize {
        match self {
            Attack::Nobody => 0,
            Attack::HalfOpen => 10_000,
            // They have logged in; what one account may do at once is bounded too.
            Attack::Bomb | Attack::SlowReader => 200,
            Attack::WholeRange | Attack::EmptySearch => 20,
            _ => 2_000,
        }
    }

    async fn wave(self, server: &Server) -> Result<Wave> {
        let sampler = Sampler::start(server.tree, Every::default(), SystemClock::new());
        let mark = sampler.begin();
        let (imap, lmtp) = (server.imap, server.lmtp);
        let mut attackers = JoinSet::new();
        for nth in 0..self.attackers() {
            attackers.spawn(async move { self.attack(nth, imap, lmtp).await });
        }
        tokio::time::sleep(if self == Attack::Nobody { Duration::ZERO } else { ADVANCE }).await;
        let (honest, answered, errors) = honest(imap).await?;
        while attackers.try_join_next().is_some() {}
        let connections = attackers.len();
        attackers.shutdown().await;
        let peak_bytes = sampler.end(mark).peak_bytes;
        Ok(Wave {
            name: self.name(),
            tried: self.attackers(),
            connections,
            peak_bytes,
            honest,
            answered,
            errors,
        })
    }

    /// Goes on until the server ends it or the wave is over.
    async fn attack(self, nth: usize, imap: SocketAddr, lmtp: SocketAddr) -> Result<()> {
        match self {
            Attack::Nobody => Ok(()),
            Attack::Literal => {
                flood(connect(nth, imap).await?, b"a LOGIN {99999999+}\r\n", &[b'x'; PIECE]).await
            }
            Attack::Line => flood(connect(nth, imap).await?, b"a LOGIN ", &[b'x'; PIECE]).await,
            Attack::Header => {
                let fields = "X-Field: some value\r\n".repeat(PIECE / 21);
                flood(delivering(nth, lmtp).await?, b"", fields.as_bytes()).await
            }
            Attack::Nest => {
                let part = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n".repeat(PIECE / 52);
                flood(delivering(nth, lmtp).await?, b"MIME-Version: 1.0\r\n", part.as_bytes()).await
            }
            Attack::Bomb => {
                let stream = logged_in(nth, imap, "c COMPRESS DEFLATE\r\n").await?;
                flood(stream, &[], &bomb()).await
            }
            Attack::SlowReader => {
                let _stream = logged_in(nth, imap, "b EXAMINE INBOX\r\nc FETCH 1:* BODY.PEEK[]\r\n").await?;
                std::future::pending().await
            }
            Attack::HalfOpen => {
                let mut stream = connect(nth, imap).await?;
                stream.write_all(b"a STARTTLS\r\n").await?;
                // A record that announces a ClientHello of 512 bytes, and its beginning (RFC 8446 §5.1).
                stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc]).await?;
                drained(stream).await
            }
            Attack::WholeRange => repeat(nth, imap, "UID FETCH 1:4294967295 (UID FLAGS)").await,
            Attack::EmptySearch => repeat(nth, imap, "SEARCH TEXT \"\"").await,
        }
    }
}

/// From one of many addresses, so that only every eighth has the same.
async fn connect(nth: usize, to: SocketAddr) -> Result<TcpStream> {
    let host = nth / PER_ADDRESS;
    let [high, low] = u16::try_from(host % 60_000).unwrap_or(0).to_be_bytes();
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 1, high, low.max(1)), 0)))?;
    Ok(socket.connect(to).await?)
}

/// Sends `head`, then `piece` for ever, and reads nothing.
async fn flood(mut stream: TcpStream, head: &[u8], piece: &[u8]) -> Result<()> {
    stream.write_all(head).await?;
    loop {
        stream.write_all(piece).await?;
        tokio::time::sleep(PACE).await;
    }
}

async fn drained(mut stream: TcpStream) -> Result<()> {
    let mut buffer = [0; 256];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn delivering(nth: usize, lmtp: SocketAddr) -> Result<TcpStream> {
    let mut stream = connect(nth, lmtp).await?;
    let to = taken_account(nth);
    let envelope = format!("LHLO x.example\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<{to}>\r\nDATA\r\n");
    stream.write_all(envelope.as_bytes()).await?;
    until(&mut stream, b"\n354").await?;
    Ok(stream)
}

async fn logged_in(nth: usize, imap: SocketAddr, then: &str) -> Result<TcpStream> {
    let mut stream = connect(nth, imap).await?;
    stream.write_all(format!("a LOGIN {} \"{PASSWORD}\"\r\n", taken_account(nth)).as_bytes()).await?;
    until(&mut stream, b"\na OK").await?;
    stream.write_all(then.as_bytes()).await?;
    Ok(stream)
}

/// Reads until `what` came by.
async fn until(stream: &mut TcpStream, what: &[u8]) -> Result<()> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
    while memchr::memmem::find(&seen, what).is_none() {
        let count = stream.read(&mut buffer).await?;
        ensure!(count > 0 && seen.len() < 65_536, "{:?}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    Ok(())
}

async fn repeat(nth: usize, imap: SocketAddr, command: &str) -> Result<()> {
    let mut imap = Imap::login(imap, &taken_account(nth), PASSWORD).await?;
    imap.ok("EXAMINE INBOX").await?;
    loop {
        imap.run(command).await?;
    }
}

/// Half a megabyte of the same byte in some hundred: what a line of a client could never be.
fn bomb() -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec(&[b'x'; 512 * 1024], 9)
}

/// Honest users for a while, on a thread of their own.
async fn honest(imap: SocketAddr) -> Result<(Latency, u64, u64)> {
    let (done, result) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let outcome = tokio::runtime::Builder::new_current_thread().enable_all().build().map(|runtime| {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, honest_users(imap))
        });
        let _ = done.send(outcome);
    });
    let recorder = result.await??;
    thread.join().map_err(|_| anyhow::anyhow!("the honest users' thread failed"))?;
    let (answered, _) = recorder.counts();
    let commands = recorder.finish();
    let errors = commands.iter().map(crate::result::Command::errors).sum();
    Ok((Latency::merged(commands.iter().map(|command| &command.latency)), answered, errors))
}

async fn honest_users(imap: SocketAddr) -> Recorder {
    let over = Arc::new(AtomicBool::new(false));
    let users: Vec<_> =
        (0..HONEST).map(|nth| tokio::task::spawn_local(honest_user(imap, nth, over.clone()))).collect();
    tokio::time::sleep(WATCHED).await;
    over.store(true, Ordering::Relaxed);
    let mut all = Recorder::new();
    for user in users {
        if let Ok(recorder) = user.await {
            all.merge(recorder);
        }
    }
    all
}

async fn honest_user(imap: SocketAddr, nth: usize, over: Arc<AtomicBool>) -> Recorder {
    const COMMANDS: [&str; 5] = [
        "FETCH 1:20 (FLAGS ENVELOPE)",
        "STORE 3 +FLAGS.SILENT (\\Flagged)",
        "FETCH 5 BODY.PEEK[TEXT]<0.4096>",
        "STORE 3 -FLAGS.SILENT (\\Flagged)",
        "NOOP",
    ];
    const PATIENCE: Duration = Duration::from_secs(10);
    let (clock, mut recorder) = (SystemClock::new(), Recorder::new());
    let mut session = None;
    let mut next = 0;
    while !over.load(Ordering::Relaxed) {
        let name = if session.is_none() {
            "LOGIN"
        } else {
            COMMANDS[next % COMMANDS.len()].split(' ').next().unwrap_or("")
        };
        let start = clock.monotonic();
        let work = async {
            match &mut session {
                None => {
                    let mut new = Imap::login(imap, &honest_account(nth), PASSWORD).await?;
                    new.ok("SELECT INBOX").await?;
                    session = Some(new);
                }
                Some(session) => {
                    session.ok(COMMANDS[next % COMMANDS.len()]).await?;
                    next += 1;
                }
            }
            anyhow::Ok(())
        };
        let outcome = timeout(PATIENCE, work).await;
        match outcome {
            // A login waits for Argon2 now and then, whoever else is there.
            Ok(Ok(())) if name == "LOGIN" => {}
            Ok(Ok(())) => recorder.ok(name, clock.monotonic() - start, 0, 0),
            Ok(Err(error)) => {
                recorder.error(name, "failed", || format!("{error:#}"));
                session = None;
            }
            Err(_) => {
                recorder.error(name, "timeout", || format!("nothing for {PATIENCE:?}"));
                session = None;
            }
        }
        tokio::time::sleep(THINK).await;
    }
    recorder
}
