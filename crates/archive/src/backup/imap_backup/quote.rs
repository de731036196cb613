//! The quoting of imap-backup: a line that begins with `From`, after any number of `>`, gets one
//! more `>`.
//!
//! Unlike elsewhere, `From` needs no space after it, and a message's first line is never quoted,
//! but unquoted like the others when read. So a first line is quoted here where reading would
//! change it (`>From`), and where it would be taken for the beginning of another message (`From `):
//! imap-backup cannot store such messages, and can read these.

use std::io::{self, Read, Write};

const FROM: &[u8] = b"From";

/// Quotes text, in pieces.
#[derive(Debug)]
pub struct Quoter {
    at: LineState,
    first_line: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// At the beginning of a line: a number of `>`, then bytes of `From`, or of `From ` in the
    /// first line.
    Start {
        marks: bool,
        matched: usize,
    },
    Within,
}

const LINE: LineState = LineState::Start { marks: false, matched: 0 };

impl Default for Quoter {
    fn default() -> Self {
        Quoter { at: LINE, first_line: true }
    }
}

impl Quoter {
    /// Writes `text`, quoted, to `out`. The added `>` may follow the existing ones: all are alike.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn push(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<()> {
        let begun = self.begin_line(text, out)?;
        let text = &text[begun..];
        // Whole lines, except the beginning of the first one, are scanned at once.
        let whole = memchr::memrchr(b'\n', text).map_or(0, |last| last + 1);
        if whole > 0 {
            quote_lines(&text[..whole], out)?;
            (self.at, self.first_line) = (LINE, false);
        }
        let last = &text[whole..];
        let begun = self.begin_line(last, out)?;
        out.write_all(&last[begun..])
    }

    /// Takes the bytes of `text` that belong to the beginning of a line, until it is clear whether
    /// it is quoted; returns how many.
    fn begin_line(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<usize> {
        let mut at = 0;
        while let LineState::Start { marks, matched } = self.at
            && at < text.len()
        {
            let wanted: &[u8] = if self.first_line && !marks { b"From " } else { FROM };
            if text[at] == wanted[matched] {
                at += 1;
                if matched + 1 == wanted.len() {
                    out.write_all(b">")?;
                    out.write_all(wanted)?;
                    self.at = LineState::Within;
                } else {
                    self.at = LineState::Start { marks, matched: matched + 1 };
                }
            } else if text[at] == b'>' && matched == 0 {
                out.write_all(b">")?;
                at += 1;
                self.at = LineState::Start { marks: true, matched: 0 };
            } else {
                out.write_all(&wanted[..matched])?;
                self.at = LineState::Within;
            }
        }
        Ok(at)
    }

    /// Ends the message.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let LineState::Start { matched, .. } = std::mem::replace(&mut self.at, LINE) {
            out.write_all(&b"From "[..matched])?;
        }
        self.first_line = true;
        Ok(())
    }
}

/// Writes the rest of a line and whole lines after it, quoted. Lines that need quoting are rare, so
/// they are searched for by their marker, which is much faster than examining every line.
fn quote_lines(text: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut written = 0;
    for at in memchr::memmem::find_iter(text, FROM) {
        let before = &text[..at];
        let marks = before.iter().rev().take_while(|b| **b == b'>').count();
        if before[..at - marks].last() == Some(&b'\n') {
            out.write_all(&text[written..at])?;
            out.write_all(b">")?;
            written = at;
        }
    }
    out.write_all(&text[written..])
}

/// Reads a message's part of an mbox: without its first line, the `From` line, and with one `>`
/// less on quoted lines.
pub struct Unquoting<R> {
    mbox: R,
    piece: Vec<u8>,
    ready: Vec<u8>,
    taken: usize,
    in_from_line: bool,
    at: Unplace,
}

#[derive(Clone, Copy)]
enum Unplace {
    /// At the beginning of a line: whether a `>` is held, and bytes of `From` after it.
    Start {
        held: bool,
        matched: usize,
    },
    Within,
}

const UNLINE: Unplace = Unplace::Start { held: false, matched: 0 };

impl<R: Read> Unquoting<R> {
    /// `mbox`: a message, from its `From` line on, and nothing after it.
    pub fn new(mbox: R) -> Self {
        let piece = vec![0; 32 * 1024];
        Unquoting { mbox, piece, ready: Vec::new(), taken: 0, in_from_line: true, at: UNLINE }
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.ready.clear();
        self.taken = 0;
        while self.ready.is_empty() {
            let n = match self.mbox.read(&mut self.piece) {
                Ok(0) => {
                    if let Unplace::Start { held, matched } = std::mem::replace(&mut self.at, Unplace::Within)
                    {
                        self.ready.extend_from_slice(if held { b">" } else { b"" });
                        self.ready.extend_from_slice(&FROM[..matched]);
                    }
                    return Ok(!self.ready.is_empty());
                }
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let mut from = 0;
            if self.in_from_line {
                let Some(end) = memchr::memchr(b'\n', &self.piece[..n]) else { continue };
                self.in_from_line = false;
                from = end + 1;
            }
            unquote(&mut self.at, &self.piece[from..n], &mut self.ready);
        }
        Ok(true)
    }
}

fn unquote(place: &mut Unplace, text: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < text.len() {
        let Unplace::Start { held, matched } = *place else {
            let to = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n + 1);
            out.extend_from_slice(&text[at..to]);
            if text[to - 1] == b'\n' {
                *place = UNLINE;
            }
            at = to;
            continue;
        };
        match text[at] {
            b'>' if matched == 0 => {
                if held {
                    out.push(b'>');
                }
                *place = Unplace::Start { held: true, matched: 0 };
                at += 1;
            }
            byte if held && byte == FROM[matched] => {
                at += 1;
                *place = if matched + 1 == FROM.len() {
                    out.extend_from_slice(FROM);
                    Unplace::Within
                } else {
                    Unplace::Start { held, matched: matched + 1 }
                };
            }
            _ => {
                out.extend_from_slice(if held { b">" } else { b"" });
                out.extend_from_slice(&FROM[..matched]);
                *place = Unplace::Within;
            }
        }
    }
}

impl<R: Read> Read for Unquoting<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || (self.taken == self.ready.len() && !self.fill()?) {
            return Ok(0);
        }
        let n = out.len().min(self.ready.len() - self.taken);
        out[..n].copy_from_slice(&self.ready[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut quoter, mut out) = (Quoter::default(), Vec::new());
        pieces.iter().for_each(|piece| quoter.push(piece, &mut out).unwrap());
        quoter.finish(&mut out).unwrap();
        out
    }

    #[test]
    fn known_answers() {
        for (text, expected) in [
            (
                "From: a\nFrom: b\n>From c\n F\n>>Fromage\nFro\n",
                "From: a\n>From: b\n>>From c\n F\n>>>Fromage\nFro\n",
            ),
            ("From a\nFrom b\n", ">From a\n>From b\n"),
            (">From: a\n", ">>From: a\n"),
            ("From", "From"),
            ("\nFrom", "\n>From"),
            (">>", ">>"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(quoted(&[text.as_bytes()])).unwrap(), expected);
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            Just("From "),
            Just("From"),
            Just("Fro"),
            Just(">"),
            Just("\n"),
            Just("F"),
            Just("x")
        ];
        prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn unquoting_reverses_quoting(text in text(), piece in 1usize..30) {
            let pieces: Vec<&[u8]> = text.chunks(piece).collect();
            let quoted = quoted(&pieces);
            prop_assert_eq!(&quoted, &self::quoted(&[&text]));
            prop_assert!(!quoted.starts_with(b"From "));
            prop_assert!(!String::from_utf8_lossy(&quoted).contains("\nFrom"));
            let mbox = [b"From a@b Thu Jan  1 00:00:10 1970\n", &quoted[..]].concat();
            let mut back = Vec::new();
            Unquoting::new(mbox.as_slice()).read_to_end(&mut back).unwrap();
            prop_assert_eq!(&back, &text);
            let mut slow = Unquoting::new(OneByOne(mbox.as_slice()));
            let mut back = Vec::new();
            slow.read_to_end(&mut back).unwrap();
            prop_assert_eq!(&back, &text);
        }
    }

    struct OneByOne<'a>(&'a [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = out.len().min(1);
            self.0.read(&mut out[..n])
        }
    }
}
