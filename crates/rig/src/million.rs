//! A mailbox of a million small messages in a server with a memory limit: filled, opened,
//! synchronized, searched and changed, with the time of each step and the server's peak resident
//! set.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sealpost_base::{SeededRandom, SystemClock};
use sealpost_bench::process::{Every, Sampler};
use sealpost_bench::words;

use crate::imap::{Imap, exists, login};
use crate::server::{Configured, STOP_TIMEOUT, Sealpost, Server, start};

const ACCOUNT: &str = "million@localhost";
const MAILBOX: &str = "Archive";
/// Messages of one APPEND.
const AT_ONCE: u32 = 1000;
/// Messages between two progress lines of the fill.
const SAY_EVERY: u32 = 20_000;
/// Messages of COPY and MOVE.
const SOME: u32 = 1000;
/// One in so many messages is flagged, one in so many unseen, one in so many from [`SOUGHT`] with
/// the word.
const FLAGGED_EVERY: u32 = 50;
const UNSEEN_EVERY: u32 = 10;
const SOUGHT_EVERY: u32 = 1000;
const SOUGHT: &str = "yvonne.larch";
const RARE: &str = "zymurgical";

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The sealpost binary.
    pub sealpost: PathBuf,
    /// How many messages.
    pub messages: u32,
    /// The server's memory limit.
    pub memory: String,
    /// Fail when the server's peak is above this, in MiB.
    pub limit_mib: u64,
}

/// Small messages, deterministic.
struct Mail {
    random: SeededRandom,
    words: Vec<&'static str>,
}

impl Mail {
    fn new() -> Self {
        Mail { random: SeededRandom::new(11), words: words::list() }
    }

    fn word(&self) -> &'static str {
        self.words[self.random.below(self.words.len() as u64) as usize]
    }

    fn text(&self, words: u64) -> String {
        let words: Vec<_> = (0..words).map(|_| self.word()).collect();
        words.join(" ")
    }

    /// Flags and date in the syntax of APPEND, and the message. A few are longer than the others.
    fn message(&self, nth: u32) -> (String, Vec<u8>) {
        let seen = if nth.is_multiple_of(UNSEEN_EVERY) { "" } else { "\\Seen" };
        let flagged = if nth % FLAGGED_EVERY == 7 { " \\Flagged" } else { "" };
        let about = format!("({}) {}", format!("{seen}{flagged}").trim(), date(nth));
        let sought = nth % SOUGHT_EVERY == 5;
        let from = if sought { SOUGHT.to_owned() } else { format!("{}.{}", self.word(), self.word()) };
        let rare = if sought { RARE } else { "" };
        let words = if nth % 20 == 3 { 300 } else { 8 + self.random.below(40) };
        let message = format!(
            "From: {from}@bench.example\r\nTo: {ACCOUNT}\r\nSubject: {}\r\nMessage-ID: <{nth}@bench.example>\r\n\r\n{} {rare}\r\n",
            self.text(4),
            self.text(words),
        );
        (about, message.into_bytes())
    }
}

/// Some minutes after the previous message, over ten years; in IMAP syntax.
fn date(nth: u32) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let minutes = u64::from(nth) * 5 + u64::from(nth.wrapping_mul(2_654_435_761) % 5);
    let (days, minute) = (minutes / 1440, minutes % 1440);
    let (year, month, day) = (2015 + days / 336, days / 28 % 12, days % 28 + 1);
    let (hours, minutes, seconds) = (minute / 60, minute % 60, nth % 60);
    format!("\"{day:02}-{}-{year} {hours:02}:{minutes:02}:{seconds:02} +0000\"", MONTHS[month as usize])
}

struct Steps {
    sampler: Sampler,
    clock: SystemClock,
    limit_mib: u64,
    exceeded: Vec<String>,
}

impl Steps {
    fn of(server: &Server, limit_mib: u64) -> Self {
        let often = Every { usage: Duration::from_millis(20), memory: Duration::from_millis(20) };
        let clock = SystemClock::new();
        let sampler = Sampler::start(server.tree, often, clock.clone());
        Steps { sampler, clock, limit_mib, exceeded: Vec::new() }
    }

    async fn run<T>(&mut self, name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let (value, seconds, used) = self.sampler.measured(&self.clock, work).await;
        let value = value.with_context(|| name.to_owned())?;
        let (peak, cpu) = (used.peak_bytes >> 20, used.cpu_seconds);
        println!("| {name} | {seconds:.3} s | {cpu:.2} s | {peak} MiB |");
        if peak > self.limit_mib {
            self.exceeded.push(format!("{name}: {peak} MiB"));
        }
        Ok(value)
    }

    /// A command that must be answered with OK; returns the number of untagged responses.
    async fn ok(&mut self, imap: &mut Imap, command: &str) -> Result<u64> {
        Ok(self.run(command, imap.count(command)).await?.responses)
    }

    /// A command that may be refused for its size, which is reported.
    async fn may(&mut self, imap: &mut Imap, command: &str) -> Result<()> {
        let reply = self.run(command, imap.run(command)).await?;
        if !reply.is_ok() {
            println!("|   refused: {} | | | |", reply.status);
            ensure!(reply.status.starts_with("NO [LIMIT]"), "{command}: {}", reply.status);
        }
        Ok(())
    }
}

/// Runs all steps; fails if a result is wrong, or the peak is above the limit.
pub async fn main(options: Options, dir: &Path) -> Result<()> {
    ensure!(options.messages >= 3000, "that few are no test: at least 3,000 messages");
    let server = Configured {
        sealpost: Sealpost { path: options.sealpost.clone(), memory: None },
        lines: format!("memory = \"{}\"\n", options.memory),
        data_limit_mib: None,
    };
    let data = dir.join("data");
    let accounts = [ACCOUNT.to_owned()];
    let begin = || start(&server, &data, &accounts);
    println!("| step, {} messages, memory = {} | wall | CPU | peak RSS |", options.messages, options.memory);
    println!("|---|---:|---:|---:|");
    let filling = begin().await?;
    let mut steps = Steps::of(&filling, options.limit_mib);
    let mut imap = login(&filling, ACCOUNT).await?;
    let there = exists(&imap.ok(&format!("EXAMINE {MAILBOX}")).await?)?;
    imap.ok("UNSELECT").await?;
    steps.run("fill by APPEND, 1,000 at a time", fill(&mut imap, there, options.messages)).await?;
    filling.stop(STOP_TIMEOUT).await?;
    let mut exceeded = steps.exceeded;

    let again = begin().await?;
    let mut steps = Steps::of(&again, options.limit_mib);
    let mut imap = login(&again, ACCOUNT).await?;
    look(&mut steps, &mut imap, options.messages).await?;
    synchronize(&mut steps, &again, &mut imap).await?;
    change(&mut steps, &mut imap, options.messages).await?;
    again.stop(STOP_TIMEOUT).await?;
    exceeded.append(&mut steps.exceeded);
    ensure!(exceeded.is_empty(), "over the limit of {} MiB: {}", options.limit_mib, exceeded.join("; "));
    Ok(())
}

async fn fill(imap: &mut Imap, there: u32, messages: u32) -> Result<()> {
    let mail = Mail::new();
    for first in (there..messages).step_by(AT_ONCE as usize) {
        let batch: Vec<_> = (first..(first + AT_ONCE).min(messages)).map(|nth| mail.message(nth)).collect();
        let reply = imap.append_all(MAILBOX, &batch).await?;
        ensure!(reply.is_ok(), "{}", reply.status);
        let done = first + batch.len() as u32;
        if done.is_multiple_of(SAY_EVERY) {
            eprintln!("  {done} of {messages} messages are there");
        }
    }
    Ok(())
}

async fn look(steps: &mut Steps, imap: &mut Imap, messages: u32) -> Result<()> {
    let select = format!("SELECT {MAILBOX}");
    let reply = steps.run("SELECT, not loaded", imap.ok(&select)).await?;
    ensure!(exists(&reply)? == messages, "{messages} messages were stored, {} are there", exists(&reply)?);
    steps.run("SELECT, loaded", imap.ok(&select)).await?;
    steps.ok(imap, "STATUS Archive (MESSAGES UNSEEN SIZE)").await?;
    let fetched = steps.ok(imap, "FETCH 1:1000 ALL").await?;
    ensure!(fetched >= u64::from(messages.min(1000)), "{fetched} responses");
    let fetched = steps.ok(imap, "UID FETCH 1:* (FLAGS)").await?;
    ensure!(fetched >= u64::from(messages), "{fetched} responses");
    for (criteria, expected) in [
        ("ALL".to_owned(), messages),
        ("FLAGGED".to_owned(), every(messages, FLAGGED_EVERY, 7)),
        ("UNSEEN".to_owned(), every(messages, UNSEEN_EVERY, 0)),
        (format!("FROM {SOUGHT}"), every(messages, SOUGHT_EVERY, 5)),
        (format!("BODY {RARE}"), every(messages, SOUGHT_EVERY, 5)),
        (format!("TEXT {RARE}"), every(messages, SOUGHT_EVERY, 5)),
    ] {
        let command = format!("SEARCH RETURN (COUNT) {criteria}");
        let reply = steps.run(&command, imap.ok(&command)).await?;
        let counted = reply
            .untagged
            .iter()
            .any(|line| String::from_utf8_lossy(line).trim_end().ends_with(&format!("COUNT {expected}")));
        ensure!(counted, "{command}: not {expected} but {:?}", reply.untagged.len());
    }
    steps.ok(imap, "UID SEARCH ALL").await?;
    steps.ok(imap, "SEARCH RETURN (SAVE) ALL").await?;
    steps.ok(imap, "SEARCH RETURN (COUNT) $ FLAGGED").await?;
    for command in
        ["SORT RETURN (COUNT) (REVERSE ARRIVAL) UTF-8 ALL", "SORT RETURN (COUNT) (SUBJECT) UTF-8 ALL"]
    {
        steps.may(imap, command).await?;
    }
    steps.may(imap, "THREAD REFERENCES UTF-8 ALL").await
}

/// How many of the numbers below `messages` have that remainder.
fn every(messages: u32, each: u32, rest: u32) -> u32 {
    (messages + each - 1).saturating_sub(rest) / each
}

/// A client returns after others have changed the mailbox.
async fn synchronize(steps: &mut Steps, server: &Server, imap: &mut Imap) -> Result<()> {
    let mut away = login(server, ACCOUNT).await?;
    away.ok("ENABLE QRESYNC").await?;
    let reply = away.ok(&format!("SELECT {MAILBOX}")).await?;
    let validity = reply.code("UIDVALIDITY").context("no UIDVALIDITY")?;
    let modseq = reply.code("HIGHESTMODSEQ").context("no HIGHESTMODSEQ")?;
    away.ok("UNSELECT").await?;
    imap.ok("STORE 1:1000 +FLAGS.SILENT (\\Answered)").await?;
    imap.ok("STORE 1001:1100 +FLAGS.SILENT (\\Deleted)").await?;
    imap.ok("EXPUNGE").await?;
    let select = format!("SELECT {MAILBOX} (QRESYNC ({validity} {modseq}))");
    let fetched = steps.run("SELECT (QRESYNC), 1,000 changed, 100 gone", away.count(&select)).await?.fetches;
    ensure!(fetched >= 1000, "the server reported {fetched} of 1,000 changes");
    away.ok("UNSELECT").await?;
    imap.ok("STORE 1:* +FLAGS.SILENT ($Forwarded)").await?;
    let fetched = steps.run("SELECT (QRESYNC), all changed", away.count(&select)).await?.fetches;
    ensure!(fetched > 1000, "the server reported {fetched} changes");
    Ok(())
}

async fn change(steps: &mut Steps, imap: &mut Imap, messages: u32) -> Result<()> {
    steps.ok(imap, "STORE 1:* +FLAGS.SILENT (\\Seen)").await?;
    steps.ok(imap, "STORE 1:* +FLAGS (\\Answered)").await?;
    steps.ok(imap, &format!("COPY 1:{SOME} Drafts")).await?;
    steps.ok(imap, &format!("MOVE 1:{SOME} Drafts")).await?;
    steps.ok(imap, "COPY 1:* Junk").await?;
    steps.ok(imap, "MOVE 1:* Trash").await?;
    imap.ok("SELECT Trash").await?;
    steps.ok(imap, "STORE 1:* +FLAGS.SILENT (\\Deleted)").await?;
    let told = steps.ok(imap, "EXPUNGE").await?;
    ensure!(told > 0 && messages > 0, "the server reported nothing");
    let reply = imap.ok("SELECT Trash").await?;
    ensure!(exists(&reply)? == 0, "{} are left", exists(&reply)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_deterministic_and_match_the_expected_counts() {
        let (one, other) = (Mail::new(), Mail::new());
        let all: Vec<_> = (0..3000).map(|nth| one.message(nth)).collect();
        assert!(all.iter().zip(0..).all(|(message, nth)| *message == other.message(nth)));
        let count = |sought: &str| {
            all.iter().filter(|(about, text)| about.contains(sought) || find(text, sought)).count() as u32
        };
        assert_eq!(count("\\Flagged"), every(3000, FLAGGED_EVERY, 7));
        assert_eq!(count(RARE), every(3000, SOUGHT_EVERY, 5));
        assert_eq!(3000 - count("\\Seen"), every(3000, UNSEEN_EVERY, 0));
        assert_eq!(date(0), "\"01-Jan-2015 00:00:00 +0000\"");
    }

    fn find(text: &[u8], sought: &str) -> bool {
        memchr::memmem::find(text, sought.as_bytes()).is_some()
    }
}
