//! `sealpost store probe`: which features a store has, and how fast it is.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use sealpost_base::{Error, SystemClock, SystemRandom};
use sealpost_vault::probe::{self, Conditions, Probe};
use sealpost_vault::store::MarkMemory;
use sealpost_vault::{AppendMode, Store};
use serde::Serialize;

use crate::config::Config;
use crate::exit::FAILED;
use crate::global::Global;
use crate::output::text;
use crate::store::{NodeMemory, Purpose, is_store};

/// Arguments of `sealpost store probe`.
#[derive(clap::Args)]
#[command(
    after_help = "Writes small objects below probe/ and removes them; servers may run. A local path must have a \
                        store already. Exit status 1 if the store lacks a required feature, or the access \
                        key lacks a permission; 2 if the key, the region or the endpoint is wrong; 3 if the \
                        bucket or directory does not exist; 75 if the store does not answer. With --json a \
                        failure is a document too, with \"usable\" and \"error\".\n
Examples:
  sealpost store probe --config /etc/sealpost.toml
  sealpost store probe s3://mail-test --json"
)]
pub struct Args {
    /// s3://bucket/prefix, file:///directory or a directory [default: the store of the configuration]
    #[arg(value_name = "URL")]
    url: Option<String>,

    /// Record again how all servers append, by whether conditional creates work now. Stop all servers first
    #[arg(long)]
    reset_append_mode: bool,
}

#[derive(Serialize)]
struct ProbeReport {
    store: String,
    usable: bool,
    /// `kept`, `ignored`, `raced` or `refused`.
    conditional_create: &'static str,
    /// `conditional` or `siblings`, as found now.
    append_mode: &'static str,
    /// The same, as recorded in the bucket: none yet, one, or two that contradict each other.
    recorded_append_modes: Vec<&'static str>,
    list_after_write: bool,
    list_after_delete: bool,
    keeps_removed: bool,
    ranges: bool,
    multipart: bool,
    clock_ahead_ms: i64,
    write_us: u128,
    read_us: u128,
    list_us: u128,
    delete_us: u128,
}

/// Why nothing was found out.
#[derive(Serialize)]
struct Failed {
    store: Option<String>,
    usable: bool,
    error: String,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let mut store = args.url.clone();
    let found = find(args, global, &mut store).await;
    if let Err(e) = &found
        && global.json
    {
        global.output().json(&Failed { store, usable: false, error: text(e) })?;
    }
    let found = found?;
    global.output().show(&found, ProbeReport::to_text)?;
    Ok(if found.usable { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Looks what the store does; `name` becomes what it is called.
async fn find(args: Args, global: &Global, name: &mut Option<String>) -> Result<ProbeReport> {
    let config = Config::load(global)?;
    let directory = match args.url.as_deref() {
        Some(url) => config.store.directory_of(url)?,
        None => config.store.directory(&config.directory),
    };
    let url = args.url.unwrap_or_else(|| config.store.url.clone());
    let shown = if url.is_empty() { config.directory.display().to_string() } else { url.clone() };
    *name = Some(shown.clone());
    let store = match &directory {
        Some(directory) => {
            require(directory)?;
            Store::local(directory).await.with_context(|| format!("the store {shown}"))?
        }
        None => config.store.unused(&url, Purpose::Change).await?,
    };
    // The keys belong to the configuration's own store; another store may belong to another server.
    let is_own = url == config.store.url && directory.is_none();
    let memory = if is_own { NodeMemory::load(&config.directory)? } else { None };
    let found = probe_store(&store, args.reset_append_mode, shown, memory, &config.store.mark_name()).await;
    found.map_err(|e| config.store.explained(&url, e))
}

/// Opening a local store would create it: it must exist.
fn require(directory: &Path) -> Result<()> {
    let what = match directory {
        _ if is_store(directory)? => return Ok(()),
        _ if directory.is_dir() => "there is no store in",
        _ => "there is no directory",
    };
    let shown = directory.display();
    Err(Error::not_found(format!(
        "{what} {shown}; correct the path (a server creates its store when it starts)"
    ))
    .into())
}

async fn probe_store(
    store: &Store,
    reset_append_mode: bool,
    name: String,
    memory: Option<NodeMemory>,
    mark_name: &str,
) -> Result<ProbeReport> {
    let probe = probe::probe(store, &SystemClock::new(), &SystemRandom).await?;
    if reset_append_mode {
        // What it does is what was found when it was opened, and again now.
        if store.append_mode() != probe.conditions.append_mode() {
            return Err(Error::retry("conditional creates worked in one test and failed in another; nothing was recorded: run it again").into());
        }
        let known =
            memory.as_ref().map(|memory| MarkMemory { keys: &memory.keys, seen: memory.mark(mark_name) });
        let mark = store.reset_append_mode(known).await?;
        if let (Some(memory), Some(mark)) = (&memory, mark) {
            memory.keep(mark_name, mark)?;
        }
    }
    let recorded = store.mode_markers(memory.as_ref().map(|memory| &memory.keys)).await?;
    Ok(ProbeReport::new(name, &probe, &recorded))
}

impl ProbeReport {
    fn new(store: String, probe: &Probe, marks: &[AppendMode]) -> Self {
        let conditional_create = match probe.conditions {
            Conditions::Kept => "kept",
            Conditions::Ignored => "ignored",
            Conditions::Raced => "raced",
            Conditions::Refused => "refused",
        };
        let append_mode = probe.conditions.append_mode().name();
        // Siblings are right on any store.
        let agrees =
            matches!(marks, [] | [AppendMode::Siblings]) || marks == [probe.conditions.append_mode()];
        ProbeReport {
            store,
            usable: agrees && probe.lists_what_was_written && probe.reads_ranges && probe.uploads_in_parts,
            conditional_create,
            append_mode,
            recorded_append_modes: marks.iter().map(|mark| mark.name()).collect(),
            list_after_write: probe.lists_what_was_written,
            list_after_delete: probe.forgets_what_was_removed,
            keeps_removed: probe.keeps_removed,
            ranges: probe.reads_ranges,
            multipart: probe.uploads_in_parts,
            clock_ahead_ms: probe.clock_ahead_ms,
            write_us: probe.write.as_micros(),
            read_us: probe.read.as_micros(),
            list_us: probe.list.as_micros(),
            delete_us: probe.delete.as_micros(),
        }
    }

    fn to_text(&self) -> String {
        let conditional = match self.conditional_create {
            "kept" => "works: of several writers of one object the first wins, and the others get an error",
            "ignored" => "is ignored: a second writer overwrites the object of the first without an error",
            "raced" => "fails under concurrency: several writers at once got success for one object",
            _ => "is rejected: the store accepts no writes with a condition",
        };
        let append_mode = match self.append_mode {
            "conditional" => "conditional: one entry for each position; the store orders the writers",
            _ => "siblings: each writer has names of its own, and the writers agree which entry counts",
        };
        let recorded = match (self.recorded_append_modes.as_slice(), self.append_mode) {
            ([], _) => "none; the first server records it".to_owned(),
            ([one], found) if *one == found => format!("{one}, as found now"),
            (["siblings"], _) => {
                "siblings, although conditional creates work (stop all servers, then --reset-append-mode)"
                    .to_owned()
            }
            ([one], _) => format!("{one}, WHICH DOES NOT WORK FROM HERE: servers here do not start"),
            _ => "BOTH: servers found different modes and do not start (stop all, then --reset-append-mode)"
                .to_owned(),
        };
        let yes = |good: bool, yes: &str, no: &str| if good { yes.to_owned() } else { no.to_owned() };
        let ms = |micros: u128| format!("{:.1} ms", Duration::from_micros(micros as u64).as_secs_f64() * 1e3);
        let clock = match self.clock_ahead_ms / 1000 {
            -2..=2 => "as this machine's, to about a second".to_owned(),
            ahead if ahead > 0 => format!("{ahead} s ahead of this machine's"),
            behind => format!("{} s behind this machine's", -behind),
        };
        let lines = [
            ("conditional create", conditional.to_owned()),
            ("append mode", append_mode.to_owned()),
            ("recorded mode", recorded),
            (
                "list after write",
                yes(
                    self.list_after_write,
                    "shows new objects",
                    "MISSES new objects: this store cannot be used",
                ),
            ),
            (
                "list after remove",
                yes(
                    self.list_after_delete,
                    "omits removed objects",
                    "still shows removed objects; that does no harm",
                ),
            ),
            (
                "removed objects",
                yes(
                    !self.keeps_removed,
                    "are not kept as versions",
                    "ARE KEPT AS VERSIONS, with old passwords and removed mail; turn versioning off, or let \
                     versions expire",
                ),
            ),
            (
                "parts of objects",
                yes(self.ranges, "can be read", "CANNOT BE READ: this store cannot be used"),
            ),
            (
                "large objects",
                yes(self.multipart, "are written in parts", "CANNOT BE WRITTEN: this store cannot be used"),
            ),
            ("clock", clock),
            ("write 1 KiB", ms(self.write_us)),
            ("read it", ms(self.read_us)),
            ("list", ms(self.list_us)),
            ("remove", ms(self.delete_us)),
        ];
        let mut text = format!("{}\n", self.store);
        for (name, what) in lines {
            text.push_str(&format!("  {name:<20}{what}\n"));
        }
        text
    }
}
