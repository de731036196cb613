//! `sealpost import`: mail from mbox files, Maildirs and `.eml` files into an account.
//!
//! An import may be interrupted at any point, by SIGKILL too, and run again: a message object is
//! durable before the log entry that refers to it, and the account itself shows what is imported
//! already (`known.rs`), so there is no state of the import that could be lost or disagree with it.
//!
//! A thread reads the archives (`reader.rs`), messages are stored several at a time and placed in
//! the order of the archive, many to one log entry (`pipeline.rs`, `placing.rs`). Memory does not
//! depend on the size of a message or of an archive; of the messages that a mailbox has, a few
//! bytes each are held.

mod flags;
mod known;
mod labels;
mod pipeline;
mod placing;
mod reader;
mod received;
mod target;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealpost_account::share::Link;
use sealpost_account::{Account, Accounts, usage};
use sealpost_base::{AccountId, Error, Kind};
use sealpost_files::owner;
use sealpost_mailformat::discover::{Discovery, FoundArchive, STDIN, Skipped, discover};
use sealpost_mailformat::mbox::{Options, Variant};
use serde::Serialize;

use self::labels::LabelsAs;
use super::account::unlock::{Accept, unlock};
use crate::aliases;
use crate::data_dir::DataDir;
use crate::exit::{FAILED, Usage, named};
use crate::global::Global;
use crate::output::{counted, warn};
use crate::secret::PasswordArgs;

/// Failures that are kept for the summary; all are counted, and said on standard error as they happen.
const FAILURES_LISTED: usize = 1000;
/// Files that are no mail which the summary names as text; as JSON it names all.
const SKIPPED_SHOWN: usize = 100;

/// Arguments of `sealpost import`.
#[derive(clap::Args)]
#[command(
    after_help = "The content of a file decides its format, not its name. Compressed files (gzip, bzip2, \
                        xz, zstd) are decompressed. Files that are not mail are reported and skipped. \
                        Mailboxes have the names of the folders in the archive; missing ones are created. \
                        A message that its mailbox already has, byte for byte, is skipped, so run the \
                        command again to continue after an interruption or to add new mail. A message \
                        without a date in the archive gets the date of its Received or Date field. Exit \
                        status 1 if a message failed, or if a file named on the command line is not mail; \
                        the others are imported.\n
Examples:
  sealpost import old.mbox --account jane@example.org
  sealpost import ~/Maildir --account jane@example.org --prefix Old
  sealpost import *.eml --account jane@example.org --mailbox Archive
  ssh old.example.org cat mbox | sealpost import - --account jane@example.org"
)]
pub struct Args {
    /// mbox files, Maildirs, .eml files, or directories with such; - is standard input
    #[arg(required = true, value_name = "FILE|DIR")]
    from: Vec<PathBuf>,
    /// The account to import into
    #[arg(long, value_name = "NAME")]
    account: String,
    /// Put everything into MAILBOX
    #[arg(long, value_name = "MAILBOX", conflicts_with = "prefix")]
    mailbox: Option<String>,
    /// Put the mailboxes below MAILBOX
    #[arg(long, alias = aliases::PREFIX, value_name = "MAILBOX")]
    prefix: Option<String>,
    /// The variant of mbox files: mboxo, mboxrd, mboxcl or mboxcl2 [default: detected for each file]
    #[arg(long, value_name = "VARIANT")]
    variant: Option<Variant>,
    /// How to import Gmail labels in Google Takeout files; with --mailbox, never as mailboxes
    #[arg(long, value_enum, value_name = "AS", default_value_t)]
    labels: LabelsAs,
    /// Set the flags of messages that the mailbox has already to those in the archive
    #[arg(long)]
    update_flags: bool,
    #[command(flatten)]
    password: PasswordArgs,
}

/// What became of the messages.
#[derive(Default, Serialize)]
struct Summary {
    account: String,
    imported: u64,
    /// Messages that were there already.
    present: u64,
    /// Those of them that have other flags in the archive.
    other_flags: u64,
    /// And that got them.
    flags_updated: u64,
    failed: u64,
    failures: Vec<Reason>,
    /// Imported messages by mailbox; one that is in several counts in each.
    mailboxes: BTreeMap<String, u64>,
    /// What is no mail in directories.
    skipped: Vec<Reason>,
    /// Messages that lost keywords, because the account has as many as it can have.
    without_keywords: u64,
}

/// Why something is not imported.
#[derive(Serialize)]
struct Reason {
    place: String,
    reason: String,
}

impl Summary {
    /// Says and counts what could not be imported. What fails may say itself where it is.
    fn fail(&mut self, bar: &ProgressBar, place: String, reason: String) {
        let file = place.split_once(", byte ").map_or(&*place, |(file, _)| file);
        let reason =
            reason.strip_prefix(file).map_or(&*reason, |rest| rest.strip_prefix(": ").unwrap_or(&reason));
        match reason.strip_prefix(file) {
            // It is about a file in a folder.
            Some(rest) if rest.starts_with('/') => bar.suspend(|| warn(format_args!("sealpost: {reason}"))),
            _ => bar.suspend(|| warn(format_args!("sealpost: {place}: {reason}"))),
        }
        self.failed += 1;
        if self.failures.len() < FAILURES_LISTED {
            let reason = reason.to_owned();
            self.failures.push(Reason { place, reason });
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "imported {} into {}; {} there already; {} failed",
            counted(self.imported, "message", "messages"),
            self.account,
            counted(self.present, "was", "were"),
            self.failed
        );
        for (mailbox, count) in &self.mailboxes {
            text.push_str(&format!("\n  {count:>8}  {mailbox}"));
        }
        if self.flags_updated > 0 {
            text.push_str(&format!(
                "\n{} got the flags of the archive",
                counted(self.flags_updated, "message", "messages")
            ));
        }
        if self.other_flags > self.flags_updated {
            text.push_str(&format!(
                "\n{} of those that were there already have other flags in the archive (--update-flags takes them over)",
                self.other_flags - self.flags_updated
            ));
        }
        if !self.skipped.is_empty() {
            text.push_str("\nnot imported:");
        }
        for Reason { place, reason } in self.skipped.iter().take(SKIPPED_SHOWN) {
            text.push_str(&format!("\n  {place}: {reason}"));
        }
        if self.skipped.len() > SKIPPED_SHOWN {
            text.push_str(&format!("\n  and {} more (--json names all)", self.skipped.len() - SKIPPED_SHOWN));
        }
        if self.without_keywords > 0 {
            text.push_str(&format!(
                "\n{} lost keywords: the account has too many",
                counted(self.without_keywords, "message", "messages")
            ));
        }
        text
    }
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let streams = args.from.iter().filter(|path| *path == Path::new(STDIN)).count();
    if streams + usize::from(args.password.password_stdin) > 1 {
        return Err(
            Usage("standard input can be read once: name it once, or use --password-file".into()).into()
        );
    }
    let data_dir = DataDir::open(global).await?;
    let mut summary = Summary { account: args.account.clone(), ..Summary::default() };
    let found = find(&args, &mut summary)?;
    if found.is_empty() {
        global.output().show(&summary, Summary::text)?;
        return Ok(ExitCode::from(FAILED));
    }
    let (record, root) = unlock(&data_dir, &args.account, &args.password, Accept::Login).await?;
    let _lock = Lock::take(&data_dir, record.id)?;
    let accounts = data_dir.accounts();
    let told = data_dir.notify_of(&accounts);
    let account = accounts.open(record.id, &root).await?;
    let bar = progress_bar(found.iter().map(|found| found.bytes).sum(), global);
    let ignore_labels = args.labels == LabelsAs::Ignore;
    let options = Options { variant: args.variant, ignore_labels, ..Options::default() };
    summary.account = record.name.to_string();
    let archives = reader::start(found, options, data_dir.dir.clone());
    let held = account.clone();
    let pipeline = pipeline::Pipeline::new(&data_dir, &args, account, record.quotas(), &bar, &mut summary);
    let done = pipeline.run(archives).await;
    bar.finish_and_clear();
    told.end().await;
    if let Err(error) = write_down_usage(&data_dir, &accounts, &held).await {
        tracing::warn!(%error, "how much the account holds was not written down");
    }
    if let Err(e) = done {
        // What was imported stays imported; the summary says how much that is.
        global.output().note(summary.text());
        return Err(e.context("the import stopped; run the command again to continue"));
    }
    global.output().outcome(summary.failed == 0, &summary, Summary::text)?;
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The archives at the paths of the command line. Files that are no mail are reported.
fn find(args: &Args, summary: &mut Summary) -> Result<Vec<FoundArchive>> {
    let (mut all, bar) = (Vec::new(), ProgressBar::hidden());
    for path in &args.from {
        let Discovery { found, skipped, failed } = discover(path).map_err(|e| match e.kind() {
            Kind::NotFound | Kind::Denied => named(e),
            _ => e.into(),
        })?;
        if found.is_empty() && failed.is_empty() {
            summary.fail(&bar, path.display().to_string(), "no mail is in this directory".to_owned());
        }
        let reason = |Skipped { path, reason }| Reason { place: path.display().to_string(), reason };
        summary.skipped.extend(skipped.into_iter().map(reason));
        for Skipped { path, reason } in failed {
            summary.fail(&bar, path.display().to_string(), reason);
        }
        for mut archive in found {
            match target::mailbox(&archive, path, args) {
                Ok(mailbox) => {
                    archive.mailbox = mailbox;
                    all.push(archive);
                }
                Err(e) => summary.fail(&bar, archive.path.display().to_string(), e.to_string()),
            }
        }
    }
    Ok(all)
}

/// Writes the usage record of the account, for deliveries: without the key they would have to
/// count.
async fn write_down_usage(
    data_dir: &DataDir,
    accounts: &Accounts,
    account: &Arc<Account>,
) -> sealpost_base::Result<()> {
    let mut held = usage::of(&account.state());
    let links: Vec<Link> = account.state().links().map(|(_, link)| link.clone()).collect();
    for link in links.into_iter().filter(|link| link.owner.is_none()) {
        let share = accounts.open_share(account, &link).await?;
        held = held.with(usage::of_share(&share.state()));
    }
    data_dir.directory.record_usage(account.id(), held).await?;
    Ok(())
}

fn progress_bar(bytes: u64, global: &Global) -> ProgressBar {
    if !global.output().shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    let template = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left  {msg}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// One import into an account at a time: two of the same archive would not see each other's messages.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(data_dir: &DataDir, account: AccountId) -> Result<Self> {
        let path = data_dir.dir.join(format!("import-{account}.lock"));
        let locked = || -> std::io::Result<Option<File>> {
            let file = owner::open_or_create(&path).map_err(|e| owner::explained(&path, e))?;
            if file.try_lock().is_err() {
                return Ok(None);
            }
            // Its previous holder may have removed the file before we locked it.
            let same =
                std::fs::metadata(&path).is_ok_and(|m| file.metadata().is_ok_and(|f| f.ino() == m.ino()));
            Ok(same.then_some(file))
        };
        match locked().with_context(|| format!("the lock {}", path.display()))? {
            Some(file) => Ok(Lock { path, _file: file }),
            None => {
                Err(Error::retry("another import into this account is running: wait until it exits").into())
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What is left is taken over by the next import.
        let _ = std::fs::remove_file(&self.path);
    }
}
