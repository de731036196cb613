//! One message of an mbox between its separator and the next: where it ends, and which lines of it
//! were quoted.

use std::io::{Read, Seek};

use super::Variant;
use super::separator::{FromLine, NEXT_LINE_BYTES, PreviousLine, SEPARATOR_BYTES, separator};
use super::window::Window;

/// Bytes peeked at the start of a line: enough to see a separator and what follows it.
pub(super) const AHEAD_BYTES: usize = SEPARATOR_BYTES + NEXT_LINE_BYTES;
/// Bytes collected before they are passed on.
const PIECE_BYTES: usize = 64 * 1024;

/// The position within a message between its separator and the next.
#[derive(Default)]
pub(super) struct Body {
    /// Inside a line, not at its start.
    in_line: bool,
    /// An empty line that belongs to the message unless a separator follows.
    pub held: Option<&'static [u8]>,
    /// The empty line that ended the message, if one did.
    pub closed: Option<&'static [u8]>,
    /// Bytes left of a body whose length is known.
    pub remaining: Option<u64>,
    /// This line began with more `>` than fit in the look-ahead.
    long_run: bool,
    pub ended: bool,
    /// The separator that ended it, and its offset.
    pub next: Option<(FromLine, u64)>,
    /// For detection: a line of a counted body began `From `, or `>From `.
    pub saw_bare: bool,
    pub saw_quoted: bool,
}

impl Body {
    /// Without a message: the next thing is a separator that was found already, or the end.
    pub fn at_end() -> Self {
        Body { ended: true, ..Body::default() }
    }

    /// Appends the next piece (with `one_line`: at most one line) to `out`; false at the message's end.
    pub fn pump<R: Read + Seek>(
        &mut self,
        window: &mut Window<R>,
        variant: Variant,
        out: &mut Vec<u8>,
        one_line: bool,
    ) -> std::io::Result<bool> {
        while !self.ended && out.len() < PIECE_BYTES {
            if self.remaining == Some(0) {
                self.end_counted(window)?;
                continue;
            }
            let begins = window.offset();
            let ahead = window.peek(AHEAD_BYTES)?;
            let most = self.remaining.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
            let ahead = &ahead[..ahead.len().min(most)];
            if ahead.is_empty() {
                self.ended = true;
                break;
            }
            if !self.in_line && self.remaining.is_none() {
                let before = if self.held.is_some() { PreviousLine::Empty } else { PreviousLine::Text };
                if let Some((from, length)) = separator(ahead, before) {
                    window.consume(length);
                    self.next = Some((from, begins));
                    self.ended = true;
                    break;
                }
                out.extend_from_slice(self.held.take().unwrap_or(b""));
                if let Some(blank) = blank_line(ahead) {
                    self.held = Some(blank);
                    window.consume(blank.len());
                    if one_line {
                        return Ok(true);
                    }
                    continue;
                }
            }
            let skip = if self.in_line { Quoted::No } else { self.quoted(ahead, variant) };
            let (from, to) = match skip {
                Quoted::Undecided(arrows) => (0, arrows),
                Quoted::Yes | Quoted::No => {
                    let to = memchr::memchr(b'\n', ahead).map_or(ahead.len(), |at| at + 1);
                    self.in_line = ahead[to - 1] != b'\n';
                    self.long_run = false;
                    (usize::from(skip == Quoted::Yes), to)
                }
            };
            out.extend_from_slice(&ahead[from..to]);
            window.consume(to);
            if let Some(remaining) = &mut self.remaining {
                *remaining -= to as u64;
            }
            if one_line {
                return Ok(true);
            }
        }
        if self.ended {
            self.closed = self.held.take().or(self.closed);
        }
        Ok(!self.ended)
    }

    /// Whether the line that `ahead` begins with was quoted, so that its first `>` is removed.
    fn quoted(&mut self, ahead: &[u8], variant: Variant) -> Quoted {
        let arrows = ahead.iter().take_while(|b| **b == b'>').count();
        if arrows + 5 > ahead.len() && arrows > 1 && ahead.len() >= AHEAD_BYTES {
            self.long_run = true;
            return Quoted::Undecided(arrows - 1); // all `>` are alike: the last one stands for the first
        }
        if !ahead[arrows..].starts_with(b"From ") {
            return Quoted::No;
        }
        self.saw_bare |= arrows == 0;
        self.saw_quoted |= arrows == 1;
        let yes = match variant {
            Variant::Rd => arrows >= 1,
            Variant::O | Variant::Cl => arrows == 1 && !self.long_run,
            Variant::Cl2 => false,
        };
        if yes { Quoted::Yes } else { Quoted::No }
    }

    /// Past the empty line after a counted body and the separator behind it.
    fn end_counted<R: Read + Seek>(&mut self, window: &mut Window<R>) -> std::io::Result<()> {
        loop {
            let begins = window.offset();
            let ahead = window.peek(AHEAD_BYTES)?;
            if let Some(blank) = blank_line(ahead) {
                window.consume(blank.len());
                continue;
            }
            self.ended = true;
            if let Some((from, length)) = separator(ahead, PreviousLine::Empty) {
                window.consume(length);
                self.next = Some((from, begins));
            }
            return Ok(());
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Yes,
    No,
    /// Only `>` so far; that many may be passed on.
    Undecided(usize),
}

/// The empty line at the beginning of `bytes`.
pub(super) fn blank_line(bytes: &[u8]) -> Option<&'static [u8]> {
    if bytes.starts_with(b"\n") {
        Some(b"\n")
    } else if bytes.starts_with(b"\r\n") {
        Some(b"\r\n")
    } else {
        None
    }
}
