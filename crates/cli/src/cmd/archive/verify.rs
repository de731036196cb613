//! `sealpost archive verify`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use indicatif::HumanCount;
use sealpost_archive::pull::Tools;
use sealpost_archive::verify::{FolderReport, Options, Sample, repair, verify};
use sealpost_base::{SystemClock, SystemRandom};
use serde::Serialize;

use super::folders::{Chosen, FolderArgs};
use super::progress::{ProgressBars, Working};
use super::record;
use super::remembered::Accounts;
use super::server::ServerArgs;
use super::stop;
use super::target::{Format, SealedArgs, Target, end, format_of};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::{counted, warn};

/// Arguments of `sealpost archive verify`.
#[derive(clap::Args)]
#[command(
    after_help = "Reads every message of the backup and compares it with its stored hash. Then compares \
                        counts, UIDs and sizes with the server, and the bytes of a sample. Exit status 1 \
                        if a message is missing, different or damaged. With --repair, it fetches such \
                        messages again; those that the server no longer has stay as they are. Exit status \
                        1 then if a message could not be repaired, 75 if it was interrupted.\n
Examples:
  sealpost archive verify work
  sealpost archive verify work --all
  sealpost archive verify work --all --repair
  sealpost archive verify --host imap.example.org --user jane --password-file secret --from copy"
)]
pub struct Args {
    /// A remembered account
    #[arg(value_name = "ACCOUNT", conflicts_with = "host", required_unless_present = "host")]
    account: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// The format of the backup [default: detected]
    #[arg(long, value_enum, requires = "host", help_heading = "Backup")]
    format: Option<Format>,
    /// The directory of the backup (also --into, as for pull)
    #[arg(long, alias = "into", value_name = "DIR", requires = "host", help_heading = "Backup")]
    from: Option<PathBuf>,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Fetch and compare N random messages of each folder
    #[arg(long, value_name = "N", default_value_t = 20)]
    sample: u32,
    /// Fetch and compare all messages
    #[arg(long, conflicts_with = "sample")]
    all: bool,
    /// Fetch missing, different and damaged messages again
    #[arg(long)]
    repair: bool,
}

/// Connections that fetch what is repaired.
const CONNECTIONS: usize = 4;

#[derive(Serialize)]
struct Folder<'a> {
    folder: &'a str,
    good: bool,
    kept: u64,
    messages: u64,
    missing: u64,
    missing_uids: String,
    gone: u64,
    /// Of those, the server has these bytes under another UID.
    doubled: u64,
    doubled_uids: String,
    other_size: u64,
    compared: u64,
    different: String,
    evicted: u64,
    lost: u64,
    lost_uids: String,
    damaged: &'a [String],
    damaged_uids: String,
    /// Damaged, and not on the server any more.
    beyond_repair: String,
    repaired: u64,
    repaired_uids: String,
    error: Option<&'a str>,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let (server, copy, folders, directory, earlier) = match (&args.account, args.server.place()?) {
        (_, Some(place)) => {
            let Some(from) = args.from else {
                return Err(Usage("--host needs --from".into()).into());
            };
            let format = format_of(args.format, &from)?;
            let target = Target { format, directory: &from, sealed: &args.sealed, make: None };
            let copy = target.open(global).await?;
            (place.server().await?, copy, args.folders, from, Vec::new())
        }
        (Some(name), None) => {
            let accounts = Accounts::of(global)?;
            let account = accounts.get(name)?;
            let folders = args.folders.or(&account.folders, &account.exclude);
            let sealed = account.sealed(&args.sealed);
            let copy = account.target(&sealed, false).open(global).await?;
            let server = account.server.server().await?;
            let earlier = record::earlier(&accounts, name, Some(&server.source()));
            (server, copy, folders, account.into, earlier)
        }
        (None, None) => return Err(Usage("name an account, or a server with --host".into()).into()),
    };
    let chosen = Arc::new(Chosen::new(folders));
    let wanted = chosen.clone();
    let working =
        Arc::new(Working::new(global.output(), &server.to_string(), "{human_pos} looked at  {rate}"));
    let looking = working.clone();
    let options = Options {
        sample: if args.all { Sample::All } else { Sample::Some(args.sample) },
        wanted: Arc::new(move |name| wanted.wants(name)),
        restored: record::restored(&directory, earlier, server.source(), true).await?,
        looked: Arc::new(move |name| {
            looking.on(name);
            looking.done(1);
        }),
    };
    let verified = verify(&server, copy.clone(), &options, &SystemRandom).await;
    working.end();
    let mut report = verified?;
    let some = report.folders.iter().any(|folder| !folder.to_fetch().is_empty());
    if args.repair && some {
        let shown = Arc::new(ProgressBars::new(global.output(), &server.to_string()));
        let tools = Tools {
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            observer: shown.clone(),
            stop: stop::on_signals()?,
        };
        let repaired = repair(&server, copy.clone(), &options, CONNECTIONS, &tools, report).await;
        shown.finish();
        report = repaired?;
    }
    end(copy).await;
    for folder in &report.folders {
        let shown = Folder::of(folder);
        global.output().outcome(shown.good && shown.doubled == 0, &shown, Folder::text)?;
    }
    if some && !args.repair && !global.json {
        warn("sealpost: `verify --repair` fetches missing, different and damaged messages again");
    }
    let good = report.folders.iter().all(FolderReport::is_good);
    Ok(ExitCode::from(chosen.status(false, good)?))
}

impl<'a> Folder<'a> {
    fn of(report: &'a FolderReport) -> Self {
        Folder {
            folder: &report.name,
            good: report.is_good(),
            kept: report.kept,
            messages: report.messages,
            missing: report.missing.len() as u64,
            missing_uids: report.missing.to_string(),
            gone: report.gone,
            doubled: report.doubled.len() as u64,
            doubled_uids: report.doubled.to_string(),
            other_size: report.sizes.len() as u64,
            compared: report.compared,
            different: report.different.to_string(),
            evicted: report.evicted,
            lost: report.lost.len() as u64,
            lost_uids: report.lost.to_string(),
            damaged: &report.damaged,
            damaged_uids: report.damaged_uids.to_string(),
            beyond_repair: report.beyond_repair.to_string(),
            repaired: report.repaired.len() as u64,
            repaired_uids: report.repaired.to_string(),
            error: report.error.as_deref(),
        }
    }

    fn text(&self) -> String {
        let mark = if self.good { "ok    " } else { "FAILED" };
        let mut text = format!(
            "{mark} {}: {} of {}, {} compared byte by byte",
            self.folder,
            HumanCount(self.kept.saturating_sub(self.gone)),
            counted(self.messages, "message", "messages"),
            HumanCount(self.compared)
        );
        for (what, count) in [
            ("no longer on the server", self.gone),
            ("for which the server reports another size", self.other_size),
            ("without their bodies, which are evicted", self.evicted),
            ("repaired", self.repaired),
        ] {
            if count > 0 {
                text.push_str(&format!("; {} {what}", HumanCount(count)));
            }
        }
        let twice =
            "no longer on the server, which has the same message under another UID: the backup has it twice";
        let lost = "evicted, and no longer on the server (`pull --delete` removes their headers too)";
        let beyond = "damaged, and no longer on the server: it stays as it is";
        let uids = [
            ("repaired", &self.repaired_uids),
            ("missing", &self.missing_uids),
            ("different", &self.different),
            (twice, &self.doubled_uids),
            (lost, &self.lost_uids),
            (beyond, &self.beyond_repair),
        ];
        for (what, uids) in uids {
            if !uids.is_empty() {
                let some: String = uids.chars().take(200).collect();
                text.push_str(&format!("\n       {what}: UID {some}"));
            }
        }
        for damage in self.damaged {
            text.push_str(&format!("\n       damaged: {damage}"));
        }
        if let Some(error) = self.error {
            text.push_str(&format!("\n       {error}"));
        }
        text
    }
}
