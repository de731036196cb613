//! Putting messages into an account of a server: those of a copy ([`restore`]), or of another server ([`migrate`]).
//!
//! Nothing is put there twice. Which messages are there already is found out from the server alone, each time anew: by
//! Message-ID, or where there is none by size and date ([`key`]), and by how often. So there is no state that could be lost
//! or disagree, whatever ended the run before, and a message that its owner put there by other means counts too.

mod deliver;
mod key;
mod local;
mod remote;
mod target;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use sealpost_base::{Error, Result};
use sealpost_imap::types::DateTime;
use tokio::sync::{mpsc, watch};

use crate::client::{Found, Server};
use crate::keep::{Copy, Flags, FolderName};
use key::Keys;
use target::Target;

/// What is wanted.
#[derive(Clone)]
pub struct Options {
    /// Which folders, by their names.
    pub wanted: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Put everything below this folder, in levels; empty: where it was.
    pub below: Vec<String>,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Becomes true when to stop.
    pub stop: watch::Receiver<bool>,
}

/// Who is told how it goes.
pub trait Observer: Send + Sync {
    /// So many messages of the folder are to be put there.
    fn begins(&self, folder: &str, messages: u64);
    /// A message is there now, under this UID if the server says so: its folder, its UID at the source, the destination's
    /// UIDVALIDITY and UID.
    fn put(&self, folder: &str, uid: u32, there: Option<(u32, u32)>);
    /// Nothing more is done in this folder.
    fn ended(&self, folder: &FolderReport);
}

/// What was done.
#[derive(Debug, Default)]
pub struct Report {
    /// By folder.
    pub folders: Vec<FolderReport>,
    /// It was told to stop before it was done.
    pub interrupted: bool,
}

/// What was done in one folder.
#[derive(Debug, Default, Clone)]
pub struct FolderReport {
    /// Its name at the source.
    pub name: String,
    /// Messages that were put there.
    pub put: u64,
    /// Messages that were there already.
    pub there: u64,
    /// Messages that could not be put there, and why.
    pub failed: Vec<(u32, String)>,
    /// What kept the folder from being complete.
    pub error: Option<String>,
}

/// A message on its way: its head, its octets, its end. Without an end it did not arrive.
enum Item {
    Begin(Head),
    Octets(Bytes),
    End,
    /// This one cannot be had.
    Failed(u32, String),
}

/// What is known of a message before its octets.
#[derive(Debug, Clone)]
struct Head {
    uid: u32,
    flags: Flags,
    date: Option<DateTime>,
    size: u64,
}

/// Pieces that wait between source and destination.
const WAITING: usize = 8;

/// Puts a copy's messages into the account of `server`, those that are not there.
///
/// # Errors
/// What keeps it from beginning, or from going on: `Retry` if the connection is lost; then it can be run again.
pub async fn restore(
    copy: Arc<dyn Copy>,
    server: &Server,
    options: &Options,
    observer: Arc<dyn Observer>,
) -> Result<Report> {
    let mut target = Target::open(server).await?;
    let kept = local::folders(copy.clone()).await?;
    let mut report = Report::default();
    for name in kept.into_iter().filter(|name| (options.wanted)(name.as_str())) {
        let source = Source::Copy(copy.clone(), name.clone());
        folder(source, &name, &mut target, options, &observer, &mut report).await?;
        if report.interrupted {
            break;
        }
    }
    Ok(report)
}

/// Puts the messages of the account of `from` into the account of `to`, those that are not there. Messages stream from one
/// to the other.
///
/// # Errors
/// As [`restore`].
pub async fn migrate(
    from: &Server,
    to: &Server,
    options: &Options,
    observer: Arc<dyn Observer>,
) -> Result<Report> {
    let mut target = Target::open(to).await?;
    let folders = remote::folders(from).await?;
    let mut report = Report::default();
    for found in folders.into_iter().filter(|found| found.selectable && (options.wanted)(found.name.as_str()))
    {
        let name = found.name.clone();
        let source = Source::Server(Box::new((from.clone(), found)));
        folder(source, &name, &mut target, options, &observer, &mut report).await?;
        if report.interrupted {
            break;
        }
    }
    Ok(report)
}

enum Source {
    Copy(Arc<dyn Copy>, FolderName),
    Server(Box<(Server, Found)>),
}

async fn folder(
    source: Source,
    name: &FolderName,
    target: &mut Target,
    options: &Options,
    observer: &Arc<dyn Observer>,
    report: &mut Report,
) -> Result<()> {
    let mut this = FolderReport { name: name.to_string(), ..FolderReport::default() };
    let levels: Vec<String> = options.below.iter().cloned().chain(name.levels().map(str::to_owned)).collect();
    let there = target.select(&levels, options.dry_run).await;
    let done = match there {
        Ok(there) => some(source, name, there, target, options, observer, &mut this).await,
        Err(e) => Err(e),
    };
    report.interrupted = *options.stop.borrow();
    match done {
        Err(e) if e.kind() == sealpost_base::Kind::Retry => {
            observer.ended(&this);
            report.folders.push(this);
            if report.interrupted { return Ok(()) } else { return Err(e) }
        }
        Err(e) => this.error = Some(e.to_string()),
        Ok(()) => {}
    }
    observer.ended(&this);
    report.folders.push(this);
    Ok(())
}

async fn some(
    source: Source,
    name: &FolderName,
    mut there: Keys,
    target: &mut Target,
    options: &Options,
    observer: &Arc<dyn Observer>,
    report: &mut FolderReport,
) -> Result<()> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let (missing, present) = match &source {
        Source::Copy(copy, name) => local::missing(copy.clone(), name.clone(), there).await?,
        Source::Server(from) => remote::missing(&from.0, &from.1, &mut there).await?,
    };
    report.there = present;
    observer.begins(name.as_str(), missing.len() as u64);
    if options.dry_run {
        report.put = missing.len() as u64;
        return Ok(());
    }
    if missing.is_empty() {
        return Ok(());
    }
    let sending = match source {
        Source::Copy(copy, name) => {
            tokio::task::spawn_blocking(move || local::send(&*copy, &name, &missing, &sender))
        }
        Source::Server(from) => {
            tokio::spawn(async move { remote::send(&from.0, &from.1, &missing, &sender).await })
        }
    };
    let delivered = deliver::deliver(target, receiver, options.stop.clone(), &**observer, report).await;
    let sent = sending.await.map_err(|e| Error::internal("a task did not finish").with_source(e))?;
    delivered.and(sent)
}
