//! `sealpost import`: mail from mbox files, Maildirs and `.eml` files into an account.
//!
//! An import may be interrupted at any point, by SIGKILL too, and run again: a message object is durable before the
//! log entry that refers to it, and what is imported already is told from the account itself (`known.rs`), so there
//! is no state of the import that could be lost or disagree with it.
//!
//! A thread reads the archives (`reader.rs`), messages are stored several at a time and placed in the order of the
//! archive, many to one log entry (`pipeline.rs`). Memory does not depend on the size of a message or of an archive;
//! of the messages that a mailbox has, a few bytes each are held.

mod flags;
mod known;
mod pipeline;
mod reader;
mod received;
mod target;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealpost_archive::discover::{Discovery, discover};
use sealpost_archive::mbox::{Options, Variant};
use sealpost_base::{AccountId, Error, Kind};
use sealpost_vault::owner;
use serde::Serialize;

use super::account::unlock::{Accept, unlock};
use crate::exit::{FAILED, named};
use crate::global::Global;
use crate::output::warn;
use crate::place::Place;
use crate::secret::PasswordArgs;

/// Failures that are kept for the summary; all are counted, and said on standard error as they happen.
const FAILURES_KEPT: usize = 1000;

/// Arguments of `sealpost import`.
#[derive(clap::Args)]
#[command(
    after_help = "Mailboxes are called as the folders of the archive are and made if they are not there. A \
                        message that its mailbox has already, byte for byte, is not imported again (one that is \
                        twice in the archive is twice in the mailbox), so an import that was interrupted, or \
                        whose archive has grown, is simply run again. A message without a date of its own in the \
                        archive gets that of its Received or Date field. Exit status 1 if a message failed; the \
                        others are imported all the same.\n
Examples:
  sealpost import old.mbox --account jane@example.org
  sealpost import ~/Maildir --account jane@example.org --below Old
  sealpost import *.eml --account jane@example.org --mailbox Archive"
)]
pub struct Args {
    /// mbox files, Maildirs, .eml files, or directories that have some
    #[arg(required = true, value_name = "FILE|DIR")]
    from: Vec<PathBuf>,
    /// The account to put the mail into
    #[arg(long, value_name = "NAME")]
    account: String,
    /// Put everything into MAILBOX
    #[arg(long, value_name = "MAILBOX", conflicts_with = "below")]
    mailbox: Option<String>,
    /// Put the mailboxes below MAILBOX
    #[arg(long, value_name = "MAILBOX")]
    below: Option<String>,
    /// The variant of mbox, if it is known: mboxo, mboxrd, mboxcl or mboxcl2 [default: found out for each file]
    #[arg(long, value_name = "VARIANT")]
    variant: Option<Variant>,
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
    failed: u64,
    failures: Vec<Failure>,
    /// Imported messages by mailbox.
    mailboxes: BTreeMap<String, u64>,
    /// Files that are no mail.
    skipped: Vec<String>,
    /// Messages that lost keywords, because the account has as many as it can have.
    without_keywords: u64,
}

#[derive(Serialize)]
struct Failure {
    place: String,
    reason: String,
}

impl Summary {
    fn fail(&mut self, bar: &ProgressBar, place: String, reason: String) {
        bar.suspend(|| warn(format_args!("sealpost: {place}: {reason}")));
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(Failure { place, reason });
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "imported {} messages into {}; {} were there already; {} failed",
            self.imported, self.account, self.present, self.failed
        );
        for (mailbox, count) in &self.mailboxes {
            text.push_str(&format!("\n  {count:>8}  {mailbox}"));
        }
        if !self.skipped.is_empty() {
            let more = if self.skipped.len() > 10 { " …" } else { "" };
            let some = self.skipped[..self.skipped.len().min(10)].join(" ");
            text.push_str(&format!("\nno mail, passed over: {some}{more}"));
        }
        if self.without_keywords > 0 {
            text.push_str(&format!(
                "\n{} messages lost keywords: the account has too many",
                self.without_keywords
            ));
        }
        text
    }
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let place = Place::open(global).await?;
    let mut discovery = Discovery::default();
    for path in &args.from {
        let mut found = discover(path).map_err(|e| match e.kind() {
            Kind::NotFound | Kind::Denied => named(e),
            _ => e.into(),
        })?;
        for archive in &mut found.found {
            archive.mailbox = target::mailbox(archive, path, &args)?;
        }
        discovery.found.append(&mut found.found);
        discovery.skipped.append(&mut found.skipped);
    }
    let (record, root) = unlock(&place, &args.account, &args.password, Accept::Login).await?;
    let _lock = Lock::take(&place, record.id)?;
    let accounts = place.accounts();
    let told = place.tell_of(&accounts);
    let account = accounts.open(record.id, &root).await?;
    let bar = progress_bar(discovery.found.iter().map(|found| found.bytes).sum(), global);
    let options = Options { variant: args.variant, keep_status: false };
    let mut summary = Summary { account: record.name.to_string(), ..Summary::default() };
    summary.skipped = discovery.skipped.iter().map(|path| path.display().to_string()).collect();
    let archives = reader::start(discovery.found, options);
    let done =
        pipeline::Pipeline::new(&place, account, record.quotas(), &bar, &mut summary).run(archives).await;
    bar.finish_and_clear();
    told.end().await;
    if let Err(e) = done {
        // What was imported stays imported; the summary says how much that is.
        global.output().note(summary.text());
        return Err(e.context("the import stopped; run it again to go on"));
    }
    global.output().outcome(summary.failed == 0, &summary, Summary::text)?;
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
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
    fn take(place: &Place, account: AccountId) -> Result<Self> {
        let path = place.dir.join(format!("import-{account}.lock"));
        let locked = || -> std::io::Result<Option<File>> {
            let file = owner::open_or_create(&path).map_err(|e| owner::explained(&path, e))?;
            if file.try_lock().is_err() {
                return Ok(None);
            }
            // Whoever had it may have removed the file before it was ours.
            let same =
                std::fs::metadata(&path).is_ok_and(|m| file.metadata().is_ok_and(|f| f.ino() == m.ino()));
            Ok(same.then_some(file))
        };
        match locked().with_context(|| format!("the lock {}", path.display()))? {
            Some(file) => Ok(Lock { path, _file: file }),
            None => {
                Err(Error::retry("another import into this account is under way: wait until it is done")
                    .into())
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
