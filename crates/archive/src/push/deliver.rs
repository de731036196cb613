//! APPEND: several messages to a command where the server can (RFC 3502), commands without waiting for the answers, and
//! without waiting to be asked for the octets where the server lets a client send at once (RFC 7888).

use std::collections::VecDeque;

use sealpost_base::{Error, Kind, Result};
use sealpost_imap::client::Event;
use sealpost_imap::types::{Code, Flag, Response, SequenceSet, Status};
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::sync::watch;

use super::item::{Head, Item, Told};
use super::map::Put;
use super::tried::{Room, Tried};
use crate::client::{Connection, Done, is_later};
use crate::keep::Flags;

/// Commands of one message that were sent and not answered.
const AHEAD: usize = 32;
/// Commands of several.
const MULTI_AHEAD: usize = 3;
/// Octets and messages of one command: whatever ends the connection costs no more than these.
const MULTI_OCTETS: u64 = 1024 * 1024;
const MULTI_MESSAGES: usize = 128;
/// Octets of a literal that need not be waited for with LITERAL- (RFC 7888 §5).
const MINUS_OCTETS: u64 = 4096;

/// Messages on their way into a folder.
pub(super) struct Delivery<'a> {
    connection: &'a mut Connection,
    /// The folder, as commands send it.
    wire: &'a [u8],
    items: mpsc::Receiver<Item>,
    stop: watch::Receiver<bool>,
    multi: bool,
    asked: VecDeque<Asked>,
    tried: &'a mut Tried,
    room: &'a mut Room,
    told: &'a mut Told<'a>,
    /// What went wrong was the source's.
    innocent: bool,
}

/// A command that is not answered.
struct Asked {
    tag: u32,
    /// UIDs at the source, and sizes.
    messages: Vec<(u32, u64)>,
}

impl<'a> Delivery<'a> {
    /// `alone`: a command for each message.
    pub(super) fn new(
        connection: &'a mut Connection,
        wire: &'a [u8],
        items: mpsc::Receiver<Item>,
        stop: watch::Receiver<bool>,
        alone: bool,
        (tried, room, told): (&'a mut Tried, &'a mut Room, &'a mut Told<'a>),
    ) -> Self {
        let multi = connection.capabilities().has("MULTIAPPEND") && !alone;
        Delivery {
            connection,
            wire,
            items,
            stop,
            multi,
            asked: VecDeque::new(),
            tried,
            room,
            told,
            innocent: false,
        }
    }

    /// Puts what comes into the folder, until nothing more comes, it is to stop, or there is no room.
    ///
    /// # Errors
    /// `Retry` if the connection is lost, or of no use any more; `NotFound` if the folder is gone.
    pub(super) async fn run(mut self) -> Result<()> {
        let ended = self.exchange().await;
        if let Err(e) = &ended {
            let reason = e.to_string();
            let wrong = !self.innocent && !is_later(&reason) && !*self.stop.borrow();
            let on_their_way = self.asked.drain(..).flat_map(|asked| asked.messages);
            for (nth, (uid, _)) in on_their_way.enumerate() {
                self.tried.lost(uid, wrong && nth == 0, &reason);
            }
        }
        ended
    }

    async fn exchange(&mut self) -> Result<()> {
        let mut next = None;
        let most = if self.multi { MULTI_AHEAD } else { AHEAD };
        while self.room.is_full().is_none() {
            let head = match next.take() {
                Some(head) => head,
                None => match self.begin(true).await? {
                    Some(head) => head,
                    None => break,
                },
            };
            if let Some(why) = self.hopeless(&head) {
                // Its octets are passed over.
                self.tried.failed(head.uid, why);
                continue;
            }
            next = self.command(head).await?;
            while self.asked.len() > most {
                self.answer().await?;
            }
        }
        while !self.asked.is_empty() {
            self.answer().await?;
        }
        self.connection.flush().await
    }

    /// The next message's head. `answers`: no command is open, so that answers may come while there is none.
    async fn begin(&mut self, answers: bool) -> Result<Option<Head>> {
        loop {
            if *self.stop.borrow() {
                return Ok(None);
            }
            let item = match self.items.try_recv() {
                Ok(item) => Some(item),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    // The server has something to do meanwhile.
                    self.connection.flush().await?;
                    let owed = answers && !self.asked.is_empty();
                    let came = tokio::select! {
                        biased;
                        _ = self.stop.wait_for(|stop| *stop) => Ok(None),
                        item = self.items.recv() => Ok(item),
                        event = self.connection.next(), if owed => Err(event),
                    };
                    match came {
                        Ok(item) => item,
                        Err(event) => {
                            self.take(event?)?;
                            continue;
                        }
                    }
                }
            };
            match item {
                None => return Ok(None),
                Some(Item::Begin(head)) => return Ok(Some(head)),
                Some(Item::Failed(uid, why)) => self.tried.failed(uid, why),
                // Of a message that was refused.
                Some(Item::Octets(_) | Item::End) => {}
            }
        }
    }

    /// Why a message need not be sent.
    fn hopeless(&self, head: &Head) -> Option<String> {
        let limit = self.connection.capabilities().append_limit();
        if let Some(limit) = limit.filter(|limit| head.size > *limit) {
            return Some(format!("{} bytes, more than the server's APPENDLIMIT of {limit}", head.size));
        }
        self.room.why_not(head.size).map(str::to_owned)
    }

    /// Sends a command with this message, and what fits behind it; the head of what does not.
    async fn command(&mut self, mut head: Head) -> Result<Option<Head>> {
        let (mut tag, mut octets) = (None, 0);
        loop {
            let at_once = self.at_once(head.size);
            let plus = if at_once { "+" } else { "" };
            let flags = self.tried.flags(head.uid, settable(&head.flags));
            let begin = match tag {
                None => self.connection.begin(|w| w.raw(b"APPEND ").astring(self.wire)),
                Some(tag) => tag,
            };
            if tag.is_none() {
                self.asked.push_back(Asked { tag: begin, messages: Vec::new() });
            }
            tag = Some(begin);
            if let Some(asked) = self.asked.back_mut() {
                asked.messages.push((head.uid, head.size));
            }
            self.connection.more(|w| {
                w.space();
                if !flags.is_empty() {
                    w.flags(&flags).space();
                }
                if let Some(date) = head.date {
                    w.date_time(date).space();
                }
                w.raw(format!("{{{}{plus}}}\r\n", head.size))
            });
            if !at_once && !self.may_go_on(begin).await? {
                return Ok(None);
            }
            self.octets(&head).await?;
            octets += head.size;
            let messages = self.asked.back().map_or(0, |asked| asked.messages.len());
            let full = octets >= MULTI_OCTETS || messages >= MULTI_MESSAGES;
            let next = if self.multi && !full { self.begin(false).await? } else { None };
            match next {
                Some(next) if octets + next.size <= MULTI_OCTETS && self.hopeless(&next).is_none() => {
                    head = next;
                }
                next => {
                    self.connection.more(|w| w.crlf());
                    return Ok(next);
                }
            }
        }
    }

    /// Whether the server takes a literal of this size without being asked.
    fn at_once(&self, size: u64) -> bool {
        let capabilities = self.connection.capabilities();
        let minus = capabilities.has("LITERAL-") || capabilities.has("IMAP4REV2");
        capabilities.literal_plus() || minus && size <= MINUS_OCTETS
    }

    /// Sends a message's octets.
    async fn octets(&mut self, head: &Head) -> Result<()> {
        let mut left = head.size;
        let why = loop {
            match self.items.recv().await {
                Some(Item::Octets(bytes)) if bytes.len() as u64 <= left => {
                    left -= bytes.len() as u64;
                    self.connection.put(&bytes).await?;
                }
                Some(Item::End) if left == 0 => return Ok(()),
                Some(Item::Failed(_, why)) => {
                    self.tried.failed(head.uid, why.clone());
                    break why;
                }
                Some(_) => {
                    let why = format!("UID {} has an unexpected size", head.uid);
                    self.tried.failed(head.uid, why.clone());
                    break why;
                }
                None => {
                    let why = "the source ended in the middle of a message";
                    self.tried.lost(head.uid, true, why);
                    break why.to_owned();
                }
            }
        };
        self.innocent = true;
        self.asked.pop_back().into_iter().flat_map(|asked| asked.messages).for_each(|(uid, _)| {
            self.tried.put_off(uid);
        });
        // What was sent before is there, and the answers come although the server waits for octets that there are not.
        while !self.asked.is_empty() {
            self.answer().await?;
        }
        // Only a new connection helps now.
        Err(Error::retry(why))
    }

    /// Whether the server wants the literal.
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
        let Some(at) = self.asked.iter().position(|asked| asked.tag == tag) else { return Ok(()) };
        let Event::Response(Response::Status { status, code, text, .. }) = event else { return Ok(()) };
        let Some(Asked { messages, .. }) = self.asked.remove(at) else { return Ok(()) };
        if status == Status::Ok {
            self.put(&messages, code.as_ref());
            return Ok(());
        }
        let over_quota = code == Some(Code::OverQuota);
        // Of a message it says that it will never be taken.
        let limit = code == Some(Code::Limit) && !is_later(&text);
        let Err(e) = (Done { status, code, text }).ok("APPEND") else { return Ok(()) };
        match e.kind() {
            Kind::Retry if !limit => return Err(e),
            Kind::NotFound => return Err(e),
            _ => {}
        }
        match &*messages {
            [(uid, octets)] => {
                if over_quota {
                    self.room.refused(*octets, &e.to_string());
                } else if self.tried.leave_keywords(*uid) {
                    return Ok(());
                }
                self.tried.failed(*uid, e.to_string());
            }
            // One of them is to blame (RFC 3502: none was taken).
            several => several.iter().for_each(|(uid, _)| self.tried.put_off(*uid)),
        }
        Ok(())
    }

    fn put(&mut self, messages: &[(u32, u64)], code: Option<&Code>) {
        self.room.taken();
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
            let uidvalidity = self.told.uidvalidity;
            self.told.put(there.map(|there| Put { uidvalidity, uid: *uid, there }));
        }
    }
}

/// UIDs in the order in which the messages were named (RFC 4315 §3), of at most so many and one.
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
