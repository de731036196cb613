//! The requested items of a FETCH, and the data to read for them.

use sealpost_imap::types::{FetchItem, Partial, Section, SectionText};
use sealpost_imap::write::Writer;
use sealpost_mime::Outline;
use sealpost_mime::header::HeaderFilter;
use sealpost_mime::header::params::Form;
use sealpost_mime::structure::Wanted;

use super::section::{fields, span_of};
use crate::dialect::Dialect;

/// An item of each response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchField {
    /// `UID`
    Uid,
    /// `FLAGS`
    Flags,
    /// `INTERNALDATE`
    InternalDate,
    /// `RFC822.SIZE`
    Size,
    /// `MODSEQ`
    ModSeq,
    /// `ENVELOPE`
    Envelope,
    /// `BODY` or `BODYSTRUCTURE`
    Structure {
        /// With extension data.
        extended: bool,
    },
    /// `EMAILID`
    EmailId,
    /// `THREADID`
    ThreadId,
    /// `SAVEDATE`
    SaveDate,
    /// `PREVIEW`
    Preview,
    /// Bytes of the message.
    Body(BodySection),
    /// `BINARY.SIZE`
    BinarySize(Section),
}

/// Bytes of the message, with the item name that the client used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodySection {
    /// `RFC822` and the like; `None`: `BODY[section]`, or `BINARY[section]`.
    name: Option<&'static str>,
    /// Whether to decode the part's transfer encoding.
    pub(super) binary: bool,
    pub(super) section: Section,
    pub(super) partial: Option<Partial>,
}

impl BodySection {
    /// A section under the name that FETCH gives it.
    pub(crate) fn of(section: Section, partial: Option<Partial>) -> Self {
        BodySection { name: None, binary: false, section, partial }
    }

    /// Writes the item's name and a space.
    pub(super) fn write_name(&self, out: &mut Writer) {
        match self.name {
            Some(name) => out.raw(name),
            None if self.binary => out.binary_section(&self.section, self.partial),
            None => out.body_section(&self.section, self.partial),
        };
        out.space();
    }

    /// Whether it is the whole message, which needs no structure.
    pub(crate) fn is_whole(&self) -> bool {
        self.section.path.is_empty() && self.section.text == SectionText::Everything
    }
}

/// The part of the message's own header that an item requests.
pub(super) enum HeaderPart {
    /// All of it.
    All,
    /// The fields that a filter selects.
    Fields(HeaderFilter),
}

impl HeaderPart {
    /// `None` if it requests something else.
    fn of(bytes: &BodySection) -> Option<Self> {
        if bytes.binary || !bytes.section.path.is_empty() {
            return None;
        }
        match &bytes.section.text {
            SectionText::Header => Some(HeaderPart::All),
            text => fields(text).map(HeaderPart::Fields),
        }
    }
}

/// A prepared FETCH.
pub(super) struct Plan {
    items: Vec<FetchField>,
    sets_seen: bool,
    /// Whether an item needs the structure.
    structure: bool,
    /// Whether sections must be located.
    outline: bool,
    /// Whether all of them are the message's own header, fields of it, or its own body.
    own_sections: bool,
    bytes: bool,
    /// The requested parts, if all items that request bytes are in the message's own header.
    header_parts: Option<Vec<HeaderPart>>,
    dialect: Dialect,
}

impl Plan {
    /// The plan for these items, each once. Responses to a UID command include the UID (RFC 3501 §6.4.8),
    /// with UIDONLY at their start (RFC 9586 §3.3); those to CHANGEDSINCE include the mod-sequence (RFC 7162
    /// §3.1.4.1).
    pub(super) fn new(asked: Vec<FetchItem>, uid: bool, since: bool, dialect: Dialect) -> Self {
        let sets_seen = asked.iter().any(FetchItem::sets_seen);
        let mut items: Vec<FetchField> = Vec::with_capacity(asked.len() + 1);
        if uid && !dialect.uid_only() {
            items.push(FetchField::Uid);
        }
        for item in asked.into_iter().map(FetchField::from) {
            // Bodies may be long, and a client that requests one twice gets it twice.
            let small = !matches!(item, FetchField::Body(_));
            if !(small && items.contains(&item)) {
                items.push(item);
            }
        }
        if since && !items.contains(&FetchField::ModSeq) {
            items.push(FetchField::ModSeq);
        }
        let bytes = items.iter().any(|item| matches!(item, FetchField::Body(_) | FetchField::BinarySize(_)));
        let is_structure = |item: &FetchField| {
            matches!(item, FetchField::Envelope | FetchField::Structure { .. } | FetchField::Preview)
        };
        let structure = items.iter().any(is_structure);
        let outline = items.iter().any(|item| match item {
            FetchField::BinarySize(_) => true,
            FetchField::Body(bytes) => bytes.binary || !bytes.is_whole(),
            _ => false,
        });
        let parts = items.iter().filter_map(|item| match item {
            FetchField::Body(bytes) => Some(HeaderPart::of(bytes)),
            FetchField::BinarySize(_) => Some(None),
            _ => None,
        });
        let header_parts: Option<Vec<HeaderPart>> = if bytes { parts.collect() } else { None };
        let own_sections = items.iter().all(|item| match item {
            FetchField::BinarySize(_) => false,
            FetchField::Body(bytes) => {
                !bytes.binary && bytes.section.path.is_empty() && bytes.section.text != SectionText::Mime
            }
            _ => true,
        });
        Plan { items, sets_seen, structure, outline, own_sections, bytes, header_parts, dialect }
    }

    pub(super) fn items(&self) -> &[FetchField] {
        &self.items
    }

    /// Whether the command sets `\Seen`.
    pub(super) fn sets_seen(&self) -> bool {
        self.sets_seen
    }

    /// Whether the client requested flags.
    pub(super) fn wants_flags(&self) -> bool {
        self.wants(&FetchField::Flags)
    }

    /// Whether each response has that item.
    pub(super) fn wants(&self, item: &FetchField) -> bool {
        self.items.contains(item)
    }

    /// The form of joined parameter values: decoded in IMAP4rev2 (RFC 9051 §7.5.2), ASCII in IMAP4rev1.
    pub(super) fn parameter_form(&self) -> Form {
        if self.dialect.rev2() { Form::Decoded } else { Form::Encoded }
    }

    /// Whether responses begin with the UID (RFC 9586 §3.3).
    pub(super) fn uid_only(&self) -> bool {
        self.dialect.uid_only()
    }

    /// The items in the response for a message that became `\Seen`, requested or not.
    pub(super) fn implied(&self) -> &'static [FetchField] {
        if !self.dialect.modseq() {
            &[FetchField::Flags]
        } else if self.dialect.qresync() && !self.dialect.uid_only() {
            // RFC 7162 §3.2.4: with QRESYNC the UID too.
            &[FetchField::Uid, FetchField::Flags, FetchField::ModSeq]
        } else {
            &[FetchField::Flags, FetchField::ModSeq]
        }
    }

    /// Whether items need the structure.
    pub(super) fn reads_structure(&self) -> bool {
        self.structure
    }

    /// The parts of stored structures that items need.
    pub(super) fn wanted_of_structure(&self) -> Wanted {
        let parts = |item: &FetchField| matches!(item, FetchField::Structure { .. });
        Wanted { envelope: self.wants(&FetchField::Envelope), parts: self.items.iter().any(parts) }
    }

    /// Whether sections must be located, unless all are in the message's own header and that is available.
    pub(super) fn reads_outline(&self) -> bool {
        self.outline
    }

    /// Whether the sections are found in the bytes of a message without its outline.
    pub(super) fn locates_in_bytes(&self) -> bool {
        self.own_sections
    }

    /// The requested header parts in order, if the message's own header has everything.
    pub(super) fn header_parts(&self) -> Option<&[HeaderPart]> {
        self.header_parts.as_deref()
    }

    /// Whether headers and structures are sufficient.
    pub(super) fn is_derived(&self) -> bool {
        self.header_parts.is_some() || self.structure && !self.bytes
    }

    /// Whether bytes of a message with that outline are needed without decoding.
    pub(super) fn reads_bytes_of(&self, outline: &Outline) -> bool {
        self.items.iter().any(|item| match item {
            FetchField::Body(bytes) if !bytes.binary => {
                span_of(&bytes.section, outline).is_some_and(|span| span.layers.is_empty())
            }
            _ => false,
        })
    }

    /// Whether transfer encodings are decoded.
    pub(super) fn decodes(&self) -> bool {
        self.items.iter().any(|item| match item {
            FetchField::Body(bytes) => bytes.binary,
            FetchField::BinarySize(_) => true,
            _ => false,
        })
    }

    /// Whether bytes of messages are needed.
    pub(super) fn reads_bytes(&self) -> bool {
        self.bytes
    }

    /// Whether the first read of a message is its whole content.
    pub(super) fn begins_with_all(&self) -> bool {
        let all = |bytes: &BodySection| bytes.is_whole() && !bytes.binary && bytes.partial.is_none();
        !self.structure && !self.outline && self.first_bytes().is_some_and(all)
    }

    /// Whether data beyond the rows is needed.
    pub(super) fn reads_anything(&self) -> bool {
        self.structure || self.bytes
    }

    /// The bytes to send first.
    pub(super) fn first_bytes(&self) -> Option<&BodySection> {
        self.items.iter().find_map(|item| match item {
            FetchField::Body(bytes) => Some(bytes),
            _ => None,
        })
    }
}

impl From<FetchItem> for FetchField {
    fn from(item: FetchItem) -> Self {
        let old = |name, text| {
            FetchField::Body(BodySection {
                name: Some(name),
                binary: false,
                section: Section { path: Vec::new(), text },
                partial: None,
            })
        };
        match item {
            FetchItem::Uid => FetchField::Uid,
            FetchItem::Flags => FetchField::Flags,
            FetchItem::InternalDate => FetchField::InternalDate,
            FetchItem::Rfc822Size => FetchField::Size,
            FetchItem::ModSeq => FetchField::ModSeq,
            FetchItem::Envelope => FetchField::Envelope,
            FetchItem::Body => FetchField::Structure { extended: false },
            FetchItem::BodyStructure => FetchField::Structure { extended: true },
            FetchItem::EmailId => FetchField::EmailId,
            FetchItem::ThreadId => FetchField::ThreadId,
            FetchItem::SaveDate => FetchField::SaveDate,
            // The preview was made when the message arrived, so LAZY makes no difference (RFC 8970 §4.1).
            FetchItem::Preview { .. } => FetchField::Preview,
            FetchItem::BodySection { section, partial, .. } => {
                FetchField::Body(BodySection { name: None, binary: false, section, partial })
            }
            FetchItem::Binary { section, partial, .. } => {
                FetchField::Body(BodySection { name: None, binary: true, section, partial })
            }
            FetchItem::BinarySize(section) => FetchField::BinarySize(section),
            FetchItem::Rfc822 => old("RFC822", SectionText::Everything),
            FetchItem::Rfc822Header => old("RFC822.HEADER", SectionText::Header),
            FetchItem::Rfc822Text => old("RFC822.TEXT", SectionText::Text),
        }
    }
}
