//! Which configuration file is read: the one that `--config` names, else the environment, else the usual one.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::global::Global;

/// The variable of the environment that names the file. An empty one: no file is read.
const VARIABLE: &str = "SEALPOST_CONFIG";
/// The file that is read if neither the command line nor the environment says anything.
const USUAL: &str = "/etc/sealpost.toml";

/// A configuration file, and what named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// What named it.
    pub named_by: NamedBy,
}

/// What names a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// `--config`.
    Option,
    /// The environment.
    Environment,
    /// Nothing: it is where it usually is.
    Usual,
}

impl ConfigFile {
    /// The file that a command reads; `None`: there is none, and every key has its default.
    pub fn of(global: &Global) -> Option<Self> {
        let environment = std::env::var_os(VARIABLE);
        Self::among(global, environment, Path::new(USUAL))
    }

    /// The file that `--config` names, and no other.
    pub fn named(global: &Global) -> Option<Self> {
        let path = global.config.clone()?;
        Some(ConfigFile { path, named_by: NamedBy::Option })
    }

    /// `--dir` names the data: it must not end up in the store of a file that the user did not
    /// name.
    fn among(global: &Global, environment: Option<OsString>, usual: &Path) -> Option<Self> {
        let usual = || {
            (global.dir.is_none() && usual.exists())
                .then(|| ConfigFile { path: usual.to_owned(), named_by: NamedBy::Usual })
        };
        Self::named(global).or_else(|| match environment {
            Some(path) if path.is_empty() => None,
            Some(path) => Some(ConfigFile { path: path.into(), named_by: NamedBy::Environment }),
            None => usual(),
        })
    }

    /// In a sentence, for `config show`.
    pub fn about(file: Option<&Self>) -> String {
        match file {
            Some(file) => format!("read from {file}"),
            None => format!(
                "no file is read: there is no --config, no {VARIABLE}, and no {USUAL}, or --dir is given"
            ),
        }
    }
}

impl fmt::Display for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.named_by {
            NamedBy::Option => write!(f, "{path}"),
            NamedBy::Environment => write!(f, "{path} (named by {VARIABLE})"),
            NamedBy::Usual => write!(f, "{path} (the usual file; `--config /dev/null` reads none)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_precede_the_environment_and_that_the_default_file() {
        let dir = tempfile::tempdir().unwrap();
        let (there, missing) = (dir.path().join("sealpost.toml"), dir.path().join("none.toml"));
        std::fs::write(&there, "").unwrap();
        let global = |config: Option<&str>, dir: Option<&str>| Global {
            config: config.map(PathBuf::from),
            dir: dir.map(PathBuf::from),
            ..Global::default()
        };
        let found = |global: &Global, environment: Option<&str>, usual: &Path| {
            let file = ConfigFile::among(global, environment.map(OsString::from), usual)?;
            Some((file.path.to_str().unwrap().to_owned(), file.named_by))
        };
        let file = |path: &str, by| Some((path.to_owned(), by));
        let usual = file(there.to_str().unwrap(), NamedBy::Usual);
        for (config, data, environment, usual_file, expected) in [
            (Some("a"), None, Some("b"), &there, file("a", NamedBy::Option)),
            (Some("a"), Some("d"), None, &there, file("a", NamedBy::Option)),
            (None, None, Some("b"), &there, file("b", NamedBy::Environment)),
            (None, Some("d"), Some("b"), &there, file("b", NamedBy::Environment)),
            (None, None, Some(""), &there, None),
            (None, None, None, &there, usual),
            (None, Some("d"), None, &there, None),
            (None, None, None, &missing, None),
        ] {
            let global = global(config, data);
            assert_eq!(
                found(&global, environment, usual_file),
                expected,
                "{config:?} {data:?} {environment:?}"
            );
        }
    }
}
