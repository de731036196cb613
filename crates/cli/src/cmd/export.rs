//! `sealpost export`: an account's mail as mbox files or a Maildir, which `sealpost import` and
//! other programs read.
//!
//! Streams: it holds a page of rows and a piece of one message at a time. A damaged message is
//! reported and left out whole, and the export continues. It overwrites no existing file.

mod maildir;
mod mbox;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, AccountState, Accounts, Message, Row};
use sealpost_base::{Error, Kind, MailboxId, Timestamp, Uid};
use sealpost_files::owner;
use sealpost_mailformat::lines::LineEnds;
use sealpost_mailformat::maildir::folder;
use serde::Serialize;

use super::account::unlock::{Accept, unlock};
use crate::data_dir::DataDir;
use crate::exit::{FAILED, named};
use crate::global::Global;
use crate::output::{self, counted, warn};
use crate::secret::PasswordArgs;

/// Rows taken from the account's state at a time.
const PAGE_ROWS: usize = 256;
/// Failures that are kept for the summary; all are counted, and said on standard error as they happen.
const FAILURES_LISTED: usize = 1000;

/// Arguments of `sealpost export`.
#[derive(clap::Args)]
#[command(
    after_help = "mbox: with one --mailbox, PATH is the file. Otherwise it is a directory, with one file \
                        for each mailbox that has messages, and subdirectories for mailboxes below \
                        others. Existing files are not overwritten; new ones are readable only by you. \
                        Maildir: PATH is the directory, with Maildir++ folders; run the command again to \
                        continue or to add new mail. Both keep flags and dates.\n
Examples:
  sealpost export --account jane@example.org --format mbox mail/
  sealpost export --account jane@example.org --format mbox --mailbox Archive archive.mbox
  sealpost export --account jane@example.org --format maildir ~/Maildir"
)]
pub struct Args {
    /// The account to export
    #[arg(long, value_name = "NAME")]
    account: String,
    /// The format to write
    #[arg(long, value_enum)]
    format: Format,
    /// Export only this mailbox; may be repeated [default: all]
    #[arg(long, value_name = "MAILBOX")]
    mailbox: Vec<String>,
    /// Keep the stored line ends (CRLF) instead of writing LF
    #[arg(long)]
    crlf: bool,
    /// The file or directory to write
    path: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// mboxrd: all messages of a mailbox in a file
    Mbox,
    /// Maildir++: a file for each message
    Maildir,
}

/// What became of the messages.
#[derive(Default, Serialize)]
struct Summary {
    account: String,
    exported: u64,
    /// Messages that an earlier export into the same Maildir wrote.
    present: u64,
    failed: u64,
    failures: Vec<Failure>,
    mailboxes: usize,
    /// Keywords that a Maildir has no letter for.
    lost_keywords: usize,
    /// Mailboxes whose names are too long for a file.
    shortened: Vec<Shortened>,
}

#[derive(Serialize)]
struct Shortened {
    mailbox: String,
    path: PathBuf,
}

#[derive(Serialize)]
struct Failure {
    mailbox: String,
    uid: Option<u32>,
    reason: String,
}

impl Summary {
    fn fail(&mut self, mailbox: &str, uid: Option<Uid>, reason: String) {
        let uid = uid.map(Uid::get);
        match uid {
            Some(uid) => warn(format_args!("sealpost: {mailbox}, UID {uid}: {reason}")),
            None => warn(format_args!("sealpost: {mailbox}: {reason}")),
        }
        self.failed += 1;
        if self.failures.len() < FAILURES_LISTED {
            self.failures.push(Failure { mailbox: mailbox.to_owned(), uid, reason });
        }
    }

    fn shorten(&mut self, mailbox: &str, path: &Path) {
        self.shortened.push(Shortened { mailbox: mailbox.to_owned(), path: path.to_owned() });
    }

    fn text(&self) -> String {
        let mut text = format!(
            "exported {} of {}",
            counted(self.exported, "message", "messages"),
            counted(self.mailboxes, "mailbox", "mailboxes")
        );
        if self.present > 0 {
            text.push_str(&format!("; {} there already", counted(self.present, "was", "were")));
        }
        if self.failed > 0 {
            text.push_str(&format!("; {} failed", self.failed));
        }
        if self.lost_keywords > 0 {
            text.push_str(&format!(
                "; {} left out: a folder has 26 letters for them",
                counted(self.lost_keywords, "keyword", "keywords")
            ));
        }
        for Shortened { mailbox, path } in &self.shortened {
            let path = path.display();
            text.push_str(&format!(
                "\nthe name of this mailbox is too long for a file: {mailbox}\n  it is in {path}"
            ));
        }
        text
    }
}

/// Runs it.
pub async fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let data_dir = DataDir::open_to_read(global).await?;
    let (record, root) = unlock(&data_dir, &args.account, &args.password, Accept::Login).await?;
    let accounts = data_dir.accounts();
    let account = accounts.open(record.id, &root).await?;
    let names = mailboxes(&account.state(), &args.mailbox)?;
    let mut summary = Summary { account: record.name.to_string(), ..Summary::default() };
    let names = follow(&accounts, &account, names, &mut summary).await;
    let line_ends = if args.crlf { LineEnds::Exact } else { LineEnds::Lf };
    let single = args.format == Format::Mbox && args.mailbox.len() == 1;
    match args.format {
        Format::Mbox => mbox::check(&args.path, single)?,
        Format::Maildir => maildir::check(&args.path)?,
    }
    for (account, id, name) in names {
        let walk = Walk::new(&account, id);
        if walk.end.is_none() && args.format == Format::Mbox && !single {
            continue;
        }
        let path = match args.format {
            Format::Mbox if single => args.path.clone(),
            Format::Mbox => mbox::path(&args.path, &name),
            Format::Maildir => args.path.join(folder::directory(&name)),
        };
        let written = match args.format {
            Format::Mbox => mbox::write(&path, &name, walk, line_ends, &mut summary).await,
            Format::Maildir => maildir::write(&args.path, &name, walk, line_ends, &mut summary).await,
        };
        match written {
            Ok(()) => {
                summary.mailboxes += 1;
                let below = path.strip_prefix(&args.path).unwrap_or(&path);
                if folder::is_cut(&below.to_string_lossy()) {
                    summary.shorten(&name, &path);
                }
            }
            // The others would fare no better.
            Err(e) if is_of_the_disk(&e) => {
                global.output().note(summary.text());
                return Err(e.context("the export stopped"));
            }
            Err(e) => summary.fail(&name, None, output::text(&e)),
        }
    }
    global.output().outcome(summary.failed == 0 && summary.shortened.is_empty(), &summary, Summary::text)?;
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Whether it is about the disk, and not about one file.
fn is_of_the_disk(e: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let mut errors = e.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    errors.any(|e| matches!(e.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem))
}

/// The requested mailboxes, all by default.
fn mailboxes(state: &AccountState, wanted: &[String]) -> Result<Vec<(MailboxId, String)>> {
    if wanted.is_empty() {
        return Ok(state.mailboxes().map(|m| (m.id(), m.name().to_owned())).collect());
    }
    let find = |name: &String| match state.mailbox_named(name) {
        Some(mailbox) => Ok((mailbox.id(), mailbox.name().to_owned())),
        None => Err(Error::not_found(format!("no mailbox {name}")).into()),
    };
    wanted.iter().map(find).collect()
}

/// Where the messages of these mailboxes are: those of shared ones are in logs of their own.
/// Mailboxes that the account may not read are left out, and those that cannot be opened are
/// reported.
async fn follow(
    accounts: &Accounts,
    account: &Arc<Account>,
    names: Vec<(MailboxId, String)>,
    summary: &mut Summary,
) -> Vec<(Arc<Account>, MailboxId, String)> {
    let mut found = Vec::with_capacity(names.len());
    for (id, name) in names {
        let link = account.state().link(id).cloned();
        let Some(link) = link else {
            found.push((account.clone(), id, name));
            continue;
        };
        let share = match accounts.open_share(account, &link).await {
            Ok(share) => share,
            // It has a key by now that is not for this account.
            Err(e) if e.kind() == Kind::NotFound => continue,
            Err(e) => {
                summary.fail(&name, None, e.to_string());
                continue;
            }
        };
        let inbox = share.state().inbox().id();
        let may = link.owner.is_none() || share.state().rights_of(account.id()).contains(Rights::READ);
        if may {
            found.push((share, inbox, name));
        }
    }
    found
}

/// A message to be written.
struct ExportedMessage {
    uid: Uid,
    message: Message,
    flags: Vec<String>,
}

impl ExportedMessage {
    fn new(state: &AccountState, row: Row) -> Option<Self> {
        let set = state.flags(row.flags);
        let system = set.system.names().map(str::to_owned);
        let keywords = set.keywords.iter().map(|id| state.keyword_name(*id).to_owned());
        let flags = system.chain(keywords).collect();
        Some(ExportedMessage { uid: row.uid, message: state.message(row.message)?, flags })
    }

    fn received(&self) -> Timestamp {
        self.message.received
    }
}

/// The messages of a mailbox by UID, those that were there at the start, a page at a time.
struct Walk {
    account: Arc<Account>,
    mailbox: MailboxId,
    next: Uid,
    end: Option<Uid>,
    page: std::vec::IntoIter<ExportedMessage>,
}

impl Walk {
    fn new(account: &Arc<Account>, mailbox: MailboxId) -> Self {
        let end = account.state().mailbox(mailbox).and_then(|m| m.all_rows().next_back()).map(|row| row.uid);
        Walk { account: account.clone(), mailbox, next: Uid::MIN, end, page: Vec::new().into_iter() }
    }

    fn next(&mut self) -> Option<ExportedMessage> {
        loop {
            if let Some(item) = self.page.next() {
                return Some(item);
            }
            let end = self.end.filter(|end| self.next <= *end)?;
            let state = self.account.state();
            let rows = state.mailbox(self.mailbox)?.rows(self.next..=end).take(PAGE_ROWS);
            let page: Vec<_> = rows.filter_map(|row| ExportedMessage::new(&state, row)).collect();
            let last = page.last()?.uid;
            // Past the largest UID there is nothing.
            match last.get().checked_add(1).and_then(Uid::new) {
                Some(next) => self.next = next,
                None => self.end = None,
            }
            drop(state);
            self.page = page.into_iter();
        }
    }
}

/// What is in a directory that an export is about to use; `None` if there is no such directory.
fn entries(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    match std::fs::read_dir(path) {
        Ok(listing) => {
            let paths: std::io::Result<Vec<_>> = listing.map(|entry| Ok(entry?.path())).collect();
            Ok(Some(paths?))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => {
            Err(named(anyhow::Error::from(owner::explained(path, e)).context(path.display().to_string())))
        }
    }
}
