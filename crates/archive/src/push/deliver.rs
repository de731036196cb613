//! APPEND: several messages to a command where the server can (RFC 3502), commands without waiting
//! for the answers, and without waiting to be asked for the bytes where the server lets a client
//! send at once (RFC 7888).

use std::collections::VecDeque;

use sealpost_base::{Error, Kind, Result};
use sealpost_imap::client::Event;
use sealpost_imap::types::{Code, Flag, Response, SequenceSet, Status};
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::sync::watch;

use super::delivery_state::{DeliveryState, SizeRefusals};
use super::map::Put;
use super::message_chunk::{MessageChunk, MessageMeta, ProgressSink};
use crate::backup::Flags;
use crate::client::{Connection, Done, is_later};

/// Commands of one message that were sent and not answered.
const AHEAD: usize = 32;
/// Commands of several.
const MULTI_AHEAD: usize = 3;
/// Bytes and messages of one command: a lost connection costs no more than these.
const MULTI_BYTES: u64 = 1024 * 1024;
const MULTI_MESSAGES: usize = 128;
/// Bytes of a literal that need not be waited for with LITERAL- (RFC 7888 §5).
const MINUS_BYTES: u64 = 4096;

/// Appends messages to a folder.
pub(super) struct Delivery<'a> {
    connection: &'a mut Connection,
    /// The folder, as commands send it.
    wire: &'a [u8],
    chunks: mpsc::Receiver<MessageChunk>,
    stop: watch::Receiver<bool>,
    multi: bool,
    pending: VecDeque<PendingAppend>,
    tried: &'a mut DeliveryState,
    size_refusals: &'a mut SizeRefusals,
    sink: &'a mut ProgressSink<'a>,
    /// The error was the source's.
    innocent: bool,
}

/// A command that is not answered.
struct PendingAppend {
    tag: u32,
    /// UIDs at the source, and sizes.
    messages: Vec<(u32, u64)>,
}

impl<'a> Delivery<'a> {
    /// `alone`: a command for each message.
    pub(super) fn new(
        connection: &'a mut Connection,
        wire: &'a [u8],
        chunks: mpsc::Receiver<MessageChunk>,
        stop: watch::Receiver<bool>,
        alone: bool,
        (tried, size_refusals, sink): (&'a mut DeliveryState, &'a mut SizeRefusals, &'a mut ProgressSink<'a>),
    ) -> Self {
        let multi = connection.capabilities().has("MULTIAPPEND") && !alone;
        Delivery {
            connection,
            wire,
            chunks,
            stop,
            multi,
            pending: VecDeque::new(),
            tried,
            size_refusals,
            sink,
            innocent: false,
        }
    }

    /// Appends the messages that come until the source ends, the run is stopped, or the account is
    /// full.
    ///
    /// # Errors
    /// `Retry` if the connection is lost or unusable; `NotFound` if the folder is gone.
    pub(super) async fn run(mut self) -> Result<()> {
        let ended = self.exchange().await;
        if let Err(e) = &ended {
            let reason = e.to_string();
            let wrong = !self.innocent && !is_later(&reason) && !*self.stop.borrow();
            let on_their_way = self.pending.drain(..).flat_map(|pending| pending.messages);
            for (nth, (uid, _)) in on_their_way.enumerate() {
                self.tried.connection_lost(uid, wrong && nth == 0, &reason);
            }
        }
        ended
    }

    async fn exchange(&mut self) -> Result<()> {
        let mut next = None;
        let most = if self.multi { MULTI_AHEAD } else { AHEAD };
        while self.size_refusals.is_full().is_none() {
            let meta = match next.take() {
                Some(meta) => meta,
                None => match self.begin(true).await? {
                    Some(meta) => meta,
                    None => break,
                },
            };
            if let Some(why) = self.hopeless(&meta) {
                // Its bytes are skipped.
                self.tried.failed(meta.uid, why);
                continue;
            }
            next = self.command(meta).await?;
            while self.pending.len() > most {
                self.answer().await?;
            }
        }
        while !self.pending.is_empty() {
            self.answer().await?;
        }
        self.connection.flush().await
    }

    /// The next message's head. `answers`: no command is open, so answers are read while none is
    /// available.
    async fn begin(&mut self, answers: bool) -> Result<Option<MessageMeta>> {
        loop {
            if *self.stop.borrow() {
                return Ok(None);
            }
            let chunk = match self.chunks.try_recv() {
                Ok(chunk) => Some(chunk),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    // The server is to work meanwhile.
                    self.connection.flush().await?;
                    let owed = answers && !self.pending.is_empty();
                    let came = tokio::select! {
                        biased;
                        _ = self.stop.wait_for(|stop| *stop) => Ok(None),
                        chunk = self.chunks.recv() => Ok(chunk),
                        event = self.connection.next(), if owed => Err(event),
                    };
                    match came {
                        Ok(chunk) => chunk,
                        Err(event) => {
                            self.take(event?)?;
                            continue;
                        }
                    }
                }
            };
            match chunk {
                None => return Ok(None),
                Some(MessageChunk::Begin(meta)) => return Ok(Some(meta)),
                Some(MessageChunk::Failed(uid, why)) => self.tried.failed(uid, why),
                // Of a message that was refused.
                Some(MessageChunk::Bytes(_) | MessageChunk::End) => {}
            }
        }
    }

    /// Why a message need not be sent.
    fn hopeless(&self, meta: &MessageMeta) -> Option<String> {
        let limit = self.connection.capabilities().append_limit();
        if let Some(limit) = limit.filter(|limit| meta.size > *limit) {
            return Some(format!("{} bytes, more than the server's APPENDLIMIT of {limit}", meta.size));
        }
        self.size_refusals.refusal_of(meta.size).map(str::to_owned)
    }

    /// Sends a command with this message, and those that fit behind it; returns the head of the
    /// first that does not.
    async fn command(&mut self, mut meta: MessageMeta) -> Result<Option<MessageMeta>> {
        let (mut tag, mut bytes) = (None, 0);
        loop {
            let at_once = self.at_once(meta.size);
            let plus = if at_once { "+" } else { "" };
            let flags = self.tried.flags(meta.uid, settable(&meta.flags));
            let begin = match tag {
                None => self.connection.begin(|w| w.raw(b"APPEND ").astring(self.wire)),
                Some(tag) => tag,
            };
            if tag.is_none() {
                self.pending.push_back(PendingAppend { tag: begin, messages: Vec::new() });
            }
            tag = Some(begin);
            if let Some(pending) = self.pending.back_mut() {
                pending.messages.push((meta.uid, meta.size));
            }
            self.connection.more(|w| {
                w.space();
                if !flags.is_empty() {
                    w.flags(&flags).space();
                }
                if let Some(date) = meta.date {
                    w.date_time(date).space();
                }
                w.raw(format!("{{{}{plus}}}\r\n", meta.size))
            });
            if !at_once && !self.may_go_on(begin).await? {
                return Ok(None);
            }
            self.bytes(&meta).await?;
            bytes += meta.size;
            let messages = self.pending.back().map_or(0, |pending| pending.messages.len());
            let full = bytes >= MULTI_BYTES || messages >= MULTI_MESSAGES;
            let next = if self.multi && !full { self.begin(false).await? } else { None };
            match next {
                Some(next) if bytes + next.size <= MULTI_BYTES && self.hopeless(&next).is_none() => {
                    meta = next;
                }
                next => {
                    self.connection.more(|w| w.crlf());
                    return Ok(next);
                }
            }
        }
    }

    /// Whether the server accepts a literal of this size without a continuation request.
    fn at_once(&self, size: u64) -> bool {
        let capabilities = self.connection.capabilities();
        let minus = capabilities.has("LITERAL-") || capabilities.has("IMAP4REV2");
        capabilities.literal_plus() || minus && size <= MINUS_BYTES
    }

    /// Sends a message's bytes.
    async fn bytes(&mut self, meta: &MessageMeta) -> Result<()> {
        let mut left = meta.size;
        let why = loop {
            match self.chunks.recv().await {
                Some(MessageChunk::Bytes(bytes)) if bytes.len() as u64 <= left => {
                    left -= bytes.len() as u64;
                    self.connection.put(&bytes).await?;
                }
                Some(MessageChunk::End) if left == 0 => return Ok(()),
                Some(MessageChunk::Failed(_, why)) => {
                    self.tried.failed(meta.uid, why.clone());
                    break why;
                }
                Some(_) => {
                    let why = format!("UID {} has an unexpected size", meta.uid);
                    self.tried.failed(meta.uid, why.clone());
                    break why;
                }
                None => {
                    let why = "the source ended in the middle of a message";
                    self.tried.connection_lost(meta.uid, true, why);
                    break why.to_owned();
                }
            }
        };
        self.innocent = true;
        self.pending.pop_back().into_iter().flat_map(|pending| pending.messages).for_each(|(uid, _)| {
            self.tried.put_off(uid);
        });
        // Messages sent before are appended, and the answers arrive although the server still waits
        // for bytes of this one.
        while !self.pending.is_empty() {
            self.answer().await?;
        }
        // Only a new connection helps now.
        Err(Error::retry(why))
    }

    /// Waits for the continuation request; returns whether the server accepts the literal.
    async fn may_go_on(&mut self, tag: u32) -> Result<bool> {
        self.connection.flush().await?;
        loop {
            let event = self.connection.next().await?;
            if matches!(event, Event::Response(Response::Continue(_))) {
                return Ok(true);
            }
            let refused = Connection::completion(&event) == Some(tag);
            self.take(event)?;
            if refused {
                return Ok(false);
            }
        }
    }

    async fn answer(&mut self) -> Result<()> {
        self.connection.flush().await?;
        let event = self.connection.next().await?;
        self.take(event)
    }

    fn take(&mut self, event: Event) -> Result<()> {
        let Some(tag) = Connection::completion(&event) else { return Ok(()) };
        let Some(at) = self.pending.iter().position(|pending| pending.tag == tag) else { return Ok(()) };
        let Event::Response(Response::Status { status, code, text, .. }) = event else { return Ok(()) };
        let Some(PendingAppend { messages, .. }) = self.pending.remove(at) else { return Ok(()) };
        if status == Status::Ok {
            self.put(&messages, code.as_ref());
            return Ok(());
        }
        let over_quota = code == Some(Code::OverQuota);
        // The server says that it will never take this message.
        let limit = code == Some(Code::Limit) && !is_later(&text);
        let Err(e) = (Done { status, code, text }).ok("APPEND") else { return Ok(()) };
        match e.kind() {
            Kind::Retry if !limit => return Err(e),
            Kind::NotFound => return Err(e),
            _ => {}
        }
        match &*messages {
            [(uid, bytes)] => {
                if over_quota {
                    self.size_refusals.refused(*bytes, &e.to_string());
                } else if self.tried.leave_keywords(*uid) {
                    return Ok(());
                }
                self.tried.failed(*uid, e.to_string());
            }
            // One of them is the cause (RFC 3502: none was appended).
            several => several.iter().for_each(|(uid, _)| self.tried.put_off(*uid)),
        }
        Ok(())
    }

    fn put(&mut self, messages: &[(u32, u64)], code: Option<&Code>) {
        self.size_refusals.accepted();
        let there = match code {
            Some(Code::AppendUid { uid_validity, uids }) => {
                let uids = in_order(uids, messages.len());
                (uids.len() == messages.len()).then_some((*uid_validity, uids))
            }
            _ => None,
        };
        for (nth, (uid, _)) in messages.iter().enumerate() {
            self.tried.put(*uid, there.is_some());
            let there = there.as_ref().and_then(|(uidvalidity, uids)| Some((*uidvalidity, *uids.get(nth)?)));
            let uidvalidity = self.sink.uidvalidity;
            self.sink.put(there.map(|there| Put { uidvalidity, uid: *uid, there }));
        }
    }
}

/// UIDs in the order in which the messages were named (RFC 4315 §3), at most `most` and one.
fn in_order(uids: &SequenceSet, most: usize) -> Vec<u32> {
    let ranges = uids.ranges().iter().filter_map(|range| Some((range.start.number()?, range.end.number()?)));
    ranges.flat_map(|(a, b)| a.min(b)..=a.max(b)).take(most + 1).collect()
}

/// Flags that can be set by a client.
pub(super) fn settable(flags: &Flags) -> Vec<Flag> {
    flags
        .names()
        .filter_map(|name| Flag::new(name).ok())
        .filter(|flag| !matches!(flag, Flag::Recent | Flag::Extension(_)))
        .collect()
}
