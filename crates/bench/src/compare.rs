//! Runs the cases against one or more servers, alternately, and reports.
//!
//! For each case: one warm-up run per server in which memory is sampled, one under `strace` where fsyncs are of
//! interest, then the measured runs: server A, server B, server A, … so that neither has the quieter machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sealpost_base::{Clock, SystemClock};
use tokio::process::Command;

use crate::cases::{self, Bench, Case, Data, READER, large};
use crate::process::{Every, Sampler, Tree};
use crate::result::Machine;
use crate::server::{Dovecot, Sealpost, Start, signal, start};
use crate::small::{self, Contents};
use crate::table::{CaseReport, Report, ServerReport};

/// Sealpost's bound on memory: what a server has that nobody configured.
const MEMORY: &str = "256MiB";

/// What to compare and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The Sealpost binary, if it takes part.
    pub sealpost: Option<PathBuf>,
    /// Dovecot, if it takes part.
    pub dovecot: Option<Dovecot>,
    /// Where the servers keep their data: a disk whose fsync is real.
    pub dir: PathBuf,
    /// Measured runs of each case.
    pub runs: usize,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Whether to count fsyncs with `strace`.
    pub strace: bool,
    /// Seed of the generated mail.
    pub seed: u64,
}

/// Runs it all.
pub async fn compare(options: &Options) -> Result<Report> {
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| options.selects(*case)).collect();
    ensure!(!cases.is_empty(), "no case matches");
    let data = Arc::new(Data::generate(options.seed));
    let large = write_large(&cases, options)?;
    let (mut benches, mut versions) = (Vec::new(), Vec::new());
    if let Some(path) = &options.sealpost {
        let sealpost = Sealpost { path: path.clone(), memory: Some(MEMORY) };
        versions.push(open(&sealpost, options, &data, &large, &mut benches).await?);
    }
    if let Some(dovecot) = &options.dovecot {
        versions.push(open(dovecot, options, &data, &large, &mut benches).await?);
    }
    ensure!(!benches.is_empty(), "no server to measure");
    if cases.iter().any(|case| case.reads()) {
        for bench in &benches {
            eprintln!("{}: filling mailboxes", bench.server.name);
            bench.fill(options.seed).await.with_context(|| bench.server.name.to_owned())?;
        }
    }
    let machine = Machine { fsync_us: Some(fsync_micros(&options.dir)?), ..Machine::describe() };
    let began = SystemClock::new().now().seconds();
    let mut report = Report { machine, began, versions, cases: Vec::new() };
    for case in cases {
        let measured = measure(case, &benches, options).await.with_context(|| case.name())?;
        eprintln!("{}", measured.brief());
        report.cases.push(measured);
        for bench in &mut benches {
            bench.server.alive()?;
        }
    }
    for bench in benches {
        bench.server.stop(Duration::from_secs(10)).await?;
    }
    Ok(report)
}

impl Options {
    fn selects(&self, case: Case) -> bool {
        self.only.as_ref().is_none_or(|part| case.name().to_lowercase().contains(&part.to_lowercase()))
    }
}

/// Writes the Maildirs of small messages that the cases need, for all servers to import.
fn write_large(cases: &[Case], options: &Options) -> Result<Vec<Contents>> {
    let mut written = Vec::new();
    for messages in large::SIZES {
        if cases.iter().any(|case| case.large() == Some(messages)) {
            written.push(small::write_maildir(&maildir(options, messages), options.seed, messages)?);
        }
    }
    Ok(written)
}

fn maildir(options: &Options, messages: usize) -> PathBuf {
    options.dir.join(format!("maildir-{messages}"))
}

async fn open(
    what: &impl Start,
    options: &Options,
    data: &Arc<Data>,
    large: &[Contents],
    to: &mut Vec<Bench>,
) -> Result<String> {
    let dir = options.dir.join(what.name().to_lowercase());
    // One account more than measured runs: warm-up and strace runs log in too.
    let server = start(what, &dir, &Bench::accounts(options.runs + 2)).await?;
    eprintln!("{}: started", server.name);
    for contents in large {
        eprintln!("{}: importing {} small messages", server.name, contents.messages);
        let from = maildir(options, contents.messages);
        what.import(&dir, READER, &large::mailbox(contents.messages), &from)?;
    }
    to.push(Bench::new(server, data.clone(), large.to_vec()));
    Ok(what.version())
}

async fn measure(case: Case, benches: &[Bench], options: &Options) -> Result<CaseReport> {
    let mut servers = Vec::new();
    for bench in benches {
        let every = Every { usage: Duration::from_millis(10), memory: Duration::from_millis(10) };
        let sampler = Sampler::start(bench.server.tree, every, SystemClock::new());
        let mark = sampler.begin();
        case.run(bench, options.runs).await.with_context(|| bench.server.name.to_owned())?;
        let mut report = ServerReport::new(bench.server.name, sampler.end(mark).peak_bytes);
        if case.stores() && options.strace {
            report.fsyncs = count_fsyncs(bench.server.tree, case, bench, options).await?;
        }
        servers.push(report);
    }
    for run in 0..options.runs {
        for (bench, report) in benches.iter().zip(&mut servers) {
            report.add(case.run(bench, run).await.with_context(|| bench.server.name.to_owned())?);
        }
    }
    Ok(CaseReport::new(case, servers))
}

/// Counts fsync and its kin in a run of its own: tracing slows the server down. `None` where strace cannot attach.
async fn count_fsyncs(tree: Tree, case: Case, bench: &Bench, options: &Options) -> Result<Option<u64>> {
    let trace = options.dir.join("strace.out");
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-q",
        "-e",
        "trace=fsync,fdatasync,sync_file_range,syncfs",
        "-e",
        "signal=none",
        "-o",
    ]);
    command.arg(&trace).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    for pid in tree.pids() {
        command.arg("-p").arg(pid.to_string());
    }
    let Ok(mut strace) = command.spawn() else { return Ok(None) };
    let Some(pid) = strace.id() else { return Ok(None) };
    tokio::time::sleep(Duration::from_millis(500)).await;
    if strace.try_wait()?.is_some() {
        return Ok(None);
    }
    case.run(bench, options.runs + 1).await?;
    signal(pid, "INT").await?;
    strace.wait().await?;
    let text = std::fs::read_to_string(&trace)?;
    // A call that another thread's line interrupts is written twice: "unfinished" and "resumed"; one of them counts.
    let calls = text.lines().filter(|line| line.contains("sync") && !line.contains(" resumed>")).count();
    Ok(Some(calls as u64))
}

/// Microseconds one small durable write takes in `dir`: what every server here pays for.
pub fn fsync_micros(dir: &Path) -> Result<u64> {
    use std::io::Write as _;
    let path = dir.join("fsync.probe");
    let mut file = std::fs::File::create(&path)?;
    let clock = SystemClock::new();
    let mut took = Vec::new();
    for _ in 0..200 {
        let start = clock.monotonic();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        took.push((clock.monotonic() - start).as_micros());
    }
    std::fs::remove_file(path)?;
    took.sort_unstable();
    Ok(u64::try_from(took[took.len() / 2]).unwrap_or(0))
}
