//! What is written from the table of keys: a file with every key and its default, what is in force, and the page of
//! the guide.

use serde::Serialize;

use super::file::ConfigFile;
use super::form::Written;
use super::keys::{KEYS, Key, SECTIONS};
use super::{Config, Origin, memory};

/// Width of comments.
const WIDTH: usize = 100;

/// A configuration file with every key commented out at its default, and what it means.
pub fn default_file() -> String {
    let defaults = Config::default();
    let mut text = String::from(
        "# The configuration of Sealpost. Every key is here with its default; what is commented out is in force.\n",
    );
    for (section, about) in SECTIONS {
        if !section.is_empty() {
            text.push_str(&format!("\n{}[{section}]\n", comment(about)));
        }
        for key in keys_of(section) {
            let written = (key.show)(&defaults).to_toml();
            let comments = comment(key.about) + &comment(&format!("Written as {}.", key.form));
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
pub struct Shown {
    key: &'static str,
    value: Written,
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
pub fn list(config: &Config) -> Vec<Shown> {
    let file = path(config);
    let shown = |key: &Key| Shown {
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
            text.push_str(&format!(
                "| `{}` | `{default}` | {} Written as {}. |\n",
                key.short(),
                key.about,
                key.form
            ));
        }
    }
    text
}

const GUIDE_HEAD: &str = "<!-- Written by `sealpost config guide`; a test compares. Change crates/cli/src/config/keys.rs. -->\n\
    # Configuration\n\
    \n\
    Sealpost reads one TOML file. Every key has a default, so an empty file is a configuration too, and so is none. A key\n\
    that does not exist is an error, with the one that was probably meant. Paths in the file start where the file is,\n\
    unless they begin with `/`.\n\
    \n\
    Which file, for every command, the first of these:\n\
    \n\
    1. `--config FILE`.\n\
    2. The variable `SEALPOST_CONFIG` of the environment. An empty one: no file is read.\n\
    3. `/etc/sealpost.toml`, if there is one and `--dir` is not given: a command on another directory must not end up in\n\
    \x20\x20\x20the store of a file that nobody has named.\n\
    \n\
    `sealpost try` reads a file only if `--config` names it. Copies of `archive` go into a bucket only then, too.\n\
    \n\
    - `sealpost config default` prints a file with every key, its default and what it means: a good start.\n\
    - `sealpost config show` prints which file is read, what is in force and where each value came from: a default, a line\n\
    \x20\x20of the file, or an option. It accepts the same options as every command, and `--json`.\n\
    - `--dir` goes before `directory`, and `--log` before `log.level`, and `--memory` of `serve` and\n\
    \x20\x20`try` before `memory`.\n\
    \n\
    `sealpost try` listens on its own ports of this machine, is called `localhost` and uses a self-signed\n\
    certificate, whatever the file says; without `--memory` and without a `memory` in the file it uses 64 MiB.\n";

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
