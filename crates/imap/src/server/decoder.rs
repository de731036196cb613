//! [`Decoder`]: where one command ends and the next begins, and when the client waits.

use std::fmt;

use bytes::{Buf, BytesMut};
use memchr::memchr;
use sealpost_base::{cross_protocol, limits};
use zeroize::Zeroize;

use super::message::Append;
use super::skip::{Outcome, Skip};
use super::{Event, Limits, Line};
use crate::parse::{self, LiteralHeader, Refused, append_begin, literal_at_end, tag_of};
use crate::types::{Code, MetadataCode};

/// The decoder: one for each connection. Holds at most one command and the bytes fed beyond it.
pub struct Decoder {
    /// Bytes not yet turned into events; begins with the command, message or line being read.
    pub(super) input: BytesMut,
    pub(super) limits: Limits,
    pub(super) utf8: bool,
    pub(super) state: State,
}

pub(super) enum State {
    Command(Collect),
    /// Between the messages of an APPEND.
    Append(Append),
    /// The bytes of a message.
    Message {
        append: Append,
        left: u64,
        sync: bool,
        /// Whether the session has seen that they are announced and gone on.
        wanted: bool,
    },
    /// A line that is no command.
    Line,
    Skip(Skip),
    Dead,
}

/// How far a command was scanned.
#[derive(Debug, Default)]
pub(super) struct Collect {
    /// Where the present line begins: after the last literal.
    pub(super) line: usize,
    /// Up to where no line end was found.
    pub(super) scanned: usize,
    pub(super) literals: usize,
}

pub(super) const TOO_LONG: &str = "the command is too long";
const NO_LITERAL8: &str = "only a message may be a literal8";

impl Decoder {
    /// A decoder that waits for a command.
    pub fn new(limits: Limits) -> Self {
        Decoder { input: BytesMut::new(), limits, utf8: false, state: State::command() }
    }

    /// Other limits from the next command on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Mailbox names are UTF-8, not modified UTF-7, after `ENABLE IMAP4rev2` or `UTF8=ACCEPT`.
    pub fn set_utf8(&mut self, utf8: bool) {
        self.utf8 = utf8;
    }

    /// Adds bytes that came from the client. Take every event first, or the buffer grows.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Where to read bytes into directly: only append to it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Bytes received and not yet turned into events.
    pub fn pending(&self) -> usize {
        self.input.len()
    }

    /// The next line is not a command: it comes as [`Event::Line`] (AUTHENTICATE, IDLE). Call it
    /// once for each line. A line over `limits::IMAP_LINE_BYTES` comes as [`Event::Bad`] without a
    /// tag, and the exchange is over.
    pub fn expect_line(&mut self) {
        if matches!(self.state, State::Command(_)) {
            self.state = State::Line;
        }
    }

    /// Gives back the buffer's memory if nothing is in it: before a long wait, as in IDLE.
    pub fn release(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// Drops received bytes not yet taken: after the TLS handshake, plaintext input must not pass
    /// for protected input (RFC 3501 §6.2.1).
    pub fn clear(&mut self) {
        self.input.zeroize_all();
        self.state = State::command();
    }

    /// The next event; `None`: more bytes are needed.
    #[allow(clippy::should_implement_trait, reason = "None is not the end, only a pause")]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            let step = match &mut self.state {
                State::Command(_) => self.collect(),
                State::Append(_) => self.append(),
                State::Message { .. } => self.message(),
                State::Line => self.line(),
                State::Skip(_) => self.skip(),
                State::Dead => {
                    self.input.clear();
                    Step::Wait
                }
            };
            match step {
                Step::Event(event) => return Some(event),
                Step::Wait => return None,
                Step::Again => {}
            }
        }
    }
}

/// Never shows input: it may be a password.
impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut decoder = f.debug_struct("Decoder");
        decoder.field("pending", &self.pending()).field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The result of one step over the input.
pub(super) enum Step {
    Event(Event),
    /// More bytes are needed.
    Wait,
    /// The state changed: look again.
    Again,
}

impl State {
    pub(super) fn command() -> State {
        State::Command(Collect::default())
    }
}

impl Decoder {
    fn collect(&mut self) -> Step {
        let State::Command(collect) = &mut self.state else { return Step::Again };
        let Some(rest) = self.input.get(collect.scanned..) else { return Step::Wait };
        let line_end = memchr(b'\n', rest).map(|at| collect.scanned + at);
        let Some(line_end) = line_end else {
            collect.scanned = self.input.len();
            return if self.input.len() > self.limits.command_bytes {
                self.skip_line(TOO_LONG)
            } else {
                Step::Wait
            };
        };
        if line_end > self.limits.command_bytes {
            return self.skip_line(TOO_LONG);
        }
        let line = &self.input[collect.line..line_end];
        if collect.line == 0 && cross_protocol::is_request_line(line) {
            return self.http();
        }
        match literal_at_end(line.strip_suffix(b"\r").unwrap_or(line)) {
            None => self.complete(line_end + 1),
            Some(literal) => self.literal(line_end + 1, literal),
        }
    }

    /// The command is all there.
    fn complete(&mut self, end: usize) -> Step {
        if let Some(begun) = append_begin(&self.input[..end], self.utf8) {
            return self.begin_append(end, None, begun);
        }
        let mut command = self.take(end);
        let event = match parse::command(&command, self.utf8) {
            Ok(command) => Event::Command(command),
            // Its header has more digits than are looked for at the end of a line.
            Err(Refused::Incomplete) => {
                let reason = "the size of a literal has too many digits".into();
                Event::Bad { tag: tag_of(&command), code: None, reason }
            }
            // A tag may end with a colon, but a command follows it then.
            Err(_) if tag_of(&command).is_some_and(|tag| tag.as_str().ends_with(':')) => {
                self.state = State::Dead;
                Event::Http
            }
            Err(refused) => answer(refused),
        };
        // It may have held a password.
        command.as_mut().zeroize();
        Step::Event(event)
    }

    /// A literal is announced at the end of `input[..end]`.
    fn literal(&mut self, end: usize, literal: LiteralHeader) -> Step {
        let State::Command(collect) = &mut self.state else { return Step::Again };
        collect.literals += 1;
        let (count, first) = (collect.literals, collect.literals == 1);
        if let Some(most) = self.limits.non_sync_bytes
            && !literal.sync
            && literal.size > most
        {
            let bad = self.bad_literal(end);
            return self.refuse(end, literal, bad);
        }
        // The message is the first literal, or the second if the mailbox's name is one too.
        if count <= 2
            && let Some(begun) = append_begin(&self.input[..end], self.utf8)
        {
            return self.begin_append(end, Some(literal), begun);
        }
        let metadata = parse::is_set_metadata(&self.input[..end]);
        if metadata && literal.size > limits::METADATA_VALUE_BYTES as u64 {
            let event = self.too_long_for_metadata();
            return self.refuse(end, literal, event);
        }
        let over = literal.size > self.limits.command_bytes as u64
            || end + literal.size as usize > self.limits.command_bytes
            || count > limits::IMAP_LITERALS;
        if over || (literal.binary && !metadata) {
            let reason = if over { TOO_LONG } else { NO_LITERAL8 };
            let bad = self.bad(reason);
            return self.refuse(end, literal, bad);
        }
        // Once, while the client waits: do not request more of a command that is wrong already.
        if first && literal.sync {
            match parse::command(&self.input[..end], self.utf8) {
                Err(Refused::Incomplete) => {}
                Err(refused) => return self.refuse(end, literal, answer(refused)),
                Ok(_) => {
                    let bad = self.bad("a literal is out of place");
                    return self.refuse(end, literal, bad);
                }
            }
        }
        let State::Command(collect) = &mut self.state else { return Step::Again };
        collect.line = end + literal.size as usize;
        collect.scanned = collect.line;
        if literal.sync { Step::Event(Event::NeedContinuation) } else { Step::Again }
    }

    fn line(&mut self) -> Step {
        let end = memchr(b'\n', &self.input);
        if end.unwrap_or(self.input.len()) > limits::IMAP_LINE_BYTES {
            let bad = Event::Bad { tag: None, code: None, reason: "the line is too long".into() };
            self.state = State::Skip(Skip::line(bad));
            return Step::Again;
        }
        let Some(end) = end else { return Step::Wait };
        let mut taken = self.take(end + 1);
        let line = &taken[..end];
        // It may be a password: wiped here, and by its last owner.
        let line = Line::new(line.strip_suffix(b"\r").unwrap_or(line));
        taken.as_mut().zeroize();
        Step::Event(Event::Line(line))
    }

    fn skip(&mut self) -> Step {
        let State::Skip(skip) = &mut self.state else { return Step::Again };
        match skip.advance(&mut self.input, &self.limits) {
            Outcome::Wait => Step::Wait,
            Outcome::Done(event) => {
                self.state = State::command();
                event.map_or(Step::Again, Step::Event)
            }
            Outcome::TooMuch => {
                self.state = State::Dead;
                self.input.clear();
                Step::Event(Event::Fatal { reason: "too much of a refused command".into() })
            }
        }
    }

    /// The command is refused at a literal: a client that waits gets the answer, the input of
    /// another is discarded first.
    fn refuse(&mut self, end: usize, literal: LiteralHeader, event: Event) -> Step {
        self.refuse_with(end, literal, event, Skip::new)
    }

    /// The same for a command that brings messages.
    pub(super) fn refuse_messages(&mut self, end: usize, literal: LiteralHeader, event: Event) -> Step {
        self.refuse_with(end, literal, event, Skip::messages)
    }

    fn refuse_with(
        &mut self,
        end: usize,
        literal: LiteralHeader,
        event: Event,
        skip: fn(u64, Option<Event>) -> Skip,
    ) -> Step {
        self.take(end).as_mut().zeroize();
        if literal.sync {
            return Step::Event(event);
        }
        self.state = State::Skip(skip(literal.size, Some(event)));
        Step::Again
    }

    /// A line of HTTP: nothing more is read.
    fn http(&mut self) -> Step {
        self.clear();
        self.state = State::Dead;
        Step::Event(Event::Http)
    }

    /// The command is refused in the middle of a line.
    fn skip_line(&mut self, reason: &'static str) -> Step {
        let bad = self.bad(reason);
        let State::Command(collect) = &self.state else { return Step::Again };
        let line = collect.line;
        if line == 0 && cross_protocol::is_request_line(&self.input) {
            return self.http();
        }
        self.input.advance(line);
        self.state = State::Skip(Skip::new(0, Some(bad)));
        Step::Again
    }

    /// RFC 5464 §4.3: the answer says how long a value may be.
    fn too_long_for_metadata(&self) -> Event {
        let Some(tag) = tag_of(&self.input) else { return self.bad(TOO_LONG) };
        let code = Code::Metadata(MetadataCode::MaxSize(limits::METADATA_VALUE_BYTES as u64));
        Event::No { tag, code: Some(code), reason: "the value is too long".into() }
    }

    pub(super) fn bad(&self, reason: &'static str) -> Event {
        Event::Bad { tag: tag_of(&self.input), code: None, reason: reason.into() }
    }

    /// A literal that LITERAL- does not allow, announced at the end of `input[..end]`. For an
    /// APPEND the answer must have TOOBIG (RFC 7888 §5).
    fn bad_literal(&self, end: usize) -> Event {
        let code = append_begin(&self.input[..end], self.utf8).map(|_| Code::TooBig);
        let reason = "a literal of more than 4096 bytes must wait for the server".into();
        Event::Bad { tag: tag_of(&self.input), code, reason }
    }

    /// Takes the first `end` bytes; a new command follows.
    pub(super) fn take(&mut self, end: usize) -> BytesMut {
        self.state = State::command();
        self.input.split_to(end)
    }
}

pub(super) fn answer(refused: Refused) -> Event {
    match refused {
        Refused::Bad { tag, reason } => Event::Bad { tag, code: None, reason },
        Refused::Name { tag, invalid } => {
            Event::No { tag, code: Some(Code::Cannot), reason: invalid.to_string().into() }
        }
        Refused::Incomplete => Event::Bad { tag: None, code: None, reason: "a literal is incomplete".into() },
    }
}

/// Wipes bytes that are discarded unread.
trait ZeroizeAll {
    fn zeroize_all(&mut self);
}

impl ZeroizeAll for BytesMut {
    fn zeroize_all(&mut self) {
        self.as_mut().zeroize();
        self.clear();
    }
}
