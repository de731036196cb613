//! [`Unbinary`]: converts a message with parts encoded as `binary` (RFC 2045 §6.2) for a protocol
//! without NUL, as a stream (RFC 3516 §4.4, §6).
//!
//! Single parts labelled `binary` become base64, and containers with that label `8bit`; of their
//! headers only that field changes, and everything else passes byte for byte. A remaining NUL, in a
//! place where no `binary` allows it, is reported ([`Unbinary::has_nul`]). Memory: one part's
//! header, the open boundaries, a line's beginning.

mod base64;
mod quoted;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use memchr::memchr;
use sealpost_base::limits;

use crate::decode::Encoding;
use crate::header::{line_content, split_field};
use crate::scanner::Scanner;
use crate::structure::Part;
use crate::text::CappedText;
use base64::Base64;
use quoted::Quoted;

/// Bytes of a line that are searched for a boundary: more than the longest one has.
const LINE_BYTES: usize = 512;
/// The longest accepted boundary parameter; RFC 2046 §5.1.1 allows 70.
const BOUNDARY_BYTES: usize = 250;

/// The state of converting a message.
pub struct Unbinary {
    /// Open multiparts, outermost first.
    open: Vec<Multipart>,
    /// Messages and multiparts around the present part.
    depth: usize,
    state: State,
    /// The header of the present part, or the beginning of a line of its body.
    line: Vec<u8>,
    /// The end of the previous line, which belongs to a boundary that may follow (RFC 2046 §5.1.1).
    eol: Vec<u8>,
    nul: bool,
    goal: Goal,
    /// Headers of parts so far.
    parts: u32,
    /// The number of the part whose body this is, if any.
    current: Option<u32>,
}

/// How parts are converted; those of [`crate::seven_bit`] have numbers in the order of their
/// headers.
enum Goal {
    /// `binary` becomes `base64` and `8bit`.
    EightBit,
    /// Nothing changes; the parts that have bytes above 127 are recorded, at most
    /// [`limits::MIME_PARTS`].
    Find(BTreeSet<u32>),
    /// These parts become `quoted-printable`, and all labels `7bit`.
    Quote(BTreeSet<u32>),
}

/// The encoding of a body.
enum Encoder {
    Base64(Base64),
    Quoted(Quoted),
}

struct Multipart {
    boundary: Vec<u8>,
    digest: bool,
    depth: usize,
}

enum State {
    /// In a header, at the beginning of the line that starts there.
    Header { line: usize, digest: bool },
    /// In a body; `fresh`: at the beginning of a line, which `line` holds.
    Body { fresh: bool, encode: Option<Encoder> },
}

impl Default for Unbinary {
    fn default() -> Self {
        Self::new()
    }
}

impl Unbinary {
    /// At the beginning of a message.
    pub fn new() -> Self {
        Self::with_goal(Goal::EightBit)
    }

    /// Changes nothing and finds the parts with bytes above 127.
    pub(crate) fn finding() -> Self {
        Self::with_goal(Goal::Find(BTreeSet::new()))
    }

    /// Encodes `parts` in quoted-printable.
    pub(crate) fn quoting(parts: BTreeSet<u32>) -> Self {
        Self::with_goal(Goal::Quote(parts))
    }

    /// The parts that were found.
    pub(crate) fn found(self) -> BTreeSet<u32> {
        match self.goal {
            Goal::Find(found) => found,
            Goal::EightBit | Goal::Quote(_) => BTreeSet::new(),
        }
    }

    fn with_goal(goal: Goal) -> Self {
        Unbinary {
            open: Vec::new(),
            depth: 0,
            state: State::Header { line: 0, digest: false },
            line: Vec::new(),
            eol: Vec::new(),
            nul: false,
            goal,
            parts: 0,
            current: None,
        }
    }

    /// Whether the output had a NUL.
    pub fn has_nul(&self) -> bool {
        self.nul
    }

    /// Takes the next bytes of the message and appends the converted ones: at most half as many
    /// again, and the held ones.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        while !bytes.is_empty() {
            bytes = match &self.state {
                State::Header { .. } => self.header(bytes, out),
                State::Body { fresh: true, .. } => self.fresh(bytes, out),
                State::Body { fresh: false, .. } => self.within(bytes, out),
            };
        }
        self.nul |= memchr(0, &out[from..]).is_some();
    }

    /// Ends the message.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let from = out.len();
        if let State::Header { .. } = self.state {
            self.end_header(out);
        }
        let line = std::mem::take(&mut self.line);
        self.end_of_line_before(out);
        self.content(&line, out);
        // A CR at the very end was held for its LF.
        self.end_of_line_before(out);
        self.end_encoding(out);
        self.nul |= memchr(0, &out[from..]).is_some();
    }
}

impl Unbinary {
    /// Collects a header up to its empty line; returns the rest of the bytes.
    fn header<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let State::Header { line: start, .. } = &mut self.state else { return bytes };
        let lf = memchr(b'\n', bytes);
        let (taken, rest) = bytes.split_at(lf.map_or(bytes.len(), |lf| lf + 1));
        self.line.extend_from_slice(taken);
        if lf.is_some() {
            let line = self.line[*start..].to_vec();
            *start = self.line.len();
            if line_content(&line).is_empty() {
                self.end_header(out);
            } else if let Some((index, closing)) = self.boundary_of(&line) {
                // A header that a boundary cuts short.
                self.line.truncate(self.line.len() - line.len());
                self.end_header(out);
                self.at_boundary(index, closing, &line, out);
            }
        }
        // A header of any size need not be held: such a part stays unchanged.
        if self.line.len() > limits::HEADER_FIELD_BYTES && matches!(self.state, State::Header { .. }) {
            out.append(&mut self.line);
            self.state = State::Body { fresh: false, encode: None };
        }
        rest
    }

    /// The header is complete: it decides how the body is converted.
    fn end_header(&mut self, out: &mut Vec<u8>) {
        let State::Header { digest, .. } = self.state else { return };
        let header = std::mem::take(&mut self.line);
        let mut scanner = Scanner::<CappedText>::new();
        scanner.push(&header);
        let part = scanner.finish().0.root;
        let untyped = digest && !fields(&header).any(|field| is_named(field, b"content-type"));
        let message = untyped || part.is("message", "rfc822") || part.is("message", "global");
        let boundary = boundary(&part);
        let holds = message || boundary.is_some();
        let number = self.parts;
        self.parts = self.parts.saturating_add(1);
        self.current = Some(number);
        let (label, encode) = self.treatment(&part, holds, number);
        match label {
            None => out.extend_from_slice(&header),
            Some(label) => relabel(&header, label, number == 0, out),
        }
        let shallow = self.depth < limits::MIME_DEPTH;
        if message && shallow && part.transfer_encoding() == Encoding::Identity {
            self.depth += 1;
            self.state = State::Header { line: 0, digest: false };
            return;
        }
        if let Some(boundary) = boundary.filter(|_| shallow) {
            self.depth += 1;
            let digest = part.is("multipart", "digest");
            self.open.push(Multipart { boundary, digest, depth: self.depth });
        }
        self.state = State::Body { fresh: true, encode };
    }

    /// The new label of a part, if it needs one, and the encoding of its body.
    fn treatment(&self, part: &Part, holds: bool, number: u32) -> (Option<&'static [u8]>, Option<Encoder>) {
        let binary = part.encoding == "binary";
        match &self.goal {
            Goal::Find(_) => (None, None),
            Goal::EightBit if !binary => (None, None),
            Goal::EightBit if holds => (Some(b"8bit"), None),
            Goal::EightBit => (Some(b"base64"), Some(Encoder::Base64(Base64::default()))),
            Goal::Quote(parts) => {
                let plain = part.transfer_encoding() == Encoding::Identity;
                if !holds && plain && (binary || parts.contains(&number)) {
                    return (Some(b"quoted-printable"), Some(Encoder::Quoted(Quoted::default())));
                }
                let label: &[u8] = b"7bit";
                ((binary || part.encoding == "8bit").then_some(label), None)
            }
        }
    }

    /// Collects the beginning of a line until it is clear whether it is a boundary.
    fn fresh<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let room = LINE_BYTES.saturating_sub(self.line.len());
        let lf = memchr(b'\n', &bytes[..bytes.len().min(room)]);
        let (taken, rest) = bytes.split_at(lf.map_or(bytes.len().min(room), |lf| lf + 1));
        self.line.extend_from_slice(taken);
        let dashes = self.line.starts_with(&b"--"[..self.line.len().min(2)]);
        if lf.is_some() && dashes {
            let line = std::mem::take(&mut self.line);
            if let Some((index, closing)) = self.boundary_of(&line) {
                self.at_boundary(index, closing, &line, out);
                return rest;
            }
            self.line = line;
        }
        if lf.is_some() || !dashes || self.line.len() >= LINE_BYTES {
            // It is no boundary: an ordinary line.
            let line = std::mem::take(&mut self.line);
            self.end_of_line_before(out);
            self.set_fresh(false);
            let left = self.within(&line, out);
            debug_assert!(left.is_empty(), "a line ends where its LF is");
        }
        rest
    }

    /// The rest of a line that is no boundary.
    fn within<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        // A held CR was not followed by its LF, unless that comes now.
        let Some(lf) = memchr(b'\n', bytes) else {
            self.end_of_line_before(out);
            let (content, cr) = bytes.split_at(bytes.len() - usize::from(bytes.ends_with(b"\r")));
            self.content(content, out);
            self.eol.extend_from_slice(cr);
            return &[];
        };
        let (content, rest) = (&bytes[..lf], &bytes[lf + 1..]);
        if !content.is_empty() {
            self.end_of_line_before(out);
        }
        let (content, cr) = content.split_at(content.len() - usize::from(content.ends_with(b"\r")));
        self.content(content, out);
        self.eol.extend_from_slice(cr);
        self.eol.push(b'\n');
        self.set_fresh(true);
        rest
    }

    fn set_fresh(&mut self, now: bool) {
        if let State::Body { fresh, .. } = &mut self.state {
            *fresh = now;
        }
    }

    /// The held end of the previous line is content.
    fn end_of_line_before(&mut self, out: &mut Vec<u8>) {
        if !self.eol.is_empty() {
            let eol = std::mem::take(&mut self.eol);
            self.content(&eol, out);
        }
    }

    fn content(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let (Goal::Find(found), Some(part)) = (&mut self.goal, self.current)
            && found.len() < limits::MIME_PARTS
            && !bytes.is_ascii()
        {
            found.insert(part);
        }
        match &mut self.state {
            State::Body { encode: Some(Encoder::Base64(base64)), .. } => base64.push(bytes, out),
            State::Body { encode: Some(Encoder::Quoted(quoted)), .. } => quoted.push(bytes, out),
            _ => out.extend_from_slice(bytes),
        }
    }

    fn end_encoding(&mut self, out: &mut Vec<u8>) {
        if let State::Body { encode, .. } = &mut self.state
            && let Some(encoder) = encode.take()
        {
            match encoder {
                Encoder::Base64(base64) => base64.finish(out),
                Encoder::Quoted(mut quoted) => quoted.finish(out),
            }
        }
    }

    /// A boundary line: everything inside the multipart it belongs to is over.
    fn at_boundary(&mut self, index: usize, closing: bool, line: &[u8], out: &mut Vec<u8>) {
        self.end_encoding(out);
        out.append(&mut self.eol);
        out.extend_from_slice(line);
        self.open.truncate(index + 1);
        let digest = self.open.last().is_some_and(|multipart| multipart.digest);
        self.depth = self.open.last().map_or(0, |multipart| multipart.depth);
        self.current = None;
        if closing {
            self.open.pop();
            self.state = State::Body { fresh: true, encode: None };
        } else {
            self.state = State::Header { line: 0, digest };
        }
    }

    /// The open multipart that `line` is a boundary of, and whether it closes it: as in the
    /// scanner.
    fn boundary_of(&self, line: &[u8]) -> Option<(usize, bool)> {
        let rest = line_content(&line[..line.len().min(LINE_BYTES)]).strip_prefix(b"--")?;
        let exact = rest.trim_ascii_end();
        let open = || self.open.iter().map(|multipart| &multipart.boundary[..]).enumerate().rev();
        let found = open().find_map(|(i, boundary)| match exact.strip_prefix(boundary)? {
            b"" => Some((i, false)),
            b"--" => Some((i, true)),
            _ => None,
        });
        found.or_else(|| {
            let longest = open().filter(|(_, b)| rest.starts_with(b)).max_by_key(|(_, b)| b.len());
            longest.map(|(i, boundary)| (i, rest[boundary.len()..].starts_with(b"--")))
        })
    }
}

fn boundary(part: &Part) -> Option<Vec<u8>> {
    if part.media_type != "multipart" {
        return None;
    }
    let value = part.param("boundary")?;
    let value = value.trim_end().as_bytes();
    (1..=BOUNDARY_BYTES).contains(&value.len()).then(|| value.to_vec())
}

/// The fields of a header, each with its continuation lines; the empty line is one too.
fn fields(header: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = header;
    std::iter::from_fn(move || {
        let mut end = 0;
        loop {
            end += memchr(b'\n', rest.get(end..)?).map_or(rest.len() - end, |lf| lf + 1);
            if !matches!(rest.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (field, behind) = rest.split_at(end);
        rest = behind;
        (!field.is_empty()).then_some(field)
    })
}

fn is_named(field: &[u8], name: &[u8]) -> bool {
    split_field(field).is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
}

/// The header with another Content-Transfer-Encoding. A header without one gets it at its end; that
/// of a whole message without MIME fields becomes a MIME header, with text in an unknown charset
/// (RFC 1428 §3).
fn relabel(header: &[u8], encoding: &[u8], whole: bool, out: &mut Vec<u8>) {
    let has = |name: &[u8]| fields(header).any(|field| is_named(field, name));
    let mut missing = Vec::new();
    if !has(b"content-transfer-encoding") {
        if whole && !has(b"mime-version") {
            missing.extend_from_slice(b"MIME-Version: 1.0\r\n");
        }
        if whole && !has(b"content-type") {
            missing.extend_from_slice(b"Content-Type: text/plain; charset=unknown-8bit\r\n");
        }
        missing.extend_from_slice(b"Content-Transfer-Encoding: ");
        missing.extend_from_slice(encoding);
        missing.extend_from_slice(b"\r\n");
    }
    for field in fields(header) {
        if is_named(field, b"content-transfer-encoding") {
            out.extend_from_slice(b"Content-Transfer-Encoding: ");
            out.extend_from_slice(encoding);
            out.extend_from_slice(&field[line_content(field).len()..]);
            continue;
        }
        if line_content(field).is_empty() {
            out.append(&mut missing);
        }
        out.extend_from_slice(field);
    }
    out.append(&mut missing);
}
