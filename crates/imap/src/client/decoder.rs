//! [`ResponseDecoder`]: where one response ends and the next begins.

use std::collections::VecDeque;

use bytes::{Buf, BytesMut};
use memchr::memchr;

use super::{BodyName, Event, Limits};
use crate::parse::{self, FetchStep, fetch_begin, fetch_step, literal_at_end};

/// The decoder: one for each connection.
#[derive(Debug)]
pub struct ResponseDecoder {
    input: BytesMut,
    limits: Limits,
    utf8: bool,
    /// Where the present line begins: after the last literal.
    line: usize,
    /// Up to where no line end was found.
    scanned: usize,
    /// Whether the buffer begins within a FETCH response.
    in_fetch: bool,
    /// Bytes of a large literal still to come.
    literal: Option<u64>,
    ready: VecDeque<Event>,
    broken: bool,
}

impl ResponseDecoder {
    /// A decoder that waits for the greeting.
    pub fn new(limits: Limits) -> Self {
        ResponseDecoder {
            input: BytesMut::new(),
            limits,
            utf8: false,
            line: 0,
            scanned: 0,
            in_fetch: false,
            literal: None,
            ready: VecDeque::new(),
            broken: false,
        }
    }

    /// Mailbox names are UTF-8, not modified UTF-7, after `ENABLE IMAP4rev2` or `UTF8=ACCEPT`.
    pub fn set_utf8(&mut self, utf8: bool) {
        self.utf8 = utf8;
    }

    /// Adds bytes that came from the server.
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

    /// Whether a response has begun and not ended.
    pub fn is_within(&self) -> bool {
        !self.input.is_empty() || self.in_fetch || self.literal.is_some()
    }

    /// The next event; `None`: more bytes are needed.
    #[allow(clippy::should_implement_trait, reason = "None is not the end, only a pause")]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.broken {
                self.input.clear();
                return None;
            }
            if self.literal.is_some() {
                return self.literal_data();
            }
            if !self.collect() {
                return None;
            }
        }
    }

    fn literal_data(&mut self) -> Option<Event> {
        let left = self.literal.as_mut()?;
        if *left == 0 {
            self.literal = None;
            return Some(Event::LiteralEnd);
        }
        let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.input.len());
        if here == 0 {
            return None;
        }
        *left -= here as u64;
        Some(Event::LiteralData(self.input.split_to(here).freeze()))
    }

    /// Looks for the end of a line; `false`: more bytes are needed.
    fn collect(&mut self) -> bool {
        let Some(rest) = self.input.get(self.scanned..) else { return false };
        let Some(end) = memchr(b'\n', rest).map(|at| self.scanned + at) else {
            self.scanned = self.input.len();
            if self.input.len() > self.limits.response_bytes {
                self.fail("a response is too long");
                return true;
            }
            return false;
        };
        if end > self.limits.response_bytes {
            self.fail("a response is too long");
            return true;
        }
        let line = &self.input[self.line..end];
        match literal_at_end(line.strip_suffix(b"\r").unwrap_or(line)) {
            // Text for people may end like a literal; the lines that may hold one are untagged data.
            Some(literal) if !is_text(&self.input[..end], self.in_fetch) => {
                self.literal(end + 1, literal.size)
            }
            _ => self.complete(end + 1),
        }
        true
    }

    fn literal(&mut self, end: usize, size: u64) {
        if size > self.limits.inline_bytes && self.stream(end) {
            return;
        }
        let total = (end as u64).saturating_add(size);
        if total > self.limits.response_bytes as u64 {
            self.fail("a literal is too large");
            return;
        }
        self.line = total as usize;
        self.scanned = self.line;
    }

    /// The large literal at the end of `input[..end]` is an item of a FETCH: hands out the items
    /// before it.
    fn stream(&mut self, end: usize) -> bool {
        let Some((events, at, Some((name, size)))) = self.fetch(end) else { return false };
        if at != end {
            return false;
        }
        self.ready.extend(events);
        self.ready.push_back(Event::LiteralBegin(name, size));
        self.consume(end);
        self.in_fetch = true;
        self.literal = Some(size);
        true
    }

    fn complete(&mut self, end: usize) {
        if self.in_fetch || fetch_begin(&self.input[..end]).is_some() {
            match self.fetch(end) {
                Some((events, at, None)) if at == end => {
                    self.ready.extend(events);
                    self.ready.push_back(Event::FetchEnd);
                    self.consume(end);
                    self.in_fetch = false;
                    return;
                }
                _ if self.in_fetch => return self.fail("a FETCH response cannot be read"),
                // Nothing of it was handed out yet: it passes as unknown data.
                _ => {}
            }
        }
        match parse::response(&self.input[..end], self.utf8) {
            Ok(response) => self.ready.push_back(Event::Response(response)),
            Err(reason) => return self.fail(reason),
        }
        self.consume(end);
    }

    /// The events of `input[..end]`, up to where they go, and the large literal that ends them if one does.
    #[allow(clippy::type_complexity, reason = "named by its one caller's needs")]
    fn fetch(&self, end: usize) -> Option<(Vec<Event>, usize, Option<(BodyName, u64)>)> {
        let mut events = Vec::new();
        let mut at = 0;
        if !self.in_fetch {
            let (event, begin) = fetch_begin(&self.input[..end])?;
            events.push(event);
            at = begin;
        }
        loop {
            match fetch_step(&self.input[at..end], self.limits.inline_bytes, self.utf8).ok()? {
                FetchStep::Item(data, bytes) => {
                    events.push(Event::Fetch(data));
                    at += bytes;
                }
                FetchStep::Literal(name, size, bytes) => {
                    return Some((events, at + bytes, Some((name, size))));
                }
                FetchStep::End(bytes) => return Some((events, at + bytes, None)),
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.input.advance(bytes);
        self.line = 0;
        self.scanned = 0;
    }

    fn fail(&mut self, reason: &'static str) {
        self.broken = true;
        self.ready.push_back(Event::Broken(reason));
    }
}

/// Whether the line is a status response or continuation request: no literals in it.
fn is_text(line: &[u8], in_fetch: bool) -> bool {
    if in_fetch {
        return false;
    }
    let Some(untagged) = line.strip_prefix(b"* ") else { return true };
    let word = untagged.split(|&b| b == b' ').next().unwrap_or(untagged);
    [&b"OK"[..], b"NO", b"BAD", b"BYE", b"PREAUTH"].iter().any(|status| status.eq_ignore_ascii_case(word))
}
