//! Accounts whose clients repeat commands over half a million messages, and an honest visitor meanwhile.
//!
//! The visitor logs in, selects, fetches and leaves, as in [`crowd`](mod@crate::crowd), with an account of
//! its own. What is measured is how much longer its visits take than without the others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use crate::idle::fill;
use crate::imap::{Imap, exists, login};
use crate::server::{self, Configured, STOP_TIMEOUT, Sealpost, Server};
use crate::visitor::{HONEST, Honest, OTHERS_NICER, SERVER_NICER, Visitor, give_way};

/// How long the visitor may take for a visit before it counts as failed.
const VISIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one command over all messages may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Messages of the visitor.
const VISITED: u32 = 5;
/// Ranges of a FETCH, each of one message: every second one.
const RANGES: u32 = 30_000;

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The binary.
    pub sealpost: PathBuf,
    /// Accounts with heavy work, each with one client.
    pub accounts: usize,
    /// Messages of each.
    pub messages: u32,
    /// How long the visitor is measured in each round of each kind of work.
    pub hold: Duration,
    /// How often all kinds are run; the visits of all rounds count together.
    pub rounds: usize,
    /// The server's `memory`.
    pub memory: String,
    /// How many times as long a visit may take (99th percentile) as without the work; more is an error.
    pub ratio: Option<f64>,
    /// Only kinds of work whose name contains this.
    pub only: Option<String>,
}

/// What a client repeats.
#[derive(Debug, Clone, Copy)]
enum Work {
    Store,
    Move,
    Ranges,
    Select,
}

const WORK: [(Work, &str); 4] = [
    (Work::Store, "STORE 1:* of a flag, silently"),
    (Work::Move, "MOVE 1:* there and back"),
    (Work::Ranges, "FETCH of 30,000 ranges, FLAGS"),
    (Work::Select, "SELECT"),
];

/// Measures the visitor beside each kind of work, and prints the results.
///
/// # Errors
/// If a client is refused, or visits take longer than allowed.
pub async fn main(options: &Options, dir: &Path) -> Result<()> {
    ensure!(options.rounds > 0 && options.accounts > 0, "there is nothing to measure");
    let visitor = Visitor::start(VISIT_TIMEOUT)?;
    give_way(SERVER_NICER)?;
    let sealpost = Sealpost { path: options.sealpost.clone(), memory: None };
    let lines = format!("memory = \"{}\"\n", options.memory);
    let configured = Configured { sealpost, lines, data_limit_mib: None };
    let busy: Vec<String> = (0..options.accounts).map(|nth| format!("busy{nth}@localhost")).collect();
    let accounts: Vec<String> = busy.iter().cloned().chain([HONEST.to_owned()]).collect();
    let mut server = server::start(&configured, &dir.join("data"), &accounts).await?;
    for account in &busy {
        fill(&server, account, options.messages).await?;
        login(&server, account).await?.run("CREATE Aside").await?;
    }
    fill(&server, HONEST, VISITED).await?;
    give_way(OTHERS_NICER)?;
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let work: Vec<_> = WORK.into_iter().filter(|(_, name)| wanted(name)).collect();
    let (mut quiet, mut beside) = (Honest::default(), Vec::new());
    beside.resize_with(work.len(), || (Honest::default(), 0));
    for round in 1..=options.rounds {
        quiet.add(visitor.watch(server.imap, options.hold).await?);
        for ((work, name), (honest, commands)) in work.iter().zip(&mut beside) {
            server.tree.reset_peak();
            let (fared, count) = under(*work, &busy, options.hold, &visitor, &server).await?;
            server.alive()?;
            honest.add(fared);
            *commands += count;
            println!(
                "bulk, round {round} of {}: {} × {name}: {}, {:.1} times as long; {commands} commands; peak {} MiB",
                options.rounds,
                busy.len(),
                honest.summary(),
                honest.times_as_long_as(&quiet),
                server.tree.peak_bytes() >> 20
            );
        }
        println!("bulk, round {round} of {}: alone: {}", options.rounds, quiet.summary());
    }
    server.stop(STOP_TIMEOUT).await?;
    let failures: Vec<String> = work
        .iter()
        .zip(&beside)
        .filter_map(|((_, name), (honest, _))| {
            let ratio = honest.times_as_long_as(&quiet);
            let is_slow = options.ratio.is_some_and(|most| ratio > most);
            (is_slow || honest.failed > 0)
                .then(|| format!("{name}: {ratio:.1} times as long, {:?}", honest.last_error))
        })
        .collect();
    ensure!(failures.is_empty(), "visits were delayed:\n  {}", failures.join("\n  "));
    Ok(())
}

/// The visitor's results beside that work, and how many commands were completed meanwhile.
async fn under(
    work: Work,
    accounts: &[String],
    hold: Duration,
    visitor: &Visitor,
    server: &Server,
) -> Result<(Honest, usize)> {
    let mut clients = Vec::new();
    for account in accounts {
        let mut imap = login(server, account).await?;
        // One VANISHED response instead of an EXPUNGE for each message.
        imap.ok("ENABLE QRESYNC").await?;
        // An interrupted round may have left them there.
        if exists(&imap.ok("SELECT Aside").await?)? > 0 {
            imap.count("MOVE 1:* INBOX").await?;
        }
        imap.ok("SELECT INBOX").await?;
        clients.push(imap);
    }
    let commands = std::cell::Cell::new(0);
    let work = try_join_all(clients.iter_mut().map(|imap| async {
        for round in 0u32.. {
            tokio::time::timeout(COMMAND_TIMEOUT, work.once(imap, round)).await??;
            commands.set(commands.get() + 1);
        }
        anyhow::Ok(())
    }));
    let honest = tokio::select! {
        honest = visitor.watch(server.imap, hold) => honest?,
        stopped = work => stopped.map(|_| Honest::default())?,
    };
    Ok((honest, commands.get()))
}

impl Work {
    async fn once(self, imap: &mut Imap, round: u32) -> Result<()> {
        match self {
            Work::Store => {
                let sign = if round.is_multiple_of(2) { '+' } else { '-' };
                imap.ok(&format!("STORE 1:* {sign}FLAGS.SILENT (\\Flagged)")).await?;
            }
            Work::Move => {
                let (from, to) =
                    if round.is_multiple_of(2) { ("INBOX", "Aside") } else { ("Aside", "INBOX") };
                imap.ok(&format!("SELECT {from}")).await?;
                imap.count(&format!("MOVE 1:* {to}")).await?;
            }
            Work::Ranges => {
                let ranges: Vec<String> = (0..RANGES).map(|nth| (2 * nth + 1).to_string()).collect();
                imap.count(&format!("FETCH {} (FLAGS)", ranges.join(","))).await?;
            }
            Work::Select => {
                imap.ok("SELECT INBOX").await?;
            }
        }
        Ok(())
    }
}
