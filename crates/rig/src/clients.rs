//! Commands of real clients: every FETCH and SEARCH of a published trace, over whole mailboxes,
//! beside Dovecot in the same state.
//!
//! Each server imports the same Maildir: distinct messages, in two lengths ([`Mailbox`]). Every
//! command is measured in three states:
//!
//! - **first**: the first time in this mailbox;
//! - **cold**: the server was just started, and none of its files is in the page cache;
//! - **warm**: in rounds of all commands over one connection, servers in turn, so that a cache must
//!   hold the data of all commands;
//! - with a writer, **beside**: as warm, while another client flags, delivers and moves messages of
//!   the mailbox.
//!
//! Responses are counted, not kept ([`Imap::count`]).

mod page_cache;
mod report;
mod writer;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::load::data::{DataSet, Format, write};
use sealpost_bench::trace::{self, Shape};

use crate::cases::READER;
use crate::imap::{Imap, exists, login};
use crate::server::{Dovecot, STOP_TIMEOUT, Sealpost, Server, Target};

pub use report::Report;
use report::{MailboxReport, Row};

/// The mailbox that is read.
const NAME: &str = "Trace";
/// The mailbox into which the writer files messages.
const ASIDE: &str = "Aside";
/// Memory limits that Sealpost is measured with.
pub const MEMORIES: [&str; 2] = ["64MiB", "256MiB"];

/// Messages of some length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    /// The data set: `small`, `personal`.
    pub mail: String,
    /// How many.
    pub messages: u64,
}

impl std::str::FromStr for Mailbox {
    type Err = String;

    /// Reads `small:10000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(mail, messages)| Some((mail, messages.parse().ok()?)));
        match parts {
            Some((mail, messages @ 1..)) if !mail.is_empty() => {
                Ok(Mailbox { mail: mail.to_owned(), messages })
            }
            _ => Err("a data set and how many messages, such as small:10000".into()),
        }
    }
}

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// The sealpost binary.
    pub sealpost: PathBuf,
    /// Memory limits that it is measured with.
    pub memories: Vec<&'static str>,
    /// Measure Dovecot too.
    pub dovecot: bool,
    /// Which mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// Measured runs, warm and beside a writer.
    pub runs: usize,
    /// Measured runs of each command after a restart; 0: that state is left out.
    pub cold_runs: usize,
    /// Rounds a second of the writer; `None`: that state is left out.
    pub writes: Option<f64>,
    /// Only commands that contain one of these.
    pub only: Vec<String>,
    /// Where the servers keep their data.
    pub dir: PathBuf,
    /// The seed of the generated mail.
    pub seed: u64,
}

/// A server with its mailbox.
struct Contestant {
    target: Target,
    label: String,
    dir: PathBuf,
    server: Option<Server>,
}

impl Contestant {
    fn new(target: Target, label: &str, dir: &Path) -> Self {
        let dir = dir.join(label.to_lowercase().replace(' ', "-"));
        Contestant { target, label: label.to_owned(), dir, server: None }
    }

    async fn start(&mut self) -> Result<()> {
        self.server = Some(self.target.start(&self.dir, &[READER.to_owned()]).await?);
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        if let Some(server) = self.server.take() {
            server.stop(STOP_TIMEOUT).await?;
        }
        Ok(())
    }

    fn server(&self) -> Result<&Server> {
        self.server.as_ref().context("it does not run")
    }

    /// A session with the mailbox selected.
    async fn selected(&self, messages: u64) -> Result<Session> {
        let mut imap = login(self.server()?, READER).await?;
        let reply = imap.ok(&format!("SELECT {NAME}")).await?;
        let count = exists(&reply)?;
        ensure!(u64::from(count) == messages, "{}: {count} messages instead of {messages}", self.label);
        let modseq = reply.code("HIGHESTMODSEQ").unwrap_or_else(|| "1".into());
        Ok(Session { imap, modseq })
    }
}

/// A client that reads.
struct Session {
    imap: Imap,
    /// HIGHESTMODSEQ when it selected the mailbox.
    modseq: String,
}

impl Session {
    /// Milliseconds and bytes of one command; `messages`: how many FETCH responses must come.
    async fn timed(&mut self, shape: &Shape, messages: Option<u64>) -> Result<(f64, u64)> {
        let command = shape.command.replace("{modseq}", &self.modseq);
        let clock = SystemClock::new();
        let start = clock.monotonic();
        let tally = self.imap.count(&command).await?;
        let ms = (clock.monotonic() - start).as_secs_f64() * 1e3;
        if let Some(expected) = messages.and_then(|messages| shape.fetches(messages)) {
            ensure!(
                tally.fetches == expected,
                "{command}: {} responses instead of {expected}",
                tally.fetches
            );
        }
        Ok((ms, tally.bytes))
    }
}

/// Measures everything.
///
/// # Errors
/// If a server cannot be started or filled, or answers wrongly.
pub async fn measure(options: &Options) -> Result<Report> {
    let shapes: Vec<Shape> = trace::reading().into_iter().filter(|shape| options.selects(shape)).collect();
    ensure!(!shapes.is_empty(), "no command matches");
    let mut report = Report::begin(options);
    for mailbox in &options.mailboxes {
        let dir = options.dir.join(format!("{}-{}", mailbox.mail, mailbox.messages));
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        let measured = one(options, mailbox, &shapes, &dir).await;
        report.mailboxes.push(measured.with_context(|| format!("{} {}", mailbox.messages, mailbox.mail))?);
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(report)
}

impl Options {
    fn selects(&self, shape: &Shape) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| shape.command.contains(part.as_str()))
    }

    fn contestants(&self, dir: &Path) -> Vec<Contestant> {
        let ours = self.memories.iter().map(|memory| {
            let sealpost = Sealpost { path: self.sealpost.clone(), memory: Some(memory) };
            Contestant::new(Target::Sealpost(sealpost), memory, dir)
        });
        let dovecot =
            self.dovecot.then(|| Contestant::new(Target::Dovecot(Dovecot::default()), "Dovecot", dir));
        ours.chain(dovecot).collect()
    }
}

async fn one(options: &Options, mailbox: &Mailbox, shapes: &[Shape], dir: &Path) -> Result<MailboxReport> {
    let maildir = dir.join("maildir");
    std::fs::create_dir_all(dir)?;
    // Dovecot's mail user must be able to reach its directory below.
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    eprintln!("{} {} messages: writing", mailbox.messages, mailbox.mail);
    let data = DataSet::open(&mailbox.mail, options.seed)?;
    let bytes = write(&data, mailbox.messages, Format::Maildir, &maildir)?;
    let mut contestants = options.contestants(dir);
    for contestant in &mut contestants {
        eprintln!("  {}: importing", contestant.label);
        contestant.start().await?;
        contestant.target.import(&contestant.dir, READER, NAME, &maildir)?;
    }
    std::fs::remove_dir_all(&maildir)?;
    let labels = contestants.iter().map(|contestant| contestant.label.clone()).collect();
    let mut report = MailboxReport::new(mailbox, bytes, labels, shapes);
    first(&mut contestants, mailbox, &mut report.rows).await?;
    warm(options, &mut contestants, mailbox, &mut report.rows).await?;
    if options.cold_runs > 0 {
        cold(options, &mut contestants, mailbox, &mut report.rows).await?;
    }
    if let Some(rate) = options.writes {
        beside(options, &mut contestants, mailbox, rate, &data, &mut report.rows).await?;
    }
    for contestant in &mut contestants {
        contestant.stop().await?;
    }
    Ok(report)
}

/// Every command for the first time; checks that all servers send as many responses.
async fn first(contestants: &mut [Contestant], mailbox: &Mailbox, rows: &mut [Row]) -> Result<()> {
    for (nth, contestant) in contestants.iter().enumerate() {
        eprintln!("  {}: first time", contestant.label);
        let mut session = contestant.selected(mailbox.messages).await?;
        for row in rows.iter_mut() {
            let (ms, bytes) = session.timed(&row.shape, Some(mailbox.messages)).await?;
            row.servers[nth].first_ms = Some(ms);
            row.servers[nth].bytes = bytes;
        }
    }
    Ok(())
}

async fn warm(
    options: &Options,
    contestants: &mut [Contestant],
    mailbox: &Mailbox,
    rows: &mut [Row],
) -> Result<()> {
    let mut sessions = Vec::new();
    for contestant in contestants.iter() {
        sessions.push(contestant.selected(mailbox.messages).await?);
    }
    for run in 0..options.runs {
        eprintln!("  warm, run {} of {}", run + 1, options.runs);
        for row in rows.iter_mut() {
            for (nth, session) in sessions.iter_mut().enumerate() {
                let (ms, _) = session.timed(&row.shape, Some(mailbox.messages)).await?;
                row.servers[nth].warm_ms.push(ms);
            }
        }
    }
    Ok(())
}

/// One server runs at a time, and is restarted for each command.
async fn cold(
    options: &Options,
    contestants: &mut [Contestant],
    mailbox: &Mailbox,
    rows: &mut [Row],
) -> Result<()> {
    for contestant in contestants.iter_mut() {
        contestant.stop().await?;
    }
    for run in 0..options.cold_runs {
        eprintln!("  cold, run {} of {}", run + 1, options.cold_runs);
        for row in rows.iter_mut() {
            for (nth, contestant) in contestants.iter_mut().enumerate() {
                page_cache::forget(&contestant.dir)?;
                contestant.start().await?;
                let mut session = contestant.selected(mailbox.messages).await?;
                let (ms, _) = session.timed(&row.shape, Some(mailbox.messages)).await?;
                row.servers[nth].cold_ms.push(ms);
                drop(session);
                contestant.stop().await?;
            }
        }
    }
    for contestant in contestants.iter_mut() {
        contestant.start().await?;
    }
    Ok(())
}

/// One server after the other: writers of all would share the machine with the measured server.
async fn beside(
    options: &Options,
    contestants: &mut [Contestant],
    mailbox: &Mailbox,
    rate: f64,
    data: &DataSet,
    rows: &mut [Row],
) -> Result<()> {
    for (nth, contestant) in contestants.iter().enumerate() {
        eprintln!("  {}: beside a writer", contestant.label);
        let mut other = login(contestant.server()?, READER).await?;
        other.ok(&format!("CREATE {ASIDE}")).await?;
        let mut session = contestant.selected(mailbox.messages).await?;
        other.ok(&format!("SELECT {NAME}")).await?;
        let reads = async {
            for _ in 0..options.runs {
                for row in rows.iter_mut() {
                    session.imap.ok("NOOP").await?;
                    match session.timed(&row.shape, None).await {
                        Ok((ms, _)) => row.servers[nth].beside_ms.push(ms),
                        // Moved between NOOP and the command (RFC 5530 §3).
                        Err(error) if error.to_string().contains("[EXPUNGEISSUED]") => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            anyhow::Ok(())
        };
        tokio::select! {
            read = reads => read?,
            stopped = writer::write(&mut other, mailbox.messages, rate, data) => stopped?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailboxes_are_named_by_data_set_and_size() {
        let small = Mailbox { mail: "small".into(), messages: 10_000 };
        assert_eq!("small:10000".parse(), Ok(small));
        for wrong in ["small", "small:0", ":5", "small:x"] {
            assert!(wrong.parse::<Mailbox>().is_err(), "{wrong}");
        }
    }
}
