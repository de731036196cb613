//! Counts results while a load runs: one recorder for each sending thread, merged when the phase
//! ends.
//!
//! Recording takes no lock and, after a command's first time, allocates nothing. A recorder keeps
//! some tens of kilobytes for each command, so it belongs to a thread, not to a connection. It does
//! not correct for coordinated omission: the caller gives the time from when a command was due.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Command, Failure, Latency};

/// Longer times are counted as this.
pub const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Digits of a time that are kept.
const DIGITS: u8 = 3;
/// Kinds of errors that are counted separately for one command; others are `other`.
const ERROR_KINDS: usize = 16;
/// Characters kept of an error's text.
const EXAMPLE_CHARS: usize = 200;

/// The measurements of one thread, or of several merged.
#[derive(Debug, Default)]
pub struct Recorder {
    commands: BTreeMap<String, Record>,
}

#[derive(Debug)]
struct Record {
    histogram: Histogram<u64>,
    errors: BTreeMap<String, Failure>,
    bytes_sent: u64,
    bytes_received: u64,
}

impl Recorder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// `command` succeeded, `latency` after it was due.
    pub fn ok(&mut self, command: &str, latency: Duration, bytes_sent: u64, bytes_received: u64) {
        let record = self.record(command);
        count(&mut record.histogram, microseconds(latency), 1);
        record.bytes_sent += bytes_sent;
        record.bytes_received += bytes_received;
    }

    /// `command` failed with an error of `kind`; `example` gives its text and is called for the
    /// first of a kind only.
    pub fn error(&mut self, command: &str, kind: &str, example: impl FnOnce() -> String) {
        let errors = &mut self.record(command).errors;
        let kind = if errors.contains_key(kind) || errors.len() < ERROR_KINDS { kind } else { "other" };
        match errors.get_mut(kind) {
            Some(failure) => failure.count += 1,
            None => {
                let example = example().chars().take(EXAMPLE_CHARS).collect();
                errors.insert(kind.to_owned(), Failure { count: 1, example });
            }
        }
    }

    /// How many commands succeeded and how many failed, of all kinds: for progress.
    pub fn counts(&self) -> (u64, u64) {
        let errors = |record: &Record| record.errors.values().map(|failure| failure.count).sum::<u64>();
        self.commands.values().fold((0, 0), |(ok, bad), r| (ok + r.histogram.len(), bad + errors(r)))
    }

    /// The most frequent error of `command` with its kind, if it never succeeded.
    pub fn only_failed(&self, command: &str) -> Option<(&str, &Failure)> {
        let record = self.commands.get(command).filter(|record| record.histogram.is_empty())?;
        let most = record.errors.iter().max_by_key(|(_, failure)| failure.count);
        most.map(|(kind, failure)| (&**kind, failure))
    }

    /// Bytes sent and received, of all commands.
    pub fn bytes(&self) -> (u64, u64) {
        let each = self.commands.values();
        each.fold((0, 0), |(sent, received), r| (sent + r.bytes_sent, received + r.bytes_received))
    }

    /// Adds the measurements of another thread.
    pub fn merge(&mut self, other: Recorder) {
        for (name, theirs) in other.commands {
            let Some(ours) = self.commands.get_mut(&name) else {
                self.commands.insert(name, theirs);
                continue;
            };
            for bucket in theirs.histogram.iter_recorded() {
                count(&mut ours.histogram, bucket.value_iterated_to(), bucket.count_since_last_iteration());
            }
            ours.bytes_sent += theirs.bytes_sent;
            ours.bytes_received += theirs.bytes_received;
            for (kind, failure) in theirs.errors {
                ours.errors.entry(kind).and_modify(|f| f.count += failure.count).or_insert(failure);
            }
        }
    }

    /// The figures, sorted by the commands' names.
    pub fn finish(self) -> Vec<Command> {
        let command = |(name, record): (String, Record)| Command {
            name,
            count: record.histogram.len(),
            errors: record.errors,
            bytes_sent: record.bytes_sent,
            bytes_received: record.bytes_received,
            latency: Latency::of(&record.histogram),
        };
        self.commands.into_iter().map(command).collect()
    }

    fn record(&mut self, command: &str) -> &mut Record {
        // Looked up first: `entry` needs an owned String, and this runs for every command that is
        // sent.
        if !self.commands.contains_key(command) {
            let record =
                Record { histogram: histogram(), errors: BTreeMap::new(), bytes_sent: 0, bytes_received: 0 };
            self.commands.insert(command.to_owned(), record);
        }
        self.commands.get_mut(command).expect("it was inserted above")
    }
}

impl Latency {
    /// From counted times.
    fn of(histogram: &Histogram<u64>) -> Self {
        let buckets = histogram
            .iter_recorded()
            .map(|b| (b.value_iterated_to(), b.count_since_last_iteration()))
            .collect();
        Latency {
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
            buckets,
        }
    }

    /// From times given one by one.
    pub fn of_times(times: &[Duration]) -> Self {
        let mut histogram = histogram();
        times.iter().for_each(|time| count(&mut histogram, microseconds(*time), 1));
        Self::of(&histogram)
    }

    /// All of `parts` together.
    pub fn merged<'a>(parts: impl IntoIterator<Item = &'a Latency>) -> Self {
        let mut histogram = histogram();
        for (value, times) in parts.into_iter().flat_map(|part| &part.buckets) {
            count(&mut histogram, *value, *times);
        }
        Self::of(&histogram)
    }

    /// The time, in microseconds, that is not exceeded by this `quantile` (0 to 1) of all.
    pub fn quantile_us(&self, quantile: f64) -> u64 {
        let total: u64 = self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
        let rank = ((total as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0u64;
        let reached = self.buckets.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        reached.map_or(0, |(value, _)| *value)
    }

    /// Sorts buckets from outside, and recomputes the figures beside them.
    pub(super) fn normalize(&mut self) {
        if !self.buckets.is_empty() {
            *self = Self::merged([&*self]);
        }
    }
}

/// Counts a time of so many microseconds. The histogram grows for it; that fails only if its size
/// exceeds the address space, from which [`LATENCY_MAX`] is far.
fn count(histogram: &mut Histogram<u64>, us: u64, times: u64) {
    histogram.record_n(us.min(microseconds(LATENCY_MAX)), times).ok();
}

fn histogram() -> Histogram<u64> {
    // It grows as longer times come, up to the longest.
    let mut histogram = Histogram::new(DIGITS).expect("three digits are within what it can do");
    histogram.auto(true);
    histogram
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.min(LATENCY_MAX).as_micros()).unwrap_or(u64::MAX)
}
