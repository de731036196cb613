//! `sealpost account repair`: goes on with a log that is broken.
//!
//! An entry of it is missing or damaged, and nobody can tell any more what UIDs mean. What can be read stays, UIDs get a new meaning on
//! all nodes, and mail programs fetch everything anew. That is recorded in the log itself. Needs no password.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::AccountId;
use sealpost_journal::{Break, Journal};
use sealpost_vault::entry::LogKey;
use serde::Serialize;

use super::name_args::NameArgs;
use crate::data_dir::DataDir;
use crate::global::Global;

/// Arguments of `sealpost account repair`.
#[derive(clap::Args)]
#[command(
    after_help = "`sealpost check` names the missing entry; look for it in a backup first. A repair gives the entry \
                        up: messages delivered and stored after it stay, but later changes that name messages by UID \
                        are dropped. An account with a complete log does not change. Servers may run. The command \
                        repairs shared mailboxes of the account too.

Examples:
  sealpost account repair jane@example.org"
)]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Give up unreadable checkpoints too, although the log does not reach back to the first entry. Mailboxes, flags and messages that
    /// only the checkpoints had are lost
    #[arg(long)]
    without_checkpoints: bool,
}

/// What was done.
#[derive(Serialize)]
struct Repaired {
    account: String,
    logs: Vec<RepairedLog>,
}

/// A log that goes on.
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
    let mut repaired = Repaired { account: name.to_string(), logs: Vec::new() };
    for id in logs {
        // Shares without checkpoints of their own are no reason to give up theirs.
        let without_checkpoints = args.without_checkpoints && id == record.id;
        repaired.logs.extend(repair(&data_dir, id, without_checkpoints).await?);
    }
    global.output().done(&repaired, Repaired::text)?;
    Ok(ExitCode::SUCCESS)
}

async fn repair(data_dir: &DataDir, id: AccountId, without_checkpoints: bool) -> Result<Option<RepairedLog>> {
    let journal =
        Journal::new(data_dir.store.clone(), id, &LogKey::of(&data_dir.key), data_dir.random.clone());
    let done = journal.repair(without_checkpoints).await?;
    Ok(done.map(|done| RepairedLog {
        log: id.to_string(),
        problems: done.breaks.iter().map(problem).collect(),
        recorded_at: done.position.0,
    }))
}

fn problem(found: &Break) -> String {
    match found {
        Break::Unchained(position) => format!("an entry before log entry {position} is lost"),
        Break::DamagedEnd(position) => format!("log entry {position}, the last one, is lost"),
    }
}

impl Repaired {
    fn text(&self) -> String {
        if self.logs.is_empty() {
            return format!("nothing to repair: the log of {} is complete", self.account);
        }
        let line = |log: &RepairedLog| {
            let problems = log.problems.join(", ");
            format!("\n  log {}: {problems}; entry {} says so", log.log, log.recorded_at)
        };
        let lines: String = self.logs.iter().map(line).collect();
        format!("repaired {}: mail programs fetch its mailboxes again{lines}", self.account)
    }
}
