//! Options that every command has.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::aliases;
use crate::output::Output;
use crate::shell;

/// Options that every command has, before or after its name.
#[derive(Args, Debug, Clone, Default)]
pub struct Global {
    /// Read the configuration from FILE [default: $SEALPOST_CONFIG, else /etc/sealpost.toml if it
    /// exists and --dir is not given]
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    pub config: Option<PathBuf>,
    /// Keep the data in DIR [default: the configuration's `directory`, else ./sealpost-data]
    #[arg(long, global = true, value_name = "DIR", hide = true)]
    pub dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true, hide = true)]
    pub json: bool,
    /// Print errors only, on standard error
    #[arg(long, short, global = true, hide = true)]
    pub quiet: bool,
    /// Log level, on standard error [default: the configuration's `log.level`, else warn]
    #[arg(long, alias = aliases::LOG_LEVEL, global = true, value_name = "LEVEL", hide = true)]
    pub log_level: Option<Level>,
}

impl Global {
    /// Where results are printed, as text or JSON.
    pub fn output(&self) -> Output {
        Output::new(self.json, self.quiet)
    }

    /// A command on the same data, as a shell takes it: from the same directory it works as it stands.
    pub fn command(&self, words: &[&str]) -> String {
        let mut command = vec![shell::quoted(&program())];
        for (option, path) in [("--config", &self.config), ("--dir", &self.dir)] {
            if let Some(path) = path {
                command.extend([option.to_owned(), shell::quoted(&path.to_string_lossy())]);
            }
        }
        command.extend(words.iter().map(|word| shell::quoted(word)));
        command.join(" ")
    }
}

/// This program, as it was called.
fn program() -> String {
    let called = std::env::args_os().next().map(|called| called.to_string_lossy().into_owned());
    called.filter(|called| !called.is_empty()).unwrap_or_else(|| "sealpost".to_owned())
}

/// How much is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// Problems that need an operator.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_repeats_the_given_options() {
        let after = |global: &Global| {
            let command = global.command(&["archive", "pull", "a b"]);
            command.strip_prefix(&shell::quoted(&program())).unwrap().to_owned()
        };
        assert_eq!(after(&Global::default()), " archive pull 'a b'");
        let (dir, config) = (Some("my mail".into()), Some("c.toml".into()));
        let global = Global { dir, config, ..Global::default() };
        assert_eq!(after(&global), " --config c.toml --dir 'my mail' archive pull 'a b'");
    }
}
