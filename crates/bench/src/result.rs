//! The result of a run as it is stored: one JSON document with a format number, and the recorder
//! that fills it.
//!
//! A document may be read years after it was written. So fields are only added, with a default; a
//! changed meaning takes a new [`FORMAT`], and a document of a newer format is refused. Units are
//! in the names. Histograms are written as their buckets, `[value, count]`, so that a script can
//! read them without a library, and with the percentiles that most readers want.

mod machine;
mod recorder;
mod sample;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::UsageError;
use crate::process::{Mark, Use};

pub use machine::Machine;
pub use recorder::{LATENCY_MAX, Recorder};
pub use sample::Sample;

/// The format of the documents that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The largest document that is read, in bytes.
const DOCUMENT_BYTES: u64 = 256 << 20;

/// One run of one scenario against one server or several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: u32,
    /// The scenario's name.
    pub title: String,
    /// The load generator.
    #[serde(default)]
    pub generator: Generator,
    /// The machine.
    #[serde(default)]
    pub machine: Machine,
    /// Seconds since 1970 when it began.
    #[serde(default)]
    pub began: i64,
    /// The seed of everything random: the same seed sends the same bytes.
    #[serde(default)]
    pub seed: u64,
    /// Other parameters of the load: data set, connections, loop, duration, protocol, TLS.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Reasons to doubt the figures of the whole run.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// One per server, in the order in which they are shown.
    pub servers: Vec<ServerRun>,
}

/// The load generator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Sending threads.
    #[serde(default)]
    pub threads: u32,
    /// CPU seconds that it used itself.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// The duration of the run, in seconds.
    #[serde(default)]
    pub wall_seconds: f64,
}

/// The measurements of one server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRun {
    /// Its name in reports.
    pub name: String,
    /// Its version, as it states it.
    #[serde(default)]
    pub version: String,
    /// How it was reached: addresses, TLS or not, its process.
    #[serde(default)]
    pub reached: String,
    /// Its configuration, as far as that affects the figures.
    #[serde(default)]
    pub settings: String,
    /// Reasons to doubt its figures.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Phases, in the order in which they ran.
    pub phases: Vec<Phase>,
    /// Its processes over time; empty if they were not visible.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// When its processes were seen to have ended before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<f64>,
}

/// A part of a run with its own figures. Times are seconds since the run against this server began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it began.
    pub begin: f64,
    /// When it ended.
    pub end: f64,
    /// The most connections that were open at once.
    #[serde(default)]
    pub connections: u64,
    /// Bytes sent to the server.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes received from it.
    #[serde(default)]
    pub bytes_received: u64,
    /// Messages that its rounds read or wrote, if the scenario gives the number per round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// CPU seconds of the server's processes in this phase, if they were visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// CPU seconds of the load generator in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_cpu_seconds: Option<f64>,
    /// The highest resident set in this phase, in bytes: the kernel's high-water mark for a server
    /// of one process, the highest sampled sum of proportional set sizes for one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Memory when the phase began, in bytes, measured like `peak_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_bytes: Option<u64>,
    /// The peak may have been higher: memory was sampled too rarely, or not until the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peak_at_least: bool,
    /// When the server's processes were seen to have ended before the phase: CPU and memory are
    /// those until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_ended: Option<f64>,
    /// The commands that were sent.
    pub commands: Vec<Command>,
}

/// All uses of one command in one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Its name in the scenario: `FETCH FULL`, `LMTP delivery`, `notification`.
    pub name: String,
    /// How many succeeded.
    pub count: u64,
    /// Failures by kind: `NO`, `BAD`, `closed`, `timeout`, `wrong`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, Failure>,
    /// Bytes sent for it.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Bytes received for it.
    #[serde(default)]
    pub bytes_received: u64,
    /// The latency of the successful ones, counted from when they were due.
    #[serde(default)]
    pub latency: Latency,
}

/// Errors of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// How many.
    pub count: u64,
    /// The text of the first one.
    #[serde(default)]
    pub example: String,
}

/// A distribution of times in microseconds. Shown figures are computed from the buckets, if there
/// are any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// Half took at most this.
    pub p50_us: u64,
    /// 90 of 100.
    pub p90_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1,000.
    pub p999_us: u64,
    /// All.
    pub max_us: u64,
    /// `[microseconds, count]`, ascending: a time is in the bucket with the lowest value that is
    /// not below it, three digits precise.
    #[serde(default)]
    pub buckets: Vec<(u64, u64)>,
}

impl Run {
    /// An empty one for this machine, sent by this program.
    pub fn new(title: &str, seed: u64, began: i64) -> Self {
        let generator = Generator {
            name: "sealpost bench".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Generator::default()
        };
        Run {
            format: FORMAT,
            title: title.into(),
            generator,
            machine: Machine::describe(),
            began,
            seed,
            ..Run::default()
        }
    }

    /// From JSON of this format or an older one.
    pub fn from_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let wrong = |what: &str, why: serde_json::Error| UsageError(format!("{what}: {why}"));
        let Format { format } =
            serde_json::from_str(text).map_err(|why| wrong("not the result of a benchmark", why))?;
        if format > FORMAT {
            return Err(UsageError(format!(
                "a result of format {format}; this version reads up to {FORMAT}"
            ))
            .into());
        }
        let mut run: Run =
            serde_json::from_str(text).map_err(|why| wrong("not a result of that format", why))?;
        for command in run.servers.iter_mut().flat_map(|s| &mut s.phases).flat_map(|p| &mut p.commands) {
            command.latency.normalize();
        }
        Ok(run)
    }

    /// From a file.
    pub fn read(path: &Path) -> Result<Self> {
        let read = || {
            let size = std::fs::metadata(path)?.len();
            ensure!(size <= DOCUMENT_BYTES, "{size} bytes are more than the result of a benchmark has");
            Self::from_json(&std::fs::read_to_string(path)?)
        };
        read().with_context(|| path.display().to_string())
    }

    /// As JSON: one line per command and sample, so that two documents can be compared line by
    /// line.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Writes it to a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_json()?).with_context(|| path.display().to_string())
    }

    /// Servers that ended before the run.
    pub fn ended_early(&self) -> impl Iterator<Item = &ServerRun> {
        self.servers.iter().filter(|server| server.ended.is_some())
    }

    /// Errors of all servers, phases and commands.
    pub fn errors(&self) -> u64 {
        let commands =
            self.servers.iter().flat_map(|server| &server.phases).flat_map(|phase| &phase.commands);
        commands.map(Command::errors).sum()
    }
}

impl ServerRun {
    /// The duration of its phases, in seconds.
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(Phase::seconds).sum()
    }

    /// The phase of that name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

impl Phase {
    /// Its duration, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.end - self.begin).max(0.0)
    }

    /// Messages a second, if they are counted.
    pub fn messages_rate(&self) -> Option<f64> {
        Some(self.messages? as f64 / Some(self.seconds()).filter(|seconds| *seconds > 0.0)?)
    }

    /// Sets the server's use. Processes that had ended before the phase have no figures.
    pub fn set_use(&mut self, mark: Mark, used: Use) {
        (self.begin, self.end, self.server_ended) = (mark.at, used.at, used.ended_at);
        if used.ended_at.is_some_and(|ended_at| ended_at <= mark.at) {
            return;
        }
        self.cpu_seconds = Some(used.cpu_seconds);
        (self.begin_bytes, self.peak_bytes) = (Some(used.begin_bytes), Some(used.peak_bytes));
        self.peak_at_least = used.peak_at_least;
    }

    /// The command of that name.
    pub fn command(&self, name: &str) -> Option<&Command> {
        self.commands.iter().find(|command| command.name == name)
    }

    /// The growth of memory since the phase began, in bytes; unknown if a phase without growth was
    /// sampled too rarely.
    pub fn growth_bytes(&self) -> Option<u64> {
        let growth = self.peak_bytes?.saturating_sub(self.begin_bytes?);
        (growth > 0 || !self.peak_at_least).then_some(growth)
    }
}

impl Command {
    /// How many failed.
    pub fn errors(&self) -> u64 {
        self.errors.values().map(|failure| failure.count).sum()
    }
}

#[cfg(test)]
mod tests;
