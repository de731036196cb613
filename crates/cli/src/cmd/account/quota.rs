//! `sealpost account quota`: what an account may hold.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_account::usage;
use sealpost_directory::{Quotas, Usage};
use serde::Serialize;

use super::name_args::NameArgs;
use crate::cmd::stats::bytes;
use crate::data_dir::DataDir;
use crate::exit::Usage as WrongUsage;
use crate::global::Global;

/// Arguments of `sealpost account quota`.
#[derive(clap::Args)]
#[command(after_help = "Without options, shows the limits and the usage. Usage is counted \
                  without the account's password: as the last session of the owner recorded it, plus the \
                  messages delivered since.

Examples:
  sealpost account quota jane@example.org
  sealpost account quota jane@example.org --storage 5GiB --messages 100000
  sealpost account quota jane@example.org --storage none")]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Limit on mail, such as 500MB or 5GiB; none removes the limit
    #[arg(long, value_name = "SIZE", value_parser = size)]
    storage: Option<Limit>,
    /// Limit on the number of messages, or none
    #[arg(long, value_name = "N", value_parser = number)]
    messages: Option<Limit>,
    /// Limit on the number of mailboxes, or none
    #[arg(long, value_name = "N", value_parser = number)]
    mailboxes: Option<Limit>,
    /// Limit on metadata of mail programs, such as 1MiB, or none
    #[arg(long, value_name = "SIZE", value_parser = size)]
    annotations: Option<Limit>,
}

/// A limit; `None`: none.
#[derive(Clone, Copy)]
struct Limit(Option<u64>);

fn size(text: &str) -> Result<Limit> {
    if text == "none" { Ok(Limit(None)) } else { super::size(text).map(|bytes| Limit(Some(bytes))) }
}

fn number(text: &str) -> Result<Limit> {
    match text {
        "none" => Ok(Limit(None)),
        _ => match text.parse() {
            Ok(number) => Ok(Limit(Some(number))),
            Err(_) => Err(WrongUsage(format!("{text:?} is neither a number nor none")).into()),
        },
    }
}

/// What is shown.
#[derive(Serialize)]
struct QuotaReport {
    account: String,
    storage: Line,
    messages: Line,
    mailboxes: Line,
    annotations: Line,
}

#[derive(Serialize)]
struct Line {
    limit: Option<u64>,
    used: u64,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let changes = [args.storage, args.messages, args.mailboxes, args.annotations];
    let is_change = changes.iter().any(Option::is_some);
    let data_dir =
        if is_change { DataDir::open(global).await? } else { DataDir::open_to_read(global).await? };
    let name = data_dir.account_name(&args.account.name)?;
    let record = if is_change {
        let change = |quotas: &mut Quotas| {
            let limits =
                [&mut quotas.storage, &mut quotas.messages, &mut quotas.mailboxes, &mut quotas.annotations];
            for (limit, change) in limits.into_iter().zip(changes) {
                *limit = change.map_or(*limit, |Limit(limit)| limit);
            }
        };
        let changed = data_dir.directory.update(&name, |record| {
            let mut quotas = record.quotas();
            change(&mut quotas);
            record.set_quotas(quotas);
            Ok(record.clone())
        });
        changed.await?
    } else {
        data_dir.directory.get(&name).await?
    };
    // Existing mail counts from now on, although no session opened the account: the usage is
    // recorded where there is a limit.
    let used = match changes.iter().any(Option::is_some) {
        true => usage::settle(&data_dir.directory, record.id).await?.usage,
        false => usage::known(&data_dir.directory, record.id).await?,
    };
    global.output().show(&QuotaReport::new(name.to_string(), record.quotas(), used), QuotaReport::lines)?;
    Ok(ExitCode::SUCCESS)
}

impl QuotaReport {
    fn new(account: String, quotas: Quotas, used: Usage) -> Self {
        let line = |limit, used| Line { limit, used };
        QuotaReport {
            account,
            storage: line(quotas.storage, used.storage),
            messages: line(quotas.messages, used.messages),
            mailboxes: line(quotas.mailboxes, used.mailboxes),
            annotations: line(quotas.annotations, used.annotations),
        }
    }

    fn lines(&self) -> String {
        let count = |n: u64| n.to_string();
        let line = |name: &str, line: &Line, show: &dyn Fn(u64) -> String| {
            format!("{name:<12} {} of {}", show(line.used), line.limit.map_or("any".to_owned(), show))
        };
        let lines = [
            line("storage", &self.storage, &bytes),
            line("messages", &self.messages, &count),
            line("mailboxes", &self.mailboxes, &count),
            line("annotations", &self.annotations, &bytes),
        ];
        format!("{:<12} {}\n{}", "account", self.account, lines.join("\n"))
    }
}
