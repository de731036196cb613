//! Thousands of concurrent hostile clients, and one honest client.
//!
//! The server runs with a memory limit and, if wanted, under a hard kernel limit that ends it when
//! it exceeds that. Every attack comes from addresses of its own (all of 127.0.0.0/8 is this
//! machine), like a botnet's, so that no limit per address stops it. What must hold during an
//! attack: the resident set stays within the limit, the server lives, and an honest client that
//! logs in, opens its mailbox, reads a little and leaves is served every time, not much later than
//! without the attack.
//!
//! In reality the honest client and the attackers are on other machines; here they share the
//! server's. So the honest client has its own thread with the highest priority; then comes the
//! server, and the attackers' thread last (their priorities are 5 and 19 steps lower). Counters
//! show that an attack still took place: what the attackers sent in a second, and how late it was.

mod attack;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::mail;
use tokio::task::JoinSet;

use self::attack::{ATTACKS, Attack, AttackPace, Ports, VICTIM};
use crate::imap::login;
use crate::quiet::open_files;
use crate::server::{self, Configured, Sealpost, Server};
use crate::visitor::{HONEST, Honest, OTHERS_NICER, SERVER_NICER, Visitor, give_way};

/// How often to check whether they are gone.
const LOOK: Duration = Duration::from_millis(20);
/// How long the honest client is measured before the attacks of a round.
const QUIET: Duration = Duration::from_secs(10);
/// The minimum pause of an attacker after sending.
const PIECE_PAUSE: Duration = Duration::from_millis(100);
/// The most that all of them together send in a second: they are on the server's machine, and must
/// leave it to the server.
const PIECES_A_SECOND: u32 = 5000;
/// How long the server may take to drop an attack's connections before the next one.
const GONE: Duration = Duration::from_secs(30);

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The binary.
    pub sealpost: PathBuf,
    /// Attackers of each attack except the half-open handshakes.
    pub crowd: usize,
    /// TLS handshakes that are begun and not finished.
    pub half_open: usize,
    /// How long each attack lasts.
    pub hold: Duration,
    /// How often all attacks are run. The honest client's visits are counted together: the 99th
    /// percentile of ten seconds is the fifth longest visit, which is chance.
    pub rounds: usize,
    /// The server's `memory`.
    pub memory: String,
    /// The highest allowed resident set, in MiB; `memory` by default.
    pub limit_mib: Option<u64>,
    /// Whether the resident set counts without the pages of the program, of which a debug build has
    /// many more.
    pub without_program: bool,
    /// How long the honest client may wait for a whole visit before it counts as refused.
    pub timeout_each: Duration,
    /// A hard kernel limit on the server's private writable memory (RLIMIT_DATA), in MiB.
    pub hard_limit_mib: Option<u64>,
    /// How many times as long the honest client may take (99th percentile) as without an attack;
    /// more is an error.
    pub ratio: Option<f64>,
    /// Only attacks whose name contains this.
    pub only: Option<String>,
}

/// The result of an attack, in all rounds.
#[derive(Default)]
struct Outcome {
    honest: Honest,
    /// Attackers that the server had disconnected in the end.
    refused: usize,
    /// The server's peak, in MiB.
    peak: u64,
    sent: Sent,
}

/// What the attackers sent.
#[derive(Default)]
struct Sent {
    /// Pieces, and the time for them.
    pieces: u64,
    during: Duration,
    /// Pauses between two pieces, and by how much they were too long together.
    rests: u64,
    late: Duration,
}

/// Runs all attacks, one after the other, as often as requested.
///
/// # Errors
/// The attacks that did harm, by name.
pub async fn main(options: &Options, dir: &Path) -> Result<()> {
    let limit_mib = match options.limit_mib {
        Some(limit) => limit,
        None => options.memory.trim_end_matches("MiB").parse().context("say --limit-mib too")?,
    };
    let visitor = Visitor::start(options.timeout_each)?;
    give_way(SERVER_NICER).context("give way to the honest client")?;
    ensure!(options.rounds > 0, "there is nothing to run in no rounds");
    let most = options.crowd.max(options.half_open);
    ensure!(most + 256 <= open_files(), "too few open files are allowed for {most} attackers");
    let lines = format!("memory = \"{}\"\n", options.memory);
    let sealpost = Sealpost { path: options.sealpost.clone(), memory: None };
    let configured = Configured { sealpost, lines, data_limit_mib: options.hard_limit_mib };
    let accounts = [VICTIM.to_owned(), HONEST.to_owned()];
    let mut server = server::start(&configured, &dir.join("data"), &accounts).await?;
    prepare(&server).await?;
    give_way(OTHERS_NICER).context("give way to the server")?;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let attacks: Vec<_> = ATTACKS.into_iter().filter(|(_, name)| wanted(name)).collect();
    let mut quiet = Honest::default();
    let mut outcomes: Vec<_> = attacks.iter().map(|_| Outcome::default()).collect();
    for round in 1..=options.rounds {
        // The last round gives the result.
        let say = |line: String| match round == options.rounds {
            true => println!("crowd: {line}"),
            false => eprintln!("crowd, so far: {line}"),
        };
        quiet.add(visitor.watch(server.imap, QUIET).await?);
        say(format!("without the crowd: {}", quiet.summary()));
        ensure!(quiet.failed == 0, "the honest client is not served: {:?}", quiet.last_error);
        for ((attack, name), outcome) in attacks.iter().zip(&mut outcomes) {
            let count = if matches!(attack, Attack::HalfOpen) { options.half_open } else { options.crowd };
            server.tree.reset_peak();
            // Those that are there before the attack: pages that it brings in count.
            let program_bytes = if options.without_program { server.tree.file_bytes() } else { 0 };
            let (honest, refused, sent) = under(*attack, count, options.hold, &visitor, &server).await?;
            server.alive().with_context(|| (*name).to_owned())?;
            outcome.honest.add(honest);
            outcome.refused = outcome.refused.max(refused);
            outcome.peak = outcome.peak.max(server.tree.peak_bytes().saturating_sub(program_bytes) >> 20);
            outcome.sent.add(&sent);
            let Outcome { honest, refused, peak, sent } = &*outcome;
            let (fared, ratio) = (honest.summary(), honest.times_as_long_as(&quiet));
            let sent = sent.summary();
            say(format!(
                "{count} × {name}: {fared}, {ratio:.1} times as long; {refused} sent away; {sent}; peak {peak} MiB"
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
    /// The harm of the attack.
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

impl Sent {
    fn add(&mut self, other: &Sent) {
        self.pieces += other.pieces;
        self.during += other.during;
        self.rests += other.rests;
        self.late += other.late;
    }

    /// Whether the attackers could send at the intended rate.
    fn summary(&self) -> String {
        let a_second = self.pieces as f64 / self.during.as_secs_f64().max(1e-3);
        let late_ms = self.late.as_secs_f64() * 1e3 / self.rests.max(1) as f64;
        format!("{a_second:.0} pieces a second, {late_ms:.1} ms late")
    }
}

/// 23 MB of mail for slow readers.
async fn prepare(server: &Server) -> Result<()> {
    for account in [VICTIM, HONEST] {
        let mut imap = login(server, account).await?;
        for mail in mail::mailbox_100(1).into_iter().take(if account == VICTIM { 100 } else { 5 }) {
            let reply = imap.append("INBOX", "", &mail).await?;
            ensure!(reply.is_ok(), "{}", reply.status);
        }
    }
    Ok(())
}

/// The honest client's results, how many attackers the server had disconnected in the end, and what
/// they sent.
async fn under(
    attack: Attack,
    count: usize,
    hold: Duration,
    visitor: &Visitor,
    server: &Server,
) -> Result<(Honest, usize, Sent)> {
    let gone = Arc::new(AtomicUsize::new(0));
    let mut attackers = JoinSet::new();
    let pause = PIECE_PAUSE.max(Duration::from_secs(count as u64) / PIECES_A_SECOND);
    let pace = Arc::new(AttackPace::new(pause));
    for nth in 0..count {
        let (target, gone, pace) = (Ports::of(server)?, gone.clone(), pace.clone());
        attackers.spawn(async move {
            // They arrive over a second or two.
            tokio::time::sleep(Duration::from_micros(nth as u64 * 500)).await;
            let _: Result<()> = attack.run(nth, target, pace).await;
            gone.fetch_add(1, Ordering::Relaxed);
        });
    }
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let honest = visitor.watch(server.imap, hold).await?;
    let refused = gone.load(Ordering::Relaxed);
    let during = clock.monotonic() - begun;
    let sent = Sent { pieces: pace.sent(), during, rests: pace.rests(), late: pace.late() };
    attackers.shutdown().await;
    let deadline = clock.monotonic() + GONE;
    while server.tree.files().unwrap_or(0) > 128 && clock.monotonic() < deadline {
        tokio::time::sleep(LOOK).await;
    }
    Ok((honest, refused, sent))
}
