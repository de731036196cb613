//! Hostile clients, each for a moment, against one server; then its memory and an ordinary client.
//!
//! What must hold after each: the server lives, its peak resident set stays under a limit, and
//! another client is served within two seconds while the hostile ones are still connected.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::mail;
use tokio::time::timeout;

use crate::imap::{Imap, login};
use crate::lmtp::{Lmtp, dotted};
use crate::server::{Server, Target};
use crate::wire::Wire;

const ACCOUNT: &str = "victim@localhost";
/// The most that a client sends before it concludes that it is not being stopped.
const FLOOD_BYTES: usize = 64 << 20;
/// How long a flood may last: a server that stops reading has stopped it too.
const FLOOD_TIME: Duration = Duration::from_secs(4);
/// How long an ordinary client may wait for a login, a SELECT and a small FETCH, a cold login's
/// Argon2 included.
const SERVED_WITHIN: Duration = Duration::from_secs(2);

/// The result of one attack.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The attack.
    pub name: &'static str,
    /// The server's reaction, or the harm.
    pub verdict: Result<String, String>,
    /// The server's highest resident set meanwhile, in bytes.
    pub peak_bytes: u64,
}

/// Runs all attacks; an error names those that did harm.
pub async fn main(target: Target, limit_mib: u64, dir: &Path) -> Result<()> {
    let mut failures = Vec::new();
    for outcome in attacks(&target, dir).await? {
        let (name, peak) = (outcome.name, outcome.peak_bytes >> 20);
        if let Err(error) = outcome.verdict {
            failures.push(format!("{name}: {error}"));
        }
        if peak > limit_mib {
            failures.push(format!("{name}: peak {peak} MiB is over the limit of {limit_mib}"));
        }
    }
    ensure!(failures.is_empty(), "{} attacks hurt:\n  {}", failures.len(), failures.join("\n  "));
    Ok(())
}

/// Runs all attacks, one after the other; an error means that the server ended.
pub async fn attacks(target: &Target, dir: &Path) -> Result<Vec<Outcome>> {
    let mut server = target.start(&dir.join("data"), &[ACCOUNT.to_owned()]).await?;
    prepare(&server).await?;
    let mut outcomes = Vec::new();
    for attack in ATTACKS {
        server.tree.reset_peak();
        let outcome = timeout(Duration::from_secs(60), attack.run(&server)).await.context("it never ended");
        let verdict = outcome.and_then(|result| result).map_err(|error| format!("{error:#}"));
        server.alive().with_context(|| attack.name().to_owned())?;
        let peak_bytes = server.tree.peak_bytes();
        let said = verdict.as_ref().map_or_else(|error| format!("FAILED: {error}"), Clone::clone);
        println!("hostile: {}: {said}; peak {} MiB", attack.name(), peak_bytes >> 20);
        outcomes.push(Outcome { name: attack.name(), verdict, peak_bytes });
    }
    server.stop(Duration::from_secs(10)).await?;
    Ok(outcomes)
}

/// 46 MB of mail for the stalled readers.
async fn prepare(server: &Server) -> Result<()> {
    let mut imap = login(server, ACCOUNT).await?;
    for seed in 0..2 {
        for mail in mail::mailbox_100(seed) {
            let reply = imap.append("INBOX", "", &mail).await?;
            ensure!(reply.is_ok(), "{}", reply.status);
        }
    }
    Ok(())
}

/// An ordinary client; returns its duration.
async fn ordinary(server: &Server) -> Result<Duration> {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let work = async {
        let mut imap = login(server, ACCOUNT).await?;
        imap.ok("EXAMINE INBOX").await?;
        imap.ok("FETCH 1:5 (FLAGS ENVELOPE)").await?;
        imap.ok("LOGOUT").await
    };
    timeout(SERVED_WITHIN, work).await.context("an ordinary client was not served in time")??;
    Ok(clock.monotonic() - start)
}

#[derive(Debug, Clone, Copy)]
enum Attack {
    StalledFetch,
    StalledPipeline,
    EndlessImapLine,
    EndlessImapLiteral,
    HugeLiteralAnnounced,
    EndlessSmtpLine,
    EndlessBodyLine,
    EndlessHeaders,
    DeepMime,
    ManyParts,
    DeepSearch,
    WideSet,
    IdleConnections,
    HalfDelivery,
}

const ATTACKS: &[Attack] = &[
    Attack::StalledFetch,
    Attack::StalledPipeline,
    Attack::EndlessImapLine,
    Attack::EndlessImapLiteral,
    Attack::HugeLiteralAnnounced,
    Attack::EndlessSmtpLine,
    Attack::EndlessBodyLine,
    Attack::EndlessHeaders,
    Attack::DeepMime,
    Attack::ManyParts,
    Attack::DeepSearch,
    Attack::WideSet,
    Attack::IdleConnections,
    Attack::HalfDelivery,
];

impl Attack {
    fn name(self) -> &'static str {
        match self {
            Attack::StalledFetch => "40 clients FETCH everything and stop reading",
            Attack::StalledPipeline => "commands by the thousand without reading replies",
            Attack::EndlessImapLine => "an IMAP line without end, before login",
            Attack::EndlessImapLiteral => "an IMAP literal without end, before login",
            Attack::HugeLiteralAnnounced => "a password of 4 GB announced",
            Attack::EndlessSmtpLine => "an LMTP command without end",
            Attack::EndlessBodyLine => "a message of one line of 64 MB",
            Attack::EndlessHeaders => "a message of 64 MB of header fields",
            Attack::DeepMime => "a message of 5,000 nested parts",
            Attack::ManyParts => "a message of 200,000 parts",
            Attack::DeepSearch => "SEARCH nested 50,000 deep",
            Attack::WideSet => "a sequence set of 60,000 ranges",
            Attack::IdleConnections => "500 connections that say nothing",
            Attack::HalfDelivery => "50 deliveries that break off",
        }
    }

    async fn run(self, server: &Server) -> Result<String> {
        match self {
            Attack::StalledFetch => stalled_fetch(server).await,
            Attack::StalledPipeline => stalled_pipeline(server).await,
            Attack::EndlessImapLine => {
                flood(server, Wire::connect(server.imap).await?, b"a LOGIN ", &[b'x'; 4096]).await
            }
            Attack::EndlessImapLiteral => {
                let wire = Wire::connect(server.imap).await?;
                flood(server, wire, b"a LOGIN {99999999+}\r\n", &[b'x'; 4096]).await
            }
            Attack::HugeLiteralAnnounced => announced(server).await,
            Attack::EndlessSmtpLine => {
                flood(server, Wire::connect(server.lmtp).await?, b"LHLO ", &[b'x'; 4096]).await
            }
            Attack::EndlessBodyLine => {
                message(server, b"Subject: x\r\n\r\n", &[b'x'; 65536], 1024, b"\r\n").await
            }
            Attack::EndlessHeaders => {
                message(server, b"", "X-Field: some value\r\n".repeat(3000).as_bytes(), 1024, b"\r\n").await
            }
            Attack::DeepMime => deliver_and_fetch(server, &deep_mime()).await,
            Attack::ManyParts => deliver_and_fetch(server, &many_parts()).await,
            Attack::DeepSearch => {
                command(server, &format!("SEARCH {}ALL{}", "(".repeat(50_000), ")".repeat(50_000))).await
            }
            Attack::WideSet => {
                let set: Vec<String> = (0..60_000).map(|n| (2 * n + 1).to_string()).collect();
                command(server, &format!("FETCH {} FLAGS", set.join(","))).await
            }
            Attack::IdleConnections => idle_connections(server).await,
            Attack::HalfDelivery => half_delivery(server).await,
        }
    }
}

async fn stalled_fetch(server: &Server) -> Result<String> {
    let mut stalled = Vec::new();
    for _ in 0..40 {
        let mut imap = login(server, ACCOUNT).await?;
        imap.ok("EXAMINE INBOX").await?;
        let mut wire = imap.into_wire();
        wire.send(b"x FETCH 1:* (BODY.PEEK[] BODYSTRUCTURE)\r\n").await?;
        stalled.push(wire);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let took = ordinary(server).await?;
    Ok(format!("another client was served in {} ms", took.as_millis()))
}

/// Sends commands with large replies until the server stops reading; it must not buffer them in
/// memory.
async fn stalled_pipeline(server: &Server) -> Result<String> {
    let mut imap = login(server, ACCOUNT).await?;
    imap.ok("EXAMINE INBOX").await?;
    flood(server, imap.into_wire(), b"", "x FETCH 1:* FULL\r\n".repeat(200).as_bytes()).await
}

/// Sends `head`, then `piece` forever: the server must close, or stop reading.
async fn flood(server: &Server, mut wire: Wire, head: &[u8], piece: &[u8]) -> Result<String> {
    let mut sent = 0;
    let work = async {
        wire.send(head).await?;
        while sent < FLOOD_BYTES {
            wire.send(piece).await?;
            sent += piece.len();
        }
        anyhow::Ok(())
    };
    let how = match timeout(FLOOD_TIME, work).await {
        Ok(Err(_)) => "the server closed",
        Err(_) => "the server stopped reading",
        Ok(Ok(())) => "the server read on",
    };
    let took = ordinary(server).await?;
    Ok(format!("{how} after {} kB; another client was served in {} ms", sent >> 10, took.as_millis()))
}

/// Announces four gigabytes and sends little: the server must not reserve memory for them.
async fn announced(server: &Server) -> Result<String> {
    let mut wire = Wire::connect(server.imap).await?;
    wire.line().await?;
    wire.send(b"a LOGIN x {4294967295}\r\n").await?;
    let answer = match timeout(Duration::from_secs(5), wire.line()).await {
        Ok(Ok(line)) => String::from_utf8_lossy(&line).chars().take(60).collect(),
        Ok(Err(_)) => "closed".to_owned(),
        Err(_) => bail!("no answer"),
    };
    ensure!(!answer.starts_with('+'), "it asks for 4 GB: {answer}");
    ordinary(server).await?;
    Ok(format!("{answer:?}"))
}

/// Delivers a message of one shape in many pieces; accepting and refusing are both right.
async fn message(server: &Server, head: &[u8], piece: &[u8], times: usize, tail: &[u8]) -> Result<String> {
    let mut lmtp = Lmtp::connect(server.lmtp).await?;
    lmtp.envelope(&[ACCOUNT]).await?;
    let work = async {
        lmtp.send(head).await?;
        for _ in 0..times {
            lmtp.send(piece).await?;
        }
        lmtp.send(tail).await?;
        lmtp.send(b"\r\n.\r\n").await?;
        lmtp.answer().await
    };
    let answer = work.await?;
    ordinary(server).await?;
    fetch_last(server).await?;
    Ok(answer.text.chars().take(70).collect())
}

async fn deliver_and_fetch(server: &Server, mail: &[u8]) -> Result<String> {
    let mut lmtp = Lmtp::connect(server.lmtp).await?;
    let answers = lmtp.deliver(&[ACCOUNT], &dotted(mail)).await?;
    fetch_last(server).await?;
    Ok(answers[0].text.chars().take(70).collect())
}

/// Fetches all derived data of the newest message, which is the hostile one.
async fn fetch_last(server: &Server) -> Result<()> {
    let mut imap = login(server, ACCOUNT).await?;
    imap.ok("EXAMINE INBOX").await?;
    imap.count("FETCH * (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODY BODYSTRUCTURE BODY.PEEK[HEADER.FIELDS (Subject)] BODY.PEEK[1.1.1]<0.100>)")
        .await?;
    Ok(())
}

fn deep_mime() -> Vec<u8> {
    let mut mail = String::from("Subject: deep\r\nMIME-Version: 1.0\r\n");
    for nth in 0..5_000 {
        mail.push_str(&format!("Content-Type: multipart/mixed; boundary=b{nth}\r\n\r\n--b{nth}\r\n"));
    }
    mail.push_str("\r\nbottom\r\n");
    mail.into_bytes()
}

fn many_parts() -> Vec<u8> {
    let mut mail = String::from(
        "Subject: many\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n",
    );
    for _ in 0..200_000 {
        mail.push_str("--b\r\nContent-Type: text/plain\r\n\r\nx\r\n");
    }
    mail.push_str("--b--\r\n");
    mail.into_bytes()
}

/// One command after login; any tagged reply or a closed connection will do, quickly.
async fn command(server: &Server, command: &str) -> Result<String> {
    let mut imap = login(server, ACCOUNT).await?;
    imap.ok("EXAMINE INBOX").await?;
    let answer = match timeout(Duration::from_secs(20), imap.run(command)).await {
        Ok(Ok(reply)) => reply.status.chars().take(70).collect(),
        Ok(Err(_)) => "closed".to_owned(),
        Err(_) => bail!("no answer"),
    };
    ordinary(server).await?;
    Ok(format!("{answer:?}"))
}

async fn idle_connections(server: &Server) -> Result<String> {
    let mut open = Vec::new();
    for nth in 0..500 {
        let addr = if nth % 2 == 0 { server.imap } else { server.lmtp };
        match timeout(Duration::from_secs(2), Wire::connect(addr)).await {
            Ok(Ok(wire)) => open.push(wire),
            _ => break,
        }
    }
    // A server may refuse so many from one address; it must still serve later logins.
    let count = open.len();
    let served = Imap::login(server.imap, ACCOUNT, crate::server::PASSWORD);
    let served = timeout(Duration::from_secs(5), served).await.is_ok_and(|result| result.is_ok());
    drop(open);
    ordinary(server).await?;
    Ok(format!(
        "{count} were accepted; another client meanwhile was {}",
        if served { "served" } else { "turned away" }
    ))
}

/// A message whose end never came must not be stored.
async fn half_delivery(server: &Server) -> Result<String> {
    let mut imap = login(server, ACCOUNT).await?;
    let before = crate::imap::exists(&imap.ok("EXAMINE INBOX").await?)?;
    for _ in 0..50 {
        let mut lmtp = Lmtp::connect(server.lmtp).await?;
        lmtp.envelope(&[ACCOUNT]).await?;
        lmtp.send(&mail::message(5, 300_000)).await?;
    }
    ordinary(server).await?;
    let after = crate::imap::exists(&imap.ok("EXAMINE INBOX").await?)?;
    ensure!(before == after, "{} messages appeared", after - before);
    Ok("nothing was stored".into())
}
