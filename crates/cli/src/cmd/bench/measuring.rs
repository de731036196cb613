//! A server is loaded and watched, and what was seen is reported: what `run`, `seeds` and `trace`
//! have in common.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::load::Options;
use sealpost_bench::load::engine::Outcome;
use sealpost_bench::process::{Every, Sampler};
use sealpost_bench::report;
use sealpost_bench::result::{Run, ServerRun};

use super::progress::RunProgress;
use super::server::Running;
use super::terminal;
use crate::exit::FAILED;
use crate::global::Global;

/// A server under load.
pub struct Measuring {
    pub running: Running,
    pub options: Options,
    pub sampler: Option<Sampler>,
    pub shown: RunProgress,
    began: i64,
}

/// What was seen.
pub struct Measured {
    pub document: Run,
    missed: Vec<String>,
    stopped: bool,
}

impl Measuring {
    /// Begins to watch the server's processes, if they are known.
    pub fn begin(running: Running, options: Options, every: Every, global: &Global) -> Self {
        let clock = SystemClock::new();
        let began = clock.now().seconds();
        let sampler = running.tree.map(|tree| Sampler::start(tree, every, clock));
        Measuring { running, options, sampler, shown: RunProgress::new(global.output()), began }
    }

    /// Ends that, and a server of our own; an outcome becomes a document.
    ///
    /// # Errors
    /// The outcome's.
    pub async fn finish(
        mut self,
        title: &str,
        parameters: BTreeMap<String, String>,
        outcome: Result<Outcome>,
    ) -> Result<Measured> {
        self.shown.finish();
        let ended = self.sampler.as_ref().and_then(Sampler::ended_at);
        let samples = self.sampler.map(Sampler::finish).unwrap_or_default();
        self.running.end().await;
        let outcome = outcome?;
        let mut document = Run::new(title, self.options.seed, self.began);
        document.parameters = parameters;
        document.generator.threads = u32::try_from(self.options.threads).unwrap_or(u32::MAX);
        document.generator.cpu_seconds = outcome.cpu_seconds;
        document.generator.wall_seconds = outcome.wall_seconds;
        document.servers = vec![ServerRun {
            name: self.running.target.name.clone(),
            version: self.running.version.clone(),
            reached: self.running.target.reached(),
            warnings: warnings(&outcome, &self.running, ended),
            phases: outcome.phases,
            samples,
            ended,
            ..ServerRun::default()
        }];
        Ok(Measured { document, missed: outcome.missed, stopped: outcome.stopped })
    }
}

impl Measured {
    /// Everything worth knowing at once, and where the report is.
    pub fn text(&self, out: Option<&Path>) -> String {
        let (width, colours) = terminal();
        let mut lines = vec![report::summary(&self.document, width, colours)];
        lines.extend(self.missed.iter().map(|bar| format!("missed: {bar}")));
        lines.extend(out.map(|dir| format!("The report is in {}", dir.join("report.html").display())));
        lines.join("\n")
    }

    /// What went wrong or makes the figures doubtful, and where the report is: for measurements
    /// with a table of their own.
    pub fn brief(&self, out: Option<&Path>) -> String {
        let servers = &self.document.servers;
        let mut lines: Vec<String> = servers
            .iter()
            .flat_map(|server| &server.warnings)
            .map(|warning| format!("! {warning}"))
            .collect();
        let commands = servers.iter().flat_map(|server| &server.phases).flat_map(|phase| &phase.commands);
        for (command, kind, failure) in commands
            .flat_map(|command| command.errors.iter().map(move |(kind, failure)| (command, kind, failure)))
        {
            lines.push(format!("{} × {kind} on {}: {}", failure.count, command.name, failure.example));
        }
        lines.extend(out.map(|dir| format!("The report is in {}", dir.join("report.html").display())));
        lines.iter().map(|line| report::printable(line)).collect::<Vec<_>>().join("\n")
    }

    /// Whether all went well.
    pub fn exit(&self) -> ExitCode {
        let ended = self.document.ended_early().next().is_some();
        let failed = self.document.errors() > 0 || !self.missed.is_empty() || self.stopped || ended;
        if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
    }
}

/// Writes the page, the document and the plots into `dir`.
///
/// # Errors
/// If it cannot.
pub fn write(document: &Run, dir: &Path) -> Result<()> {
    let write = || -> Result<()> {
        std::fs::create_dir_all(dir)?;
        document.write(&dir.join("report.json"))?;
        std::fs::write(dir.join("report.html"), report::html(document))?;
        for (name, svg) in report::svgs(document) {
            std::fs::write(dir.join(name), svg)?;
        }
        Ok(())
    };
    write().with_context(|| dir.display().to_string())
}

/// Whether a report can be written into `dir`, which is created: checked before the run.
///
/// # Errors
/// If it cannot.
pub fn writable(dir: &Path) -> Result<()> {
    let write = || -> Result<()> {
        std::fs::create_dir_all(dir)?;
        tempfile::tempfile_in(dir)?;
        let document = dir.join("report.json");
        if document.exists() {
            std::fs::OpenOptions::new().append(true).open(document)?;
        }
        Ok(())
    };
    write().with_context(|| format!("--out {}", dir.display()))
}

fn warnings(outcome: &Outcome, running: &Running, ended: Option<f64>) -> Vec<String> {
    let mut warnings = outcome.warnings.clone();
    if let Some(at) = ended {
        let phase = outcome.phases.iter().find(|phase| phase.server_ended.is_some());
        let phase = phase.map_or(String::new(), |phase| format!(", in {}", phase.name));
        warnings.insert(
            0,
            format!("the server's process ended {at:.1} s after the run began{phase}: CPU and memory are those until then"),
        );
    }
    if outcome.stopped {
        warnings.push("the run was stopped before its end".to_owned());
    }
    warnings.extend(outcome.missed.iter().map(|bar| format!("missed: {bar}")));
    if running.null {
        warnings.push("no server was measured: this is the most that the bench can do here".to_owned());
    }
    if running.tree.is_none() && !running.null {
        warnings.push("the server's processes were not watched: --pid says which they are".to_owned());
    }
    warnings
}
