//! The log: on standard error, quiet unless asked.

use tracing_subscriber::filter::LevelFilter;

use crate::global::Level;

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

/// Starts to log.
pub fn start(log: Log) {
    let filter = match log.level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let builder =
        tracing_subscriber::fmt().with_max_level(filter).with_ansi(false).with_writer(std::io::stderr);
    // Only the first call counts, and there is only one.
    let _ = match log.format {
        Format::Text => builder.try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
}
