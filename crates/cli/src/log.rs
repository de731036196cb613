//! The log: on standard error, quiet by default.
//!
//! What logs never waits for standard error and never fails because of it ([`queue`]). A panic is a
//! line of the log too: the standard library's own hook would wait for standard error. Errors that
//! come again and again are written once an hour ([`repeats`]).

mod queue;
mod repeats;

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealpost_base::SystemClock;
use sealpost_server::metrics::LogMetrics;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::global::Level;
use queue::{Note, Queue, StandardError};
use repeats::Repeats;

/// What is logged, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Log {
    /// How much.
    pub level: Level,
    /// As lines of text or of JSON.
    pub format: Format,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object each.
    Json,
}

/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The crates of the resolver, whose failures are reported by its callers.
const RESOLVER: [&str; 3] = ["hickory_resolver", "hickory_net", "hickory_proto"];

/// The one log of this process.
static LOG: OnceLock<(Queue, Arc<LogMetrics>)> = OnceLock::new();

/// Starts to log. Only the first call counts.
pub fn start(log: Log) {
    let filter = match log.level {
        Level::Off => return,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let mut targets = Targets::new().with_default(filter);
    if filter <= LevelFilter::INFO {
        // Each name that does not exist is a warning there: others would fill the log.
        targets = targets.with_targets(RESOLVER.map(|name| (name, LevelFilter::OFF)));
    }
    let metrics = Arc::<LogMetrics>::default();
    // Without a thread nothing can be served either: the next step fails.
    let Ok(queue) = Queue::start(StandardError, metrics.clone(), log_note) else { return };
    if LOG.set((queue.clone(), metrics.clone())).is_err() {
        return;
    }
    let repeats = Repeats::new(metrics, Arc::new(SystemClock::new()), queue.clone());
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        // It would report that on standard error, and panic if that fails.
        .log_internal_errors(false)
        .with_writer(queue);
    let all = tracing_subscriber::registry().with(targets).with(repeats);
    let started = match log.format {
        Format::Text => all.with(lines).try_init(),
        Format::Json => all.with(lines.json().flatten_event(true)).try_init(),
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
}

/// What is counted of the log, if there is one.
pub fn metrics() -> Option<Arc<LogMetrics>> {
    LOG.get().map(|(_, metrics)| metrics.clone())
}

/// Waits a moment for the last lines when it is dropped: the process ends after that, also by a panic.
pub struct LastLines;

impl Drop for LastLines {
    fn drop(&mut self) {
        finish();
    }
}

/// Waits a moment for the last lines.
pub fn finish() {
    if let Some((queue, _)) = LOG.get() {
        queue.flush(LAST_LINES);
    }
}

fn log_note(note: Note) {
    match note {
        Note::Lost(lines) => {
            tracing::error!(lines, "log lines were dropped: standard error failed, or was too slow")
        }
        Note::TooMany { file, line } => tracing::error!(
            file,
            line,
            "further lines of this kind are only counted for an hour; sealpost check names the damage"
        ),
    }
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or_default().to_owned();
    let message = message(panic.payload());
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(at, thread, message, %backtrace, "a bug in Sealpost (panic)");
    } else {
        tracing::error!(at, thread, message, "a bug in Sealpost (panic)");
    }
}

/// What a panic says.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
