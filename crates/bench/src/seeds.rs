//! The workload of Aerogramme's published measurements, with the figures of both servers side by
//! side.
//!
//! Aerogramme is an IMAP server that encrypts its mailboxes. Its authors published measurements on
//! 15 February 2024: "Does Aerogramme use too much memory?",
//! <https://aerogramme.deuxfleurs.fr/blog/2024-ram-usage-encryption-s3/>.
//!
//! The workload is two scenarios: `seeds-in-turn.toml` once for each account, one after the other,
//! and `seeds.toml` for the rest. The mail is `mailbox-100`, which has the sizes of the study's
//! mailboxes.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::sync::watch;

use crate::UsageError;
use crate::load::engine::Outcome;
use crate::load::scenario::{Overrides, Phase as ScenarioPhase};
use crate::load::{self, Observer, Options, Progress, Scenario, Target};
use crate::process::{Every, Sampler};
use crate::report::units;
use crate::result::{Command, Latency, Phase, ServerRun};

/// The server whose published figures are used.
pub const STUDY: &str = "Aerogramme";

/// The title of its documents.
pub const TITLE: &str = "seeds";

/// Accounts that take part.
pub const USERS: usize = 16;

/// The sampling intervals: some of the work takes a few milliseconds.
pub const OFTEN: Every = Every { usage: Duration::from_millis(20), memory: Duration::from_millis(50) };

const IN_TURN: &str = include_str!("seeds/in-turn.toml");
const CONCURRENT: &str = include_str!("seeds/seeds.toml");

/// One line of the study.
struct Figure {
    name: &'static str,
    theirs: &'static str,
    ours: fn(&ServerRun) -> Option<String>,
}

const FIGURES: [Figure; 11] = [
    Figure {
        name: "APPEND, 16 × 100 mails in turn: memory",
        theirs: "25 to 50 MB",
        ours: |run| peak(run, "append in turn"),
    },
    Figure {
        name: "APPEND, 16 × 100 mails at once: memory",
        theirs: "400 MB",
        ours: |run| peak(run, "append at once"),
    },
    Figure {
        name: "COPY and MOVE of 1,000: CPU",
        theirs: "40 s",
        ours: |run| Some(units::cpu(run.phase("copy")?.cpu_seconds? + run.phase("move")?.cpu_seconds?)),
    },
    Figure { name: "COPY of 1,000", theirs: "0.8 s", ours: |run| median(run, "copy", "COPY") },
    Figure { name: "MOVE of 1,000", theirs: "22.9 s", ours: |run| median(run, "move", "MOVE") },
    Figure {
        name: "STORE of one flag on 1,000",
        theirs: "0.5 s",
        ours: |run| median(run, "flags", "STORE +1 on 1,000"),
    },
    Figure {
        name: "IDLE: memory for each user",
        theirs: "2 MB",
        ours: |run| {
            let idle = run.phase("idle")?;
            idle.peak_bytes?;
            let grown = idle.growth_bytes().filter(|grown| *grown > 0);
            // Free memory is used again: the cost of sessions is then within the peak and cannot be
            // separated.
            let each = |grown| units::peak(Some(grown / USERS as u64), idle.peak_at_least);
            Some(grown.map_or(NO_GROWTH.into(), each))
        },
    },
    Figure {
        name: "FETCH ALL of 1,000",
        theirs: "0.15 s",
        ours: |run| median(run, "fetch all", "FETCH ALL"),
    },
    Figure { name: "FETCH FULL of 1,000: memory", theirs: "300 MB", ours: |run| grown(run, "fetch full") },
    Figure {
        name: "SEARCH by metadata: memory",
        theirs: "10 MB",
        ours: |run| grown(run, "search by metadata"),
    },
    Figure { name: "SEARCH by body: memory", theirs: "300 MB", ours: |run| grown(run, "search by body") },
];

/// The figure for memory that did not grow: free memory may have been used again.
const NO_GROWTH: &str = "not seen";

fn peak(run: &ServerRun, phase: &str) -> Option<String> {
    let phase = run.phase(phase)?;
    phase.peak_bytes.map(|_| units::peak(phase.peak_bytes, phase.peak_at_least))
}

fn grown(run: &ServerRun, phase: &str) -> Option<String> {
    let phase = run.phase(phase)?;
    phase.peak_bytes?;
    let peak = units::peak(phase.peak_bytes, phase.peak_at_least);
    Some(match phase.growth_bytes().filter(|growth| *growth > 0) {
        Some(growth) => format!("{peak}, of which {} new", units::bytes(growth as f64)),
        None => format!("{peak}, of which new: {NO_GROWTH}"),
    })
}

fn median(run: &ServerRun, phase: &str, command: &str) -> Option<String> {
    let command = run.phase(phase)?.command(command).filter(|command| command.count > 0)?;
    Some(units::time(command.latency.p50_us as f64))
}

/// One figure of the study, and of this run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// The study's figure.
    pub theirs: &'static str,
    /// This run's figure; `–` where the server's processes were not sampled, or the work was not
    /// done.
    pub ours: String,
}

/// The study's figures beside this run's, in the study's order.
pub fn table(run: &ServerRun) -> Vec<Line> {
    let line = |figure: &Figure| Line {
        name: figure.name,
        theirs: figure.theirs,
        ours: (figure.ours)(run).unwrap_or_else(|| "–".into()),
    };
    FIGURES.iter().map(line).collect()
}

/// The workload: what each account does in its turn, and the rest. Both change only the bench's own
/// mailboxes.
pub fn scenarios() -> Result<[Scenario; 2], String> {
    let set = |users| Overrides { users, ..Overrides::default() };
    Ok([
        Scenario::parse("seeds-in-turn", IN_TURN, &set(1))?,
        Scenario::parse("seeds", CONCURRENT, &set(USERS))?,
    ])
}

/// Whether there are enough accounts.
///
/// # Errors
/// If there are fewer than [`USERS`].
pub fn check(accounts: usize) -> Result<(), UsageError> {
    let were = if accounts == 1 { "was" } else { "were" };
    let wrong = || UsageError(format!("{USERS} accounts take part; {accounts} {were} given"));
    if accounts < USERS { Err(wrong()) } else { Ok(()) }
}

/// Runs all of it.
///
/// # Errors
/// If it cannot begin, or there are fewer accounts than [`USERS`].
pub async fn run(
    target: Target,
    options: &Options,
    sampler: Option<&Sampler>,
    stop: watch::Receiver<bool>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    check(target.users.len())?;
    let [in_turn, rest] = scenarios().map_err(anyhow::Error::msg)?;
    let of = 1 + rest.phases.len();
    let mark = sampler.map(Sampler::begin);
    let (mut appended, mut all) = (Vec::new(), Outcome::default());
    for nth in 0..USERS {
        let one = Target { users: vec![target.users[nth].clone()], ..target.clone() };
        // The mailboxes are removed at the end.
        let options = Options { keep: true, ..options.clone() };
        let mut turn = Part { observer: &mut *observer, turn: Some(nth), of };
        let outcome = load::run(&in_turn, one, &options, None, stop.clone(), &mut turn).await?;
        appended.extend(add_to(&mut all, outcome));
        if all.stopped {
            break;
        }
    }
    let mut phase = together(&in_turn.phases[0].name, appended);
    match mark.and_then(|mark| Some((mark, sampler?.end(mark)))) {
        Some((mark, used)) => phase.set_use(mark, used),
        None => phase.end = all.wall_seconds,
    }
    observer.begins(&in_turn.phases[0], 1, of);
    observer.ended(&in_turn.phases[0], &phase);
    all.phases.push(phase);
    // A sampler's time continues; without one, every scenario counts its own.
    let after = if sampler.is_some() { 0.0 } else { all.wall_seconds };
    // After a stop, this only removes the mailboxes.
    let mut part = Part { observer, turn: None, of };
    let outcome = load::run(&rest, target, options, sampler, stop, &mut part).await?;
    let phases = add_to(&mut all, outcome);
    let later = |phase: Phase| Phase { begin: phase.begin + after, end: phase.end + after, ..phase };
    all.phases.extend(phases.into_iter().map(later));
    Ok(all)
}

/// Adds everything except the phases, which it returns.
fn add_to(all: &mut Outcome, outcome: Outcome) -> Vec<Phase> {
    all.cpu_seconds += outcome.cpu_seconds;
    all.wall_seconds += outcome.wall_seconds;
    all.warnings.extend(outcome.warnings);
    all.missed.extend(outcome.missed);
    all.stopped |= outcome.stopped;
    outcome.phases
}

/// Merges phases that ran one after the other.
fn together(name: &str, phases: Vec<Phase>) -> Phase {
    let mut all = Phase { name: name.to_owned(), ..Phase::default() };
    for phase in phases {
        all.connections = all.connections.max(phase.connections);
        all.bytes_sent += phase.bytes_sent;
        all.bytes_received += phase.bytes_received;
        let cpu = phase.generator_cpu_seconds.unwrap_or(0.0);
        all.generator_cpu_seconds = Some(all.generator_cpu_seconds.unwrap_or(0.0) + cpu);
        for command in phase.commands {
            match all.commands.iter_mut().find(|other| other.name == command.name) {
                Some(other) => add(other, command),
                None => all.commands.push(command),
            }
        }
    }
    all
}

fn add(to: &mut Command, other: Command) {
    to.count += other.count;
    to.bytes_sent += other.bytes_sent;
    to.bytes_received += other.bytes_received;
    to.latency = Latency::merged([&to.latency, &other.latency]);
    for (kind, failure) in other.errors {
        to.errors.entry(kind).and_modify(|f| f.count += failure.count).or_insert(failure);
    }
}

/// Reports a scenario as a part of the whole: all turns are its first phase.
struct Part<'a> {
    observer: &'a mut dyn Observer,
    turn: Option<usize>,
    of: usize,
}

impl Observer for Part<'_> {
    fn begins(&mut self, phase: &ScenarioPhase, nth: usize, _of: usize) {
        let Some(turn) = self.turn else { return self.observer.begins(phase, nth + 1, self.of) };
        let name = format!("{}, account {} of {USERS}", phase.name, turn + 1);
        self.observer.begins(&ScenarioPhase { name, ..phase.clone() }, 1, self.of);
    }

    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(progress);
    }

    fn ended(&mut self, phase: &ScenarioPhase, result: &Phase) {
        if self.turn.is_none() {
            self.observer.ended(phase, result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_name_all_phases_of_the_figures() {
        let [in_turn, rest] = scenarios().unwrap();
        assert!(in_turn.writes_elsewhere().is_empty() && rest.writes_elsewhere().is_empty());
        let phases: Vec<&str> = in_turn.phases.iter().chain(&rest.phases).map(|phase| &*phase.name).collect();
        for wanted in [
            "append in turn",
            "append at once",
            "copy",
            "move",
            "flags",
            "idle",
            "fetch all",
            "fetch full",
            "search by metadata",
            "search by body",
            "list",
        ] {
            assert!(phases.contains(&wanted), "{wanted}");
        }
        let names: Vec<_> =
            rest.phases.iter().flat_map(|p| &p.steps).filter_map(|step| step.name.as_deref()).collect();
        for wanted in ["COPY", "MOVE", "STORE +1 on 1,000", "FETCH ALL"] {
            assert!(names.contains(&wanted), "{wanted}");
        }
    }

    #[test]
    fn figures_are_taken_from_where_they_are() {
        let phase = |name: &str, cpu: f64, peak: u64| Phase {
            name: name.into(),
            cpu_seconds: Some(cpu),
            begin_bytes: Some(20 << 20),
            peak_bytes: Some(peak << 20),
            ..Phase::default()
        };
        let phases = vec![
            phase("copy", 0.25, 30),
            phase("move", 0.5, 30),
            phase("idle", 0.0, 36),
            phase("search by body", 0.0, 24),
        ];
        let table = table(&ServerRun { phases, ..ServerRun::default() });
        let ours = |name: &str| table.iter().find(|line| line.name.starts_with(name)).unwrap().ours.clone();
        assert_eq!(ours("COPY and MOVE"), "0.75 s");
        assert_eq!(ours("IDLE"), "1.00 MiB");
        assert_eq!(ours("SEARCH by body"), "24.0 MiB, of which 4.00 MiB new");
        assert_eq!(ours("APPEND, 16 × 100 mails in turn"), "–");
    }

    #[test]
    fn memory_that_was_used_again_is_not_nothing() {
        let phase = |name: &str, peak_at_least| Phase {
            name: name.into(),
            begin_bytes: Some(20 << 20),
            peak_bytes: Some(20 << 20),
            peak_at_least,
            ..Phase::default()
        };
        let phases = vec![phase("idle", false), phase("search by body", true)];
        let table = table(&ServerRun { phases, ..ServerRun::default() });
        let ours = |name: &str| table.iter().find(|line| line.name.starts_with(name)).unwrap().ours.clone();
        assert_eq!(ours("IDLE"), "not seen");
        assert_eq!(ours("SEARCH by body"), "≥ 20.0 MiB, of which new: not seen");
    }
}
