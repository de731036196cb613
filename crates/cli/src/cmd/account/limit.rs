//! `sealpost account limit`: to how many recipients an account may send.

use std::process::ExitCode;

use anyhow::Result;
use sealpost_base::{AccountId, Kind};
use sealpost_directory::Sending;
use sealpost_queue::state::HourCount;
use serde::Serialize;

use super::name_args::NameArgs;
use crate::data_dir::DataDir;
use crate::global::Global;
use crate::queues::Queues;

/// Arguments of `sealpost account limit`.
#[derive(clap::Args)]
#[command(
    after_help = "A limit bounds what a stolen password costs. Without options, shows the limits, and how much the account has sent. 0 \
                  forbids sending. Without limits of its own an account has those of the configuration \
                  (sending.recipients_per_hour and sending.recipients_per_day).\n
Examples:
  sealpost account limit jane@example.org
  sealpost account limit newsletter@example.org --hour 2000 --day 10000
  sealpost account limit jane@example.org --default"
)]
pub(super) struct Args {
    #[command(flatten)]
    account: NameArgs,
    /// Recipients in an hour
    #[arg(long, value_name = "N")]
    hour: Option<u32>,
    /// Recipients in a day
    #[arg(long, value_name = "N")]
    day: Option<u32>,
    /// Remove the limits of this account: those of the configuration apply
    #[arg(long, conflicts_with_all = ["hour", "day"])]
    default: bool,
}

/// What is shown.
#[derive(Serialize)]
struct LimitReport {
    account: String,
    hour: Window,
    day: Window,
}

#[derive(Serialize)]
struct Window {
    limit: u32,
    /// Whether it is the configuration's.
    is_default: bool,
    /// Recipients sent to; null if there is no queue that tells.
    sent: Option<u64>,
}

pub(super) async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let is_change = args.default || args.hour.is_some() || args.day.is_some();
    let data_dir =
        if is_change { DataDir::open(global).await? } else { DataDir::open_to_read(global).await? };
    let name = data_dir.account_name(&args.account.name)?;
    let (id, sending) = if is_change {
        let changed = data_dir.directory.update(&name, |record| {
            record.change_sending(|sending| match args.default {
                true => (sending.hour, sending.day) = (None, None),
                false => (sending.hour, sending.day) = (args.hour.or(sending.hour), args.day.or(sending.day)),
            });
            Ok((record.id, record.sending.clone()))
        });
        let changed = changed.await?;
        data_dir.notify_record_changed(changed.0).await;
        changed
    } else {
        let record = data_dir.directory.get(&name).await?;
        (record.id, record.sending)
    };
    let report = LimitReport::of(name.to_string(), id, sending.as_deref(), data_dir).await?;
    global.output().show(&report, LimitReport::lines)?;
    Ok(ExitCode::SUCCESS)
}

impl LimitReport {
    async fn of(account: String, id: AccountId, own: Option<&Sending>, data_dir: DataDir) -> Result<Self> {
        let settings = &data_dir.settings.sending;
        let defaults = (settings.recipients_per_hour, settings.recipients_per_day);
        let sent = sent(id, data_dir).await?;
        let window = |own: Option<u32>, default: u32, sent| Window {
            limit: own.unwrap_or(default),
            is_default: own.is_none(),
            sent,
        };
        let own = own.map_or((None, None), |own| (own.hour, own.day));
        Ok(LimitReport {
            account,
            hour: window(own.0, defaults.0, sent.map(|(hour, _)| hour)),
            day: window(own.1, defaults.1, sent.map(|(_, day)| day)),
        })
    }

    fn lines(&self) -> String {
        let line = |name: &str, window: &Window| {
            let sent = window.sent.map(|sent| format!("{sent} of ")).unwrap_or_default();
            let default = if window.is_default { " (of the configuration)" } else { "" };
            format!("{name:<8} {sent}{} recipients{default}", window.limit)
        };
        format!("account  {}\n{}\n{}", self.account, line("hour", &self.hour), line("day", &self.day))
    }
}

/// To how many recipients an account has sent in this hour and in a day, through all queues; `None`
/// if there are none.
async fn sent(account: AccountId, data_dir: DataDir) -> Result<Option<(u64, u64)>> {
    let now = data_dir.clock.now();
    let queues = match Queues::of(data_dir).await {
        Ok(queues) => queues,
        Err(e) if e.downcast_ref::<sealpost_base::Error>().is_some_and(|e| e.kind() == Kind::NotFound) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let hour = HourCount::hour_of(now);
    let (mut in_hour, mut in_day) = (0, 0);
    for queue in queues.of_node(None).await? {
        for count in queue.view.state().sent(account, now) {
            in_day += u64::from(count.recipients);
            in_hour += if count.hour >= hour { u64::from(count.recipients) } else { 0 };
        }
    }
    Ok(Some((in_hour, in_day)))
}
