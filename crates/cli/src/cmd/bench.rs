//! `sealpost bench`: a load generator for any IMAP, JMAP, SMTP or LMTP server, ours or not.
//!
//! What it does is in `sealpost_bench`; here are its command line, its progress and what it prints
//! in the end.

mod data;
mod group;
mod list;
mod measuring;
mod progress;
mod run;
mod seeds;
mod server;
mod stop;
mod trace;
mod users;

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use rustix::termios::tcgetwinsize;
use sealpost_bench::report::{compare, doubts};

use crate::exit::Usage;
use crate::global::Global;

/// The width of tables where the width of the terminal is unknown.
const WIDTH: usize = 110;
/// The widest that they are printed on one.
const WIDEST: usize = 180;

/// Arguments of `sealpost bench`.
#[derive(clap::Args)]
#[command(
    after_help = "A scenario defines what clients do. `sealpost bench list` lists the included scenarios, and \
                        `sealpost bench show NAME` prints one as a template. docs/guide/bench.md explains \
                        scenarios and results.\n
Examples:
  sealpost bench run fetch --sealpost                       a temporary Sealpost
  sealpost bench run thunderbird --imap mail.example.org:143 --users-file users --out report
  sealpost bench run lmtp --lmtp 127.0.0.1:2424 --user me@localhost --write-inbox --rate 200
  sealpost bench run login --null                           the limit of the load generator itself
  sealpost bench trace --messages 10000                     every command of real clients
  sealpost bench seeds                                      beside Aerogramme's figures
  sealpost bench compare before.json after.json
  sealpost bench compare ours.json theirs.json --out both   both servers on one page"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the scenarios and data sets
    #[command(after_help = "Example:
  sealpost bench list")]
    List,
    /// Print a scenario, as a template
    #[command(after_help = "Example:
  sealpost bench show thunderbird > my-scenario.toml")]
    Show {
        /// Its name
        name: String,
    },
    /// Run a scenario against a server
    Run(Box<run::Args>),
    /// Repeat the measurements that Aerogramme's authors published; print their figures beside ours
    Seeds(Box<seeds::Args>),
    /// Time every FETCH and SEARCH of a trace of real clients, over whole mailboxes
    Trace(Box<trace::Args>),
    /// Write a data set as a Maildir or mbox file
    Data(data::Args),
    /// Compare results, as ratios to the first
    #[command(after_help = "Examples:
  sealpost bench compare before.json after.json
  sealpost bench compare ours-1.json,ours-2.json theirs.json --out both")]
    Compare {
        /// Results of `sealpost bench run --out` or `--json`; join repeated runs with commas
        #[arg(required = true, num_args = 2.., value_name = "JSON[,JSON]")]
        results: Vec<String>,
        /// Write report.html, report.json and the plots as SVG into DIR, all servers side by side
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    match args.command {
        Command::List => list::list(global),
        Command::Show { name } => list::show(&name, global),
        Command::Run(args) => run::run(*args, global).await,
        Command::Seeds(args) => seeds::run(*args, global).await,
        Command::Trace(args) => trace::run(*args, global).await,
        Command::Data(args) => data::write(&args, global),
        Command::Compare { results, out } => {
            if let Some(dir) = &out {
                keep_inputs(&results, dir)?;
                measuring::writable(dir)?;
            }
            let mut given = compare::read(&results)?;
            let doubts = doubts::doubts(&results, &mut given)?;
            let groups = compare::groups(&given);
            let page = out.as_ref().and_then(|_| compare::side_by_side(&given, &groups, doubts.clone()));
            if let (Some(dir), Some(page)) = (&out, page) {
                measuring::write(&page, dir)?;
            }
            let comparison = compare::Comparison::of(&groups, doubts);
            let (width, colours) = terminal();
            global.output().show(&comparison, |of| compare::text(&groups, &of.warnings, width, colours))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How wide results are printed, and whether in colours: as the terminal is, and where there is
/// none in no colours.
#[allow(clippy::disallowed_methods, reason = "what a terminal can do is told in the environment")]
fn terminal() -> (usize, bool) {
    if !io::stdout().is_terminal() {
        return (WIDTH, false);
    }
    let columns = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    let is = |name: &str, wanted: fn(&str) -> bool| std::env::var(name).is_ok_and(|value| wanted(&value));
    // https://no-color.org: if it is there and not empty.
    let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    (if columns == 0 { WIDTH } else { columns.min(WIDEST) }, !plain)
}

/// The text of a file; `None` if it has more than `most` bytes. A file of unknown size, such as a
/// pipe or a device, is read no further than that either.
fn bounded_text(path: &Path, most: u64) -> Result<Option<String>> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut text));
    read.with_context(|| path.display().to_string())?;
    if text.len() as u64 > most {
        return Ok(None);
    }
    Ok(Some(String::from_utf8(text).map_err(|_| Usage(format!("{}: is not text", path.display())))?))
}

/// Refuses to write a report over one of those that are compared.
fn keep_inputs(results: &[String], dir: &Path) -> Result<()> {
    let report = std::fs::canonicalize(dir.join("report.json"));
    let mut inputs = results.iter().flat_map(|result| result.split(','));
    let clash =
        report.ok().and_then(|report| inputs.find(|i| std::fs::canonicalize(i).is_ok_and(|i| i == report)));
    match clash {
        Some(input) => {
            Err(Usage(format!("--out {}: {input} is there; choose another directory", dir.display())).into())
        }
        None => Ok(()),
    }
}
