//! What a check found.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealpost_base::{Clock, Error, Kind};
use sealpost_files::owner;
use serde::Serialize;

use crate::output::{Output, counted};

/// Problems that are kept for the JSON; all are counted.
const PROBLEMS_LISTED: usize = 10_000;
/// How long a check runs before it shows how far it is.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// Where a problem is.
#[derive(Debug, Clone)]
pub enum Location {
    /// With the account as a whole.
    Account,
    /// With this object.
    Object(String),
}

/// One thing that is wrong.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    /// Whose, if it is an account's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where users see it: mailboxes with UIDs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seen_as: Vec<String>,
    /// Whether bytes are damaged or missing. Otherwise they could not be read, and may be sound.
    pub damage: bool,
    /// What is wrong, in plain words.
    pub problem: String,
}

/// What is wrong, in plain words, and whether it is damage.
#[derive(Debug, Clone)]
pub struct Trouble {
    text: String,
    is_damage: bool,
}

impl Trouble {
    /// What keeps this check from telling whether something is damaged.
    pub fn unread(text: impl Display) -> Self {
        Trouble { text: text.to_string(), is_damage: false }
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Trouble { text, is_damage: true }
    }
}

impl From<&str> for Trouble {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Error> for Trouble {
    /// A store that fails, or a file that this user may not read, is no damage.
    fn from(e: Error) -> Self {
        let is_damage = e.kind() != Kind::Retry && !owner::is_denied(&e);
        Trouble { text: e.to_string(), is_damage }
    }
}

/// A problem of the account that is being checked.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Where.
    pub at: Location,
    /// What.
    pub trouble: Trouble,
}

impl Finding {
    /// Something wrong with the object at `path`.
    pub fn object(path: impl Into<String>, trouble: impl Into<Trouble>) -> Self {
        Finding { at: Location::Object(path.into()), trouble: trouble.into() }
    }

    /// Whether the object could not be read, and may be sound.
    pub fn is_unread(&self) -> bool {
        !self.trouble.is_damage
    }
}

/// How much was checked.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    /// Versions of account and alias records.
    pub records: u64,
    /// Accounts.
    pub accounts: u64,
    /// Shared mailboxes, which have logs of their own.
    pub shares: u64,
    /// Accounts checked with their key.
    pub unlocked: u64,
    /// Log entries.
    pub log_entries: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Messages read back.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
    /// Message objects of which only the end was checked, without a key.
    pub sealed_objects: u64,
    /// Slots of accounts checked with their key that have no tag, from before there were tags.
    pub unverified_slots: u64,
    /// Index segments.
    pub index_segments: u64,
    /// Messages with evicted bodies: all else of them was checked.
    pub evicted: u64,
    /// Message objects that nothing refers to.
    pub orphans: u64,
    /// Their bytes.
    pub orphan_bytes: u64,
    /// Objects of accounts that no record names.
    pub unclaimed: u64,
    /// Queues of outbound mail.
    pub queues: u64,
    /// Mails in them.
    pub queued: u64,
}

/// The report, as it grows.
pub struct Report {
    output: Output,
    clock: Arc<dyn Clock>,
    started: Duration,
    bar: ProgressBar,
    account: Option<String>,
    problems: Vec<Problem>,
    damaged: u64,
    unread: u64,
    without_key: Vec<String>,
    repair: bool,
    /// How much was checked.
    pub totals: Totals,
}

#[derive(Serialize)]
struct CheckDocument<'a> {
    ok: bool,
    problem_count: u64,
    /// Those of them that are no damage: what could not be read.
    unread_count: u64,
    problems: &'a [Problem],
    /// Whether `sealpost store repair` is needed.
    needs_repair: bool,
    /// Accounts of which only what needs no key was checked.
    without_key: &'a [String],
    checked: &'a Totals,
}

impl Report {
    /// Nothing found yet.
    pub fn new(output: Output, clock: Arc<dyn Clock>) -> Self {
        let started = clock.monotonic();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Report {
            output,
            clock,
            started,
            bar,
            account: None,
            problems: Vec::new(),
            damaged: 0,
            unread: 0,
            without_key: Vec::new(),
            repair: false,
            totals: Totals::default(),
        }
    }

    /// What is found from now on is this account's.
    pub fn begin(&mut self, account: &str) {
        self.account = Some(account.to_owned());
        self.bar.set_message(account.to_owned());
    }

    /// What is wrong is something that a repair of the store mends.
    pub fn advise_repair(&mut self) {
        self.repair = true;
    }

    /// What is found from now on is no account's.
    pub fn end_accounts(&mut self) {
        self.account = None;
    }

    /// This account was checked without its key.
    pub fn sealed(&mut self, account: &str) {
        self.without_key.push(account.to_owned());
    }

    /// So many messages are to come.
    pub fn expect(&mut self, messages: usize) {
        self.bar.set_length(messages as u64);
        self.bar.set_position(0);
    }

    /// Shows how far it is, once that is worth it.
    pub fn progress(&mut self) {
        self.bar.inc(1);
        let late = self.clock.monotonic().saturating_sub(self.started) > PROGRESS_AFTER;
        if self.bar.is_hidden() && late && self.output.shows_progress() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            if let Ok(style) =
                ProgressStyle::with_template("{bar:30} {pos} of {len} messages of {msg}, {eta} left")
            {
                self.bar.set_style(style);
            }
        }
    }

    /// Something is wrong.
    pub fn found(&mut self, at: Location, trouble: impl Into<Trouble>) {
        self.add(at, Vec::new(), trouble);
    }

    /// Something is wrong with a message that users see in these places.
    pub fn add(&mut self, at: Location, seen_as: Vec<String>, trouble: impl Into<Trouble>) {
        let path = match at {
            Location::Account => None,
            Location::Object(path) => Some(path),
        };
        let Trouble { text, is_damage } = trouble.into();
        let account = self.account.clone();
        let problem = Problem { account, path, seen_as, damage: is_damage, problem: text };
        *(if is_damage { &mut self.damaged } else { &mut self.unread }) += 1;
        if !self.output.is_json() {
            let line = problem.line();
            // A closed output is noticed at the end.
            self.bar.suspend(|| drop(self.output.line(line)));
        }
        if self.problems.len() < PROBLEMS_LISTED {
            self.problems.push(problem);
        }
    }

    /// What was found so far.
    #[cfg(test)]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Several things are wrong.
    pub fn take(&mut self, findings: Vec<Finding>) {
        findings.into_iter().for_each(|finding| self.found(finding.at, finding.trouble));
    }

    /// The value, or the error as a problem.
    pub fn note<T>(&mut self, at: Location, result: sealpost_base::Result<T>) -> Option<T> {
        result.map_err(|e| self.found(at, e)).ok()
    }

    /// Prints what is left to print; whether nothing was wrong.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn finish(self) -> Result<bool> {
        self.bar.finish_and_clear();
        let problem_count = self.damaged + self.unread;
        let ok = problem_count == 0;
        let whole = CheckDocument {
            ok,
            problem_count,
            unread_count: self.unread,
            problems: &self.problems,
            needs_repair: self.repair,
            without_key: &self.without_key,
            checked: &self.totals,
        };
        match ok {
            true => self.output.done(&whole, CheckDocument::text)?,
            false => self.output.show(&whole, CheckDocument::text)?,
        }
        if !self.without_key.is_empty() {
            let (shown, more) = match self.without_key.len() {
                n if n > 5 => (&self.without_key[..5], format!(" and {} more", n - 5)),
                _ => (&self.without_key[..], String::new()),
            };
            self.output.note(format_args!(
                "without a password, check verified only the chain of the log and the ends of the existing \
                 messages, not their contents and not whether messages are missing, of {}{more}",
                shown.join(", ")
            ));
        }
        Ok(ok)
    }
}

impl Problem {
    fn line(&self) -> String {
        let mut line = String::new();
        if let Some(account) = &self.account {
            line.push_str(&format!("{account}: "));
        }
        if !self.seen_as.is_empty() {
            line.push_str(&format!("{}: ", self.seen_as.join(", ")));
        }
        if let Some(path) = self.path.as_ref().filter(|path| !self.problem.contains(path.as_str())) {
            line.push_str(&format!("{path}: "));
        }
        line + &self.problem
    }
}

impl CheckDocument<'_> {
    fn text(&self) -> String {
        let t = self.checked;
        let mut text = format!(
            "checked {}, {} with {}: {}, {}, {}, {}\n",
            counted(t.accounts, "account", "accounts"),
            HumanCount(t.unlocked),
            if t.unlocked == 1 { "its key" } else { "their keys" },
            counted(t.records, "record", "records"),
            counted(t.log_entries, "log entry", "log entries"),
            counted(t.checkpoints, "checkpoint", "checkpoints"),
            counted(t.messages, "message", "messages")
        );
        if t.unverified_slots > 0 {
            text.push_str(&format!(
                "{} passwords, app passwords or recovery codes are from an earlier version and not verified: the next login \
                 with each verifies it; make new recovery codes\n",
                t.unverified_slots
            ));
        }
        if t.shares > 0 {
            text.push_str(&format!(
                "{}, with the owner's key\n",
                counted(t.shares, "shared mailbox", "shared mailboxes")
            ));
        }
        if t.evicted > 0 {
            text.push_str(&format!("{} with an evicted body\n", counted(t.evicted, "message", "messages")));
        }
        if t.orphans > 0 {
            let size = super::super::stats::bytes(t.orphan_bytes);
            text.push_str(&format!(
                "{} ({size}) without references\n",
                counted(t.orphans, "message object", "message objects")
            ));
        }
        if t.unclaimed > 0 {
            text.push_str(&format!(
                "{} of accounts that no record names\n",
                counted(t.unclaimed, "object", "objects")
            ));
        }
        if t.queues > 0 {
            text.push_str(&format!(
                "{} with {}\n",
                counted(t.queues, "queue", "queues"),
                counted(t.queued, "mail", "mails")
            ));
        }
        let damaged = self.problem_count - self.unread_count;
        text.push_str(&match (damaged, self.unread_count) {
            (0, 0) => "no damage found".to_owned(),
            (0, n) => {
                let objects = counted(n, "object", "objects");
                format!("{objects} could not be read or checked; this is no sign of damage")
            }
            (n, 0) => format!("{} found", counted(n, "problem", "problems")),
            (n, m) => {
                let (problems, objects) =
                    (counted(n, "problem", "problems"), counted(m, "object", "objects"));
                format!("{problems} found; {objects} could not be read, which is no sign of damage")
            }
        });
        if self.needs_repair {
            text.push_str("\nrepair the database first: stop the server, and run sealpost store repair");
        }
        if damaged > 0 {
            text.push_str(
                "\nrestore missing objects from a backup: sealpost backup BACKUP STORE. Remove damaged \
                 objects first (docs/guide/troubleshooting.md)",
            );
        }
        text
    }
}
