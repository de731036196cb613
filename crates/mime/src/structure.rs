//! The structure of a message: the part tree with byte ranges into the raw message, the envelope
//! and the preview.
//!
//! Ranges are absolute offsets into the message as received, except inside encoded messages
//! ([`Layer`]). Sizes and line counts are those of the encoded body, as BODYSTRUCTURE requires (RFC
//! 3501 §7.4.2). A line is counted for each LF; the line end before a boundary belongs to the
//! boundary (RFC 2046 §5.1.1) and to neither the range nor the count of the part that it ends.

mod codec;
mod outline;
mod stored;

use std::ops::Range;

use crate::decode::Encoding;
use crate::envelope::Envelope;
pub use crate::header::params::Parameter;
pub use outline::{Outline, OutlinePart};
pub use stored::{
    StoredAddress, StoredDisposition, StoredEnvelope, StoredKind, StoredParameter, StoredPart,
    StoredStructure, Wanted,
};

use crate::header::params;

/// Everything known of a message without reading it again. Stored with it; see
/// [`Structure::encode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Bytes of the raw message (RFC822.SIZE).
    pub size: u64,
    /// Lines of the raw message, header included.
    pub lines: u64,
    /// The message itself: its header is the message header, its body the message text.
    pub root: Part,
    /// The envelope of the message; nested ones are in their [`PartKind::Message`].
    pub envelope: Envelope,
    /// Up to `limits::PREVIEW_CHARS` characters of text (RFC 8970); empty if the message has no
    /// text to show, which RFC 8970 §3.1 distinguishes from `None`, a preview that was never made.
    pub preview: Option<String>,
    /// Received fields of the top-level header (RFC 5321 §6.3 counts them to find loops).
    pub received_fields: u32,
    /// A limit of `sealpost_base::limits` was reached: parts of the message are not in this
    /// structure.
    pub limited: bool,
}

/// The position and the encoding of encoded bytes.
///
/// The ranges of a [`Structure`] are those of the raw message, except for the parts inside a
/// message that is itself encoded in base64 or quoted-printable ([`Part::layer`]): theirs are
/// ranges of its decoded bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layer {
    /// The encoded bytes: of the raw message, or of the decoded bytes of the layer around this one.
    pub range: Range<u64>,
    /// Their encoding.
    pub encoding: Encoding,
}

/// One body part, or the message itself at the root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// The header, its terminating empty line included: of the message for the root, else the MIME
    /// header of the part.
    pub header: Range<u64>,
    /// The body, in its transfer encoding.
    pub body: Range<u64>,
    /// Lines of the body.
    pub lines: u64,
    /// Media type, lower case: `text`.
    pub media_type: String,
    /// Media subtype, lower case: `plain`.
    pub subtype: String,
    /// Parameters of Content-Type as written, RFC 2231 sections not joined; names in lower case.
    pub params: Vec<Parameter>,
    /// Content-ID as written.
    pub content_id: Option<String>,
    /// Content-Description as written.
    pub description: Option<String>,
    /// Content-Transfer-Encoding in lower case; `7bit` if there is none (RFC 2045 §6.1).
    pub encoding: String,
    /// Content-MD5 as written.
    pub md5: Option<String>,
    /// Content-Disposition (RFC 2183).
    pub disposition: Option<Disposition>,
    /// The tags of Content-Language (RFC 3282).
    pub language: Vec<String>,
    /// Content-Location (RFC 2557).
    pub location: Option<String>,
    /// The contents.
    pub kind: PartKind,
}

/// The contents of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PartKind {
    /// Content that is not scanned.
    #[default]
    Leaf,
    /// A multipart; never empty.
    Multipart(Vec<Part>),
    /// A message/rfc822 or message/global: the nested message's envelope, and the nested message
    /// itself, whose header and body lie inside this part's body, or inside its decoded bytes
    /// ([`Part::layer`]).
    Message(Box<Envelope>, Box<Part>),
}

/// A Content-Disposition field (RFC 2183).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disposition {
    /// `inline`, `attachment`, …, lower case.
    pub kind: String,
    /// Parameters as written, RFC 2231 forms not put together; names in lower case.
    pub params: Vec<Parameter>,
}

impl Structure {
    /// The part at an IMAP section path; the empty path is the message itself (RFC 3501 §6.4.5).
    pub fn part(&self, path: &[u32]) -> Option<&Part> {
        self.part_within(path).map(|(part, _)| part)
    }

    /// The part at a section path, and the encoded messages that it is in, outermost first: as
    /// [`Outline::part_within`], which takes less where a part's texts are not needed.
    pub fn part_within(&self, path: &[u32]) -> Option<(&Part, Vec<Layer>)> {
        let (at, layers) = self.outline().find(path)?;
        let mut parts = Vec::new();
        self.root.walk(&mut |part| parts.push(part));
        parts.get(at).map(|part| (*part, layers))
    }
}

impl Part {
    /// Bytes of the encoded body.
    pub fn size(&self) -> u64 {
        self.body.end - self.body.start
    }

    /// The parts of a multipart.
    pub fn children(&self) -> Option<&[Part]> {
        match &self.kind {
            PartKind::Multipart(parts) => Some(parts),
            _ => None,
        }
    }

    /// The message nested in a message/rfc822 or message/global part: for `[n.HEADER]` and
    /// `[n.TEXT]`, its ranges.
    pub fn message(&self) -> Option<(&Envelope, &Part)> {
        match &self.kind {
            PartKind::Message(envelope, part) => Some((envelope, part)),
            _ => None,
        }
    }

    /// The layer between this part and the message nested in it: its body, if that is encoded.
    pub fn layer(&self) -> Option<Layer> {
        let encoding = self.transfer_encoding();
        let is_encoded = self.message().is_some() && encoding != Encoding::Identity;
        is_encoded.then(|| Layer { range: self.body.clone(), encoding })
    }

    /// The value of a Content-Type parameter, RFC 2231 sections joined and decoded.
    pub fn param(&self, name: &str) -> Option<String> {
        params::decoded(&self.params, name)
    }

    /// The file name: `filename` of the disposition, or else `name` of the type, decoded.
    pub fn filename(&self) -> Option<String> {
        let disposition = self.disposition.as_ref().and_then(|d| params::decoded(&d.params, "filename"));
        disposition.or_else(|| self.param("name")).filter(|name| !name.is_empty())
    }

    /// The encoding of the body.
    pub fn transfer_encoding(&self) -> Encoding {
        Encoding::named(&self.encoding)
    }

    /// True for the media type `media_type`/`subtype`, both in lower case.
    pub fn is(&self, media_type: &str, subtype: &str) -> bool {
        self.media_type == media_type && self.subtype == subtype
    }

    /// Calls `f` with this part and everything inside it, in the order of the message.
    pub fn walk<'a>(&'a self, f: &mut impl FnMut(&'a Part)) {
        f(self);
        match &self.kind {
            PartKind::Leaf => {}
            PartKind::Multipart(parts) => parts.iter().for_each(|part| part.walk(f)),
            PartKind::Message(_, part) => part.walk(f),
        }
    }
}
