//! Runs the cases against one or more servers, alternately, then the parts that take each server by
//! itself, and reports.
//!
//! For each case: one warm-up run per server in which memory is sampled, one under `strace` where
//! fsyncs are of interest, then the measured runs: server A, server B, server A, … so that neither
//! has the quieter machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::process::{Every, Sampler, Tree};
use sealpost_bench::result::Machine;
use tokio::process::Command;

use crate::cases::{self, Bench, Case, Data, READER, large};
use crate::parts::{self, Part};
use crate::server::{STOP_TIMEOUT, Target, signal};
use crate::small::{self, Contents};
use crate::table::{CaseReport, Report, ServerReport};

/// Sealpost's memory limit: the default of an unconfigured server.
pub const MEMORY: &str = "256MiB";

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The servers.
    pub targets: Vec<Target>,
    /// Where the servers keep their data: a disk whose fsync is real.
    pub dir: PathBuf,
    /// Measured runs of each case.
    pub runs: usize,
    /// Only cases and parts whose names contain one of these.
    pub only: Vec<String>,
    /// Cases and parts that take many minutes too.
    pub all: bool,
    /// Whether to count fsyncs with `strace`.
    pub strace: bool,
    /// Seed of the generated mail.
    pub seed: u64,
}

/// Runs everything.
pub async fn compare(options: &Options) -> Result<Report> {
    ensure!(!options.targets.is_empty(), "no server to measure");
    let cases: Vec<Case> =
        cases::all().into_iter().filter(|case| options.selects(&case.name(), case.is_long())).collect();
    let parts: Vec<Part> =
        Part::ALL.iter().copied().filter(|part| options.selects(part.name(), false)).collect();
    ensure!(!cases.is_empty() || !parts.is_empty(), "no case matches");
    let clock = SystemClock::new();
    let machine = Machine { fsync_us: Some(fsync_micros(&options.dir)?), ..Machine::describe() };
    let versions = options.targets.iter().map(Target::version).collect();
    let mut report = Report { machine, began: clock.now().seconds(), versions, ..Report::default() };
    if !cases.is_empty() {
        let start = clock.monotonic();
        report.cases = run_cases(cases, options).await?;
        report.took.push(("cases".into(), (clock.monotonic() - start).as_secs_f64()));
    }
    for part in parts {
        eprintln!("{}", part.name());
        let start = clock.monotonic();
        report.sections.push(parts::run(part, options).await.with_context(|| part.name().to_owned())?);
        report.took.push((part.name().to_owned(), (clock.monotonic() - start).as_secs_f64()));
    }
    Ok(report)
}

impl Options {
    fn selects(&self, name: &str, long: bool) -> bool {
        let named = |part: &String| name.to_lowercase().contains(&part.to_lowercase());
        (self.all || !long) && (self.only.is_empty() || self.only.iter().any(named))
    }
}

async fn run_cases(cases: Vec<Case>, options: &Options) -> Result<Vec<CaseReport>> {
    let data = Arc::new(Data::generate(options.seed));
    let large = write_large(&cases, options)?;
    let mut benches = Vec::new();
    for target in &options.targets {
        benches.push(open(target, options, &data, &large).await?);
    }
    if cases.iter().any(|case| case.reads()) {
        for bench in &benches {
            eprintln!("{}: filling mailboxes", bench.server.name);
            bench.fill(options.seed).await.with_context(|| bench.server.name.to_owned())?;
        }
    }
    let mut reports = Vec::new();
    for case in cases {
        let measured = measure(case, &mut benches, options).await.with_context(|| case.name())?;
        eprintln!("{}", measured.brief());
        reports.push(measured);
        for bench in &mut benches {
            bench.server.alive()?;
        }
    }
    for bench in benches {
        bench.server.stop(STOP_TIMEOUT).await?;
    }
    Ok(reports)
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

async fn open(target: &Target, options: &Options, data: &Arc<Data>, large: &[Contents]) -> Result<Bench> {
    let dir = options.dir.join(target.name().to_lowercase());
    // Accounts for more than the measured runs: warm-up and strace runs log in too.
    let mut bench = Bench::open(target.clone(), dir.clone(), options.runs + 2, data.clone()).await?;
    eprintln!("{}: started", target.name());
    for contents in large {
        eprintln!("{}: importing {} small messages", target.name(), contents.messages);
        let from = maildir(options, contents.messages);
        target.import(&dir, READER, &large::mailbox(contents.messages), &from)?;
    }
    bench.large = large.to_vec();
    Ok(bench)
}

async fn measure(case: Case, benches: &mut [Bench], options: &Options) -> Result<CaseReport> {
    const OFTEN: Every = Every { usage: Duration::from_millis(10), memory: Duration::from_millis(10) };
    let mut servers = Vec::new();
    for bench in benches.iter_mut() {
        prepare(case, bench, options).await?;
        bench.sampler = Some(Sampler::start(bench.server.tree, OFTEN, SystemClock::new()));
        let watched = case.run(bench, options.runs).await.with_context(|| bench.server.name.to_owned())?;
        bench.sampler = None;
        let mut report = ServerReport::new(bench.server.name, watched.memory);
        if case.stores() && options.strace {
            report.fsyncs = count_fsyncs(bench.server.tree, case, bench, options).await?;
        }
        servers.push(report);
    }
    for run in 0..options.runs {
        for (bench, report) in benches.iter_mut().zip(&mut servers) {
            prepare(case, bench, options).await?;
            report.add(case.run(bench, run).await.with_context(|| bench.server.name.to_owned())?);
        }
    }
    Ok(CaseReport::new(case, servers))
}

async fn prepare(case: Case, bench: &mut Bench, options: &Options) -> Result<()> {
    if case.is_cold() { bench.restart(options.runs + 2).await } else { Ok(()) }
}

/// Counts fsync and similar calls in a separate run: tracing slows the server down. `None` where
/// strace cannot attach.
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
    // A call that another thread's line interrupts is written twice: "unfinished" and "resumed";
    // one of them counts.
    let calls = text.lines().filter(|line| line.contains("sync") && !line.contains(" resumed>")).count();
    Ok(Some(calls as u64))
}

/// Microseconds of one small durable write in `dir`: the cost for every server here.
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
