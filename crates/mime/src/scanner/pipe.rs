//! The text of one part on its way to the sink: transfer encoding, charset, HTML, preview, folding.

use sealpost_base::limits;

use crate::decode::charset::CharsetDecoder;
use crate::decode::html::HtmlText;
use crate::decode::{Encoding, TransferDecoder};
use crate::fold::Folder;
use crate::text::TextSink;

/// Bytes of a body that are decoded at once; bounds the buffers between the stages.
const SLICE_BYTES: usize = 8 * 1024;

/// Decodes the body of one text part.
pub(super) struct Pipe {
    transfer: Option<TransferDecoder>,
    charset: CharsetDecoder,
    html: Option<HtmlText>,
    folder: Folder,
    preview: bool,
    bytes: Vec<u8>,
    text: String,
    plain: String,
    folded: String,
}

impl Pipe {
    /// A pipe for a part with this encoding and charset. `preview`: its text may be the preview.
    pub(super) fn new(encoding: Encoding, charset: Option<&str>, html: bool, preview: bool) -> Self {
        Pipe {
            transfer: (encoding != Encoding::Identity).then(|| TransferDecoder::new(encoding)),
            charset: CharsetDecoder::new(charset),
            html: html.then(HtmlText::default),
            folder: Folder::default(),
            preview,
            bytes: Vec::new(),
            text: String::new(),
            plain: String::new(),
            folded: String::new(),
        }
    }

    /// True while anybody wants more of this text.
    pub(super) fn wanted(&self, preview: &Preview, sink: &impl TextSink) -> bool {
        !sink.full() || (self.preview && !preview.full())
    }

    /// Decodes the next bytes of the body.
    pub(super) fn push(&mut self, bytes: &[u8], preview: &mut Preview, sink: &mut impl TextSink) {
        for slice in bytes.chunks(SLICE_BYTES) {
            if !self.wanted(preview, sink) {
                return;
            }
            match &mut self.transfer {
                None => self.charset.push(slice, &mut self.text),
                Some(transfer) => {
                    transfer.push(slice, &mut self.bytes);
                    self.charset.push(&self.bytes, &mut self.text);
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
            self.charset.push(&self.bytes, &mut self.text);
        }
        let charset = std::mem::replace(&mut self.charset, CharsetDecoder::new(None));
        charset.finish(&mut self.text);
        self.forward(preview, sink);
        if let Some(html) = self.html.take() {
            html.finish(&mut self.text);
            self.forward(preview, sink);
        }
        self.folder.finish(&mut self.folded);
        self.folded.push('\n');
        sink.body(&self.folded);
        if self.preview {
            preview.end_part();
        }
    }

    /// Moves decoded text through the last stages.
    fn forward(&mut self, preview: &mut Preview, sink: &mut impl TextSink) {
        if let Some(html) = &mut self.html {
            html.push(&self.text, &mut self.plain);
            self.text.clear();
            std::mem::swap(&mut self.text, &mut self.plain);
        }
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

/// Collects the preview (RFC 8970): the first characters of the first text part that has any, white space collapsed.
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
            // A space is only put out with what follows it, so a preview never ends with one.
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
