//! What is written from the table of keys: a file with every key and its default, what is in force,
//! and the page of the guide.

use serde::Serialize;

use super::file::ConfigFile;
use super::form::WrittenValue;
use super::keys::{KEYS, Key, SECTIONS};
use super::{Config, Origin, memory};

/// Width of comments.
const WIDTH: usize = 100;

/// A configuration file with every key commented out at its default, and what it means.
pub fn default_file() -> String {
    let defaults = Config::default();
    let mut text =
        String::from("# The configuration of Sealpost: every key with its default, commented out.\n");
    for (section, about) in SECTIONS {
        if !section.is_empty() {
            text.push_str(&format!("\n{}[{section}]\n", comment(about)));
        }
        for key in keys_of(section) {
            let written = (key.show)(&defaults).to_toml();
            let comments = comment(key.about) + &comment(&type_of(key));
            text.push_str(&format!("\n{}#{} = {written}\n", comments, key.short()));
        }
    }
    text
}

/// What is in force, as a configuration file, each value with where it came from.
pub fn in_force(config: &Config) -> String {
    let file = path(config);
    let mut text = format!("# {}\n", ConfigFile::about(config.file.as_ref()));
    for (section, _) in SECTIONS {
        if !section.is_empty() {
            text.push_str(&format!("\n[{section}]\n"));
        }
        for key in keys_of(section) {
            let line = format!("{} = {}", key.short(), (key.show)(config).to_toml());
            let origin = match config.origin(key.name) {
                Origin::Default => "default".to_owned(),
                Origin::File(line) => format!("{file}:{line}"),
                Origin::Flag(flag) => flag.to_owned(),
            };
            text.push_str(&format!("{line:<44} # {origin}\n"));
            if key.name == "memory" {
                text.push_str(&format!("# {}\n", memory::division(&config.settings.memory)));
            }
        }
    }
    text
}

/// One key as `config show --json` prints it.
#[derive(Serialize)]
pub struct KeyRow {
    key: &'static str,
    value: WrittenValue,
    #[serde(flatten)]
    source: Source,
}

#[derive(Serialize)]
#[serde(tag = "source", rename_all = "lowercase")]
enum Source {
    Default,
    File { file: String, line: usize },
    Flag { flag: &'static str },
}

/// What is in force, for programs.
pub fn list(config: &Config) -> Vec<KeyRow> {
    let file = path(config);
    let shown = |key: &Key| KeyRow {
        key: key.name,
        value: (key.show)(config),
        source: match config.origin(key.name) {
            Origin::Default => Source::Default,
            Origin::File(line) => Source::File { file: file.clone(), line },
            Origin::Flag(flag) => Source::Flag { flag },
        },
    };
    KEYS.iter().map(shown).collect()
}

/// The path of the file that was read.
fn path(config: &Config) -> String {
    config.file.as_ref().map(|file| file.path.display().to_string()).unwrap_or_default()
}

/// The page of the guide.
pub fn guide() -> String {
    let mut text = String::from(GUIDE_HEAD);
    let defaults = Config::default();
    for (section, about) in SECTIONS {
        match section {
            "" => text.push_str("\n## At the top of the file\n"),
            section => text.push_str(&format!("\n## `[{section}]`\n\n{about}\n")),
        }
        text.push_str("\n| Key | Default | Meaning |\n|---|---|---|\n");
        for key in keys_of(section) {
            let default = (key.show)(&defaults).to_toml();
            text.push_str(&format!("| `{}` | `{default}` | {} {} |\n", key.short(), key.about, type_of(key)));
        }
    }
    text
}

const GUIDE_HEAD: &str = "<!-- Written by `sealpost config guide`; a test compares. Change crates/cli/src/config/keys.rs. -->\n\
    # Configuration\n\
    \n\
    Sealpost reads one TOML file, by default `/etc/sealpost.toml`. Every key has a default, so a file needs only the keys\n\
    that differ; an empty file, or none, is valid too. An unknown key is an error, with the most similar key as a hint.\n\
    Relative paths in the file start at its directory.\n\
    \n\
    \x20\x20\x20\x20sealpost config default                       # prints a file with every key, its default and its meaning\n\
    \x20\x20\x20\x20sealpost config show                          # prints the values in force and where each one comes from\n\
    \n\
    Every command reads the first of these files:\n\
    \n\
    1. `--config FILE`.\n\
    2. The file named by the environment variable `SEALPOST_CONFIG`. If it is empty: no file.\n\
    3. `/etc/sealpost.toml`, if it exists and `--dir` is not given. With `--dir`, a command could otherwise use the store\n\
    \x20\x20\x20of a different server.\n\
    \n\
    Options go before the file: `--dir` before `directory`, `--log-level` before `log.level`, and `--memory` of `serve` and `try`\n\
    before `memory`.\n\
    \n\
    `sealpost try` reads a file only with `--config`. It uses its own ports on this machine, the name `localhost` and a\n\
    self-signed certificate, whatever the file says, and 64 MiB unless `--memory` or the file sets `memory`. Sealed copies of\n\
    `archive` go into a bucket only with `--config`.\n";

/// What to write for a key, as a label.
fn type_of(key: &Key) -> String {
    format!("Type: {}.", key.form.strip_prefix("a ").unwrap_or(key.form))
}

fn keys_of(section: &'static str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section() == section)
}

/// As lines of comment, none longer than [`WIDTH`].
fn comment(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::from("#"));
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}
