//! Results of the developer's cases as JSON and as the markdown tables of `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sealpost_bench::process::Use;
use sealpost_bench::report::compare::median;
use sealpost_bench::result::Machine;
use serde::Serialize;

use crate::cases::{Case, Measured};

/// The name of its section of the page.
const SECTION: &str = "sealpost-rig compare";
const END: &str = "<!-- end generated -->";

/// All results of one comparison.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Seconds since 1970 when it began.
    pub began: i64,
    /// The servers' versions.
    pub versions: Vec<String>,
    /// One per case.
    pub cases: Vec<CaseReport>,
    /// Parts that do not alternate servers.
    pub sections: Vec<Section>,
    /// The duration of each step in seconds, preparations included.
    pub took: Vec<(String, f64)>,
}

/// A separate table.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// How it was measured.
    pub about: String,
    /// Titles of the columns.
    pub head: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
}

/// One case, all servers.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// How many operations one run does, and their name.
    pub units: Option<(usize, &'static str)>,
    /// One per server.
    pub servers: Vec<ServerReport>,
}

/// One case, one server.
#[derive(Debug, Serialize)]
pub struct ServerReport {
    /// The server's name.
    pub name: &'static str,
    /// Wall milliseconds of each run.
    pub wall_ms: Vec<f64>,
    /// Their median.
    pub median_ms: f64,
    /// CPU seconds of one run, the mean of all.
    pub cpu_seconds: f64,
    /// The highest memory, in bytes, in a separate run.
    pub peak_bytes: u64,
    /// Its growth since just before the run.
    pub growth_bytes: u64,
    /// fsync calls in one run.
    pub fsyncs: Option<u64>,
}

impl ServerReport {
    /// Before any run.
    pub fn new(name: &'static str, memory: Option<Use>) -> Self {
        let (begin, peak_bytes) = memory.map_or((0, 0), |memory| (memory.begin_bytes, memory.peak_bytes));
        let growth_bytes = peak_bytes.saturating_sub(begin);
        ServerReport {
            name,
            wall_ms: Vec::new(),
            median_ms: 0.0,
            cpu_seconds: 0.0,
            peak_bytes,
            growth_bytes,
            fsyncs: None,
        }
    }

    /// Adds a run.
    pub fn add(&mut self, run: Measured) {
        let runs = self.wall_ms.len() as f64;
        self.cpu_seconds = (self.cpu_seconds * runs + run.cpu_seconds) / (runs + 1.0);
        self.wall_ms.push(run.wall.as_secs_f64() * 1000.0);
        self.median_ms = median(&self.wall_ms).unwrap_or(0.0);
    }
}

impl CaseReport {
    /// Results of `case`.
    pub fn new(case: Case, servers: Vec<ServerReport>) -> Self {
        CaseReport { name: case.name(), units: case.units(), servers }
    }

    /// One line for the terminal.
    pub fn brief(&self) -> String {
        let each = self.servers.iter().map(|server| {
            format!(
                "{} {} {:.2} s CPU {}",
                server.name,
                self.result(server),
                server.cpu_seconds,
                mebibytes(server.peak_bytes)
            )
        });
        format!("{}: {}", self.name, each.collect::<Vec<_>>().join(" | "))
    }

    fn result(&self, server: &ServerReport) -> String {
        match self.units {
            Some((units, _)) => {
                format!(
                    "{} ({}/s)",
                    milliseconds(server.median_ms),
                    (units as f64 * 1000.0 / server.median_ms).round()
                )
            }
            None => milliseconds(server.median_ms),
        }
    }

    fn row(&self) -> String {
        let mut row = format!("| {} |", self.name);
        for server in &self.servers {
            let _ = write!(row, " {} |", self.result(server));
        }
        if let [ours, theirs] = &self.servers[..] {
            let _ = write!(row, " **{:.2}×** |", theirs.median_ms / ours.median_ms);
        }
        let joined = |value: &dyn Fn(&ServerReport) -> String| {
            self.servers.iter().map(value).collect::<Vec<_>>().join(" / ")
        };
        let grown = joined(&|s| format!("{:.1} MiB", s.growth_bytes as f64 / 1_048_576.0));
        let (cpu, peak) =
            (joined(&|s| format!("{:.2}", s.cpu_seconds)), joined(&|s| mebibytes(s.peak_bytes)));
        let _ = write!(row, " {cpu} | {peak} | {grown} |");
        let units = self.units.map_or(1, |(units, _)| units) as f64;
        let fsyncs = |s: &ServerReport| s.fsyncs.map_or("–".into(), |n| format!("{:.2}", n as f64 / units));
        row + &if self.servers.iter().any(|s| s.fsyncs.is_some()) {
            format!(" {} |", joined(&fsyncs))
        } else {
            " |".into()
        }
    }
}

/// Minutes, or seconds below one minute.
fn minutes(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
}

/// A time in milliseconds, in the format of the tables.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.2} ms"),
        10.0..1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.2} s", ms / 1000.0),
    }
}

/// Bytes in whole mebibytes.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / 1_048_576.0)
}

impl Report {
    /// The tables.
    pub fn markdown(&self) -> String {
        let mut text =
            format!("Machine: {}. Servers: {}.\n\n", self.machine.line(), self.versions.join("; "));
        if !self.cases.is_empty() {
            self.case_table(&mut text);
        }
        for section in &self.sections {
            let _ = writeln!(text, "\n### {}\n\n{}\n", section.title, section.about);
            let _ = writeln!(
                text,
                "| {} |\n|---|{}",
                section.head.join(" | "),
                "---:|".repeat(section.head.len() - 1)
            );
            for row in &section.rows {
                let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
                let _ = writeln!(text, "| {} |", cells.join(" | "));
            }
        }
        let total: f64 = self.took.iter().map(|(_, seconds)| seconds).sum();
        let each = self.took.iter().map(|(name, seconds)| format!("{name} {}", minutes(*seconds)));
        let _ = writeln!(text, "\nThe run took {}: {}.", minutes(total), each.collect::<Vec<_>>().join(", "));
        text
    }

    fn case_table(&self, text: &mut String) {
        let names: Vec<&str> =
            self.cases.first().map(|case| case.servers.iter().map(|s| s.name).collect()).unwrap_or_default();
        let ratio = if names.len() == 2 { " faster |" } else { "" };
        let _ = writeln!(
            text,
            "| case | {} |{ratio} CPU s | peak memory | grown by | fsyncs per message |",
            names.join(" | ")
        );
        let columns = names.len() + 4 + usize::from(names.len() == 2);
        let _ = writeln!(text, "|---|{}", "---:|".repeat(columns));
        for case in &self.cases {
            let _ = writeln!(text, "{}", case.row());
        }
    }

    /// Puts the tables between the markers of the page at `path`.
    pub fn write_into(&self, path: &Path) -> Result<()> {
        put_between(path, SECTION, &self.markdown())
    }
}

/// Puts `text` between the markers of that name in the page at `path`.
///
/// # Errors
/// If the page cannot be read or written, or has no such markers.
pub fn put_between(path: &Path, name: &str, text: &str) -> Result<()> {
    let begin = format!("<!-- begin generated: {name} -->");
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let (before, rest) = page.split_once(&begin).with_context(|| format!("no marker {begin}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no marker {END}"))?;
    Ok(fs::write(path, format!("{before}{begin}\n\n{text}\n{END}{after}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn text_is_put_between_the_markers_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.md");
        let page = "a\n<!-- begin generated: x -->\nold\n<!-- end generated -->\nb\n<!-- begin generated: y -->\nkept\n<!-- end generated -->\n";
        fs::write(&path, page).unwrap();
        put_between(&path, "x", "new\n").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, page.replace("\nold\n", "\n\nnew\n\n"));
        assert!(put_between(&path, "z", "").is_err());
    }

    #[test]
    fn medians_and_rows() {
        let memory = |mib: u64| Use { begin_bytes: 8 << 20, peak_bytes: mib << 20, ..Use::default() };
        let mut ours = ServerReport::new("Sealpost", Some(memory(10)));
        let mut theirs = ServerReport::new("Dovecot", Some(memory(20)));
        for ms in [3, 1, 2] {
            ours.add(Measured { wall: Duration::from_millis(ms), cpu_seconds: 0.5, memory: None });
            theirs.add(Measured { wall: Duration::from_millis(4 * ms), cpu_seconds: 1.0, memory: None });
        }
        let row = CaseReport::new(Case::Copy, vec![ours, theirs]).row();
        assert_eq!(
            row,
            "| COPY of 1,000 | 2.00 ms | 8.00 ms | **4.00×** | 0.50 / 1.00 | 10 MiB / 20 MiB | 2.0 MiB / 12.0 MiB | |"
        );
    }
}
