//! BINARY and BINARY.SIZE (RFC 3516 §4.2, §4.3; RFC 9051 §6.4.5, §7.5.2): parts without their transfer
//! encoding.
//!
//! Decoded bytes equal those that were encoded, including line ends: these are CRLF in encoded text (RFC 2045
//! §6.8), and messages are stored as received. The announced size comes from a first pass, which is cached
//! ([`sealpost_account::decoded`]).

use sealpost_account::decoded::Span;
use sealpost_base::Result;
use sealpost_imap::types::{Section, SectionText};
use sealpost_mime::decode::Encoding;
use sealpost_mime::{Layer, Outline};

use super::ranges::Reads;
use super::section::{SectionBytes, locate};

/// The result of BINARY.SIZE.
pub(super) enum Size {
    /// The size in bytes; 0 for a missing part.
    Bytes(u64),
    /// The encoding is unknown.
    UnknownEncoding,
}

/// The encoding of the section; `None` if it is unknown. Only the body of a single part is encoded: a
/// multipart cannot be (RFC 2045 §6.4), and headers are not.
pub(super) fn encoding(section: &Section, outline: &Outline) -> Option<Encoding> {
    if section.path.is_empty() || section.text != SectionText::Everything {
        return Some(Encoding::Identity);
    }
    let path: Vec<u32> = section.path.iter().map(|n| n.get()).collect();
    let (part, _) = outline.part_within(&path)?;
    if part.is_multipart() || (part.message().is_some() && part.layer().is_none()) {
        return Some(Encoding::Identity);
    }
    part.encoding()
}

impl Reads {
    /// The size of the decoded section.
    pub(super) async fn binary_size(&self, section: &Section) -> Result<Size> {
        let outline = self.outline()?;
        let span = match locate(section, outline) {
            SectionBytes::Nowhere => return Ok(Size::Bytes(0)),
            SectionBytes::At(span) => span,
            SectionBytes::Fields(header, filter) => {
                return Ok(Size::Bytes(self.count_fields(header, filter).await?));
            }
        };
        match encoding(section, outline) {
            None => Ok(Size::UnknownEncoding),
            Some(Encoding::Identity | Encoding::Opaque) => Ok(Size::Bytes(span.range.end - span.range.start)),
            Some(encoding) => {
                let layers = inside(span, encoding);
                Ok(Size::Bytes(self.account.decoded(&self.message, &layers).await?.size()))
            }
        }
    }
}

/// The layers that lead from the message to the decoded bytes of `span`.
pub(super) fn inside(span: Span, encoding: Encoding) -> Vec<Layer> {
    let Span { mut layers, range } = span;
    layers.push(Layer { range, encoding });
    layers
}
