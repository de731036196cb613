//! Kills a real server process with SIGKILL under load, again and again, and checks what it
//! acknowledged.
//!
//! Each round: start on the same directory, verify the results of all earlier rounds over IMAP, put
//! load on it from several clients for some tens of milliseconds, SIGKILL. A few rounds kill it
//! while it starts. What must hold:
//!
//! - every acknowledged message is there exactly once under its UID, with its bytes as sent; a
//!   command in flight at the kill took effect completely or not at all, one command at a time;
//! - acknowledged flags, copies, moves and expunges hold;
//! - a UID never means another message under one UIDVALIDITY, and UIDVALIDITY never changes;
//! - at the end `sealpost check` finds nothing.
//!
//! The load is seeded; the moment of the kill is not reproducible, so a failure keeps the directory.

pub mod damage;
mod model;
mod verify;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Clock, Random, SeededRandom, SystemClock, SystemRandom};
use tokio::task::JoinSet;

use crate::imap::login;
use crate::server::{Sealpost, Server, Target};
use verify::History;
use worker::Worker;

/// The accounts under load; workers share them.
pub const ACCOUNTS: [&str; 2] = ["ada@localhost", "bob@localhost"];
/// Mailboxes under load, in each account.
pub const MAILBOXES: [&str; 4] = ["INBOX", "Archive", "Alpha", "Beta/Gamma"];
/// Clients, each with an LMTP and an IMAP connection. Four work in the first account.
const WORKERS: usize = 6;
/// One in this many rounds is killed while it starts.
const KILL_AT_START: u64 = 25;

/// Runs `kills` rounds. An error names the loss, and the directory is kept.
pub async fn main(target: Target, kills: u32, seed: Option<u64>, dir: Option<PathBuf>) -> Result<()> {
    let seed = seed.unwrap_or_else(|| SystemRandom.next_u64() % 1_000_000);
    let temporary = tempfile::Builder::new().prefix("sealpost-crash-").tempdir()?;
    std::fs::set_permissions(temporary.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let place = dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&place)?;
    let place = place.canonicalize()?.join("data");
    println!("crash: seed {seed}, {kills} kills, in {}", place.display());
    let mut run = Run::new(target, place.clone(), seed);
    match run.rounds(kills).await {
        Ok(()) => {
            println!("crash: {}", run.summary());
            Ok(())
        }
        Err(error) => {
            if dir.is_none() {
                let _kept = temporary.keep();
            }
            println!("crash: FAILED after {}", run.summary());
            println!("crash: the data is kept in {}", place.display());
            println!(
                "crash: again with: sealpost-rig crash {} --kills {kills} --seed {seed}",
                run.argument()
            );
            Err(error)
        }
    }
}

struct Run {
    target: Target,
    dir: PathBuf,
    random: SeededRandom,
    clock: SystemClock,
    workers: Vec<Worker>,
    history: History,
    kills: u32,
    start_kills: u32,
    start_ms: Vec<u128>,
}

impl Run {
    fn new(target: Target, dir: PathBuf, seed: u64) -> Self {
        let workers = (0..WORKERS).map(|nth| Worker::new(nth, usize::from(nth >= 4), seed)).collect();
        Run {
            target,
            dir,
            random: SeededRandom::new(seed),
            clock: SystemClock::new(),
            workers,
            history: History::default(),
            kills: 0,
            start_kills: 0,
            start_ms: Vec::new(),
        }
    }

    async fn rounds(&mut self, kills: u32) -> Result<()> {
        let server = self.start().await?;
        for account in ACCOUNTS {
            let mut session = login(&server, account).await?;
            for mailbox in MAILBOXES.iter().filter(|name| !["INBOX", "Archive"].contains(name)) {
                session.ok(&format!("CREATE {mailbox}")).await?;
            }
        }
        let mut server = Some(server);
        while self.kills < kills {
            let running = match server.take() {
                Some(server) => server,
                None => self.start().await?,
            };
            self.round(running).await.with_context(|| format!("after kill {}", self.kills))?;
            self.kills += 1;
            if self.kills.is_multiple_of(50) {
                println!("crash: {}", self.summary());
            }
            if self.random.below(KILL_AT_START) == 0 && matches!(self.target, Target::Sealpost(_)) {
                self.kill_at_start().await;
            }
        }
        let server = self.start().await?;
        self.verify(&server).await.context("after the last kill")?;
        let status = server.stop(Duration::from_secs(10)).await?;
        ensure!(status.success(), "SIGTERM: {status}");
        match &self.target {
            Target::Sealpost(sealpost) => check(sealpost, &self.dir),
            Target::Dovecot(_) => Ok(()),
        }
    }

    async fn start(&mut self) -> Result<Server> {
        let begin = self.clock.monotonic();
        let accounts = self.named();
        let server = self.target.start(&self.dir, &accounts).await.context("restart")?;
        self.start_ms.push((self.clock.monotonic() - begin).as_millis());
        Ok(server)
    }

    /// The accounts to name at a start. Dovecot forgets those not named; Sealpost keeps them, and
    /// opens those that are named, which takes the time of a password hash each.
    fn named(&self) -> Vec<String> {
        let first = self.start_ms.is_empty() || matches!(self.target, Target::Dovecot(_));
        ACCOUNTS[..if first { ACCOUNTS.len() } else { 1 }].iter().map(|name| (*name).to_owned()).collect()
    }

    /// Kills a server that has not finished starting; the data that it was recovering must survive
    /// that too.
    async fn kill_at_start(&mut self) {
        let typical = self.start_ms.last().copied().unwrap_or(50);
        let moment = self.random.below(u64::try_from(typical).unwrap_or(50).max(2));
        let accounts = self.named();
        let starting = self.target.start(&self.dir, &accounts);
        if let Ok(Ok(server)) = tokio::time::timeout(Duration::from_millis(moment), starting).await {
            drop(server.kill().await);
        }
        // A dropped child is killed at once but reaped later.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.start_kills += 1;
    }

    async fn verify(&mut self, server: &Server) -> Result<()> {
        for worker in &mut self.workers {
            self.history.learn(worker)?;
        }
        let observed = self.history.observe(server).await?;
        for worker in &mut self.workers {
            let before = worker.settle(&observed)?;
            self.history.count(before);
        }
        self.history.nothing_foreign(&observed, &self.workers)?;
        self.history.contents(server, &observed).await
    }

    async fn round(&mut self, mut server: Server) -> Result<()> {
        self.verify(&server).await?;
        let killed = Arc::new(AtomicBool::new(false));
        let mut sessions = Vec::new();
        for worker in &self.workers {
            sessions.push(worker.connect(server.imap, server.lmtp).await?);
        }
        let mut tasks = JoinSet::new();
        for (worker, session) in self.workers.drain(..).zip(sessions) {
            tasks.spawn(worker.load(session, killed.clone()));
        }
        // 5 to 280 ms, mostly short: hits both the first commands of fresh connections and batches
        // of many clients.
        let moment = 5 + (self.random.below(35) << self.random.below(4));
        tokio::time::sleep(Duration::from_millis(moment)).await;
        server.alive()?;
        killed.store(true, Ordering::SeqCst);
        if matches!(self.target, Target::Sealpost(_)) {
            server.kill().await?;
            self.collect(tasks).await
        } else {
            // Dovecot promises no atomic commands: its clients stop by themselves, which checks the
            // bookkeeping.
            self.collect(tasks).await?;
            server.stop(Duration::from_secs(10)).await.map(drop)
        }
    }

    async fn collect(&mut self, mut tasks: JoinSet<(Worker, Result<()>)>) -> Result<()> {
        let mut failure = None;
        while let Some(done) = tasks.join_next().await {
            let (worker, result) = done?;
            failure = failure.or(result.err());
            self.workers.push(worker);
        }
        self.workers.sort_by_key(Worker::nth);
        failure.map_or(Ok(()), Err)
    }

    fn summary(&self) -> String {
        let mut starts = self.start_ms.clone();
        starts.sort_unstable();
        let acknowledged: Vec<String> = worker::KINDS
            .iter()
            .enumerate()
            .map(|(kind, name)| {
                format!("{} {name}", self.workers.iter().map(|w| w.acknowledged()[kind]).sum::<u64>())
            })
            .collect();
        format!(
            "{} kills under load, {} at start; acknowledged: {}; in flight at a kill: {} ({} had happened); {} UIDs; \
             start {} ms (median), {} ms (max)",
            self.kills,
            self.start_kills,
            acknowledged.join(", "),
            self.history.in_flight,
            self.history.happened,
            self.history.uids(),
            starts.get(starts.len() / 2).copied().unwrap_or(0),
            starts.last().copied().unwrap_or(0),
        )
    }

    fn argument(&self) -> String {
        match &self.target {
            Target::Sealpost(sealpost) => format!("--sealpost {}", sealpost.path.display()),
            Target::Dovecot(_) => "--dovecot".into(),
        }
    }
}

/// Runs `sealpost check` on the directory: seals, hash chain, structures, UID rules.
fn check(sealpost: &Sealpost, dir: &Path) -> Result<()> {
    let output = sealpost.check(dir)?;
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        bail!("sealpost check: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    }
    println!("crash: {}", String::from_utf8_lossy(&output.stdout).trim());
    Ok(())
}
