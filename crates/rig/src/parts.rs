//! Parts of `make bench` that do not alternate servers: each takes every server by itself and makes
//! a table.

use std::time::Duration;

use anyhow::{Context, Result};
use sealpost_base::SystemClock;
use sealpost_bench::process::Sampler;
use sealpost_bench::result::ServerRun;
use sealpost_bench::{load, seeds};
use tokio::sync::watch;

use crate::compare::Options;
use crate::server::{STOP_TIMEOUT, Target};
use crate::table::{Section, mebibytes, milliseconds};

use crate::{desktops, hostile, huge};

/// Size of the large message, in MiB.
const HUGE_MIB: u64 = 1024;

/// Accounts and time of the desktop clients.
const DESKTOPS: usize = 1000;
const DESKTOPS_FOR: Duration = Duration::from_secs(180);
/// The time over which they start.
const DESKTOPS_RAMP: Duration = Duration::from_secs(60);

/// One of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// [`huge`].
    Huge,
    /// [`hostile`].
    Hostile,
    /// [`desktops`].
    Desktops,
    /// [`seeds`].
    Seeds,
}

impl Part {
    /// All parts, in order.
    pub const ALL: &[Part] = &[Part::Desktops, Part::Seeds, Part::Huge, Part::Hostile];

    /// Its name, also on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Huge => "a message of 1 GiB",
            Part::Hostile => "hostile clients",
            Part::Desktops => "thunderbird",
            Part::Seeds => "seeds",
        }
    }
}

/// Runs one part.
pub async fn run(part: Part, options: &Options) -> Result<Section> {
    match part {
        Part::Huge => huge(options).await,
        Part::Hostile => hostile(options).await,
        Part::Desktops => desktops(options).await,
        Part::Seeds => seeds(options).await,
    }
}

fn head(first: &str, options: &Options, columns: &[&str]) -> Vec<String> {
    let each = options
        .targets
        .iter()
        .flat_map(|t| columns.iter().map(move |column| format!("{}: {column}", t.name())));
    std::iter::once(first.to_owned()).chain(each).collect()
}

/// A separate directory for one server of one part, emptied first.
fn directory(options: &Options, part: &str, target: &Target) -> Result<std::path::PathBuf> {
    let dir = options.dir.join(format!("{part}-{}", target.name().to_lowercase()));
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

async fn huge(options: &Options) -> Result<Section> {
    let mut all = Vec::new();
    for target in &options.targets {
        let dir = directory(options, "huge", target)?;
        all.push(huge::measure(target, HUGE_MIB, &dir).await.with_context(|| target.name())?);
        std::fs::remove_dir_all(&dir)?;
    }
    let most = all.iter().max_by_key(|steps| steps.len()).map(Vec::as_slice).unwrap_or_default();
    let rows = most.iter().map(|step| {
        let each = all.iter().flat_map(|steps| match steps.iter().find(|other| other.name == step.name) {
            Some(done) => [milliseconds(done.seconds * 1000.0), mebibytes(done.peak_bytes), grown(done)],
            None => ["–".into(), "–".into(), "–".into()],
        });
        std::iter::once(step.name.clone()).chain(each).collect()
    });
    Ok(Section {
        title: "A message of 1 GiB".into(),
        about: "Written and read, generated and hashed while it is sent, after one of 1 MiB; the bytes read \
                are those written. Memory growth is from just before the command to its peak."
            .into(),
        head: head("", options, &["time", "peak", "grown by"]),
        rows: rows.collect(),
    })
}

fn grown(done: &huge::Done) -> String {
    match done.begin_bytes {
        // A separate process.
        0 => "–".into(),
        begin => format!("{:.1} MiB", done.peak_bytes.saturating_sub(begin) as f64 / 1_048_576.0),
    }
}

/// Only ours: this part checks that it keeps its memory limit.
fn ours(options: &Options) -> Result<&Target> {
    let ours = options.targets.iter().find(|target| matches!(target, Target::Sealpost(_)));
    ours.context("this part is about Sealpost: --sealpost PATH")
}

async fn hostile(options: &Options) -> Result<Section> {
    let target = ours(options)?;
    let dir = directory(options, "hostile", target)?;
    let outcomes = hostile::attacks(target, &dir).await?;
    std::fs::remove_dir_all(&dir)?;
    let rows = outcomes.into_iter().map(|outcome| {
        let verdict = outcome.verdict.unwrap_or_else(|error| format!("**hurt**: {error}"));
        vec![outcome.name.to_owned(), mebibytes(outcome.peak_bytes), verdict]
    });
    Ok(Section {
        title: "Hostile clients, one kind after the other".into(),
        about: "Each kind is still connected when an ordinary client logs in, selects and fetches, which must take less than \
                two seconds. Sealpost with `memory = \"256MiB\"`."
            .into(),
        head: ["", "peak memory", "what happened"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    })
}

async fn desktops(options: &Options) -> Result<Section> {
    let mut rows = Vec::new();
    for target in &options.targets {
        let dir = directory(options, "desktops", target)?;
        let done =
            desktops::measure(target, &dir, DESKTOPS, (DESKTOPS_RAMP, DESKTOPS_FOR), options.seed).await;
        let done = done.with_context(|| target.name())?;
        std::fs::remove_dir_all(&dir)?;
        done.warnings.iter().for_each(|warning| eprintln!("  {}: {warning}", target.name()));
        let (count, latency, errors) = done.commands();
        let (cpu, wall) = done.cpu();
        let (logins, login) = done.logins();
        let time = |us: u64| milliseconds(us as f64 / 1000.0);
        rows.push(vec![
            target.name().to_owned(),
            count.to_string(),
            errors.to_string(),
            time(latency.p50_us),
            time(latency.p99_us),
            time(latency.max_us),
            format!("{} of {logins}", time(login.p99_us)),
            format!("{:.0} %", 100.0 * cpu / wall.max(1e-9)),
            mebibytes(done.peak_bytes()),
        ]);
    }
    Ok(Section {
        title: "1,000 desktop clients".into(),
        about: format!(
            "The scenario `thunderbird`: {DESKTOPS} accounts with 1,000 messages in each inbox, two connections each, started over {} s, for {} s in \
             all; they send commands from a trace of real clients. The server was restarted after the \
             mailboxes were filled, so that each account's first login is a password check. CPU is that of one core; memory is all of the server's processes.",
            DESKTOPS_RAMP.as_secs(),
            DESKTOPS_FOR.as_secs()
        ),
        head: ["", "commands", "errors", "p50", "p99", "longest", "p99 of logins", "CPU", "peak memory"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    })
}

async fn seeds(options: &Options) -> Result<Section> {
    let mut tables = Vec::new();
    for target in &options.targets {
        let dir = directory(options, "seeds", target)?;
        let accounts: Vec<String> = (0..seeds::USERS).map(|nth| format!("seed{nth:02}@localhost")).collect();
        let server = target.start(&dir.join("data"), &accounts).await?;
        let sampler = Sampler::start(server.tree, seeds::OFTEN, SystemClock::new());
        let load = load::Options { seed: options.seed, keep: true, ..load::Options::default() };
        let (_go_on, stop) = watch::channel(false);
        let reached = desktops::reached(&server, &accounts);
        let outcome = seeds::run(reached, &load, Some(&sampler), stop, &mut desktops::Lines).await;
        let outcome = outcome.with_context(|| target.name())?;
        server.stop(STOP_TIMEOUT).await?;
        std::fs::remove_dir_all(&dir)?;
        tables.push(seeds::table(&ServerRun { phases: outcome.phases, ..ServerRun::default() }));
    }
    let lines = tables.first().map_or(0, Vec::len);
    let rows = (0..lines).map(|line| {
        let (name, theirs) = (tables[0][line].name.to_owned(), tables[0][line].theirs.to_owned());
        let each = tables.iter().map(|table| table[line].ours.clone());
        [name, theirs].into_iter().chain(each).collect()
    });
    let servers = options.targets.iter().map(|target| target.name().to_owned());
    Ok(Section {
        title: "Aerogramme's published figures".into(),
        about: "The work of [\"Does Aerogramme use too much memory?\"](https://aerogramme.deuxfleurs.fr/blog/2024-ram-usage-encryption-s3/) \
                (2024): 16 accounts with 100 messages (23.6 MB) each, a mailbox of 1,000. Aerogramme's figures are from its \
                authors' machine. Memory is that of all processes of the server."
            .into(),
        head: ["".to_owned(), seeds::STUDY.to_owned()].into_iter().chain(servers).collect(),
        rows: rows.collect(),
    })
}
