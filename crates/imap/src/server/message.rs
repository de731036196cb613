//! APPEND and REPLACE: the command piece by piece, its messages handed out as they come in, or refused.
//!
//! The part of the command between two messages' bytes is a *segment*: it is held, within
//! [`super::Limits::command_bytes`], until it ends at a literal or at the end of the line, and then
//! its pieces come out one by one. Nothing else is held.

use std::borrow::Cow;

use bytes::Buf;
use memchr::memchr;
use sealpost_base::limits;

use super::Event;
use super::decoder::{Collect, Decoder, State, Step, TOO_LONG, answer};
use super::skip::Skip;
use crate::parse::{Cursor, Failure, LiteralHeader, Piece, Refused, Syntax, literal_at_end, refused};
use crate::types::{AppendHead, AppendLiteral, Code, Tag};

/// An APPEND under way.
#[derive(Debug)]
pub(super) struct Append {
    tag: Tag,
    syntax: Syntax,
    /// How far the segment was scanned while it is incomplete.
    collect: Collect,
    /// The segment, when it is complete: the input begins with the rest of it.
    segment: Option<Segment>,
    /// A literal within the segment that is a string of its own: a URL.
    string: Option<Announced>,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    /// Where it ends, with its line end.
    end: usize,
    /// The literal that it ends with; `None`: it ends the command.
    literal: Option<LiteralHeader>,
}

#[derive(Debug, Clone, Copy)]
struct Announced {
    /// Where its bytes begin in the input.
    at: usize,
    size: u64,
    /// The client waits, and the session has not gone on yet.
    waiting: bool,
}

impl Decoder {
    /// After [`Event::AppendBegin`] and before the end of that command: refuses the rest. Further
    /// input of it is discarded; no further event for it follows, unless it is [`Event::Fatal`]. At
    /// any other time this does nothing.
    pub fn refuse_append(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Dead) {
            // The client waits for `+ `, and takes the NO as the answer (RFC 3501 §7.5).
            State::Message { sync: true, wanted: false, .. } => State::command(),
            State::Message { left, .. } => State::Skip(Skip::messages(left, None)),
            State::Append(append) => {
                let (passed, left) = match append {
                    Append { segment: Some(Segment { end, literal }), .. } => match literal {
                        Some(LiteralHeader { sync: false, size, .. }) => (end, Some(size)),
                        _ => (end, None),
                    },
                    Append { string: Some(Announced { at, waiting: true, .. }), .. } => (at, None),
                    Append { string: Some(Announced { at, size, .. }), .. } => (at, Some(size)),
                    _ => (0, Some(0)),
                };
                self.input.advance(passed);
                left.map_or_else(State::command, |left| State::Skip(Skip::messages(left, None)))
            }
            other => other,
        };
    }

    /// A command whose beginning was read from `input[..end]`, which ends with `literal`.
    pub(super) fn begin_append(
        &mut self,
        end: usize,
        literal: Option<LiteralHeader>,
        begun: Result<(AppendHead, Syntax, usize), Refused>,
    ) -> Step {
        let (head, syntax, taken) = match begun {
            Ok(begun) if self.limits.append_bytes.is_some() => begun,
            Ok(_) => {
                let bad = self.bad("APPEND is not possible before login");
                return self.end_append(end, literal, bad);
            }
            Err(refused) => return self.end_append(end, literal, answer(refused)),
        };
        self.input.advance(taken);
        let segment = Some(Segment { end: end - taken, literal });
        let (tag, collect) = (head.tag.clone(), Collect::default());
        self.state = State::Append(Append { tag, syntax, collect, segment, string: None });
        Step::Event(Event::AppendBegin(head))
    }

    /// The next piece of the segment.
    pub(super) fn append(&mut self) -> Step {
        let State::Append(append) = &mut self.state else { return Step::Again };
        let Some(segment) = &mut append.segment else { return self.collect_segment() };
        let mut cursor = Cursor::of_command(&self.input[..segment.end], self.utf8);
        let piece = append.syntax.step(&mut cursor);
        let (taken, Segment { end, literal }) = (cursor.position(), *segment);
        let piece = match piece {
            Ok(piece) => piece,
            Err(Failure::Incomplete) if let Some(literal) = literal => return self.string(end, literal),
            Err(failure) => {
                let tag = append.tag.clone();
                let bad = match refused(tag.clone(), failure) {
                    Refused::Incomplete => {
                        let reason = "a literal is out of place".into();
                        Event::Bad { tag: Some(tag), code: None, reason }
                    }
                    refused => answer(refused),
                };
                return self.end_append(end, literal, bad);
            }
        };
        segment.end -= taken;
        self.input.advance(taken);
        match piece {
            Piece::Message(message) => Step::Event(Event::AppendMessage(message)),
            Piece::Url(url) => Step::Event(Event::AppendUrl(url)),
            Piece::Literal(literal) => self.bytes(literal),
            Piece::End => {
                self.state = State::command();
                Step::Event(Event::AppendEnd)
            }
        }
    }

    /// Waits for the end of the segment.
    fn collect_segment(&mut self) -> Step {
        let State::Append(append) = &mut self.state else { return Step::Again };
        if let Some(string) = &mut append.string {
            string.waiting = false;
        }
        let collect = &mut append.collect;
        let Some(rest) = self.input.get(collect.scanned..) else { return Step::Wait };
        let line_end = memchr(b'\n', rest).map(|at| collect.scanned + at);
        if line_end.unwrap_or(self.input.len()) > self.limits.command_bytes {
            let bad = Event::Bad { tag: Some(append.tag.clone()), code: None, reason: TOO_LONG.into() };
            let line = collect.line;
            self.input.advance(line);
            self.state = State::Skip(Skip::messages(0, Some(bad)));
            return Step::Again;
        }
        let Some(line_end) = line_end else {
            collect.scanned = self.input.len();
            return Step::Wait;
        };
        let line = &self.input[collect.line..line_end];
        let literal = literal_at_end(line.strip_suffix(b"\r").unwrap_or(line));
        append.segment = Some(Segment { end: line_end + 1, literal });
        append.string = None;
        Step::Again
    }

    /// The literal at the end of the segment is a string that belongs to it.
    fn string(&mut self, end: usize, literal: LiteralHeader) -> Step {
        let State::Append(append) = &mut self.state else { return Step::Again };
        let literals = append.collect.literals + 1;
        let next = usize::try_from(literal.size).unwrap_or(usize::MAX).saturating_add(end);
        if next > self.limits.command_bytes || literals > limits::IMAP_LITERALS {
            let bad = Event::Bad { tag: Some(append.tag.clone()), code: None, reason: TOO_LONG.into() };
            return self.refuse_messages(end, literal, bad);
        }
        append.collect = Collect { line: next, scanned: next, literals };
        append.string = Some(Announced { at: end, size: literal.size, waiting: literal.sync });
        append.segment = None;
        if literal.sync { Step::Event(Event::NeedContinuation) } else { Step::Again }
    }

    /// Bytes of a message are announced, and all before them was taken.
    fn bytes(&mut self, literal: AppendLiteral) -> Step {
        let AppendLiteral { size, sync, binary, .. } = literal;
        let State::Append(append) = std::mem::replace(&mut self.state, State::Dead) else {
            return Step::Again;
        };
        let most = self.limits.append_bytes.unwrap_or(0);
        if size > most {
            let reason = Cow::Owned(format!("message exceeds the limit of {most} bytes"));
            // RFC 4469 §4.2, RFC 7889 §4
            let no = Event::No { tag: append.tag, code: Some(Code::TooBig), reason };
            return self.refuse_messages(0, LiteralHeader { size, sync, binary }, no);
        }
        if self.limits.non_sync_bytes.is_some_and(|most| !sync && size > most) {
            let reason = "a literal of that size has to wait for the server".into();
            let bad = Event::Bad { tag: Some(append.tag), code: Some(Code::TooBig), reason };
            return self.refuse_messages(0, LiteralHeader { size, sync, binary }, bad);
        }
        let literals = append.collect.literals;
        let append = Append { collect: Collect { literals, ..Collect::default() }, segment: None, ..append };
        self.state = State::Message { append, left: size, sync, wanted: false };
        Step::Event(Event::AppendLiteral(literal))
    }

    /// The bytes of a message.
    pub(super) fn message(&mut self) -> Step {
        let State::Message { left, wanted, .. } = &mut self.state else { return Step::Again };
        *wanted = true;
        if *left == 0 {
            if let State::Message { append, .. } = std::mem::replace(&mut self.state, State::Dead) {
                self.state = State::Append(append);
            }
            return Step::Again;
        }
        let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.input.len());
        if here == 0 {
            return Step::Wait;
        }
        // CHAR8 excludes NUL unless the literal is a literal8 (RFC 3501 §9, RFC 3516 §4.4), but
        // mail has it, and a client must be able to append a message that it fetched here: the
        // bytes are kept as they come.
        *left -= here as u64;
        Step::Event(Event::AppendData(self.input.split_to(here).freeze()))
    }

    /// The command ends with this answer.
    fn end_append(&mut self, end: usize, literal: Option<LiteralHeader>, event: Event) -> Step {
        match literal {
            Some(literal) => self.refuse_messages(end, literal, event),
            None => {
                self.take(end);
                Step::Event(event)
            }
        }
    }
}
