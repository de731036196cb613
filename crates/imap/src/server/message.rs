//! APPEND's message: announced, refused, or handed out piece by piece.

use std::borrow::Cow;

use zeroize::Zeroize;

use super::Event;
use super::decoder::{Decoder, State, Step};
use super::skip::Skip;
use crate::parse::LiteralHeader;
use crate::types::{AppendHead, Code};

impl Decoder {
    pub(super) fn append(&mut self, end: usize, head: AppendHead) -> Step {
        let literal = LiteralHeader { size: head.size, sync: head.sync, binary: head.binary };
        match self.limits.append_bytes {
            None => {
                let bad = self.bad("APPEND is not possible before login");
                self.refuse(end, literal, bad)
            }
            Some(most) if head.size > most => {
                let reason = Cow::Owned(format!("a message may have at most {most} octets"));
                // RFC 4469 §4.2, RFC 7889 §4
                self.refuse(end, literal, Event::No { tag: head.tag, code: Some(Code::TooBig), reason })
            }
            Some(_) => {
                self.take(end).as_mut().zeroize();
                self.state =
                    State::Message { tag: head.tag.clone(), left: head.size, sync: head.sync, wanted: false };
                Step::Event(Event::AppendBegin(head))
            }
        }
    }

    pub(super) fn message(&mut self) -> Step {
        let State::Message { tag, left, wanted, .. } = &mut self.state else { return Step::Again };
        *wanted = true;
        if *left == 0 {
            self.state = State::Tail(tag.clone());
            return Step::Again;
        }
        let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.input.len());
        if here == 0 {
            return Step::Wait;
        }
        // CHAR8 excludes NUL unless the literal is a literal8 (RFC 3501 §9, RFC 3516 §4.4), but mail has it, and a
        // client that puts back what it read here must be able to: the octets are kept as they come.
        *left -= here as u64;
        Step::Event(Event::AppendData(self.input.split_to(here).freeze()))
    }

    pub(super) fn tail(&mut self) -> Step {
        let State::Tail(tag) = &self.state else { return Step::Again };
        let end = match &self.input[..] {
            [] | [b'\r'] => return Step::Wait,
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => {
                let reason = "unexpected text after the message".into();
                let bad = Event::Bad { tag: Some(tag.clone()), code: None, reason };
                self.state = State::Skip(Skip::new(0, Some(bad)));
                return Step::Again;
            }
        };
        self.take(end);
        Step::Event(Event::AppendEnd)
    }
}
