//! A mailbox of 10,000 or 100,000 small messages: selected, resynchronised, sorted, threaded, searched.
//!
//! Both servers import the same Maildir, so that their messages have the same numbers, and answers
//! are compared with the generated data.

use anyhow::{Context, Result, ensure};
use sealpost_bench::mail::RARE_WORD;

use super::{Bench, Measured, READER};
use crate::imap::{Imap, exists, login};
use crate::small::{Contents, SOUGHT_PERSON, SOUGHT_SUBJECT};

/// The sizes of mailboxes.
pub const SIZES: [usize; 2] = [10_000, 100_000];
/// Changes before a mailbox is selected with QRESYNC.
const CHANGES: usize = 100;

/// The operation on the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// SELECT.
    Select,
    /// SELECT with QRESYNC after 100 changes.
    Resync,
    /// SORT by this.
    Sort(&'static str),
    /// THREAD by this.
    Thread(&'static str),
    /// SEARCH FROM a person.
    From,
    /// SEARCH SUBJECT a word.
    Subject,
    /// SEARCH FLAGGED.
    Flag,
    /// SEARCH BODY a rare word.
    Body,
    /// SEARCH TEXT a rare word.
    Text,
}

impl Task {
    /// All, in the order in which they run.
    pub const ALL: [Task; 12] = [
        Task::Select,
        Task::Resync,
        Task::Sort("ARRIVAL"),
        Task::Sort("DATE"),
        Task::Sort("FROM"),
        Task::Sort("SUBJECT"),
        Task::Thread("REFERENCES"),
        Task::Flag,
        Task::From,
        Task::Subject,
        Task::Body,
        Task::Text,
    ];

    /// Its name in reports.
    pub fn name(self, messages: usize) -> String {
        let thousands = messages / 1000;
        match self {
            Task::Select => format!("SELECT of {thousands},000 small messages"),
            Task::Resync => format!("SELECT with QRESYNC of {thousands},000, after {CHANGES} changes"),
            Task::Sort(by) => format!("SORT ({by}) of {thousands},000"),
            Task::Thread(by) => format!("THREAD {by} of {thousands},000"),
            Task::From => format!("SEARCH FROM in {thousands},000"),
            Task::Subject => format!("SEARCH SUBJECT in {thousands},000"),
            Task::Flag => format!("SEARCH FLAGGED in {thousands},000"),
            Task::Body => format!("SEARCH BODY of a rare word in {thousands},000"),
            Task::Text => format!("SEARCH TEXT of a rare word in {thousands},000"),
        }
    }

    pub(super) async fn run(self, bench: &Bench, messages: usize) -> Result<Measured> {
        let contents = bench.large.iter().find(|contents| contents.messages == messages);
        let contents = contents.context("that mailbox was not filled")?;
        match self {
            Task::Select => select(bench, contents).await,
            Task::Resync => resync(bench, contents).await,
            Task::Sort(by) => numbers(bench, contents, &format!("SORT ({by}) UTF-8 ALL"), messages).await,
            Task::Thread(by) => numbers(bench, contents, &format!("THREAD {by} UTF-8 ALL"), messages).await,
            Task::From => {
                numbers(bench, contents, &format!("SEARCH FROM {SOUGHT_PERSON}@"), contents.from).await
            }
            Task::Subject => {
                numbers(bench, contents, &format!("SEARCH SUBJECT {SOUGHT_SUBJECT}"), contents.subject).await
            }
            Task::Flag => numbers(bench, contents, "SEARCH FLAGGED", contents.flagged).await,
            Task::Body => numbers(bench, contents, &format!("SEARCH BODY {RARE_WORD}"), contents.rare).await,
            Task::Text => numbers(bench, contents, &format!("SEARCH TEXT {RARE_WORD}"), contents.rare).await,
        }
    }
}

/// The mailbox of that many messages.
pub fn mailbox(messages: usize) -> String {
    format!("Small{messages}")
}

async fn selected(bench: &Bench, contents: &Contents) -> Result<Imap> {
    let mut session = login(&bench.server, READER).await?;
    let reply = session.ok(&format!("SELECT {}", mailbox(contents.messages))).await?;
    let count = exists(&reply)?;
    ensure!(count as usize == contents.messages, "{} has {count} messages", mailbox(contents.messages));
    Ok(session)
}

/// Warm: the session had another mailbox selected.
async fn select(bench: &Bench, contents: &Contents) -> Result<Measured> {
    let mut session = selected(bench, contents).await?;
    session.ok("SELECT INBOX").await?;
    let meter = bench.begin();
    session.ok(&format!("SELECT {}", mailbox(contents.messages))).await?;
    Ok(meter.end())
}

async fn resync(bench: &Bench, contents: &Contents) -> Result<Measured> {
    let name = mailbox(contents.messages);
    let mut session = login(&bench.server, READER).await?;
    session.ok("ENABLE QRESYNC").await?;
    let reply = session.ok(&format!("SELECT {name}")).await?;
    let validity = reply.code("UIDVALIDITY").context("no UIDVALIDITY")?;
    let modseq = reply.code("HIGHESTMODSEQ").context("no HIGHESTMODSEQ")?;
    session.ok("SELECT INBOX").await?;
    let mut other = selected(bench, contents).await?;
    let step = contents.messages / CHANGES;
    let changed: Vec<String> = (0..CHANGES).map(|nth| (nth * step + 1).to_string()).collect();
    let changed = changed.join(",");
    other.count(&format!("STORE {changed} +FLAGS (\\Answered)")).await?;
    let meter = bench.begin();
    let tally = session.count(&format!("SELECT {name} (QRESYNC ({validity} {modseq}))")).await?;
    let measured = meter.end();
    ensure!(tally.fetches == CHANGES as u64, "the server reported {} of {CHANGES} changes", tally.fetches);
    other.count(&format!("STORE {changed} -FLAGS.SILENT (\\Answered)")).await?;
    Ok(measured)
}

/// A command whose answer has this many numbers.
async fn numbers(bench: &Bench, contents: &Contents, command: &str, expected: usize) -> Result<Measured> {
    let mut session = selected(bench, contents).await?;
    let meter = bench.begin();
    let reply = session.ok(command).await?;
    let measured = meter.end();
    let verb = command.split(' ').next().unwrap_or_default();
    let answer = reply.untagged.iter().find_map(|line| line.strip_prefix(verb.as_bytes()));
    let answer = answer.unwrap_or_default();
    let found = answer.split(|b| !b.is_ascii_digit()).filter(|number| !number.is_empty()).count();
    ensure!(found == expected, "{command}: {found} messages instead of {expected}");
    Ok(measured)
}
