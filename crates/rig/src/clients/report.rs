//! The results, as JSON and as tables: the long ones, worst first, and a short one.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::report::compare::median;
use sealpost_bench::result::Machine;
use sealpost_bench::trace::Shape;
use serde::Serialize;

use super::{Mailbox, Options};
use crate::server::{Dovecot, Sealpost, Start};
use crate::table::put_between;

/// The marker of both pages.
const SECTION: &str = "clients";
/// Rows of each mailbox in the short table.
const WORST: usize = 3;
/// A command that takes no longer than this, in milliseconds, is in the tables but in no ratio: it
/// would compare round trips.
const COMPARED_MS: f64 = 1.0;

/// All results.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    began: i64,
    versions: Vec<String>,
    runs: usize,
    cold_runs: usize,
    writes: Option<f64>,
    /// One for each mailbox.
    pub mailboxes: Vec<MailboxReport>,
}

/// All commands over one mailbox.
#[derive(Debug, Serialize)]
pub struct MailboxReport {
    /// The data set.
    pub mail: String,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The servers; Dovecot is the last one.
    pub servers: Vec<String>,
    /// One for each command.
    pub rows: Vec<Row>,
}

/// One command.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What it is.
    #[serde(skip)]
    pub shape: Shape,
    /// The same, for readers of the JSON.
    pub command: &'static str,
    /// One for each server.
    pub servers: Vec<Times>,
}

/// How long one command took on one server.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Times {
    /// Bytes of the answer.
    pub bytes: u64,
    /// The first time in this mailbox.
    pub first_ms: Option<f64>,
    /// After a restart, from the disk.
    pub cold_ms: Vec<f64>,
    /// In rounds of all commands.
    pub warm_ms: Vec<f64>,
    /// The same beside a writer.
    pub beside_ms: Vec<f64>,
}

/// States that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    First,
    Cold,
    Warm,
}

impl State {
    const ALL: [State; 3] = [State::First, State::Cold, State::Warm];

    fn name(self) -> &'static str {
        match self {
            State::First => "first",
            State::Cold => "cold",
            State::Warm => "warm",
        }
    }

    fn of(self, times: &Times) -> Option<f64> {
        match self {
            State::First => times.first_ms,
            State::Cold => median(&times.cold_ms),
            State::Warm => median(&times.warm_ms),
        }
    }
}

impl MailboxReport {
    pub(super) fn new(mailbox: &Mailbox, bytes: u64, servers: Vec<String>, shapes: &[Shape]) -> Self {
        let row = |shape: &Shape| Row {
            shape: *shape,
            command: shape.command,
            servers: vec![Times::default(); servers.len()],
        };
        let rows = shapes.iter().map(row).collect();
        MailboxReport { mail: mailbox.mail.clone(), messages: mailbox.messages, bytes, servers, rows }
    }

    fn title(&self) -> String {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        format!("{} messages of `{}`, {mib:.0} MiB", self.messages, self.mail)
    }

    /// Where Dovecot is, if it is.
    fn peer(&self) -> Option<usize> {
        self.servers.iter().position(|label| label == "Dovecot")
    }

    fn ours(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.servers.len()).filter(|nth| Some(*nth) != self.peer())
    }

    /// How many times as long a command takes as with Dovecot, in the worst state and bound on
    /// memory. Cold and warm count.
    fn worst(&self, row: &Row) -> f64 {
        let Some(peer) = self.peer() else {
            return State::Warm.of(&row.servers[0]).unwrap_or(0.0);
        };
        let ratio = |state: State, nth: usize| {
            let (ours, theirs) = (state.of(&row.servers[nth])?, state.of(&row.servers[peer])?);
            (ours.max(theirs) > COMPARED_MS).then_some(ours / theirs)
        };
        let states = [State::Cold, State::Warm].into_iter();
        let ratios = states.flat_map(|state| self.ours().filter_map(move |nth| ratio(state, nth)));
        ratios.fold(0.0, f64::max)
    }

    fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| self.worst(b).total_cmp(&self.worst(a)));
        rows
    }

    /// States that were measured.
    fn states(&self) -> Vec<State> {
        let has = |state: &State| self.rows.iter().any(|row| state.of(&row.servers[0]).is_some());
        State::ALL.into_iter().filter(has).collect()
    }

    /// Milliseconds of all commands of one server.
    fn sum(&self, state: State, nth: usize) -> Option<f64> {
        self.rows.iter().map(|row| state.of(&row.servers[nth])).sum()
    }

    fn head(&self, out: &mut String) {
        let states = self.states();
        let columns = states
            .iter()
            .flat_map(|state| self.servers.iter().map(move |label| format!("{} {label}", state.name())))
            .collect::<Vec<_>>();
        let _ = writeln!(out, "| ms | {} | worst |", columns.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(columns.len() + 1));
    }

    fn row(&self, out: &mut String, name: &str, of: impl Fn(State, usize) -> Option<f64>, worst: f64) {
        let states = self.states();
        let cells = states
            .iter()
            .flat_map(|state| (0..self.servers.len()).map(|nth| of(*state, nth)).collect::<Vec<_>>());
        let cells: Vec<String> = cells.map(|ms| ms.map_or("–".into(), milliseconds)).collect();
        let worst = if worst > 0.0 { format!("{worst:.2}×") } else { String::new() };
        let _ = writeln!(out, "| {} | {} | {worst} |", name.replace('|', "\\|"), cells.join(" | "));
    }

    fn table(&self, out: &mut String, rows: usize) {
        self.head(out);
        for row in self.sorted().into_iter().take(rows) {
            let name = format!("`{}`", row.shape.brief());
            self.row(out, &name, |state, nth| state.of(&row.servers[nth]), self.worst(row));
        }
        let worst = self.peer().map_or(0.0, |peer| {
            let ratio = |state: State, nth| Some(self.sum(state, nth)? / self.sum(state, peer)?);
            let states = [State::Cold, State::Warm].into_iter();
            states.flat_map(|state| self.ours().filter_map(move |nth| ratio(state, nth))).fold(0.0, f64::max)
        });
        let all = format!("**all {} commands**", self.rows.len());
        self.row(out, &all, |state, nth| self.sum(state, nth), worst);
    }

    /// How much a writer slows each command, the most slowed first.
    fn slowdowns(&self, out: &mut String, rows: usize) {
        let slowed = |times: &Times| {
            let (beside, warm) = (median(&times.beside_ms)?, median(&times.warm_ms)?);
            (beside.max(warm) > COMPARED_MS).then_some(beside / warm)
        };
        let mut slowest: Vec<(&Row, f64)> = Vec::new();
        // What changed since SELECT is more work the longer the writer writes.
        for row in self.rows.iter().filter(|row| !row.command.contains("CHANGEDSINCE")) {
            let most = self.ours().filter_map(|nth| slowed(&row.servers[nth])).fold(0.0, f64::max);
            if most > 0.0 {
                slowest.push((row, most));
            }
        }
        if slowest.is_empty() {
            return;
        }
        slowest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let above = slowest.iter().filter(|(_, slowed)| *slowed > 4.0 / 3.0).count();
        let _ = writeln!(
            out,
            "\nBeside a writer, of {} commands over {COMPARED_MS} ms {above} take more than a third longer:\n",
            slowest.len()
        );
        let _ = writeln!(out, "| times as long | {} |", self.servers.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(self.servers.len()));
        for (row, _) in slowest.into_iter().take(rows) {
            let cells = row
                .servers
                .iter()
                .map(|times| slowed(times).map_or("–".into(), |ratio| format!("{ratio:.2}")));
            let _ = writeln!(out, "| `{}` | {} |", row.shape.brief(), cells.collect::<Vec<_>>().join(" | "));
        }
    }
}

impl Report {
    pub(super) fn begin(options: &Options) -> Self {
        let sealpost = Sealpost { path: options.sealpost.clone(), memory: None };
        let dovecot = options.dovecot.then(|| Dovecot::default().version());
        Report {
            machine: Machine::describe(),
            began: SystemClock::new().now().seconds(),
            versions: std::iter::once(sealpost.version()).chain(dovecot).collect(),
            runs: options.runs,
            cold_runs: options.cold_runs,
            writes: options.writes,
            mailboxes: Vec::new(),
        }
    }

    fn about(&self, out: &mut String) {
        let _ = writeln!(out, "Machine: {}. Servers: {}.\n", self.machine.line(), self.versions.join("; "));
        let beside = self.writes.map_or(String::new(), |rate| {
            format!(" The writer does {rate} rounds a second: STORE, APPEND and MOVE of one message each.")
        });
        let _ = writeln!(
            out,
            "Milliseconds, medians of {} warm and {} cold runs; the columns of Sealpost are named by its `memory`. *first*: the first time in \
             this mailbox, once; *cold*: after a restart, no file of the server in the page cache; *warm*: in rounds of all commands over one \
             connection, the servers in turn. *worst*: the highest ratio to Dovecot, cold or warm, of commands over {COMPARED_MS} ms.{beside}",
            self.runs, self.cold_runs
        );
    }

    /// All tables, whole.
    pub fn long(&self) -> String {
        self.tables(usize::MAX)
    }

    /// The worst rows of each mailbox, and the sums.
    pub fn short(&self) -> String {
        self.tables(WORST)
    }

    fn tables(&self, rows: usize) -> String {
        let mut out = String::new();
        self.about(&mut out);
        for mailbox in &self.mailboxes {
            let _ = writeln!(out, "\n**{}**\n", mailbox.title());
            mailbox.table(&mut out, rows);
            mailbox.slowdowns(&mut out, rows);
        }
        out
    }

    /// Puts the short tables into the page at `page`, the whole ones into the one at `runs`.
    ///
    /// # Errors
    /// If a page has no place for them.
    pub fn write_into(&self, page: &Path, runs: &Path) -> Result<()> {
        for (path, text) in [(page, self.short()), (runs, self.long())] {
            put_between(path, SECTION, &text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.2}"),
        10.0..100.0 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealpost_bench::trace;

    fn times(cold: f64, warm: f64, beside: f64) -> Times {
        Times {
            bytes: 1,
            first_ms: Some(9.0),
            cold_ms: vec![cold],
            warm_ms: vec![warm],
            beside_ms: vec![beside],
        }
    }

    fn mailbox() -> MailboxReport {
        let shapes = &trace::reading()[..3];
        let mailbox = Mailbox { mail: "small".into(), messages: 10 };
        let servers = vec!["64MiB".into(), "Dovecot".into()];
        let mut report = MailboxReport::new(&mailbox, 1 << 20, servers, shapes);
        report.rows[0].servers = vec![times(8.0, 4.0, 4.0), times(10.0, 8.0, 8.0)];
        report.rows[1].servers = vec![times(30.0, 10.0, 20.0), times(10.0, 8.0, 8.0)];
        // Too short to be compared.
        report.rows[2].servers = vec![times(0.9, 0.8, 0.8), times(0.1, 0.1, 0.1)];
        report
    }

    #[test]
    fn the_worst_row_is_first_and_short_ones_lack_ratios() {
        let report = mailbox();
        let order: Vec<&str> = report.sorted().iter().map(|row| row.command).collect();
        assert_eq!(order, [report.rows[1].command, report.rows[0].command, report.rows[2].command]);
        let mut text = String::new();
        report.table(&mut text, 1);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(
            rows[0],
            "| ms | first 64MiB | first Dovecot | cold 64MiB | cold Dovecot | warm 64MiB | warm Dovecot | worst |"
        );
        assert!(rows[2].ends_with("| 9.00 | 9.00 | 30.0 | 10.0 | 10.0 | 8.00 | 3.00× |"), "{}", rows[2]);
        assert_eq!(rows[3], "| **all 3 commands** | 27.0 | 27.0 | 38.9 | 20.1 | 14.8 | 16.1 | 1.94× |");
    }

    #[test]
    fn commands_that_a_writer_slows_are_counted() {
        let mut text = String::new();
        mailbox().slowdowns(&mut text, 1);
        assert!(text.contains("of 2 commands over 1 ms 1 take more than a third longer"), "{text}");
        assert!(text.lines().last().unwrap().ends_with("` | 2.00 | 1.00 |"), "{text}");
    }
}
