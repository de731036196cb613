//! Finds the boundaries of responses, for a client that keeps none of them.
//!
//! IMAP responses are lines that literals may interrupt (RFC 3501 §2.2, §4.3); SMTP and LMTP
//! replies are lines. A [`Scanner`] takes bytes in arbitrary pieces and passes on each line, with
//! at most [`HEAD_BYTES`] of a line that came in pieces; literals are skipped. So a connection
//! costs a few dozen bytes while nothing comes, and hundreds of megabytes of mail cost a search for
//! line ends.

use memchr::memchr;

/// At most so many bytes of a line that came in pieces are passed on.
pub const HEAD_BYTES: usize = 4096;
/// Enough for `~{18446744073709551615+}` and a CR.
const TAIL_BYTES: usize = 32;

/// A line of a response, without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its text; only its beginning, if it is long and came in pieces.
    pub text: &'a [u8],
    /// It begins a response: no literal came before it.
    pub first: bool,
    /// It ends the response: no literal follows it.
    pub last: bool,
    /// Bytes since the previous line, literals and line end included.
    pub bytes: u64,
}

/// Whether literals may interrupt lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// IMAP: `{5}` at the end of untagged data announces five bytes.
    Imap,
    /// SMTP and LMTP: lines only.
    Smtp,
}

/// Finds the lines of one connection.
#[derive(Debug)]
pub struct Scanner {
    syntax: Syntax,
    /// The beginning of an incomplete line.
    head: Vec<u8>,
    /// The last bytes of a line longer than `head` may be.
    tail: Vec<u8>,
    /// Bytes of a literal that are still expected.
    literal: u64,
    /// A literal has come and its response has not ended.
    within: bool,
    /// The current response is data, so its lines may end in literals.
    bytes: u64,
}

impl Scanner {
    /// For a connection that was just opened.
    pub fn new(syntax: Syntax) -> Self {
        Scanner { syntax, head: Vec::new(), tail: Vec::new(), literal: 0, within: false, bytes: 0 }
    }

    /// Takes the next bytes, and passes each complete line to `sink`.
    pub fn feed(&mut self, mut input: &[u8], mut sink: impl FnMut(Line<'_>)) {
        while !input.is_empty() {
            if self.literal > 0 {
                let skipped = input.len().min(usize::try_from(self.literal).unwrap_or(usize::MAX));
                self.literal -= skipped as u64;
                self.bytes += skipped as u64;
                input = &input[skipped..];
                continue;
            }
            let Some(end) = memchr(b'\n', input) else {
                self.bytes += input.len() as u64;
                return self.keep(input);
            };
            let (line, rest) = input.split_at(end + 1);
            self.bytes += line.len() as u64;
            input = rest;
            let line = &line[..end];
            if self.head.is_empty() {
                self.line(line, line, &mut sink);
            } else {
                self.keep(line);
                let (head, tail) = (std::mem::take(&mut self.head), std::mem::take(&mut self.tail));
                self.line(&head, if tail.is_empty() { &head } else { &tail }, &mut sink);
                // An idle connection must not keep the memory of one long line.
                if head.capacity() <= 256 {
                    self.head = head;
                    self.head.clear();
                }
            }
        }
    }

    fn line(&mut self, text: &[u8], end: &[u8], sink: &mut impl FnMut(Line<'_>)) {
        let first = !self.within;
        let may = self.syntax == Syntax::Imap && (self.within || is_data(text));
        let literal = if may { literal(end.strip_suffix(b"\r").unwrap_or(end)) } else { None };
        self.within = literal.is_some();
        self.literal = literal.unwrap_or(0);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        sink(Line { text, first, last: literal.is_none(), bytes: std::mem::take(&mut self.bytes) });
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let here = bytes.len().min(room);
        self.head.extend_from_slice(&bytes[..here]);
        if here == bytes.len() && self.tail.is_empty() {
            return;
        }
        if self.tail.is_empty() {
            self.tail.extend_from_slice(&self.head[HEAD_BYTES - TAIL_BYTES..]);
        }
        let more = &bytes[here..];
        self.tail.extend_from_slice(&more[more.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
    }
}

/// Whether the line begins untagged data. The text of status responses is free, and may end in
/// `{5}`.
fn is_data(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"* ") else { return false };
    let end = rest.iter().position(|b| matches!(b, b' ' | b'\r')).unwrap_or(rest.len());
    ![&b"OK"[..], b"NO", b"BAD", b"BYE", b"PREAUTH"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(&rest[..end]))
}

/// `{123}`, `{123+}` at the end: how many bytes follow. After `~` they may be any bytes (RFC 3516
/// §4.2), which makes no difference here.
fn literal(line: &[u8]) -> Option<u64> {
    let inner = line.strip_suffix(b"}")?;
    let inner = inner.strip_suffix(b"+").unwrap_or(inner);
    let digits = inner.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, digits) = inner.split_at(inner.len() - digits);
    before.last().filter(|b| **b == b'{')?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Scans `input` cut into pieces of those lengths; for fuzzing and tests. Returns the lines,
/// joined.
#[doc(hidden)]
pub fn scan_in_pieces(input: &[u8], cuts: &[usize]) -> Vec<(Vec<u8>, bool, bool, u64)> {
    let mut scanner = Scanner::new(Syntax::Imap);
    let mut seen = Vec::new();
    let mut rest = input;
    let mut cuts = cuts.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(cuts.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
        rest = more;
        scanner.feed(piece, |line| {
            let text = &line.text[..line.text.len().min(HEAD_BYTES)];
            seen.push((text.to_vec(), line.first, line.last, line.bytes));
        });
    }
    seen
}

#[cfg(test)]
mod tests;
