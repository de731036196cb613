//! [`Incoming`]: FETCH responses put together to messages and changes of flags, and handed to the writer.
//!
//! A message counts only when its command is completed with OK: servers that cannot read a message
//! to its end send something else for the rest, and a tagged NO. Until then small messages are held
//! here, and those that do not fit are written as unconfirmed ([`Work::Unconfirmed`]). Messages that were not
//! asked for are dropped, whatever their UID.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Clock, Result, Uid, UidSet, limits};
use sealpost_imap::client::{BodyName, Event, FetchData, Value};
use sealpost_imap::types::{DateTime, Flag, Response, Section, Status};
use sealpost_imap::utf7;
use tokio::sync::mpsc;

use super::report::Failure;
use super::work::{BATCH_BYTES, BATCH_MESSAGES, Piece, ToWriter, Work, pieces};
use crate::backup::{Arrived, Flags};

/// The longest that a complete message waits for others.
const LINGER: Duration = Duration::from_millis(500);

/// The result of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Nothing complete, or nothing that was asked for.
    Nothing,
    /// A message that was asked for, of so many bytes.
    Message(u64),
    /// A message that the server reports to have no bytes.
    Empty(u32),
    /// A message's flags.
    Flags(u32),
    /// A FETCH response that cannot be parsed.
    Unreadable,
}

/// Puts responses together.
pub(super) struct Incoming {
    to: ToWriter,
    clock: Arc<dyn Clock>,
    messages: Vec<(Arrived, Vec<u8>)>,
    bytes: usize,
    since: Duration,
    changes: Vec<(u32, Flags)>,
    unread: Vec<Failure>,
    current: Current,
    labels: bool,
    /// Commands that are not completed, in the order in which they were sent.
    pending: VecDeque<PendingFetch>,
    /// Bytes of the messages that these hold.
    held: usize,
}

/// A FETCH of messages that is not completed.
struct PendingFetch {
    tag: u32,
    /// It asks for one message only.
    alone: bool,
    /// Messages that did not come yet, and those that came.
    missing: UidSet,
    came: UidSet,
    /// The last one that came.
    last: Option<Uid>,
    /// Messages that the writer does not have yet.
    held: Vec<(Arrived, Vec<u8>)>,
    /// The large message that was asked for alone: the writer has its bytes, but not yet its end.
    whole: Option<(mpsc::Sender<Piece>, Arrived)>,
    /// Messages that the writer has and may have to undo.
    unconfirmed: Vec<u32>,
    /// The server sent an untagged NO or BAD while it was answering.
    doubted: bool,
}

/// A FETCH that has ended.
pub(super) struct Ended {
    /// Messages that did not come.
    pub(super) missing: UidSet,
    /// Messages that came and are not taken.
    pub(super) refused: UidSet,
    /// How many messages were taken.
    pub(super) taken: usize,
}

/// The response that is being read.
#[derive(Default)]
struct Current {
    uid: Option<u32>,
    flags: Option<Flags>,
    labels: Option<Vec<Box<str>>>,
    internaldate: Option<DateTime>,
    /// Errors of flags and date that cannot be parsed.
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
    /// Another part than the whole message, or a message that was not asked for.
    Ignored,
}

impl Incoming {
    /// Hands everything to `to`. `labels`: X-GM-LABELS are asked for.
    pub(super) fn new(to: ToWriter, clock: Arc<dyn Clock>, labels: bool) -> Self {
        Incoming {
            to,
            clock,
            messages: Vec::new(),
            bytes: 0,
            since: Duration::ZERO,
            changes: Vec::new(),
            unread: Vec::new(),
            current: Current::default(),
            labels,
            pending: VecDeque::new(),
            held: 0,
        }
    }

    /// The command with this tag asks for these messages.
    pub(super) fn ask(&mut self, tag: u32, set: UidSet) {
        self.pending.push_back(PendingFetch {
            tag,
            alone: set.len() == 1,
            missing: set,
            came: UidSet::new(),
            last: None,
            held: Vec::new(),
            whole: None,
            unconfirmed: Vec::new(),
            doubted: false,
        });
    }

    /// How many commands are not completed.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether no new command is to be sent: the writer waits until nothing is unconfirmed.
    pub(super) fn is_held_up(&self) -> bool {
        self.to.is_held_up()
    }

    /// Waits until new commands may be sent.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn go_on(&mut self) -> Result<()> {
        self.to.go_on().await
    }

    /// Takes an event.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn take(&mut self, event: Event) -> Result<Received> {
        match event {
            // Some servers answer UID FETCH with UIDFETCH only when asked to (RFC 9586 §3.3).
            Event::UidFetchBegin(uid) => self.current = Current { uid: Some(uid), ..Current::default() },
            Event::FetchBegin(_) => self.current = Current::default(),
            Event::Fetch(data) => self.item(data),
            Event::LiteralBegin(name, size) if is_whole(&name) && self.may_be_asked() => {
                // What came before it is written before it.
                self.let_go().await?;
                let (sender, receiver) = pieces();
                self.to.send(Work::Large(size, receiver)).await?;
                self.current.body = Body::Pieces(sender, size);
            }
            Event::LiteralBegin(..) => self.current.body = Body::Ignored,
            Event::LiteralData(bytes) => {
                if let Body::Pieces(sender, _) = &self.current.body {
                    self.to.piece(sender, Piece::Bytes(bytes)).await?;
                }
            }
            Event::FetchEnd => return self.complete().await,
            Event::Response(Response::Status { tag: None, status: Status::No | Status::Bad, .. }) => {
                // Servers answer in the order in which they are asked.
                if let Some(pending) = self.pending.front_mut() {
                    pending.doubted = true;
                }
            }
            Event::Response(Response::Other(line)) if is_fetch(&line) => return Ok(Received::Unreadable),
            _ => {}
        }
        Ok(Received::Nothing)
    }

    fn item(&mut self, data: FetchData) {
        let current = &mut self.current;
        match data {
            FetchData::Uid(uid) => current.uid = Some(uid),
            FetchData::Flags(flags) => current.flags = Some(keep(&flags)),
            FetchData::FlagsInPart(flags, unread) => {
                current.flags = Some(keep(&flags));
                let named: Vec<String> = unread.iter().map(|flag| format!("\"{flag}\"")).collect();
                current.unread.push(format!("invalid flags are left out: {}", named.join(" ")));
            }
            FetchData::NoDate(date) => {
                current.unread.push(format!("it has no date, since this is none: \"{date}\""));
            }
            FetchData::InternalDate(date) => current.internaldate = Some(date),
            FetchData::Body(name, bytes) if is_whole(&name) => {
                current.body = bytes.map_or(Body::Nil, Body::Whole);
            }
            FetchData::Other(name, value) if &*name == "X-GM-LABELS" => current.labels = Some(labels(&value)),
            _ => {}
        }
    }

    async fn complete(&mut self) -> Result<Received> {
        let current = std::mem::take(&mut self.current);
        let Some(uid) = current.uid.filter(|uid| *uid > 0) else { return Ok(Received::Nothing) };
        // Unsolicited flags come without labels: the next pull asks for both.
        let told = current.flags.is_some() && current.labels.is_some() == self.labels;
        if !current.unread.is_empty() && !matches!(current.body, Body::Nil) {
            self.unread.push(Failure { uid, reason: current.unread.join("; ") });
        }
        let mut flags = current.flags.unwrap_or_default();
        flags.labels = current.labels.unwrap_or_default();
        let arrived = |flags| Arrived { uid, flags, internaldate: current.internaldate };
        match current.body {
            Body::Whole(bytes) => {
                let Some(at) = self.arrived(uid) else { return Ok(Received::Nothing) };
                let size = bytes.len();
                self.held += size;
                self.pending[at].held.push((arrived(flags), bytes));
                if self.held > limits::ARCHIVE_HELD_BYTES {
                    self.let_go().await?;
                }
                Ok(Received::Message(size as u64))
            }
            Body::Pieces(sender, size) => {
                // Without its end it did not arrive.
                let Some(at) = self.arrived(uid) else { return Ok(Received::Nothing) };
                if self.pending[at].alone {
                    self.pending[at].whole = Some((sender, arrived(flags)));
                } else {
                    self.pending[at].unconfirmed.push(uid);
                    self.to.piece(&sender, Piece::Unconfirmed(arrived(flags))).await?;
                }
                Ok(Received::Message(size))
            }
            Body::Nil => Ok(Received::Empty(uid)),
            Body::None | Body::Ignored if told => {
                self.changes.push((uid, flags));
                if self.changes.len().max(self.unread.len()) >= BATCH_MESSAGES {
                    self.flush().await?;
                }
                Ok(Received::Flags(uid))
            }
            Body::None | Body::Ignored => Ok(Received::Nothing),
        }
    }

    /// Whether the current message may have been asked for; some servers send its UID last.
    fn may_be_asked(&self) -> bool {
        match self.current.uid.map(Uid::new) {
            None => !self.pending.is_empty(),
            Some(None) => false,
            Some(Some(uid)) => self.pending.iter().any(|pending| pending.missing.contains(uid)),
        }
    }

    /// A message came; returns the command that asked for it, mostly the first one. `None`: no
    /// command did, or it came before.
    fn arrived(&mut self, uid: u32) -> Option<usize> {
        let uid = Uid::new(uid)?;
        let at = self.pending.iter_mut().position(|pending| pending.missing.remove(uid))?;
        self.pending[at].came.insert(uid);
        self.pending[at].last = Some(uid);
        Some(at)
    }

    /// The writer waits for the end of a large message that was asked for alone, and has other work
    /// before the server has completed that command: the message did not come.
    fn drop_whole(&mut self) {
        for pending in &mut self.pending {
            if let Some((_, arrived)) = pending.whole.take()
                && let Some(uid) = Uid::new(arrived.uid)
            {
                pending.came.remove(uid);
                pending.missing.insert(uid);
            }
        }
    }

    /// Hands over all held messages as unconfirmed: they exceed the limit.
    async fn let_go(&mut self) -> Result<()> {
        self.drop_whole();
        self.flush().await?;
        for at in 0..self.pending.len() {
            let held = std::mem::take(&mut self.pending[at].held);
            self.pending[at].unconfirmed.extend(held.iter().map(|(arrived, _)| arrived.uid));
            for messages in divided(held) {
                self.to.send(Work::Unconfirmed(messages)).await?;
            }
        }
        self.held = 0;
        Ok(())
    }

    /// The command with this tag is completed; `confirmed`: its messages are complete. `None`: the tag
    /// is none of these.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn completed(&mut self, tag: u32, confirmed: bool) -> Result<Option<Ended>> {
        let Some(at) = self.pending.iter().position(|pending| pending.tag == tag) else { return Ok(None) };
        let Some(pending) = self.pending.remove(at) else { return Ok(None) };
        // The message of another command.
        self.drop_whole();
        let refused = if confirmed { UidSet::new() } else { pending.came.clone() };
        self.end(pending, refused).await.map(Some)
    }

    /// The connection is lost: returns how the pending commands end. Their messages are taken,
    /// unless the server reported an error, except the last one: the server may not have had time
    /// to report one.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn connection_lost(&mut self) -> Result<Vec<Ended>> {
        self.current = Current::default();
        let mut ended = Vec::new();
        while let Some(pending) = self.pending.pop_front() {
            let last = pending.last.map_or_else(UidSet::new, |last| UidSet::range(last, last));
            let refused = if pending.doubted { pending.came.clone() } else { last };
            ended.push(self.end(pending, refused).await?);
        }
        Ok(ended)
    }

    /// Takes the messages of a command except the `refused` ones.
    async fn end(&mut self, pending: PendingFetch, refused: UidSet) -> Result<Ended> {
        let is_refused = |uid: u32| Uid::new(uid).is_none_or(|uid| refused.contains(uid));
        let taken = pending.came.len() - refused.len();
        if let Some((sender, arrived)) = pending.whole
            && !is_refused(arrived.uid)
        {
            self.to.piece(&sender, Piece::End(arrived)).await?;
        }
        let (back, confirmed): (Vec<u32>, Vec<u32>) =
            pending.unconfirmed.iter().partition(|uid| is_refused(**uid));
        if !back.is_empty() {
            self.to.send(Work::Undo(back)).await?;
        }
        if !confirmed.is_empty() {
            self.to.send(Work::Confirmed(confirmed)).await?;
        }
        for (arrived, bytes) in pending.held {
            self.held = self.held.saturating_sub(bytes.len());
            if !is_refused(arrived.uid) {
                self.give(arrived, bytes).await?;
            }
        }
        Ok(Ended { missing: pending.missing, refused, taken })
    }

    /// Collects a complete message for the writer.
    async fn give(&mut self, arrived: Arrived, bytes: Vec<u8>) -> Result<()> {
        if self.messages.is_empty() {
            self.since = self.clock.monotonic();
        }
        self.bytes += bytes.len();
        self.messages.push((arrived, bytes));
        if self.messages.len() >= BATCH_MESSAGES || self.bytes >= BATCH_BYTES || self.lingers() {
            self.flush().await?;
        }
        Ok(())
    }

    fn lingers(&self) -> bool {
        // Reading the clock costs as much as a small message's parsing.
        self.messages.len() % 16 == 1 && self.clock.monotonic().saturating_sub(self.since) >= LINGER
    }

    /// Hands over the complete messages.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn flush(&mut self) -> Result<()> {
        if !(self.messages.is_empty() && self.changes.is_empty() && self.unread.is_empty()) {
            self.drop_whole();
        }
        if !self.messages.is_empty() {
            self.bytes = 0;
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

    /// Hands over other work, after the complete messages.
    ///
    /// # Errors
    /// `Internal` if the writer has ended.
    pub(super) async fn then(&mut self, work: Work) -> Result<()> {
        self.flush().await?;
        self.to.send(work).await
    }
}

/// Divides messages into portions of the size that is handed over at once.
fn divided(messages: Vec<(Arrived, Vec<u8>)>) -> Vec<Vec<(Arrived, Vec<u8>)>> {
    let mut parts: Vec<Vec<_>> = Vec::new();
    let mut bytes = BATCH_BYTES;
    for message in messages {
        let is_full = bytes >= BATCH_BYTES || parts.last().is_some_and(|part| part.len() >= BATCH_MESSAGES);
        if is_full {
            bytes = 0;
            parts.push(Vec::new());
        }
        bytes += message.1.len();
        parts.last_mut().expect("there is one").push(message);
    }
    parts
}

/// Whether it is a FETCH response.
fn is_fetch(line: &[u8]) -> bool {
    let word = line.split(|b| *b == b' ').nth(1);
    word.is_some_and(|word| word.eq_ignore_ascii_case(b"FETCH") || word.eq_ignore_ascii_case(b"UIDFETCH"))
}

/// Whether it names the whole message.
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
