//! Thousands of clients that mean no good, at once, and an honest one among them.
//!
//! The server runs with a bound on memory and, if wanted, under a hard limit of the kernel's that ends it when it takes more.
//! Every attack comes from addresses of its own (all of 127.0.0.0/8 is this machine), as a botnet's would, so that no limit
//! for one address stops it. What must hold while it lasts: the resident set stays within the bound, the server lives,
//! and an honest client that logs in, opens its mailbox, reads a little and goes is served every time, not much later
//! than without the attack. It has a thread of its own, so that it does not wait for the attackers' turns in this program,
//! and that thread comes first wherever a processor is wanted: it would be on a machine of its own. The server and the
//! attackers have the same claim on the rest.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::imap::Imap;
use crate::server::{self, Configured, PASSWORD, Sealpost, Server};
use crate::{idle, mail};

const HONEST: &str = "honest@localhost";
const VICTIM: &str = "victim@localhost";
/// How long it rests between two rounds.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the honest client is watched before the attacks of a round.
const QUIET: Duration = Duration::from_secs(10);
/// What an attacker sends at once, and how long it rests then at least.
const PIECE: usize = 8 * 1024;
const PIECE_PAUSE: Duration = Duration::from_millis(100);
/// What all of them together send in a second at most: they are on the server's machine, and must leave it to the server.
const PIECES_A_SECOND: u32 = 5000;
/// By how much the server and the attackers come after the honest client.
const NICER: i32 = 10;
/// Hosts of one attacking network.
const HOSTS: usize = 200;
/// How long the server may take to be rid of an attack's connections before the next one.
const GONE: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The binary.
    pub sealpost: PathBuf,
    /// Attackers of each attack but the half-open handshakes.
    pub crowd: usize,
    /// TLS handshakes that are begun and not finished.
    pub half_open: usize,
    /// How long each attack lasts.
    pub hold: Duration,
    /// How often all attacks are run. The honest client's visits count together: its 99th percentile in ten seconds is
    /// its fifth longest visit, which is chance.
    pub rounds: usize,
    /// The server's `memory`.
    pub memory: String,
    /// The most the resident set may be, in MiB; `memory` unless it is said.
    pub limit_mib: Option<u64>,
    /// How long the honest client may wait for all it does before it counts as turned away.
    pub patience: Duration,
    /// A hard limit of the kernel's on the server's private writable memory (RLIMIT_DATA), in MiB.
    pub hard_limit_mib: Option<u64>,
    /// How many times as long the honest client may take (99th percentile) as without an attack; beyond it is an error.
    pub ratio: Option<f64>,
    /// Only attacks whose name contains this.
    pub only: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Attack {
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

const ATTACKS: [(Attack, &str); 15] = [
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
    (Attack::SlowHandshake, "TLS handshakes, one octet after the other"),
    (Attack::SlowCommand, "LMTP commands, one octet after the other"),
    (Attack::Recipients, "LMTP recipients without end"),
    (Attack::EveryUid, "UID FETCH 1:4294967295"),
    (Attack::EmptyString, "SEARCH for the empty string"),
];

/// What came of an attack, in all rounds.
#[derive(Default)]
struct Outcome {
    honest: Honest,
    /// Attackers that the server had sent away in the end.
    refused: usize,
    /// The server's peak, in MiB.
    peak: u64,
}

/// Runs all attacks, one after the other, as often as wanted.
///
/// # Errors
/// Those that hurt, by name.
pub async fn main(options: &Options, dir: &Path) -> Result<()> {
    let limit_mib = match options.limit_mib {
        Some(limit) => limit,
        None => options.memory.trim_end_matches("MiB").parse().context("say --limit-mib too")?,
    };
    let visitor = Visitor::start(options.patience)?;
    rustix::process::setpriority_process(None, NICER).context("give way to the honest client")?;
    ensure!(options.rounds > 0, "there is nothing to run in no rounds");
    let most = options.crowd.max(options.half_open);
    ensure!(most + 256 <= idle::open_files(), "too few open files are allowed for {most} attackers");
    let lines = format!("memory = \"{}\"\n", options.memory);
    let sealpost = Sealpost { path: options.sealpost.clone(), memory: None };
    let configured = Configured { sealpost, lines, data_limit_mib: options.hard_limit_mib };
    let accounts = [VICTIM.to_owned(), HONEST.to_owned()];
    let mut server = server::start(&configured, &dir.join("data"), &accounts).await?;
    prepare(&server).await?;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let attacks: Vec<_> = ATTACKS.into_iter().filter(|(_, name)| wanted(name)).collect();
    let mut quiet = Honest::default();
    let mut outcomes: Vec<_> = attacks.iter().map(|_| Outcome::default()).collect();
    for round in 1..=options.rounds {
        // What the last round says is the result.
        let say = |line: String| match round == options.rounds {
            true => println!("crowd: {line}"),
            false => eprintln!("crowd, so far: {line}"),
        };
        quiet.add(visitor.watch(server.imap, QUIET).await?);
        say(format!("nobody else: {}", quiet.summary()));
        ensure!(quiet.failed == 0, "the honest client is not served: {:?}", quiet.last_error);
        for ((attack, name), outcome) in attacks.iter().zip(&mut outcomes) {
            let count = if matches!(attack, Attack::HalfOpen) { options.half_open } else { options.crowd };
            server.tree.reset_peak();
            let (honest, refused) = under(*attack, count, options.hold, &visitor, &server).await?;
            server.alive().with_context(|| (*name).to_owned())?;
            outcome.honest.add(honest);
            outcome.refused = outcome.refused.max(refused);
            outcome.peak = outcome.peak.max(server.tree.peak_bytes() >> 20);
            let Outcome { honest, refused, peak } = &*outcome;
            let (fared, ratio) = (honest.summary(), honest.times_as_long_as(&quiet));
            say(format!(
                "{count} × {name}: {fared}, {ratio:.1} times as long; {refused} sent away; peak {peak} MiB"
            ));
        }
    }
    server.stop(Duration::from_secs(20)).await?;
    let failures: Vec<_> = attacks
        .iter()
        .zip(&outcomes)
        .flat_map(|((_, name), outcome)| {
            outcome.failures(&quiet, limit_mib, options.ratio).map(move |why| format!("{name}: {why}"))
        })
        .collect();
    ensure!(failures.is_empty(), "{} attacks hurt:\n  {}", failures.len(), failures.join("\n  "));
    Ok(())
}

impl Outcome {
    /// How it hurt.
    fn failures(
        &self,
        quiet: &Honest,
        limit_mib: u64,
        most: Option<f64>,
    ) -> impl Iterator<Item = String> + use<> {
        let Outcome { honest, peak, .. } = self;
        let ratio = honest.times_as_long_as(quiet);
        let turned_away = honest.failed > 0 || honest.took.is_empty();
        [
            (*peak > limit_mib).then(|| format!("{peak} MiB, more than {limit_mib}")),
            turned_away.then(|| format!("the honest client was turned away: {:?}", honest.last_error)),
            most.filter(|most| ratio > *most)
                .map(|_| format!("the honest client took {ratio:.1} times as long")),
        ]
        .into_iter()
        .flatten()
    }
}

/// 23 MB of mail for those who read slowly.
async fn prepare(server: &Server) -> Result<()> {
    for account in [VICTIM, HONEST] {
        let mut imap = server.login(account).await?;
        for mail in mail::mailbox_100(1).into_iter().take(if account == VICTIM { 100 } else { 5 }) {
            let reply = imap.append("INBOX", "", &mail).await?;
            ensure!(reply.is_ok(), "{}", reply.status);
        }
    }
    Ok(())
}

/// How the honest client fared, and how many attackers the server had sent away in the end.
async fn under(
    attack: Attack,
    count: usize,
    hold: Duration,
    visitor: &Visitor,
    server: &Server,
) -> Result<(Honest, usize)> {
    let gone = Arc::new(AtomicUsize::new(0));
    let mut attackers = JoinSet::new();
    let pause = PIECE_PAUSE.max(Duration::from_secs(count as u64) / PIECES_A_SECOND);
    for nth in 0..count {
        let (target, gone) = (Ports::of(server)?, gone.clone());
        attackers.spawn(async move {
            // They come over a second or two, like any crowd.
            tokio::time::sleep(Duration::from_micros(nth as u64 * 500)).await;
            let _: Result<()> = attack.run(nth, target, pause).await;
            gone.fetch_add(1, Ordering::Relaxed);
        });
    }
    let clock = SystemClock::new();
    let honest = visitor.watch(server.imap, hold).await?;
    let refused = gone.load(Ordering::Relaxed);
    attackers.shutdown().await;
    let deadline = clock.monotonic() + GONE;
    while server.tree.files().unwrap_or(0) > 128 && clock.monotonic() < deadline {
        tokio::time::sleep(PAUSE).await;
    }
    Ok((honest, refused))
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    imap: SocketAddr,
    imaps: SocketAddr,
    lmtp: SocketAddr,
}

impl Ports {
    fn of(server: &Server) -> Result<Self> {
        let imaps = server.imaps.context("the server has no TLS port")?;
        Ok(Ports { imap: server.imap, imaps, lmtp: server.lmtp })
    }
}

/// The honest client's thread.
struct Visitor {
    visits: UnboundedSender<Visits>,
}

/// Whom it is to visit, for how long, and who wants to know how it fared.
struct Visits {
    imap: SocketAddr,
    during: Duration,
    fared: oneshot::Sender<Honest>,
}

impl Visitor {
    /// It keeps the priority that this thread has now.
    fn start(patience: Duration) -> Result<Self> {
        let (visits, mut wanted) = unbounded_channel::<Visits>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("honest".into()).spawn(move || {
            runtime.block_on(async {
                while let Some(Visits { imap, during, fared }) = wanted.recv().await {
                    let _ = fared.send(Honest::watched(imap, patience, during).await);
                }
            });
        })?;
        Ok(Visitor { visits })
    }

    /// How it fares for so long.
    async fn watch(&self, imap: SocketAddr, during: Duration) -> Result<Honest> {
        let (fared, how) = oneshot::channel();
        let gone = "the honest client's thread is gone";
        self.visits.send(Visits { imap, during, fared }).context(gone)?;
        how.await.context(gone)
    }
}

#[derive(Default)]
struct Honest {
    took: Vec<Duration>,
    failed: usize,
    last_error: Option<String>,
}

impl Honest {
    async fn watched(imap: SocketAddr, patience: Duration, during: Duration) -> Self {
        let clock = SystemClock::new();
        let (start, mut honest) = (clock.monotonic(), Honest::default());
        while clock.monotonic() - start < during {
            honest.round(imap, patience).await;
        }
        honest
    }

    async fn round(&mut self, imap: SocketAddr, patience: Duration) {
        let clock = SystemClock::new();
        let start = clock.monotonic();
        let work = async {
            let mut imap = Imap::login(imap, HONEST, PASSWORD).await?;
            imap.ok("SELECT INBOX").await?;
            imap.ok("FETCH 1:5 (FLAGS ENVELOPE BODY.PEEK[HEADER])").await?;
            imap.ok("LOGOUT").await
        };
        match timeout(patience, work).await.context("not served in time").and_then(|result| result) {
            Ok(_) => self.took.push(clock.monotonic() - start),
            Err(error) => {
                self.failed += 1;
                self.last_error = Some(format!("{error:#}"));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// Counts `other`'s visits too.
    fn add(&mut self, other: Honest) {
        self.took.extend(other.took);
        self.failed += other.failed;
        self.last_error = other.last_error.or(self.last_error.take());
    }

    /// By their 99th percentiles.
    fn times_as_long_as(&self, other: &Honest) -> f64 {
        self.percentile(99).as_secs_f64() / other.percentile(99).as_secs_f64()
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    fn summary(&self) -> String {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        format!("honest p50 {p50:.1?}, p99 {p99:.1?} of {}, {} failed", self.took.len(), self.failed)
    }
}

impl Attack {
    /// One attacker, until it is sent away or stopped.
    async fn run(self, nth: usize, ports: Ports, pause: Duration) -> Result<()> {
        match self {
            Attack::Literal => {
                let mut attacker = Attacker::connect(nth, ports.imap, pause).await?;
                // As many as are allowed, of which each is as long as is allowed.
                attacker.flood(b"a ID (\"name\" ", "{4096+}\r\n", b'x').await
            }
            Attack::Line => {
                let mut attacker = Attacker::connect(nth, ports.imap, pause).await?;
                attacker.flood(b"a LOGIN ", "", b'x').await
            }
            Attack::Smtp => {
                let mut attacker = Attacker::connect(nth, ports.lmtp, pause).await?;
                attacker.flood(b"LHLO ", "", b'x').await
            }
            Attack::LiteralLoggedIn => {
                let mut attacker = Attacker::login(nth, ports.imap, pause).await?;
                attacker.flood(b"b SEARCH SUBJECT {200000+}\r\n", "", b'x').await
            }
            Attack::Header => {
                message(nth, ports.lmtp, pause, |nth| format!("X-Field-{nth}: some value\r\n")).await
            }
            Attack::Nest => {
                let part =
                    |nth| format!("Content-Type: multipart/mixed; boundary=b{nth}\r\n\r\n--b{nth}\r\n");
                message(nth, ports.lmtp, pause, part).await
            }
            Attack::ZipBomb => {
                let mut attacker = Attacker::login(nth, ports.imap, pause).await?;
                attacker.say(b"b COMPRESS DEFLATE\r\n").await?;
                attacker.until(b"b ").await?;
                loop {
                    attacker.say(&ZIPPED_ZEROS.repeat(16)).await?;
                    tokio::time::sleep(pause).await;
                }
            }
            Attack::SlowReaders => {
                let mut attacker = Attacker::login(nth, ports.imap, pause).await?;
                attacker.say(b"b EXAMINE INBOX\r\nc FETCH 1:* (BODY.PEEK[] ENVELOPE)\r\n").await?;
                std::future::pending().await
            }
            Attack::Pipelines => {
                let mut attacker = Attacker::login(nth, ports.imap, pause).await?;
                attacker.say(b"b EXAMINE INBOX\r\n").await?;
                loop {
                    attacker.say(&b"c FETCH 1:* FULL\r\n".repeat(100)).await?;
                    tokio::time::sleep(pause).await;
                }
            }
            Attack::HalfOpen => {
                let mut attacker = Attacker::connect_silently(nth, ports.imaps, pause).await?;
                // The beginning of a ClientHello in a record of 16 KiB, for every second one.
                if nth.is_multiple_of(2) {
                    attacker
                        .say(&[&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3][..], &[7; 8192]].concat())
                        .await?;
                }
                attacker.until(b"never").await
            }
            Attack::SlowHandshake => {
                let attacker = Attacker::connect_silently(nth, ports.imaps, pause).await?;
                attacker.dribble(&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3], 7).await
            }
            Attack::SlowCommand => {
                let attacker = Attacker::connect(nth, ports.lmtp, pause).await?;
                attacker.dribble(b"LHLO ", b'x').await
            }
            Attack::Recipients => recipients(nth, ports.lmtp, pause).await,
            Attack::EveryUid => {
                let mut attacker = Attacker::login(nth, ports.imap, pause).await?;
                attacker
                    .again(
                        b"b EXAMINE INBOX\r\n",
                        b"c UID FETCH 1:4294967295 (FLAGS ENVELOPE BODYSTRUCTURE)\r\n",
                    )
                    .await
            }
            Attack::EmptyString => {
                let mut attacker = Attacker::login(nth, ports.imap, pause).await?;
                attacker.again(b"b EXAMINE INBOX\r\n", b"c SEARCH TEXT \"\" BODY \"\"\r\n").await
            }
        }
    }
}

/// 64 KiB of zeros, as zlib compresses them, up to a full flush: it can be sent again and again.
const ZIPPED_ZEROS: &[u8] = include_bytes!("crowd/zeros.deflate");

/// A message that does not end, made of numbered pieces.
async fn message(
    nth: usize,
    lmtp: SocketAddr,
    pause: Duration,
    piece: impl Fn(usize) -> String,
) -> Result<()> {
    let mut attacker = Attacker::connect(nth, lmtp, pause).await?;
    let head = format!("LHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<{VICTIM}>\r\nDATA\r\n");
    attacker.say(head.as_bytes()).await?;
    attacker.until(b"354").await?;
    for block in 0.. {
        let text: String = (0..PIECE / 64).map(|line| piece(block * PIECE / 64 + line)).collect();
        attacker.say(text.as_bytes()).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// As many recipients as one message may have and many more, and then the message; again and again.
async fn recipients(nth: usize, lmtp: SocketAddr, pause: Duration) -> Result<()> {
    let mut attacker = Attacker::connect(nth, lmtp, pause).await?;
    attacker.say(b"LHLO x\r\n").await?;
    loop {
        attacker.say(b"RSET\r\nMAIL FROM:<>\r\n").await?;
        for block in 0..50 {
            let each = (0..100).map(|n| format!("RCPT TO:<victim+{}@localhost>\r\n", 100 * block + n));
            // VRFY is answered 252, and nothing else is.
            attacker.say((each.collect::<String>() + "VRFY x\r\n").as_bytes()).await?;
            attacker.until(b"252").await?;
            tokio::time::sleep(pause).await;
        }
        attacker.say(b"DATA\r\nSubject: x\r\n\r\nx\r\n.\r\nVRFY x\r\n").await?;
        attacker.until(b"252").await?;
    }
}

/// A connection that costs this side little.
struct Attacker {
    stream: TcpStream,
    /// How long it rests between two pieces.
    pause: Duration,
}

impl Attacker {
    async fn connect_silently(nth: usize, to: SocketAddr, pause: Duration) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        let host = nth % HOSTS;
        let from = IpAddr::from([127, 1 + u8::try_from(nth / HOSTS % 200)?, 0, 1 + u8::try_from(host)?]);
        socket.bind(SocketAddr::new(from, 0))?;
        socket.set_recv_buffer_size(8 * 1024)?;
        Ok(Attacker { stream: socket.connect(to).await?, pause })
    }

    async fn connect(nth: usize, to: SocketAddr, pause: Duration) -> Result<Self> {
        let mut attacker = Self::connect_silently(nth, to, pause).await?;
        attacker.until(b"\r\n").await?;
        Ok(attacker)
    }

    async fn login(nth: usize, to: SocketAddr, pause: Duration) -> Result<Self> {
        let mut attacker = Self::connect(nth, to, pause).await?;
        attacker.say(format!("a LOGIN {VICTIM} \"{PASSWORD}\"\r\n").as_bytes()).await?;
        attacker.until(b"a OK").await?;
        Ok(attacker)
    }

    async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Sends `head`, then `before` and filling for ever.
    async fn flood(&mut self, head: &[u8], before: &str, filling: u8) -> Result<()> {
        self.say(head).await?;
        let piece =
            [before.as_bytes(), &vec![filling; if before.is_empty() { PIECE } else { 4096 }], b" "].concat();
        let piece = if before.is_empty() { &piece[..PIECE] } else { &piece[..] };
        loop {
            self.say(piece).await?;
            tokio::time::sleep(self.pause).await;
        }
    }

    /// Sends `head` and then filling for ever, an octet at a time.
    async fn dribble(mut self, head: &[u8], filling: u8) -> Result<()> {
        for octet in head.iter().copied().chain(std::iter::repeat(filling)) {
            self.say(&[octet]).await?;
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }

    /// Sends `first`, then `command` whenever the one before was answered.
    async fn again(&mut self, first: &[u8], command: &[u8]) -> Result<()> {
        self.say(first).await?;
        self.until(b"b OK").await?;
        loop {
            self.say(command).await?;
            self.until(b"c ").await?;
            tokio::time::sleep(self.pause).await;
        }
    }

    /// Reads until these octets come at the beginning of a line, or at its end.
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
