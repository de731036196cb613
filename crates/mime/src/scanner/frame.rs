//! The open parts: how a header ends and what it starts, how a boundary closes and opens, how a
//! part is finished.

use sealpost_base::limits;

use super::feed::{Encoded, Feed};
use super::fields::{self, Content};
use super::pipe::Pipe;
use super::{BOUNDARY_LINE_BYTES, Mode, Shared, Walk};
use crate::decode::Encoding;
use crate::envelope::Envelope;
use crate::fold::fold;
use crate::header::{line_content, params, readable, split_field};
use crate::structure::{Parameter, Part, PartKind};
use crate::text::TextSink;

/// The longest accepted boundary parameter; RFC 2046 §5.1.1 allows 70.
const BOUNDARY_BYTES: usize = 250;

/// One open part.
#[derive(Debug, Default)]
pub(super) struct Frame {
    part: Part,
    /// The header is that of a message: it has an envelope.
    message: bool,
    content: Content,
    envelope: Envelope,
    holds: Holds,
    /// The boundary of a multipart that is not closed yet.
    pub(super) boundary: Option<Vec<u8>>,
    /// Lines before the body.
    lines_before: u64,
    /// Multiparts and messages around this part.
    depth: usize,
    /// A part of a multipart/digest, which is a message by default (RFC 2046 §5.1.5).
    in_digest: bool,
}

/// The collected contents of an open part.
#[derive(Debug, Default)]
enum Holds {
    #[default]
    Nothing,
    Parts(Vec<Part>),
    Message(Option<Box<(Envelope, Part)>>),
}

impl Frame {
    /// A message whose header starts at `offset`.
    pub(super) fn message(offset: u64, depth: usize) -> Self {
        Frame { message: true, ..Self::part(offset, depth, false) }
    }

    fn part(offset: u64, depth: usize, in_digest: bool) -> Self {
        let part = Part { header: offset..offset, body: offset..offset, ..Part::default() };
        Frame { part, depth, in_digest, ..Frame::default() }
    }
}

impl Walk {
    /// The open multipart that `line` is a boundary of, and whether it closes it.
    pub(super) fn boundary_of(
        &self,
        line: &[u8],
        shared: &mut Shared<impl TextSink>,
    ) -> Option<(usize, bool)> {
        let line = line_content(&line[..line.len().min(BOUNDARY_LINE_BYTES)]);
        let rest = line.strip_prefix(b"--")?;
        let exact = rest.trim_ascii_end();
        let open =
            || self.frames.iter().enumerate().rev().filter_map(|(i, f)| Some((i, f.boundary.as_deref()?)));
        let found = open()
            .find_map(|(i, boundary)| match exact.strip_prefix(boundary)? {
                b"" => Some((i, false)),
                b"--" => Some((i, true)),
                _ => None,
            })
            .or_else(|| {
                // "An exact match of the entire candidate line is not required; it is sufficient
                // that the boundary appear in its entirety following the CRLF" (RFC 2046 §5.1.1).
                let longest = open().filter(|(_, b)| rest.starts_with(b)).max_by_key(|(_, b)| b.len());
                longest.map(|(i, boundary)| (i, rest[boundary.len()..].starts_with(b"--")))
            });
        if matches!(found, Some((_, false))) && shared.parts >= limits::MIME_PARTS {
            shared.room.limited = true;
            return None;
        }
        found
    }

    /// A boundary line at offset `at`: everything inside the multipart it belongs to ends before it.
    pub(super) fn boundary(
        &mut self,
        index: usize,
        closing: bool,
        at: u64,
        shared: &mut Shared<impl TextSink>,
    ) {
        if self.mode == Mode::Header {
            self.end_open_headers(at, shared);
            self.eol = 0;
        }
        self.end_text(false, shared);
        while self.frames.len() > index + 1 {
            self.close(at - self.eol, self.lines - self.eol.min(1));
        }
        if closing {
            self.frames[index].boundary = None;
        }
        self.cr = false;
        self.mode = Mode::Boundary { closing };
    }

    /// The boundary line is over: a part begins, or the epilogue.
    pub(super) fn after_boundary(&mut self, closing: bool, shared: &mut Shared<impl TextSink>) {
        if closing {
            self.mode = Mode::Body;
            self.line_start = true;
            self.cr = false;
            return;
        }
        let (depth, digest) =
            self.frames.last().map_or((0, false), |f| (f.depth + 1, f.part.is("multipart", "digest")));
        self.open(Frame::part(self.offset, depth, digest), shared);
    }

    fn open(&mut self, frame: Frame, shared: &mut Shared<impl TextSink>) {
        self.frames.push(frame);
        shared.parts += 1;
        self.mode = Mode::Header;
        self.line_offset = self.offset;
        self.eol = 0;
    }

    /// A boundary or the end of the message cuts a header short. A message begun by that is empty,
    /// and so is the one in it.
    pub(super) fn end_open_headers(&mut self, at: u64, shared: &mut Shared<impl TextSink>) {
        while self.mode == Mode::Header {
            self.end_header(at, shared);
        }
    }

    /// The collected header field is complete.
    pub(super) fn end_field(&mut self, shared: &mut Shared<impl TextSink>) {
        let mut field = std::mem::take(&mut self.field);
        match split_field(&field) {
            Some((name, value)) => self.take_field(name, value, shared),
            None => self.header_text(&field, shared),
        }
        field.clear();
        self.field = field;
    }

    fn take_field(&mut self, name: &[u8], value: &[u8], shared: &mut Shared<impl TextSink>) {
        let top = self.is_top();
        let Some(frame) = self.frames.last_mut() else { return };
        if name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-")) {
            frame.content.field(name, value, &mut shared.room);
        }
        if !frame.message {
            return;
        }
        fields::envelope(&mut frame.envelope, name, value, &mut shared.room);
        if top && name.eq_ignore_ascii_case(b"received") {
            self.received_fields = self.received_fields.saturating_add(1);
        }
        self.header_text(&[name, b": ", value].concat(), shared);
        if top && let Some(plain) = fields::plain_addresses(name, value) {
            self.header_text(&[name, b": ", plain.as_bytes()].concat(), shared);
        }
    }

    /// The text of one header field, or of a line in the place of one: it is all the text of a
    /// message without a header.
    fn header_text(&self, field: &[u8], shared: &mut Shared<impl TextSink>) {
        if shared.sink.full() || field.is_empty() || !self.frames.last().is_some_and(|frame| frame.message) {
            return;
        }
        let mut line = fold(&readable(field));
        line.push('\n');
        if self.is_top() { shared.sink.header(&line) } else { shared.sink.body(&line) }
    }

    /// The header of the innermost part ends, and its body begins, at `at`.
    pub(super) fn end_header(&mut self, at: u64, shared: &mut Shared<impl TextSink>) {
        self.end_field(shared);
        self.mode = Mode::Body;
        self.line_start = true;
        self.cr = false;
        self.eol = 0;
        let may_hold = shared.parts < limits::MIME_PARTS;
        let Some(frame) = self.frames.last_mut() else { return };
        frame.part.header.end = at;
        frame.part.body = at..at;
        frame.lines_before = self.lines;
        frame.take_content();
        fields::complete(&mut frame.envelope);
        let inside = frame.inside();
        if inside != Inside::Content && (!may_hold || frame.depth >= limits::MIME_DEPTH) {
            shared.room.limited = true;
            frame.make_opaque();
            return;
        }
        match inside {
            Inside::Content => self.begin_text(shared),
            Inside::Opaque => frame.make_opaque(),
            Inside::Encoded(encoding) => match Encoded::new(encoding, frame.depth + 1, self.layers + 1) {
                Some(message) => {
                    shared.parts += 1;
                    frame.holds = Holds::Message(None);
                    self.feed = Some(Feed::Message(Box::new(message)));
                }
                None => {
                    shared.room.limited = true;
                    frame.make_opaque();
                }
            },
            Inside::Parts(boundary) => {
                frame.boundary = Some(boundary);
                frame.holds = Holds::Parts(Vec::new());
            }
            Inside::Message => {
                frame.holds = Holds::Message(None);
                let depth = frame.depth + 1;
                self.open(Frame::message(at, depth), shared);
            }
        }
    }

    /// Starts the text pipe if the part is text.
    fn begin_text(&mut self, shared: &mut Shared<impl TextSink>) {
        let Some(frame) = self.frames.last() else { return };
        let part = &frame.part;
        if !shared.sink.full()
            && !self.is_top()
            && let Some(name) = part.filename()
        {
            let mut line = fold(&readable(name.as_bytes()));
            line.push('\n');
            shared.sink.body(&line);
        }
        if part.media_type != "text" || part.transfer_encoding() == Encoding::Opaque {
            return;
        }
        let shown = part.disposition.as_ref().is_none_or(|d| d.kind != "attachment");
        let pipe = Pipe::new(part, shown && !shared.preview.full());
        self.feed = pipe.wanted(&shared.preview, &shared.sink).then(|| Feed::Text(Box::new(pipe)));
    }

    /// Finishes the innermost part, whose body ends at `at` with `lines` lines before that.
    pub(super) fn close(&mut self, at: u64, lines: u64) {
        let Some(frame) = self.frames.pop() else { return };
        let (envelope, part) = frame.finish(at, lines);
        match self.frames.last_mut().map(|around| &mut around.holds) {
            None | Some(Holds::Nothing) => (self.envelope, self.root) = (envelope, part),
            Some(Holds::Parts(parts)) => parts.push(part),
            Some(Holds::Message(inside)) => *inside = Some(Box::new((envelope, part))),
        }
    }
}

/// How the body of a part is treated.
#[derive(Debug, PartialEq, Eq)]
enum Inside {
    Content,
    /// A message in an unsupported encoding.
    Opaque,
    /// A message that is encoded.
    Encoded(Encoding),
    Parts(Vec<u8>),
    Message,
}

impl Frame {
    /// Moves the header's data into the part, with defaults for missing fields.
    fn take_content(&mut self) {
        let content = std::mem::take(&mut self.content);
        let part = &mut self.part;
        let absent = content.media.is_none();
        (part.media_type, part.subtype, part.params) = match content.media {
            Some(Some(media)) => media,
            None if self.in_digest => ("message".into(), "rfc822".into(), Vec::new()),
            // RFC 2045 §5.2: a missing or unparsable type means plain text in US-ASCII.
            _ => ("text".into(), "plain".into(), Vec::new()),
        };
        part.content_id = content.id;
        part.description = content.description;
        part.encoding = content.encoding.unwrap_or_else(|| "7bit".into());
        part.md5 = content.md5;
        part.disposition = content.disposition;
        part.language = content.language;
        part.location = content.location;
        if part.media_type == "multipart" && !absent && self.boundary().is_none() {
            // Without a boundary it cannot be split; RFC 2045 §5.2 again.
            (self.part.media_type, self.part.subtype) = ("text".into(), "plain".into());
            self.part.params.clear();
        }
        let part = &mut self.part;
        if part.media_type == "text"
            && part.params.iter().all(|p| p.name != "charset" && !p.name.starts_with("charset*"))
        {
            // RFC 2046 §4.1.2: the default.
            part.params.reserve_exact(1);
            part.params.push(Parameter::new("charset", "us-ascii"));
        }
    }

    fn boundary(&self) -> Option<Vec<u8>> {
        let value = params::decoded(&self.part.params, "boundary")?;
        // RFC 2046 §5.1.1: a boundary does not end with white space.
        let value = value.trim_end();
        (1..=BOUNDARY_BYTES).contains(&value.len()).then(|| value.as_bytes().to_vec())
    }

    fn inside(&self) -> Inside {
        let encoding = self.part.transfer_encoding();
        match (self.part.media_type.as_str(), self.part.subtype.as_str()) {
            // RFC 2045 §6.4 forbids encoding a multipart, and such a label is wrong.
            ("multipart", _) => self.boundary().map_or(Inside::Content, Inside::Parts),
            ("message", "rfc822" | "global") => match encoding {
                Encoding::Identity => Inside::Message,
                Encoding::Opaque => Inside::Opaque,
                encoding => Inside::Encoded(encoding),
            },
            _ => Inside::Content,
        }
    }

    /// A part that is not scanned must not have a type whose BODYSTRUCTURE shows contents.
    fn make_opaque(&mut self) {
        self.part.media_type = "application".into();
        self.part.subtype = "octet-stream".into();
        self.part.params.retain(|p| p.name != "boundary");
    }

    /// The message that was encoded in this part.
    pub(super) fn hold_message(&mut self, message: Box<(Envelope, Part)>) {
        self.holds = Holds::Message(Some(message));
    }

    fn finish(mut self, at: u64, lines: u64) -> (Envelope, Part) {
        let end = at.max(self.part.body.start);
        self.part.body.end = end;
        self.part.lines = lines.saturating_sub(self.lines_before);
        self.part.kind = match self.holds {
            Holds::Nothing => PartKind::Leaf,
            Holds::Parts(mut parts) => {
                if parts.is_empty() {
                    // BODYSTRUCTURE cannot represent a multipart without parts (RFC 3501 §9,
                    // body-type-mpart).
                    let mut empty = Frame::part(end, 0, false);
                    empty.take_content();
                    parts.push(empty.part);
                }
                parts.shrink_to_fit();
                PartKind::Multipart(parts)
            }
            Holds::Message(inside) => {
                let (envelope, part) = *inside.unwrap_or_default();
                PartKind::Message(Box::new(envelope), Box::new(part))
            }
        };
        (self.envelope, self.part)
    }
}
