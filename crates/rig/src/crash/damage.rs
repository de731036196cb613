//! Kills and damage in turn: after each SIGKILL bits are flipped in the data, and foreign objects
//! are planted.
//!
//! Each round delivers mail, kills the server, and damages a copy of the directory: bits in the
//! database and in files, noise at the positions of the next log entries, checkpoints, records and
//! messages, and copies of real ones in the wrong place. What must hold for the copy:
//!
//! - `sealpost check` ends, and names something unless everything is served as before;
//! - the server serves, or refuses with a sentence; it neither hangs nor panics, ends on SIGTERM,
//!   and writes no flood of log lines;
//! - after `sealpost store repair` and `sealpost account repair` every acknowledged message is
//!   there, including those acknowledged on top of the damage, except those whose own bytes were
//!   damaged: in the message's object, or in a log entry that no sound checkpoint includes. Planted
//!   objects that `check` names may be removed first.
//!
//! The original directory stays sound, so that every round begins with all mail.

mod plant;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Random, SeededRandom, SystemRandom};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ACCOUNTS;
use super::model::content;
use crate::imap::login;
use crate::lmtp::{Lmtp, dotted};
use crate::server::{self, PASSWORD, Sealpost, Server};
use plant::{Objects, Planted};
use serve::Serving;

/// Concurrent deliveries: one log entry has at most one message of each.
const CLIENTS: usize = 4;
/// The limit for every command and start, whatever is damaged.
const DEADLINE: Duration = Duration::from_secs(180);
/// How long a damaged server may take to answer a client.
const TIMEOUT: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(30);
/// More log output than this is a flood.
const LOG_BYTES: u64 = 1024 * 1024;

/// The acknowledged messages: their ids, by account.
type Mail = [BTreeSet<String>; ACCOUNTS.len()];

/// Runs `kills` rounds. An error names the loss, and the directory is kept.
pub async fn main(sealpost: Sealpost, kills: u32, seed: Option<u64>, dir: Option<PathBuf>) -> Result<()> {
    let seed = seed.unwrap_or_else(|| SystemRandom.next_u64() % 1_000_000);
    let temporary = tempfile::Builder::new().prefix("sealpost-damage-").tempdir()?;
    let place = dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&place)?;
    let place = place.canonicalize()?;
    println!("damage: seed {seed}, {kills} kills, in {}", place.display());
    let mut run = Run::new(sealpost, &place, seed);
    let done = run.rounds(kills).await;
    println!("damage: {}", run.summary());
    if done.is_err() {
        if dir.is_none() {
            let _kept = temporary.keep();
        }
        println!(
            "damage: the data is kept in {}; the last damage: {}",
            place.display(),
            run.planted.join("; ")
        );
    }
    done
}

struct Run {
    sealpost: Sealpost,
    /// The sound directory, and the damaged copy of it.
    sound: PathBuf,
    damaged: PathBuf,
    random: SeededRandom,
    mail: Mail,
    messages: u64,
    /// The damage of this round, for a failure report.
    planted: Vec<String>,
    counts: Counts,
}

/// The outcomes of rounds.
#[derive(Default)]
struct Counts {
    rounds: u32,
    harmless: u32,
    named: u32,
    refused: u32,
    lost: usize,
    /// The database could not be repaired: a backup is needed.
    unrepaired: u32,
    by_kind: BTreeMap<&'static str, u32>,
}

impl Run {
    fn new(sealpost: Sealpost, place: &Path, seed: u64) -> Self {
        Run {
            sealpost,
            sound: place.join("data"),
            damaged: place.join("damaged"),
            random: SeededRandom::new(seed),
            mail: Mail::default(),
            messages: 0,
            planted: Vec::new(),
            counts: Counts::default(),
        }
    }

    async fn rounds(&mut self, kills: u32) -> Result<()> {
        std::fs::create_dir_all(&self.sound)?;
        std::fs::write(self.sound.with_extension("password"), format!("{PASSWORD}\n"))?;
        std::fs::write(self.damaged.with_extension("password"), format!("{PASSWORD}\n"))?;
        for account in ACCOUNTS {
            let password = self.sound.with_extension("password");
            let add = ["account", "add", account, "--password-file", text(&password)?];
            let added = self.command(&self.sound, &add).await?;
            ensure!(added.status.success(), "account add: {}", said(&added));
        }
        for round in 0..kills {
            self.load().await.context("load")?;
            self.damage().await.with_context(|| format!("round {round}"))?;
            self.counts.rounds += 1;
        }
        let checked = self.check(&self.sound).await?;
        ensure!(checked.status.success(), "the sound directory: {}", said(&checked));
        Ok(())
    }

    async fn start(&self, dir: &Path) -> Result<Server> {
        server::start(&Serving { sealpost: self.sealpost.clone() }, dir, &[]).await
    }

    /// Starts a server on the sound directory, delivers for a moment, and kills it.
    async fn load(&mut self) -> Result<()> {
        let server = self.start(&self.sound).await?;
        let killed = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for client in 0..CLIENTS {
            let (lmtp, killed) = (Lmtp::connect(server.lmtp).await?, killed.clone());
            let ids = format!("r{}c{client}", self.counts.rounds);
            tasks.spawn(deliver(lmtp, client % ACCOUNTS.len(), ids, killed));
        }
        // A session adds log entries and segments.
        let mut session = login(&server, ACCOUNTS[0]).await?;
        session.ok("SELECT INBOX").await?;
        session.run("STORE 1:* +FLAGS.SILENT (\\Seen)").await?;
        session.run("SORT (SUBJECT) UTF-8 ALL").await?;
        tokio::time::sleep(Duration::from_millis(50 + self.random.below(500))).await;
        killed.store(true, Ordering::SeqCst);
        server.kill().await?;
        while let Some(acknowledged) = tasks.join_next().await {
            let (account, ids) = acknowledged?;
            self.messages += ids.len() as u64;
            self.mail[account].extend(ids);
        }
        Ok(())
    }

    /// Damages a copy, and checks the effects.
    async fn damage(&mut self) -> Result<()> {
        plant::copy_anew(&self.sound, &self.damaged)?;
        let before = Objects::read(&self.damaged)?;
        self.planted.clear();
        let mut planted = Vec::new();
        for _ in 0..=self.random.below(2) {
            let done = plant::anything(&self.damaged, &before, &self.random)?;
            *self.counts.by_kind.entry(done.kind).or_default() += 1;
            self.planted.push(done.to_string());
            planted.push(done);
        }
        let Some(lost) = self.lost(&before).await? else {
            self.counts.unrepaired += 1;
            return Ok(());
        };
        let checked = self.check(&self.damaged).await?;
        let is_named = !checked.status.success();
        let mut expected = self.mail.clone();
        let served = self.serve(&mut expected).await?;
        // Messages in flight at the kill may be there, too.
        let has_all = |served: &Mail| expected.iter().zip(served).all(|(all, served)| all.is_subset(served));
        let is_whole = served.as_ref().is_some_and(has_all);
        ensure!(is_whole || is_named, "mail is missing, and check names nothing: {}", said(&checked));
        self.counts.refused += u32::from(served.is_none());
        self.counts.harmless += u32::from(is_whole);
        self.counts.named += u32::from(is_named);
        self.repair(&expected, &lost, &planted).await
    }

    /// Repairs, and checks that all recoverable messages are there.
    async fn repair(&mut self, expected: &Mail, lost: &Lost, planted: &[Planted]) -> Result<()> {
        let mut steps = String::new();
        for attempt in 0..2 {
            let repaired = self.command(&self.damaged, &["store", "repair"]).await?;
            steps.push_str(&said(&repaired));
            for account in ACCOUNTS {
                steps.push_str(&said(
                    &self.command(&self.damaged, &["account", "repair", account, "--remove-noise"]).await?,
                ));
            }
            let mut with_more = expected.clone();
            let served = self.serve(&mut with_more).await?;
            let found = served.unwrap_or_default();
            let missing: Vec<usize> =
                with_more.iter().zip(&found).map(|(all, found)| all.difference(found).count()).collect();
            if missing.iter().zip(&lost.allowed).all(|(missing, allowed)| missing <= allowed) {
                self.counts.lost += missing.iter().sum::<usize>();
                return Ok(());
            }
            let checked = self.check(&self.damaged).await?;
            ensure!(
                !checked.status.success(),
                "{missing:?} messages are lost and check names nothing\n{steps}"
            );
            // An operator removes objects that check names and that no server wrote.
            let named = said(&checked);
            let removed = plant::remove_named(&self.damaged, planted, &named)?;
            ensure!(
                attempt == 0 && removed > 0,
                "{missing:?} messages are lost, {:?} may be; check: {named}\nrepairs: {steps}",
                lost.allowed
            );
        }
        bail!("not reached: the second attempt ends")
    }

    /// How many messages of each account the damage itself destroyed; `None` if the database is
    /// unreadable.
    async fn lost(&self, before: &Objects) -> Result<Option<Lost>> {
        let probe = self.damaged.with_extension("probe");
        plant::copy_anew(&self.damaged, &probe)?;
        let repaired = self.command(&probe, &["store", "repair"]).await?;
        if !matches!(repaired.status.code(), Some(0 | 1)) {
            let why = said(&repaired);
            ensure!(repaired.status.code().is_some() && is_a_sentence(&why), "store repair: {why}");
            return Ok(None);
        }
        let after = Objects::read(&probe).context("after store repair")?;
        Ok(Some(Lost { allowed: before.lost_messages(&after, CLIENTS) }))
    }

    /// The messages that a server on the damaged directory serves; `None` if it does not start.
    /// Newly accepted ones are added to `expected`.
    async fn serve(&mut self, expected: &mut Mail) -> Result<Option<Mail>> {
        let started =
            timeout(DEADLINE, self.start(&self.damaged)).await.context("the server does not start")?;
        let log = self.damaged.with_extension("log");
        let mut server = match started {
            Ok(server) => server,
            Err(error) => {
                let why = std::fs::read_to_string(&log)?;
                ensure!(is_a_sentence(&why), "the server does not start, and says {why:?}: {error:#}");
                return Ok(None);
            }
        };
        let mut mail = Mail::default();
        for (account, name) in ACCOUNTS.iter().enumerate() {
            let id = format!("r{}d{}", self.counts.rounds, self.random.below(1 << 40));
            if timeout(TIMEOUT, serve::deliver_one(&server, name, &id))
                .await
                .context("a delivery is not answered")?
            {
                expected[account].insert(id);
            }
            let read = timeout(TIMEOUT, serve::read_all(&server, name)).await;
            mail[account] = read.with_context(|| format!("{name} is not answered"))?;
        }
        server.alive()?;
        let status = server.stop(GRACE).await?;
        let said = std::fs::read_to_string(&log)?;
        ensure!(status.success() && !said.contains("panicked"), "SIGTERM: {status}\n{said}");
        ensure!(said.len() as u64 <= LOG_BYTES, "{} bytes of log", said.len());
        Ok(Some(mail))
    }

    async fn check(&self, dir: &Path) -> Result<Output> {
        let password = dir.with_extension("password");
        self.command(dir, &["check", "--json", "--password-file", text(&password)?]).await
    }

    /// A command that must end in time, by itself, with an exit status.
    async fn command(&self, dir: &Path, args: &[&str]) -> Result<Output> {
        let mut command = tokio::process::Command::new(&self.sealpost.path);
        command.arg("--dir").arg(dir).args(args).env("SEALPOST_CONFIG", "").kill_on_drop(true);
        command.stdin(std::process::Stdio::null());
        let output =
            timeout(DEADLINE, command.output()).await.with_context(|| format!("{args:?} does not end"))??;
        let why = said(&output);
        ensure!(
            output.status.code().is_some() && !why.contains("panicked"),
            "{args:?}: {} {why}",
            output.status
        );
        Ok(output)
    }

    fn summary(&self) -> String {
        let Counts { rounds, harmless, named, refused, lost, unrepaired, by_kind } = &self.counts;
        let kinds: Vec<String> = by_kind.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!(
            "{rounds} kills and damages ({}); {} messages acknowledged; harmless {harmless}, named by check {named}, \
             server refused {refused}, database beyond repair {unrepaired}; {lost} messages lost whose own bytes were damaged",
            kinds.join(", "),
            self.messages,
        )
    }
}

/// The losses by the damage itself.
struct Lost {
    /// The most messages of each account.
    allowed: [usize; ACCOUNTS.len()],
}

/// Delivers until the server is killed; returns the acknowledged messages.
async fn deliver(
    mut lmtp: Lmtp,
    account: usize,
    ids: String,
    killed: Arc<AtomicBool>,
) -> (usize, Vec<String>) {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if killed.load(Ordering::SeqCst) {
            break;
        }
        let id = format!("{ids}m{n}");
        match lmtp.deliver(&[ACCOUNTS[account]], &dotted(&content(&id))).await {
            Ok(answers) if answers.iter().all(|answer| answer.is_ok()) => acknowledged.push(id),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    (account, acknowledged)
}

/// Whether an operator can understand the message.
fn is_a_sentence(text: &str) -> bool {
    text.split_whitespace().count() >= 4 && !text.contains("panicked")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
