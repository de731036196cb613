//! `sealpost archive pull`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use sealpost_archive::backup::{Backup, BodyCounts};
use sealpost_archive::client::Server;
use sealpost_archive::pull::{FolderReport, Options, Reason, Report, Tools, pull};
use sealpost_archive::restored::Restored;
use sealpost_base::{Error, SystemClock, SystemRandom};
use serde::Serialize;
use tokio::sync::watch;

use super::folders::{Chosen, FolderArgs};
use super::found;
use super::progress::ProgressBars;
use super::record;
use super::remembered::{Accounts, Remembered, status_of};
use super::server::ServerArgs;
use super::stop;
use super::target::{Format, SealedArgs, Target, bytes, end};
use crate::exit::Usage;
use crate::global::Global;
use crate::output::{advice, counted};

/// Arguments of `sealpost archive pull`.
#[derive(clap::Args)]
#[command(
    after_help = "You can end a pull at any moment, by Ctrl-C, a crash or a power cut: committed messages \
                        are in the backup, and the next pull continues. Messages that the server no longer \
                        has stay in the backup, unless you give --delete; folders always stay. Exit status \
                        0 if the backup is complete; 1 if a message or folder could not be fetched (the \
                        next pull retries it); 75 if it was interrupted or the server cannot be reached.\n
Examples:
  sealpost archive pull                       all remembered accounts
  sealpost archive pull work --folder 'INBOX*'
  sealpost archive pull --host imap.example.org --user jane --password-file secret \\
      --format mbox --into copy"
)]
pub struct Args {
    /// Remembered accounts [default: all]
    #[arg(value_name = "ACCOUNT", conflicts_with = "host")]
    accounts: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// The format of the backup [default: detected; sealpost for a new backup]
    #[arg(long, value_enum, requires = "host", help_heading = "Backup")]
    format: Option<Format>,
    /// The directory of the backup
    #[arg(long, value_name = "DIR", requires = "host", help_heading = "Backup")]
    into: Option<PathBuf>,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Keep at most SIZE of message bodies on disk, such as 2GB: headers and searchable text of all
    /// messages stay, the oldest and largest bodies are evicted, and fetched from the server when
    /// they are opened [default: the remembered limit of the account, or all]
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Backup")]
    body_limit: Option<u64>,
    /// Remove messages from the backup that the server no longer has; folders always stay
    #[arg(long)]
    delete: bool,
    /// Continue a backup of the same mailbox that was made under another host or user name
    #[arg(long)]
    source_renamed: bool,
    /// Report what would be fetched, and fetch nothing
    #[arg(long)]
    dry_run: bool,
    /// Number of connections to the server
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    connections: u8,
}

/// What a pull did.
#[derive(Serialize)]
struct Summary<'a> {
    account: &'a str,
    complete: bool,
    interrupted: bool,
    /// Folders that were compared.
    folders: u64,
    /// Messages that are new in the backup.
    new: u64,
    bytes: u64,
    /// Messages that a restore created, and that were in the backup before.
    recognized: u64,
    /// Messages that were in the backup twice, since a restore put them back.
    doubles_removed: u64,
    flags: u64,
    gone: u64,
    failed: u64,
    received: u64,
    /// Messages with evicted bodies and that the server no longer has.
    lost: u64,
    /// The backup's bodies, if it is not to keep all.
    #[serde(skip_serializing_if = "Option::is_none")]
    bodies: Option<BodyReport>,
    reconnects: u64,
    seconds: f64,
    /// Why it ended before it was done.
    error: Option<String>,
    changed: Vec<Folder<'a>>,
}

/// Bodies of a backup.
#[derive(Serialize)]
pub struct BodyReport {
    /// Messages that are there whole, and bytes on disk of their bodies.
    kept: u64,
    kept_bytes: u64,
    /// Messages with evicted bodies, and bytes on disk that these had.
    evicted: u64,
    evicted_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// The bodies evicted by this run, or by one without `--dry-run`.
    now: u64,
    now_bytes: u64,
    damaged: Vec<String>,
}

#[derive(Serialize)]
struct Folder<'a> {
    name: &'a str,
    reason: &'static str,
    planned: u64,
    new: u64,
    bytes: u64,
    recognized: u64,
    doubles_removed: u64,
    flags: u64,
    gone: u64,
    lost: u64,
    lost_uids: &'a [u32],
    failed: Vec<Failed<'a>>,
    /// Messages that are kept without some of their flags or their date, and why some of them.
    unread: u64,
    unread_of: Vec<Failed<'a>>,
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Failed<'a> {
    uid: u32,
    reason: &'a str,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stop = stop::on_signals()?;
    let mut worst = 0;
    if let Some(place) = args.server.place()? {
        let Some(into) = &args.into else {
            return Err(Usage("--host needs --into".into()).into());
        };
        let target = Target {
            format: args.format.or(found::format(into)?).unwrap_or_default(),
            directory: into,
            sealed: &args.sealed,
            make: Some(place.mail_owner()),
        };
        let keep = args.body_limit.map(|bytes| (bytes, &place));
        let copy = target.open_for(args.dry_run, global, keep).await?;
        let (server, folders) = (place.server().await?, args.folders.clone());
        let name = server.to_string();
        let restored = record::restored(into, Vec::new(), server.source(), false).await?;
        let what = Pulled { server, copy, folders, restored };
        let pulled = one(&name, what, &args, &stop, global).await;
        return Ok(ExitCode::from(pulled.map_err(|e| in_copy(e, into))?));
    }
    let accounts = Accounts::of(global)?;
    let names = if args.accounts.is_empty() { accounts.names()? } else { args.accounts.clone() };
    if names.is_empty() {
        return Err(Usage(
            "no account is remembered: run `sealpost archive add` first, or give --host".into(),
        )
        .into());
    }
    for name in &names {
        let done = match accounts.get(name) {
            Ok(account) => remembered((&accounts, name), &account, &args, &stop, global).await,
            Err(e) => Err(e),
        };
        worst = worst.max(status_of(name, names.len(), done)?);
        if *stop.borrow() {
            break;
        }
    }
    Ok(ExitCode::from(worst))
}

async fn remembered(
    (accounts, name): (&Accounts, &str),
    account: &Remembered,
    args: &Args,
    stop: &watch::Receiver<bool>,
    global: &Global,
) -> Result<u8> {
    let sealed = account.sealed(&args.sealed);
    let kept = account.body_limit.as_deref().map(bytes).transpose().map_err(Usage)?;
    let keep = args.body_limit.or(kept).map(|bytes| (bytes, &account.server));
    let copy = account.target(&sealed, true).open_for(args.dry_run, global, keep).await?;
    let folders = args.folders.clone().or(&account.folders, &account.exclude);
    let server = account.server.server().await?;
    let earlier = record::earlier(accounts, name, Some(&server.source()));
    let restored = record::restored(&account.into, earlier, server.source(), false).await?;
    let what = Pulled { server, copy, folders, restored };
    one(name, what, args, stop, global).await.map_err(|e| in_copy(e, &account.into))
}

/// What is pulled.
struct Pulled {
    server: Server,
    copy: Arc<dyn Backup>,
    folders: FolderArgs,
    restored: Arc<Restored>,
}

/// An error about the disk, with the backup's directory unless it names it.
fn in_copy(error: anyhow::Error, directory: &Path) -> anyhow::Error {
    let shown = directory.display().to_string();
    match advice(&error).is_some() && !format!("{error:#}").contains(&shown) {
        true => error.context(format!("the backup in {shown}")),
        false => error,
    }
}

async fn one(
    name: &str,
    Pulled { server, copy, folders, restored }: Pulled,
    args: &Args,
    stop: &watch::Receiver<bool>,
    global: &Global,
) -> Result<u8> {
    let shown = Arc::new(ProgressBars::new(global.output(), name));
    let tools = Tools {
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
        observer: shown.clone(),
        stop: stop.clone(),
    };
    let chosen = Arc::new(Chosen::new(folders));
    let wanted = chosen.clone();
    let options = Options {
        connections: usize::from(args.connections),
        delete: args.delete,
        wanted: Arc::new(move |found| wanted.wants(found.name.as_str())),
        dry_run: args.dry_run,
        source_renamed: args.source_renamed,
        restored,
        again: Arc::default(),
    };
    let pulled = pull(&server, copy.clone(), &options, &tools).await;
    shown.finish();
    end(copy).await;
    let mut report = pulled.unwrap_or_else(|e| Report { broken: Some(e), ..Report::default() });
    let broken = report.broken.take();
    // What was done before is worth telling.
    if broken.is_none() || global.json || !report.of.is_empty() {
        let complete = broken.is_none() && report.is_complete();
        let error = broken.as_ref().map(Error::to_string);
        let summary = Summary { complete, error, ..Summary::of(name, &report) };
        let text = |summary: &Summary<'_>| summary.text(args.dry_run);
        global.output().outcome(complete && summary.lost == 0, &summary, text)?;
    }
    if let Some(e) = broken {
        return Err(e.into());
    }
    Ok(chosen.status(report.interrupted, report.is_complete())?)
}

impl<'a> Summary<'a> {
    fn of(account: &'a str, report: &'a Report) -> Self {
        let sum = |of: fn(&FolderReport) -> u64| report.of.iter().map(of).sum::<u64>();
        let (new, bytes) = report.new_messages();
        Summary {
            account,
            complete: report.is_complete(),
            interrupted: report.interrupted,
            folders: report.folders,
            new,
            bytes,
            recognized: sum(|folder| folder.recognized),
            doubles_removed: sum(|folder| folder.doubles),
            flags: sum(|folder| folder.flags),
            gone: sum(|folder| folder.gone),
            failed: sum(|folder| folder.failed.len() as u64 + folder.failed_more),
            lost: sum(|folder| folder.lost),
            bodies: report.bodies.as_ref().map(BodyReport::of),
            received: report.received,
            reconnects: report.reconnects,
            seconds: report.elapsed.as_secs_f64(),
            error: None,
            changed: report.of.iter().map(Folder::of).collect(),
        }
    }

    fn text(&self, dry_run: bool) -> String {
        if dry_run {
            let mut text = format!(
                "{}: {} of {}",
                self.account,
                self.changed.len(),
                counted(self.folders, "folder", "folders")
            );
            for folder in &self.changed {
                text.push_str(&format!(
                    "\n  {:>9}  {}  ({})",
                    HumanCount(folder.planned).to_string(),
                    folder.name,
                    folder.reason
                ));
            }
            if let Some(bodies) = &self.bodies {
                text.push_str(&format!(
                    "\n{} of the backup would be evicted, {}",
                    counted(bodies.now, "body", "bodies"),
                    HumanBytes(bodies.now_bytes)
                ));
            }
            return text;
        }
        let rate = self.new as f64 / self.seconds.max(0.001);
        let mut text = format!(
            "{}: {}, {}, {} in {:.1} s",
            self.account,
            counted(self.new, "new message", "new messages"),
            HumanBytes(self.bytes),
            counted(self.folders, "folder", "folders"),
            self.seconds
        );
        if self.new > 0 {
            text.push_str(&format!(" ({rate:.0}/s)"));
        }
        for (count, what) in [
            (self.recognized, "restored on the server, and in the backup already"),
            (self.doubles_removed, "that were in the backup twice, removed"),
            (self.flags, "changed flags"),
            (self.gone, "no longer on the server"),
            (self.failed, "FAILED"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {} {what}", HumanCount(count)));
            }
        }
        if self.lost > 0 {
            text.push_str(&format!(
                "; {} LOST: the server no longer has them",
                counted(self.lost, "EVICTED BODY", "EVICTED BODIES")
            ));
        }
        if let Some(bodies) = &self.bodies {
            text.push_str(&bodies.text());
        }
        if self.interrupted {
            text.push_str("; interrupted: the next pull continues from here");
        }
        text
    }
}

impl BodyReport {
    /// As the backup counts them.
    pub fn of(counts: &BodyCounts) -> Self {
        BodyReport {
            kept: counts.kept,
            kept_bytes: counts.kept_bytes,
            evicted: counts.without,
            evicted_bytes: counts.without_bytes,
            limit: counts.limit,
            now: counts.now,
            now_bytes: counts.now_bytes,
            damaged: counts.damaged.clone(),
        }
    }

    /// For people, after something else.
    pub fn text(&self) -> String {
        let mut text = format!("; bodies: {} kept ({})", HumanCount(self.kept), HumanBytes(self.kept_bytes));
        if self.evicted > 0 {
            text.push_str(&format!(
                ", {} evicted ({})",
                HumanCount(self.evicted),
                HumanBytes(self.evicted_bytes)
            ));
        }
        if self.limit.is_some_and(|limit| self.kept_bytes > limit) {
            text.push_str(", more than the limit: the others are small, or not known to be on the server");
        }
        for damage in &self.damaged {
            text.push_str(&format!("\n  not evicted: {damage}"));
        }
        text
    }
}

impl<'a> Folder<'a> {
    fn of(report: &'a FolderReport) -> Self {
        Folder {
            name: &report.name,
            reason: match report.reason {
                Some(Reason::New) => "new",
                Some(Reason::Begun) => "another UIDVALIDITY",
                Some(Reason::Renamed) => "renamed",
                Some(Reason::Unfinished) => "unfinished",
                Some(Reason::Touched) => "its files in the backup changed",
                Some(Reason::Restored) => "has restored messages",
                Some(Reason::Changed) => "changed",
                Some(Reason::Again) => "to be fetched again",
                Some(Reason::DeletedUpstream) => "has removed messages",
                Some(Reason::Unknown) | None => "to be compared",
            },
            planned: report.planned,
            new: report.new,
            bytes: report.bytes,
            recognized: report.recognized,
            doubles_removed: report.doubles,
            flags: report.flags,
            gone: report.gone,
            lost: report.lost,
            lost_uids: &report.lost_of,
            failed: report.failed.iter().map(|f| Failed { uid: f.uid, reason: &f.reason }).collect(),
            unread: report.unread_all,
            unread_of: report.unread.iter().map(|f| Failed { uid: f.uid, reason: &f.reason }).collect(),
            error: report.error.as_deref(),
        }
    }
}
