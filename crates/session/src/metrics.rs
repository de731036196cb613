//! Metrics of the server: counted where the work is done, read for `/metrics` and the admin socket.
//!
//! Nothing here takes a lock while it counts, and no label comes from outside: protocols, commands
//! and results are fixed tables, so the number of series is bounded. Names of users and addresses
//! are in no metric; [`crate::sessions`] has them, for the operator only. The server describes each
//! metric where it publishes them.

use std::sync::{Arc, OnceLock};

use sealpost_base::metrics::{Counter, Histogram};

/// A protocol that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// IMAP.
    Imap,
    /// SMTP.
    Smtp,
    /// LMTP.
    Lmtp,
    /// Submission: mail from users.
    Submission,
    /// HTTP, and what is spoken over it.
    Http,
    /// JMAP: the method calls in requests of HTTP. It has no connections of its own.
    Jmap,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// IMAP's OK; a reply 2xx; HTTP's 2xx and 3xx; a JMAP call with a response of its own.
    Ok,
    /// IMAP's NO; a reply 4xx; HTTP's 5xx and 429; JMAP's errors of the server: not now.
    No,
    /// IMAP's BAD; a reply 5xx; HTTP's other 4xx; JMAP's other errors of calls.
    Bad,
}

/// One of a protocol's commands: its index in [`Protocol::commands`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command(u8);

/// Everything that sessions count.
#[derive(Debug)]
pub struct Metrics {
    protocols: [ProtocolMetrics; Protocol::ALL.len()],
    /// Sessions and background tasks that ended by a panic.
    pub panics: Counter,
    log: OnceLock<Arc<LogMetrics>>,
}

/// What the log of the process counts.
#[derive(Debug, Default)]
pub struct LogMetrics {
    /// Lines that were not written: standard error could not be written, or not quickly enough.
    pub lost: Counter,
    /// Errors: damage, or bugs in Sealpost, including those whose line was suppressed.
    pub errors: Counter,
    /// Errors and warnings that were not written: the same one was within the hour, or too many of
    /// their kind were.
    pub repeated: Counter,
}

/// What the sessions of one protocol count.
#[derive(Debug)]
pub struct ProtocolMetrics {
    /// Connections that became sessions.
    pub accepted: Counter,
    /// Connections refused with a temporary error.
    pub refused: Counter,
    /// Sessions that ended because the client sent a line of HTTP.
    pub http: Counter,
    /// Bytes received, without TLS.
    pub bytes_in: Counter,
    /// Bytes sent, without TLS.
    pub bytes_out: Counter,
    /// Messages that were taken.
    pub messages: Counter,
    /// Their bytes.
    pub message_bytes: Counter,
    /// Recipients that they were delivered to.
    pub deliveries: Counter,
    /// Messages that were refused after they had come.
    pub messages_refused: Counter,
    commands: Box<[CommandMetrics]>,
}

/// What is counted of one command.
#[derive(Debug)]
pub struct CommandMetrics {
    /// How long it took.
    pub time: Histogram,
    /// How often it ended how, in the order of [`Verdict::ALL`].
    pub verdicts: [Counter; 3],
}

/// Ascending, for looking them up. What is not here would be counted as `OTHER`.
const IMAP: &[&str] = &[
    "APPEND",
    "AUTHENTICATE",
    "CANCELUPDATE",
    "CAPABILITY",
    "CHECK",
    "CLOSE",
    "COMPRESS",
    "COPY",
    "CREATE",
    "DELETE",
    "DELETEACL",
    "ENABLE",
    "ESEARCH",
    "EXAMINE",
    "EXPUNGE",
    "FETCH",
    "GENURLAUTH",
    "GETACL",
    "GETJMAPACCESS",
    "GETMETADATA",
    "GETQUOTA",
    "GETQUOTAROOT",
    "ID",
    "IDLE",
    "LIST",
    "LISTRIGHTS",
    "LOGIN",
    "LOGOUT",
    "LSUB",
    "MOVE",
    "MYRIGHTS",
    "NAMESPACE",
    "NOOP",
    "NOTIFY",
    "OTHER",
    "RENAME",
    "REPLACE",
    "RESETKEY",
    "SEARCH",
    "SELECT",
    "SETACL",
    "SETMETADATA",
    "SETQUOTA",
    "SORT",
    "STARTTLS",
    "STATUS",
    "STORE",
    "SUBSCRIBE",
    "THREAD",
    "UID COPY",
    "UID EXPUNGE",
    "UID FETCH",
    "UID MOVE",
    "UID SEARCH",
    "UID SORT",
    "UID STORE",
    "UID THREAD",
    "UNAUTHENTICATE",
    "UNSELECT",
    "UNSUBSCRIBE",
    "URLFETCH",
];

/// The same of SMTP, LMTP and submission.
const SMTP: &[&str] = &[
    "AUTH", "BDAT", "BURL", "DATA", "EHLO", "EXPN", "HELO", "HELP", "LHLO", "MAIL", "NOOP", "OTHER", "QUIT",
    "RCPT", "RSET", "STARTTLS", "VRFY",
];

/// The same for HTTP requests, by route. Requests that no route takes are `OTHER`.
const HTTP: &[&str] = &[
    "API",
    "AUTHORIZE",
    "DISCOVERY",
    "DOWNLOAD",
    "EVENTS",
    "HEALTH",
    "LOGIN",
    "LOGOUT",
    "OPTIONS",
    "OTHER",
    "REGISTER",
    "REVOKE",
    "SESSION",
    "TOKEN",
    "UPLOAD",
    "WEBSOCKET",
];

/// The same for JMAP: methods.
const JMAP: &[&str] = &[
    "AddressBook/changes",
    "AddressBook/get",
    "AddressBook/set",
    "Blob/copy",
    "Blob/get",
    "Blob/lookup",
    "Blob/upload",
    "ContactCard/changes",
    "ContactCard/copy",
    "ContactCard/get",
    "ContactCard/query",
    "ContactCard/queryChanges",
    "ContactCard/set",
    "Core/echo",
    "Email/changes",
    "Email/copy",
    "Email/get",
    "Email/import",
    "Email/parse",
    "Email/query",
    "Email/queryChanges",
    "Email/set",
    "EmailSubmission/changes",
    "EmailSubmission/get",
    "EmailSubmission/query",
    "EmailSubmission/queryChanges",
    "EmailSubmission/set",
    "Identity/changes",
    "Identity/get",
    "Identity/set",
    "MDN/parse",
    "MDN/send",
    "Mailbox/changes",
    "Mailbox/get",
    "Mailbox/query",
    "Mailbox/queryChanges",
    "Mailbox/set",
    "OTHER",
    "Principal/changes",
    "Principal/get",
    "Principal/query",
    "Principal/queryChanges",
    "Principal/set",
    "PushSubscription/get",
    "PushSubscription/set",
    "Quota/changes",
    "Quota/get",
    "Quota/query",
    "Quota/queryChanges",
    "SearchSnippet/get",
    "ShareNotification/changes",
    "ShareNotification/get",
    "ShareNotification/query",
    "ShareNotification/queryChanges",
    "ShareNotification/set",
    "Thread/changes",
    "Thread/get",
    "VacationResponse/get",
    "VacationResponse/set",
];

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 6] = [
        Protocol::Imap,
        Protocol::Smtp,
        Protocol::Lmtp,
        Protocol::Submission,
        Protocol::Http,
        Protocol::Jmap,
    ];

    /// `imap`, `smtp`, `lmtp`, `submission`, `http`, `jmap`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Imap => "imap",
            Protocol::Smtp => "smtp",
            Protocol::Lmtp => "lmtp",
            Protocol::Submission => "submission",
            Protocol::Http => "http",
            Protocol::Jmap => "jmap",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// The names of its commands.
    pub fn commands(self) -> &'static [&'static str] {
        match self {
            Protocol::Imap => IMAP,
            Protocol::Smtp | Protocol::Lmtp | Protocol::Submission => SMTP,
            Protocol::Http => HTTP,
            Protocol::Jmap => JMAP,
        }
    }

    /// The command of that name.
    pub fn command(self, name: &str) -> Command {
        let names = self.commands();
        let found = names.binary_search(&name);
        debug_assert!(found.is_ok(), "{name} is not among the commands of {}", self.name());
        let at = found.or_else(|_| names.binary_search(&"OTHER")).unwrap_or_default();
        Command(u8::try_from(at).unwrap_or_default())
    }

    /// The command of a name that a client chose: `OTHER` if there is none of that name.
    pub fn command_of_client(self, name: &str) -> Command {
        let found = self.commands().binary_search(&name);
        self.command(if found.is_ok() { name } else { "OTHER" })
    }

    /// A command's name.
    pub fn name_of(self, command: Command) -> &'static str {
        self.commands().get(usize::from(command.0)).copied().unwrap_or("OTHER")
    }
}

impl Command {
    /// As a number, for an atomic.
    pub fn to_u8(self) -> u8 {
        self.0
    }

    /// The one with that number.
    pub fn from_u8(n: u8) -> Self {
        Command(n)
    }
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 3] = [Verdict::Ok, Verdict::No, Verdict::Bad];

    /// `ok`, `no`, `bad`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::No => "no",
            Verdict::Bad => "bad",
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            protocols: Protocol::ALL.map(ProtocolMetrics::new),
            panics: Counter::default(),
            log: OnceLock::new(),
        }
    }
}

impl Metrics {
    /// What the sessions of a protocol count.
    pub fn of(&self, protocol: Protocol) -> &ProtocolMetrics {
        &self.protocols[protocol as usize]
    }

    /// What the log of this process counts is among the metrics from now on.
    pub fn observe_log(&self, log: Arc<LogMetrics>) {
        // There is one log.
        let _ = self.log.set(log);
    }

    /// What the log of this process counts, if it is observed.
    pub fn log(&self) -> Option<&LogMetrics> {
        self.log.get().map(Arc::as_ref)
    }

    /// A connection became a session of the service of that name.
    pub fn accepted(&self, service: &str) {
        if let Some(protocol) = Protocol::named(service) {
            self.of(protocol).accepted.increment();
        }
    }

    /// A connection to it was one too many.
    pub fn refused(&self, service: &str) {
        if let Some(protocol) = Protocol::named(service) {
            self.of(protocol).refused.increment();
        }
    }
}

impl ProtocolMetrics {
    fn new(protocol: Protocol) -> Self {
        let none = Counter::default;
        let command = |_: &&str| CommandMetrics { time: Histogram::times(), verdicts: Default::default() };
        ProtocolMetrics {
            accepted: none(),
            refused: none(),
            http: none(),
            bytes_in: none(),
            bytes_out: none(),
            messages: none(),
            message_bytes: none(),
            deliveries: none(),
            messages_refused: none(),
            commands: protocol.commands().iter().map(command).collect(),
        }
    }

    /// What is counted of that command.
    pub fn command(&self, command: Command) -> Option<&CommandMetrics> {
        self.commands.get(usize::from(command.0))
    }

    /// Commands that were answered.
    pub fn commands(&self) -> u64 {
        self.commands.iter().flat_map(|command| &command.verdicts).map(Counter::read).sum()
    }
}

impl CommandMetrics {
    /// How often it ended like that.
    pub fn verdict(&self, verdict: Verdict) -> &Counter {
        &self.verdicts[verdict as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name() {
        for protocol in Protocol::ALL {
            assert!(protocol.commands().is_sorted());
            for name in protocol.commands() {
                assert_eq!(protocol.name_of(protocol.command(name)), *name);
            }
        }
    }
}
