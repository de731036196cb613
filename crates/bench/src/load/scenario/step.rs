//! Steps: IMAP commands in plain text, and some keywords for what takes more than a line.

use std::time::Duration;

use sealpost_base::suggest;

use super::request::{Request, own_mailbox};
use super::template::{Template, closing};
use super::{Pause, count, duration, value};
use crate::load::protocol::Protocol;

/// One step of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its actions, in order.
    pub actions: Vec<Action>,
    /// Its name in the report, instead of its text.
    pub name: Option<String>,
    /// How often it is drawn, relative to the others.
    pub weight: Option<u32>,
    /// How often it is run in a row.
    pub times: u32,
    /// It is run once for each batch of the selected mailbox, until all messages had their turn.
    pub batch: Option<Batch>,
    /// The client's pause after it.
    pub think: Pause,
    /// The number of responses of a kind that must come.
    pub expect: Option<Expect>,
    /// NO counts as success, like OK.
    pub accept_no: bool,
    /// A delivery is complete when the clients in IDLE that wait for it were notified.
    pub notified: bool,
}

/// How a step goes through the selected mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Messages at a time.
    pub size: u32,
    /// From the last message to the first one.
    pub newest_first: bool,
}

impl Batch {
    /// Reads `200` or `200 newest first`.
    ///
    /// # Errors
    /// How to write it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (size, newest_first) = match text.strip_suffix(" newest first") {
            Some(size) => (size, true),
            None => (text, false),
        };
        match value::count(size).map(u32::try_from) {
            Ok(Ok(size)) if size > 0 => Ok(Batch { size, newest_first }),
            _ => Err("how many messages at a time, such as 200 or \"200 newest first\"".into()),
        }
    }

    /// The first and last message of each turn, in a mailbox of `exists`.
    pub fn batches(self, exists: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..exists.div_ceil(self.size)).map(move |nth| {
            let done = nth * self.size;
            let many = self.size.min(exists - done);
            let first = if self.newest_first { exists - done - many + 1 } else { done + 1 };
            (first, first + many - 1)
        })
    }
}

/// How many untagged responses of a kind a command must bring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// How many.
    pub count: u64,
    /// Their name, in upper case: `FETCH`, `LIST`.
    pub word: String,
}

/// An action of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Logs in as the client's account.
    Login,
    /// Logs out and closes.
    Logout,
    /// Closes, connects again and runs the first steps again.
    Reconnect,
    /// Waits.
    Wait(Pause),
    /// Creates an empty mailbox; an existing one is removed first.
    Fresh(Template),
    /// Creates a mailbox with that many messages, unless it has them already.
    Fill(Fill),
    /// Appends the next message of a data set.
    Append {
        /// The target.
        mailbox: Template,
        /// The data set.
        data: String,
        /// The flags, as they are sent.
        flags: String,
    },
    /// Stays in IDLE (RFC 2177).
    Idle {
        /// The longest time.
        limit: Option<Duration>,
        /// Only until a notification comes.
        until_notified: bool,
    },
    /// Delivers the next message of a data set to the next account.
    Deliver(String),
    /// With JMAP: sends a request.
    Request(Request),
    /// With JMAP: receives events until the end (RFC 8620 §7.3).
    Events,
    /// Sends a command as written.
    Command(Template, String),
    /// Removes the bench's own mailboxes. Not available in scenarios: it runs after all of them.
    Clean,
}

/// A mailbox to be filled.
#[derive(Debug, Clone, PartialEq)]
pub struct Fill {
    /// Its name.
    pub mailbox: Template,
    /// The number of messages.
    pub count: u64,
    /// The data set.
    pub data: String,
    /// So many different messages are appended, and copied until there are enough.
    pub distinct: u64,
}

/// The keywords of steps besides IMAP commands, and their meaning.
pub const VERBS: [(&str, &str); 12] = [
    ("LOGIN", "log in as the client's account"),
    ("LOGOUT", "say goodbye and close"),
    ("RECONNECT", "close, connect again, repeat the first steps"),
    ("WAIT 5s", "wait; also \"2s..10s\" and \"about 30s\""),
    ("FRESH {Bench/x}", "make an empty mailbox; one that is there is removed first"),
    (
        "FILL {Bench/x} 1000 tiny",
        "make a mailbox with 1,000 messages of a data set, unless it has them; `distinct 100` after it: 100 are appended and copied",
    ),
    ("APPEND {Bench/x} tiny", "append the next message of a data set; flags may follow: (\\Seen)"),
    (
        "IDLE 10m",
        "stay in IDLE that long, or without a time until the end; `IDLE 10m until notified`: or until the \
         server reports a change",
    ),
    (
        "DELIVER tiny",
        "with SMTP, LMTP and submission: deliver the next message of a data set to the next account",
    ),
    ("any other", "an IMAP command, sent as it is"),
    ("[[\"Email/query\", {…}]]", "with JMAP: a request with these calls; accountId and call ids are added"),
    ("EVENTS", "with JMAP: receive events until the end, as IDLE does with IMAP"),
];

/// Commands that need more than a line, so that they cannot be sent as written.
const NOT_LINES: [&str; 5] = ["STARTTLS", "AUTHENTICATE", "COMPRESS", "DONE", "UNAUTHENTICATE"];

/// IMAP commands, to detect typing errors. Others are sent all the same.
const COMMANDS: [&str; 46] = [
    "CAPABILITY",
    "NOOP",
    "CHECK",
    "CLOSE",
    "UNSELECT",
    "EXPUNGE",
    "SEARCH",
    "FETCH",
    "STORE",
    "COPY",
    "MOVE",
    "UID",
    "SELECT",
    "EXAMINE",
    "CREATE",
    "DELETE",
    "RENAME",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "LIST",
    "LSUB",
    "STATUS",
    "NAMESPACE",
    "ENABLE",
    "ID",
    "SORT",
    "THREAD",
    "GETQUOTA",
    "GETQUOTAROOT",
    "SETQUOTA",
    "GETACL",
    "SETACL",
    "DELETEACL",
    "LISTRIGHTS",
    "MYRIGHTS",
    "GETMETADATA",
    "SETMETADATA",
    "NOTIFY",
    "ESEARCH",
    "CANCELUPDATE",
    "GENURLAUTH",
    "URLFETCH",
    "RESETKEY",
    "GETJMAPACCESS",
    "REPLACE",
    "UIDBATCHES",
];

impl Action {
    /// Parses it.
    ///
    /// # Errors
    /// The mistake.
    pub fn parse(text: &str, protocol: Protocol) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('[') && protocol == Protocol::Jmap {
            return Request::parse(text).map(Action::Request);
        }
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let upper = verb.to_ascii_uppercase();
        let alone = |action| {
            if rest.is_empty() { Ok(action) } else { Err(format!("{upper} stands alone")) }
        };
        match &*upper {
            "" => Err("a step that does nothing".into()),
            "WAIT" => Pause::parse(rest).map(Action::Wait),
            "RECONNECT" => alone(Action::Reconnect),
            "DELIVER" if matches!(protocol, Protocol::Imap | Protocol::Jmap) => Err(
                "DELIVER needs `protocol = \"lmtp\"`, \"smtp\" or \"submission\"; with IMAP and JMAP it is APPEND"
                    .into(),
            ),
            "DELIVER" => data(rest).map(Action::Deliver),
            "FILL" if protocol == Protocol::Jmap => match fill(rest)? {
                Fill { count, distinct, .. } if distinct < count => {
                    Err("JMAP cannot copy an email within an account: no `distinct`".into())
                }
                fill => Ok(Action::Fill(Fill { mailbox: own_mailbox(fill.mailbox)?, ..fill })),
            },
            "APPEND" if protocol == Protocol::Jmap => match append(rest)? {
                Action::Append { mailbox, data, flags } => {
                    Ok(Action::Append { mailbox: own_mailbox(mailbox)?, data, flags })
                }
                action => Ok(action),
            },
            "EVENTS" if protocol == Protocol::Jmap => alone(Action::Events),
            _ if protocol == Protocol::Jmap => Err(format!(
                "{upper} is nothing a client of jmap does here: [[\"Email/get\", {{…}}]], FILL, APPEND, EVENTS, \
                 WAIT, RECONNECT"
            )),
            _ if protocol != Protocol::Imap => Err(format!(
                "{upper} is nothing a client of {} does here: DELIVER, WAIT, RECONNECT",
                protocol.name()
            )),
            "LOGIN" if rest.is_empty() => Ok(Action::Login),
            "LOGIN" => Err("LOGIN stands alone: accounts and passwords are given on the command line".into()),
            "LOGOUT" => alone(Action::Logout),
            "FRESH" => mailbox(rest).map(Action::Fresh),
            "FILL" => fill(rest).map(Action::Fill),
            "APPEND" => append(rest),
            "IDLE" => idle(rest),
            other if NOT_LINES.contains(&other) => Err(format!("{other} cannot be sent as a line")),
            _ => command(text, &upper),
        }
    }

    /// The templates of its commands.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let template = match self {
            Action::Fresh(mailbox) | Action::Append { mailbox, .. } => Some(mailbox),
            Action::Fill(fill) => Some(&fill.mailbox),
            Action::Command(template, _) => Some(template),
            _ => None,
        };
        let request = match self {
            Action::Request(request) => Some(request),
            _ => None,
        };
        template.into_iter().chain(request.into_iter().flat_map(Request::mailboxes))
    }

    /// Whether it is about one batch of the mailbox.
    pub fn asks_for_batch(&self) -> bool {
        match self {
            Action::Request(request) => request.asks_for_batch(),
            action => action.templates().any(Template::asks_for_batch),
        }
    }

    /// The data set that it sends.
    pub fn data(&self) -> Option<&str> {
        match self {
            Action::Append { data, .. } | Action::Deliver(data) => Some(data),
            Action::Fill(fill) => Some(&fill.data),
            _ => None,
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        match self {
            Action::Login => "LOGIN",
            Action::Logout => "LOGOUT",
            Action::Reconnect => "CONNECT",
            Action::Wait(_) => "wait",
            Action::Fresh(_) => "FRESH",
            Action::Fill(_) => "FILL",
            Action::Append { .. } => "APPEND",
            Action::Idle { .. } => "IDLE",
            Action::Deliver(_) => "DELIVER",
            Action::Command(_, text) => text,
            Action::Request(request) => request.name(),
            Action::Events => "EVENTS",
            Action::Clean => "DELETE",
        }
    }
}

impl Expect {
    /// Parses `1000 FETCH`.
    ///
    /// # Errors
    /// How to write it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "what must come, such as \"1000 FETCH\"".to_owned();
        let (count, word) = text.split_once(' ').ok_or_else(wrong)?;
        let count = value::count(count).map_err(|_| wrong())?;
        let is_word = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
        if is_word { Ok(Expect { count, word: word.to_ascii_uppercase() }) } else { Err(wrong()) }
    }
}

fn command(text: &str, verb: &str) -> Result<Action, String> {
    if !verb.bytes().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'.')) {
        return Err(format!("{verb} is no command; tags and literals are added when it is sent"));
    }
    if !COMMANDS.contains(&verb) && !verb.starts_with('X') {
        let known =
            COMMANDS.iter().copied().chain(VERBS.iter().filter_map(|(verb, _)| verb.split(' ').next()));
        if let Some(near) = suggest::nearest(
            &verb.to_ascii_lowercase(),
            known.map(lower).collect::<Vec<_>>().iter().map(|s| &**s),
        ) {
            return Err(format!("there is no command {verb}; is it {}?", near.to_ascii_uppercase()));
        }
    }
    if text.ends_with('}')
        && text.rfind('{').is_some_and(|at| {
            text[at + 1..text.len() - 1].trim_end_matches('+').bytes().all(|b| b.is_ascii_digit())
        })
    {
        return Err("a command with a literal cannot be sent as a line".into());
    }
    Ok(Action::Command(Template::parse(text)?, text.to_owned()))
}

fn lower(word: &str) -> String {
    word.to_ascii_lowercase()
}

fn mailbox(text: &str) -> Result<Template, String> {
    let template = Template::parse(text)?;
    if text.is_empty() { Err("which mailbox? {Bench/…}".into()) } else { Ok(template) }
}

/// A placeholder or quoted string may hold blanks.
fn first_word(text: &str) -> (&str, &str) {
    let end = match text.as_bytes().first() {
        Some(b'{') => closing(text).map_or(text.len(), |at| at + 1),
        Some(b'"') => text[1..].find('"').map_or(text.len(), |at| at + 2),
        _ => text.find(' ').unwrap_or(text.len()),
    };
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

fn fill(text: &str) -> Result<Fill, String> {
    let wrong = || "FILL is written as: FILL {Bench/x} 1000 tiny".to_owned();
    let (name, rest) = first_word(text);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (number, set, distinct) = match words[..] {
        [number, set] => (number, set, number),
        [number, set, "distinct", distinct] => (number, set, distinct),
        _ => return Err(wrong()),
    };
    let total = count(number).map_err(|_| wrong())?;
    let distinct = count(distinct)?.clamp(1, total.max(1));
    if u32::try_from(total).is_err() {
        return Err("no mailbox has that many messages".into());
    }
    Ok(Fill { mailbox: mailbox(name)?, count: total, data: data(set)?, distinct })
}

fn append(text: &str) -> Result<Action, String> {
    let (name, rest) = first_word(text);
    let (set, flags) = rest.split_once(' ').unwrap_or((rest, ""));
    let flags = flags.trim();
    let list = flags.starts_with('(') && flags.ends_with(')');
    if !flags.is_empty() && !list {
        return Err("flags are written in parentheses: (\\Seen)".into());
    }
    Ok(Action::Append { mailbox: mailbox(name)?, data: data(set)?, flags: flags.to_owned() })
}

fn idle(text: &str) -> Result<Action, String> {
    let (time, until_notified) = match text.strip_suffix("until notified") {
        Some(time) => (time.trim(), true),
        None => (text, false),
    };
    let limit = if time.is_empty() { None } else { Some(duration(time)?) };
    Ok(Action::Idle { limit, until_notified })
}

fn data(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err(
            "which data set? `sealpost bench list` names them; or a path to an mbox or Maildir".into()
        );
    }
    Ok(text.to_owned())
}
