//! [`Incoming`]: FETCH responses put together to messages and changes of flags, and handed to the writer.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, Result};
use sealpost_imap::client::{BodyName, Event, FetchData, Value};
use sealpost_imap::types::{DateTime, Flag, Response, Section};
use sealpost_imap::utf7;
use tokio::sync::mpsc;

use super::report::Failure;
use super::writer::{BATCH_MESSAGES, BATCH_OCTETS, Piece, ToWriter, Work, pieces};
use crate::keep::{Arrived, Flags};

/// The longest that a complete message waits for others.
const LINGER: Duration = Duration::from_millis(500);

/// What came of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Nothing complete.
    Nothing,
    /// A message, of so many octets.
    Message(u32, u64),
    /// A message of which the server says that it has no octets.
    Empty(u32),
    /// A message's flags.
    Flags(u32),
    /// An answer to FETCH that cannot be read.
    Unreadable,
}

/// Puts responses together.
pub(super) struct Incoming {
    to: ToWriter,
    clock: Arc<dyn Clock>,
    messages: Vec<(Arrived, Vec<u8>)>,
    octets: usize,
    since: Duration,
    changes: Vec<(u32, Flags)>,
    unread: Vec<Failure>,
    current: Current,
    labels: bool,
}

/// The response that is being read.
#[derive(Default)]
struct Current {
    uid: Option<u32>,
    flags: Option<Flags>,
    labels: Option<Vec<Box<str>>>,
    internaldate: Option<DateTime>,
    /// What cannot be read of flags and date.
    unread: Vec<String>,
    body: Body,
}

#[derive(Default)]
enum Body {
    #[default]
    None,
    /// NIL.
    Nil,
    Whole(Vec<u8>),
    Pieces(mpsc::Sender<Piece>, u64),
    /// Another part than the whole message, which nobody asked for.
    Ignored,
}

impl Incoming {
    /// Hands everything to `to`. `labels`: X-GM-LABELS are asked for.
    pub(super) fn new(to: ToWriter, clock: Arc<dyn Clock>, labels: bool) -> Self {
        Incoming {
            to,
            clock,
            messages: Vec::new(),
            octets: 0,
            since: Duration::ZERO,
            changes: Vec::new(),
            unread: Vec::new(),
            current: Current::default(),
            labels,
        }
    }

    /// Takes an event.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn take(&mut self, event: Event) -> Result<Came> {
        match event {
            // Some servers answer UID FETCH with UIDFETCH only when asked to (RFC 9586 §3.3).
            Event::UidFetchBegin(uid) => self.current = Current { uid: Some(uid), ..Current::default() },
            Event::FetchBegin(_) => self.current = Current::default(),
            Event::Fetch(data) => self.item(data),
            Event::LiteralBegin(name, size) if is_whole(&name) => {
                // What came before it is written before it.
                self.flush().await?;
                let (sender, receiver) = pieces();
                self.to.send(Work::Large(size, receiver)).await?;
                self.current.body = Body::Pieces(sender, size);
            }
            Event::LiteralBegin(..) => self.current.body = Body::Ignored,
            Event::LiteralData(bytes) => {
                if let Body::Pieces(sender, _) = &self.current.body {
                    self.to.piece(sender, Piece::Octets(bytes)).await?;
                }
            }
            Event::FetchEnd => return self.complete().await,
            Event::Response(Response::Other(line)) if is_fetch(&line) => return Ok(Came::Unreadable),
            _ => {}
        }
        Ok(Came::Nothing)
    }

    fn item(&mut self, data: FetchData) {
        let current = &mut self.current;
        match data {
            FetchData::Uid(uid) => current.uid = Some(uid),
            FetchData::Flags(flags) => current.flags = Some(keep(&flags)),
            FetchData::FlagsInPart(flags, unread) => {
                current.flags = Some(keep(&flags));
                let named: Vec<String> = unread.iter().map(|flag| format!("\"{flag}\"")).collect();
                current.unread.push(format!("flags that cannot be read are left out: {}", named.join(" ")));
            }
            FetchData::NoDate(date) => {
                current.unread.push(format!("it has no date, since this is none: \"{date}\""));
            }
            FetchData::InternalDate(date) => current.internaldate = Some(date),
            FetchData::Body(name, octets) if is_whole(&name) => {
                current.body = octets.map_or(Body::Nil, Body::Whole);
            }
            FetchData::Other(name, value) if &*name == "X-GM-LABELS" => current.labels = Some(labels(&value)),
            _ => {}
        }
    }

    async fn complete(&mut self) -> Result<Came> {
        let current = std::mem::take(&mut self.current);
        let Some(uid) = current.uid.filter(|uid| *uid > 0) else { return Ok(Came::Nothing) };
        // Flags that come without being asked for come without labels: the next pull asks for both.
        let told = current.flags.is_some() && current.labels.is_some() == self.labels;
        if !current.unread.is_empty() && !matches!(current.body, Body::Nil) {
            self.unread.push(Failure { uid, reason: current.unread.join("; ") });
        }
        let mut flags = current.flags.unwrap_or_default();
        flags.labels = current.labels.unwrap_or_default();
        let arrived = |flags| Arrived { uid, flags, internaldate: current.internaldate };
        match current.body {
            Body::Whole(octets) => {
                let size = octets.len();
                if self.messages.is_empty() {
                    self.since = self.clock.monotonic();
                }
                self.octets += size;
                self.messages.push((arrived(flags), octets));
                if self.messages.len() >= BATCH_MESSAGES || self.octets >= BATCH_OCTETS || self.lingers() {
                    self.flush().await?;
                }
                Ok(Came::Message(uid, size as u64))
            }
            Body::Pieces(sender, size) => {
                self.to.piece(&sender, Piece::End(arrived(flags))).await?;
                Ok(Came::Message(uid, size))
            }
            Body::Nil => Ok(Came::Empty(uid)),
            Body::None | Body::Ignored if told => {
                self.changes.push((uid, flags));
                if self.changes.len().max(self.unread.len()) >= BATCH_MESSAGES {
                    self.flush().await?;
                }
                Ok(Came::Flags(uid))
            }
            Body::None | Body::Ignored => Ok(Came::Nothing),
        }
    }

    fn lingers(&self) -> bool {
        // Reading the clock costs as much as a small message's parsing.
        self.messages.len() % 16 == 1 && self.clock.monotonic().saturating_sub(self.since) >= LINGER
    }

    /// Hands over what is complete.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn flush(&mut self) -> Result<()> {
        if !self.messages.is_empty() {
            self.octets = 0;
            let messages = std::mem::replace(&mut self.messages, Vec::with_capacity(BATCH_MESSAGES));
            self.to.send(Work::Messages(messages)).await?;
        }
        if !self.changes.is_empty() {
            let changes = std::mem::take(&mut self.changes);
            self.to.send(Work::Flags(changes)).await?;
        }
        if !self.unread.is_empty() {
            let unread = std::mem::take(&mut self.unread);
            self.to.send(Work::Unread(unread)).await?;
        }
        Ok(())
    }

    /// Hands over other work, after what is complete.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn then(&mut self, work: Work) -> Result<()> {
        self.flush().await?;
        self.to.send(work).await
    }
}

/// Whether it is a FETCH response.
fn is_fetch(line: &[u8]) -> bool {
    let word = line.split(|b| *b == b' ').nth(1);
    word.is_some_and(|word| word.eq_ignore_ascii_case(b"FETCH") || word.eq_ignore_ascii_case(b"UIDFETCH"))
}

/// Whether it is the whole message.
fn is_whole(name: &BodyName) -> bool {
    match name {
        BodyName::Section { section, start } => *section == Section::default() && start.is_none(),
        BodyName::Rfc822 => true,
        BodyName::Rfc822Header | BodyName::Rfc822Text => false,
    }
}

fn keep(flags: &[Flag]) -> Flags {
    let mut kept = Flags::default();
    for flag in flags {
        match flag {
            Flag::Seen => kept.system |= Flags::SEEN,
            Flag::Answered => kept.system |= Flags::ANSWERED,
            Flag::Flagged => kept.system |= Flags::FLAGGED,
            Flag::Deleted => kept.system |= Flags::DELETED,
            Flag::Draft => kept.system |= Flags::DRAFT,
            Flag::Recent => {}
            Flag::Keyword(name) => kept.add(name.as_str()),
            Flag::Extension(_) => kept.add(&flag.to_string()),
        }
    }
    kept
}

/// X-GM-LABELS: a list of strings in modified UTF-7.
fn labels(value: &Value) -> Vec<Box<str>> {
    let names = value.as_list().unwrap_or_default().iter().filter_map(Value::as_bytes);
    let mut labels: Vec<Box<str>> = names
        .map(|name| utf7::decode(name).unwrap_or_else(|| String::from_utf8_lossy(name).into_owned()).into())
        .collect();
    labels.sort();
    labels.dedup();
    labels
}
