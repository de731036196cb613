//! The log: on standard error, quiet unless asked.

use tracing_subscriber::filter::LevelFilter;

use crate::global::Level;

/// Starts to log at this level, as lines of text or of JSON.
pub fn start(level: Level, json: bool) {
    let filter = match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt().with_max_level(filter).with_writer(std::io::stderr);
    // Only the first call counts; there is only one.
    let _ = if json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
}
