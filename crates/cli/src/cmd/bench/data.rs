//! `sealpost bench data`: generated mail as files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use indicatif::HumanBytes;
use sealpost_bench::load::data::{DataSet, Format, write as write_files};
use serde::Serialize;

use crate::global::Global;
use crate::output::counted;

/// Arguments of `sealpost bench data`.
#[derive(clap::Args)]
#[command(after_help = "The same name and seed give the same bytes.\n
Examples:
  sealpost bench data mailbox-100 --into Maildir
  sealpost bench data tiny --count 100000 --mbox --into tiny.mbox")]
pub struct Args {
    /// mailbox-100, inbox, tiny, or a path to mail
    name: String,
    /// Number of messages [default: 100, or all of a path]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The seed of the generated mail
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The path to write to; must not exist
    #[arg(long, value_name = "PATH")]
    into: PathBuf,
    /// Write one mbox file instead of a Maildir
    #[arg(long)]
    mbox: bool,
}

#[derive(Serialize)]
struct WrittenSet {
    messages: u64,
    bytes: u64,
    path: PathBuf,
}

/// Writes it.
pub fn write(args: &Args, global: &Global) -> Result<ExitCode> {
    let data = DataSet::open(&args.name, args.seed)?;
    let is_path = std::path::Path::new(&args.name).exists();
    let all = data.len().filter(|_| is_path).unwrap_or(100) as u64;
    let messages = args.count.unwrap_or(all);
    let format = if args.mbox { Format::Mbox } else { Format::Maildir };
    let bytes = write_files(&data, messages, format, &args.into)?;
    let written = WrittenSet { messages, bytes, path: args.into.clone() };
    global.output().show(&written, |w| {
        let messages = counted(w.messages, "message", "messages");
        format!("{messages}, {}, in {}", HumanBytes(w.bytes), w.path.display())
    })?;
    Ok(ExitCode::SUCCESS)
}
