//! `sealpost archive export`: a backup in another format. It connects to no server, except for
//! evicted bodies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use indicatif::HumanBytes;
use sealpost_archive::backup::convert::{Transferred, planned, transfer};
use sealpost_archive::backup::ownership::claim_like;
use sealpost_archive::backup::{Backup, BackupFolder, Folder, FolderName, KnownMessages, Source as Owner};
use sealpost_archive::restored::Restored;
use sealpost_base::Kind;
use serde::Serialize;

use super::folders::{Chosen, FolderArgs};
use super::progress::Working;
use super::record;
use super::remembered::Accounts;
use super::stop;
use super::target::{Format, MailOwner, SealedArgs, Target, end, format_of};
use crate::exit::{FAILED, TEMPORARY, Usage};
use crate::global::Global;
use crate::output::{counted, warn};

/// Arguments of `sealpost archive export`.
#[derive(clap::Args)]
#[command(
    after_help = "Keeps bytes, dates, flags and the server's UIDs. Messages that exist are not written \
                        again: run the command again to continue after an interruption, or to add new \
                        mail. A pull into the export continues where the backup ended. Exit status 1 if a \
                        message could not be read (the others are exported), 75 if it was interrupted.\n
Examples:
  sealpost archive export work --format mbox --into ~/mail/work
  sealpost archive export --from copy --format maildir --into ~/Maildir"
)]
pub struct Args {
    /// A remembered account
    #[arg(value_name = "ACCOUNT", conflicts_with = "from", required_unless_present = "from")]
    account: Option<String>,
    /// The directory of a backup
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The format of the backup [default: detected]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "from")]
    from_format: Option<Format>,
    /// The format to export to
    #[arg(long, value_enum)]
    format: Format,
    /// The directory to write to; created if missing
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    #[command(flatten)]
    sealed: SealedArgs,
    #[command(flatten)]
    folders: FolderArgs,
    /// Also export superseded folders, those whose UIDVALIDITY changed, as folders of their own
    /// (INBOX-7). `--folder` may name either
    #[arg(long)]
    include_superseded: bool,
    /// Report what would be exported, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Exported {
    folder: String,
    /// Nothing was written.
    dry_run: bool,
    messages: u64,
    bytes: u64,
    /// Messages that were there already.
    present: u64,
    failed: Vec<Failed>,
    /// It was interrupted.
    interrupted: bool,
}

#[derive(Serialize)]
struct Failed {
    uid: u32,
    reason: String,
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let stop = stop::on_signals()?;
    let Source { copy: from, owner, folders, restored } = source(&args, global).await?;
    let dry_run = args.dry_run;
    let mail_owner =
        owner.as_ref().map_or(MailOwner::UNKNOWN, |owner| MailOwner { user: &owner.user, host: &owner.host });
    let make = Some(mail_owner).filter(|_| !dry_run);
    let to = Target { format: args.format, directory: &args.into, sealed: &args.sealed, make };
    let to = to.open_for(dry_run, global, None).await?;
    let mut code = ExitCode::SUCCESS;
    let working = Arc::new(Working::new(global.output(), "reading the backup", "{binary_bytes}"));
    let listing = from.clone();
    let written = to.clone();
    let kept = move || {
        // A pull into it continues for the same account.
        claim_like(&*written, &*listing, dry_run)?;
        let mut kept = listing.folders()?;
        if args.include_superseded {
            kept.extend(listing.superseded()?);
        }
        Ok::<_, sealpost_base::Error>(kept)
    };
    let mut kept = tokio::task::spawn_blocking(kept).await??;
    let chosen = Chosen::new(folders);
    let wants = |name: &FolderName| chosen.wants(name.as_str());
    kept.retain(|kept| wants(&kept.name) || kept.was.as_ref().is_some_and(wants));
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    for kept in kept {
        if *stop.borrow() {
            code = ExitCode::from(TEMPORARY);
            break;
        }
        let stopped = stop.clone();
        let folder = kept.name.to_string();
        let (from, to, at_work) = (from.clone(), to.clone(), working.clone());
        let restored = restored.clone();
        working.on(&format!("{folder}, {}", counted(kept.messages + kept.gone, "message", "messages")));
        let work = move || {
            if dry_run {
                return plan(&*from, &restored, &*to, &kept);
            }
            let source = match from.open_to_read(&kept.name) {
                Err(e) if !matches!(e.kind(), Kind::Retry | Kind::Internal) => return Ok(unreadable(&e)),
                source => source?,
            };
            let twins = twins(&*source, &restored, &kept);
            let target = to.open(&kept.name, &kept.identity)?;
            transfer(&*source, &twins, target, &mut |bytes| {
                at_work.done(bytes);
                !*stopped.borrow()
            })
        };
        let done = tokio::task::spawn_blocking(work).await??;
        if !done.failed.is_empty() {
            code = ExitCode::from(FAILED);
        }
        if done.interrupted {
            code = ExitCode::from(TEMPORARY);
        }
        let exported = Exported::of(folder, dry_run, done);
        let is_good = exported.failed.is_empty() && !exported.interrupted;
        working.suspend(|| global.output().outcome(is_good, &exported, Exported::text))?;
    }
    let unreadable = from.unreadable();
    end(from).await;
    for what in &unreadable {
        warn(format_args!("sealpost: not exported: {what}"));
        code = ExitCode::from(FAILED);
    }
    if !*stop.borrow() {
        chosen.check()?;
    }
    Ok(code)
}

/// A folder of which nothing can be read is named, and the next one follows.
fn unreadable(e: &sealpost_base::Error) -> Transferred {
    Transferred { failed: vec![(0, e.to_string())], ..Transferred::default() }
}

/// What would be done with a folder. Nothing is changed, so what opening a folder of the
/// destination would mend is not opened.
fn plan(
    from: &dyn Backup,
    restored: &Restored,
    to: &dyn Backup,
    kept: &BackupFolder,
) -> sealpost_base::Result<Transferred> {
    let same = |there: &&BackupFolder| {
        let id = &kept.identity.mailboxid;
        there.identity.uidvalidity == kept.identity.uidvalidity
            && (there.name == kept.name || id.is_some() && there.identity.mailboxid == *id)
    };
    let there = to.folders()?;
    let there = there.iter().find(same);
    if there.is_some_and(|there| !there.as_left) {
        let why = "its files changed since the last run, and opening it would repair them: run pull or export \
                   first";
        return Ok(Transferred { failed: vec![(0, why.to_owned())], ..Transferred::default() });
    }
    let source = match from.open_to_read(&kept.name) {
        Err(e) if !matches!(e.kind(), Kind::Retry | Kind::Internal) => return Ok(unreadable(&e)),
        source => source?,
    };
    let twins = twins(&*source, restored, kept);
    match there {
        Some(there) => planned(&*source, &twins, to.open_to_read(&there.name)?.known()),
        None => planned(&*source, &twins, &KnownMessages::new()),
    }
}

/// Duplicates in the folder that a restore created.
fn twins(folder: &dyn Folder, restored: &Restored, kept: &BackupFolder) -> Vec<BTreeSet<u32>> {
    restored.twins(kept.place().as_str(), kept.identity.uidvalidity, &folder.known().uids())
}

/// What is exported.
struct Source {
    copy: Arc<dyn Backup>,
    /// Whose mail it is.
    owner: Option<Owner>,
    folders: FolderArgs,
    restored: Arc<Restored>,
}

/// Looks it up. The backup is not where it is exported to.
async fn source(args: &Args, global: &Global) -> Result<Source> {
    let differs = |from: &Path| match std::fs::canonicalize(from) {
        Ok(from) if std::fs::canonicalize(&args.into).is_ok_and(|into| into == from) => {
            Err(Usage("--into is where the backup is: name another directory".into()))
        }
        _ => Ok(()),
    };
    if let Some(from) = &args.from {
        differs(from)?;
        let format = format_of(args.from_format, from)?;
        let target = Target { format, directory: from, sealed: &args.sealed, make: None };
        let copy = target.open_to_read(global).await?;
        let restored = record::of_copy(&copy, from, None).await?;
        let listing = copy.clone();
        let owner = tokio::task::spawn_blocking(move || listing.source()).await??;
        return Ok(Source { copy, owner, folders: args.folders.clone(), restored });
    }
    let Some(name) = &args.account else {
        return Err(Usage("give an account, or a backup with --from".into()).into());
    };
    let accounts = Accounts::of(global)?;
    let account = accounts.get(name)?;
    differs(&account.into)?;
    let folders = args.folders.clone().or(&account.folders, &account.exclude);
    let sealed = account.sealed(&args.sealed);
    let copy = account.target(&sealed, false).open_to_read(global).await?;
    let restored = record::of_copy(&copy, &account.into, Some((&accounts, name))).await?;
    let (host, user) = (account.server.host.clone(), account.server.user.clone());
    Ok(Source { copy, owner: Some(Owner { host, user }), folders, restored })
}

impl Exported {
    fn of(folder: String, dry_run: bool, done: Transferred) -> Self {
        let failed = done.failed.into_iter().map(|(uid, reason)| Failed { uid, reason }).collect();
        Exported {
            folder,
            dry_run,
            messages: done.messages,
            bytes: done.bytes,
            present: done.present,
            failed,
            interrupted: done.interrupted,
        }
    }

    fn text(&self) -> String {
        let (messages, bytes) = (counted(self.messages, "message", "messages"), HumanBytes(self.bytes));
        let verb = if self.dry_run { "would export" } else { "exported" };
        let mut text = format!("{}: {verb} {messages}, {bytes}", self.folder);
        if self.present > 0 {
            text.push_str(&format!("; {} there already", counted(self.present, "was", "were")));
        }
        if self.interrupted {
            text.push_str("; interrupted: run the command again to continue");
        }
        for Failed { uid, reason } in &self.failed {
            text.push_str(&format!("\n  not exported: UID {uid}: {reason}"));
        }
        text
    }
}
