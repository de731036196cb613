//! `sealpost account repair`: continues a log that is broken.
//!
//! An entry of it is missing or damaged, and the meaning of UIDs is lost. Readable messages stay,
//! UIDs get a new meaning on all nodes, and mail programs fetch everything again. The log itself
//! records that. Needs no password.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::AccountId;
use sealpost_journal::{Break, Journal};
use sealpost_vault::entry::LogKey;
use serde::Serialize;

use super::name_args::NameArgs;
use crate::data_dir::DataDir;
use crate::global::Global;

/// Removed objects that are named.
const SHOWN: usize = 20;

/// Arguments of `sealpost account repair`.
#[derive(clap::Args)]
#[command(
    after_help = "`sealpost check` names the missing entry; look for it in a backup first. A repair continues \
                        without the entry: messages delivered and stored after it stay, but later changes that name \
                        messages by UID are dropped. An account with a complete log does not change. Servers may run. The command \
                        repairs shared mailboxes of the account too.

Examples:
  sealpost account repair jane@example.org
  sealpost account repair jane@example.org --remove-noise"
)]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Continue without unreadable checkpoints too, although the log does not reach back to the first entry.
    /// Mailboxes, flags and messages that only the checkpoints had are lost
    #[arg(long)]
    without_checkpoints: bool,
    /// First remove the objects that were planted in the account's logs: those that this
    /// installation did not write. Make sure that server.key is the one that all nodes use: under
    /// an older copy, what they write looks planted
    #[arg(long)]
    remove_noise: bool,
}

/// What was done.
#[derive(Serialize)]
struct Repaired {
    account: String,
    logs: Vec<RepairedLog>,
    /// How many planted objects were removed, and some of them.
    removed_count: usize,
    removed: Vec<String>,
}

/// A log that continues.
#[derive(Serialize)]
struct RepairedLog {
    log: String,
    problems: Vec<String>,
    recorded_at: u64,
}

/// Runs it.
pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open(global).await?;
    let name = data_dir.account_name(&args.account.name)?;
    let record = data_dir.directory.get(&name).await?;
    let mut logs = vec![record.id];
    logs.extend(data_dir.directory.shares_of(record.id).await?.iter().map(|share| share.share));
    let mut repaired =
        Repaired { account: name.to_string(), logs: Vec::new(), removed_count: 0, removed: Vec::new() };
    for id in logs {
        if args.remove_noise {
            let removed = journal(&data_dir, id).remove_noise().await?;
            repaired.removed_count += removed.len();
            repaired.removed.extend(removed);
        }
        // Shares without checkpoints of their own do not require the option for theirs.
        let without_checkpoints = args.without_checkpoints && id == record.id;
        repaired.logs.extend(repair(&data_dir, id, without_checkpoints).await?);
    }
    repaired.removed.truncate(SHOWN);
    global.output().done(&repaired, Repaired::text)?;
    Ok(ExitCode::SUCCESS)
}

async fn repair(data_dir: &DataDir, id: AccountId, without_checkpoints: bool) -> Result<Option<RepairedLog>> {
    let done = journal(data_dir, id).repair(without_checkpoints).await?;
    Ok(done.map(|done| RepairedLog {
        log: id.to_string(),
        problems: done.breaks.iter().map(problem).collect(),
        recorded_at: done.position.0,
    }))
}

fn journal(data_dir: &DataDir, id: AccountId) -> Journal {
    Journal::new(data_dir.store.clone(), id, &LogKey::of(&data_dir.key), data_dir.random.clone())
}

fn problem(found: &Break) -> String {
    match found {
        Break::Unchained(position) => format!("an entry before log entry {position} is lost"),
        Break::DamagedEnd(position) => format!("log entry {position}, the last one, is lost"),
    }
}

impl Repaired {
    fn text(&self) -> String {
        let removed = match self.removed_count {
            0 => String::new(),
            count => format!("removed {count} planted objects: {}\n", self.removed.join(", ")),
        };
        if self.logs.is_empty() {
            return format!("{removed}nothing to repair: the log of {} is complete", self.account);
        }
        let line = |log: &RepairedLog| {
            let problems = log.problems.join(", ");
            format!("\n  log {}: {problems}; entry {} says so", log.log, log.recorded_at)
        };
        let lines: String = self.logs.iter().map(line).collect();
        format!("{removed}repaired {}: mail programs fetch its mailboxes again{lines}", self.account)
    }
}
