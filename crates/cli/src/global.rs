//! Options that every command has.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::output::Output;

/// Options that every command has, before or after its name.
#[derive(Args, Debug, Clone, Default)]
pub struct Global {
    /// Read the configuration from FILE [default: none; every key has a default]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Any command")]
    pub config: Option<PathBuf>,
    /// Keep the data in DIR [default: the configuration's `directory`, else ./sealpost-data]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Any command")]
    pub dir: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = "Any command")]
    pub json: bool,
    /// How much to log, on standard error [default: the configuration's `log.level`, else warn]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Any command")]
    pub log: Option<Level>,
}

impl Global {
    /// Where results are printed, as text or JSON.
    pub fn output(&self) -> Output {
        Output::new(self.json)
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What an operator should look at.
    #[default]
    Warn,
    /// One line for each session too.
    Info,
    /// What led to it.
    Debug,
    /// Everything; never a secret or a message's text.
    Trace,
}

impl Level {
    /// From none to all.
    pub const ALL: [Level; 6] =
        [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    /// As it is written on the command line and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}
