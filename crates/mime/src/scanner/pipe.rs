//! The path of a part's text to the sink: transfer encoding, charset, HTML or flowed lines,
//! preview, folding.

use sealpost_base::limits;

use crate::decode::charset::CharsetDecoder;
use crate::decode::flowed::Flowed;
use crate::decode::html::{HtmlSink, HtmlText};
use crate::decode::{Encoding, TransferDecoder};
use crate::fold::Folder;
use crate::structure::Part;
use crate::text::TextSink;

/// Bytes of a body that are decoded at once; bounds the buffers between the stages.
const SLICE_BYTES: usize = 8 * 1024;

/// Decodes the body of one text part.
pub(super) struct Pipe {
    transfer: Option<TransferDecoder>,
    charset: CharsetDecoder,
    form: Form,
    bytes: Vec<u8>,
    decoded: String,
    end: End,
}

/// The processing of decoded text.
enum Form {
    Plain,
    Flowed(Flowed),
    Html(HtmlText),
}

/// The last stages: preview and folding.
#[derive(Default)]
struct End {
    preview: bool,
    text: String,
    folder: Folder,
    aside: Folder,
    folded: String,
}

impl Pipe {
    /// A pipe for that text part. `preview`: its text may be the preview.
    pub(super) fn new(part: &Part, preview: bool) -> Self {
        let encoding = part.transfer_encoding();
        let says =
            |name: &str, value: &str| part.param(name).is_some_and(|said| said.eq_ignore_ascii_case(value));
        let html = matches!(part.subtype.as_str(), "html" | "xhtml" | "x-html");
        let form = match part.subtype.as_str() {
            _ if html => Form::Html(HtmlText::default()),
            // RFC 3676 §4: parameters of text/plain.
            "plain" if says("format", "flowed") => Form::Flowed(Flowed::new(says("delsp", "yes"))),
            _ => Form::Plain,
        };
        // In HTML a line end is that of a paragraph; in its source it is a space.
        let folder = if html { Folder::default() } else { Folder::of_lines() };
        let end = End { preview, folder, ..End::default() };
        Pipe {
            transfer: (encoding != Encoding::Identity).then(|| TransferDecoder::new(encoding)),
            charset: CharsetDecoder::of_body(part.param("charset").as_deref(), html),
            form,
            bytes: Vec::new(),
            decoded: String::new(),
            end,
        }
    }

    /// True while preview or sink want more of this text.
    pub(super) fn wanted(&self, preview: &Preview, sink: &impl TextSink) -> bool {
        !sink.full() || (self.end.preview && !preview.full())
    }

    /// Decodes the next bytes of the body.
    pub(super) fn push(&mut self, bytes: &[u8], preview: &mut Preview, sink: &mut impl TextSink) {
        for slice in bytes.chunks(SLICE_BYTES) {
            if !self.wanted(preview, sink) {
                return;
            }
            match &mut self.transfer {
                None => self.charset.push(slice, &mut self.decoded),
                Some(transfer) => {
                    transfer.push(slice, &mut self.bytes);
                    self.charset.push(&self.bytes, &mut self.decoded);
                    self.bytes.clear();
                }
            }
            self.forward(preview, sink);
        }
    }

    /// Ends the body, and the line it ended in.
    pub(super) fn finish(mut self, preview: &mut Preview, sink: &mut impl TextSink) {
        if let Some(transfer) = self.transfer.take() {
            transfer.finish(&mut self.bytes);
            self.charset.push(&self.bytes, &mut self.decoded);
        }
        let charset = std::mem::replace(&mut self.charset, CharsetDecoder::new(None));
        charset.finish(&mut self.decoded);
        self.forward(preview, sink);
        let mut end = self.end;
        match self.form {
            Form::Plain => {}
            Form::Flowed(flowed) => flowed.finish(&mut end.text),
            Form::Html(html) => html.finish(&mut Outlet { end: &mut end, preview, sink }),
        }
        end.forward(preview, sink);
        end.folder.finish(&mut end.folded);
        end.folded.push('\n');
        sink.body(&end.folded);
        if end.preview {
            preview.end_part();
        }
    }

    /// Moves decoded text through the last stages.
    fn forward(&mut self, preview: &mut Preview, sink: &mut impl TextSink) {
        match &mut self.form {
            Form::Plain => std::mem::swap(&mut self.decoded, &mut self.end.text),
            Form::Flowed(flowed) => flowed.push(&self.decoded, &mut self.end.text),
            Form::Html(html) => {
                html.push(&self.decoded, &mut Outlet { end: &mut self.end, preview, sink });
            }
        }
        self.decoded.clear();
        self.end.forward(preview, sink);
    }
}

impl End {
    fn forward(&mut self, preview: &mut Preview, sink: &mut impl TextSink) {
        if self.preview {
            preview.push(&self.text);
        }
        self.folder.push(&self.text, &mut self.folded);
        self.text.clear();
        if !self.folded.is_empty() {
            sink.body(&self.folded);
            self.folded.clear();
        }
    }
}

/// The destination of HTML text.
struct Outlet<'a, S: TextSink> {
    end: &'a mut End,
    preview: &'a mut Preview,
    sink: &'a mut S,
}

impl<S: TextSink> HtmlSink for Outlet<'_, S> {
    fn text(&mut self, piece: &str) {
        self.end.text.push_str(piece);
    }

    /// The text before it goes first: the cut of a full sink must not depend on how the message was
    /// cut.
    fn aside(&mut self, piece: &str) {
        self.end.forward(self.preview, self.sink);
        let End { aside, folded, .. } = self.end;
        for line in piece.split_inclusive('\n') {
            aside.push(line.trim_end_matches('\n'), folded);
            if line.ends_with('\n') {
                aside.finish(folded);
                folded.push('\n');
            }
        }
        self.sink.aside(folded);
        folded.clear();
    }
}

/// Collects the preview (RFC 8970): the first characters of the first text part that has any, white
/// space collapsed.
#[derive(Debug, Default)]
pub(super) struct Preview {
    text: String,
    chars: usize,
    space: bool,
    done: bool,
}

impl Preview {
    /// True once nothing can be added.
    pub(super) fn full(&self) -> bool {
        self.done || self.chars >= limits::PREVIEW_CHARS
    }

    fn push(&mut self, text: &str) {
        for c in text.chars() {
            if self.full() {
                return;
            }
            if c.is_whitespace() || c.is_control() {
                self.space = self.chars > 0;
                continue;
            }
            // A space is only written with the next character, so a preview never ends with one.
            if self.space {
                if self.chars + 2 > limits::PREVIEW_CHARS {
                    self.done = true;
                    return;
                }
                self.text.push(' ');
                self.chars += 1;
                self.space = false;
            }
            self.text.push(c);
            self.chars += 1;
        }
    }

    fn end_part(&mut self) {
        self.done |= self.chars > 0;
        self.space = false;
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
