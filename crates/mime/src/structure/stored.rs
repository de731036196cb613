//! The stored form of a structure, read without a copy: texts are borrowed from the stored bytes,
//! the parts are a flat list. What is written of a structure as it is stored is written from this.
//!
//! Format: `docs/format/structure-and-text.md`.

use std::ops::Range;

use minicbor::decode::{Decoder, Error as Unreadable};
use minicbor::{Decode, Encode};
use sealpost_base::{Result, limits};

use super::codec::{check, corrupt, entries, pass_over, unreadable};
use super::{Parameter, Structure};
use crate::decode::Encoding;
use crate::header::params;

pub(super) const VERSION: u8 = 1;

#[derive(Encode)]
pub(super) struct Versioned<'a> {
    #[n(0)]
    pub(super) version: u8,
    #[b(1)]
    pub(super) head: StoredStructure<'a>,
}

/// A [`Structure`] as it is stored.
#[derive(Debug, Encode)]
#[cbor(map)]
pub struct StoredStructure<'a> {
    /// Bytes of the raw message.
    #[n(0)]
    pub size: u64,
    /// Lines of the raw message.
    #[n(1)]
    pub lines: u64,
    /// The envelope of the message.
    #[b(2)]
    pub envelope: StoredEnvelope<'a>,
    /// The preview; `None` if none was made.
    #[b(3)]
    pub preview: Option<&'a str>,
    #[n(4)]
    #[cbor(default)]
    pub(super) received_fields: u32,
    #[n(5)]
    #[cbor(default)]
    pub(super) limited: bool,
    /// The message, and what it holds: each part is followed by what it holds.
    #[b(6)]
    pub parts: Vec<StoredPart<'a>>,
}

/// A [`super::Part`] as it is stored.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub struct StoredPart<'a> {
    #[n(0)]
    pub(super) header: Range<u64>,
    #[n(1)]
    pub(super) body: Range<u64>,
    /// Lines of the body.
    #[n(2)]
    pub lines: u64,
    /// Media type, lower case.
    #[b(3)]
    pub media_type: &'a str,
    /// Media subtype, lower case.
    #[b(4)]
    pub subtype: &'a str,
    /// Parameters of Content-Type as written.
    #[b(5)]
    #[cbor(default)]
    pub params: Vec<StoredParameter<'a>>,
    /// Content-ID as written.
    #[b(6)]
    pub content_id: Option<&'a str>,
    /// Content-Description as written.
    #[b(7)]
    pub description: Option<&'a str>,
    /// Content-Transfer-Encoding in lower case.
    #[b(8)]
    pub encoding: &'a str,
    /// Content-MD5 as written.
    #[b(9)]
    pub md5: Option<&'a str>,
    /// Content-Disposition.
    #[b(10)]
    pub disposition: Option<StoredDisposition<'a>>,
    /// The tags of Content-Language.
    #[b(11)]
    #[cbor(default)]
    pub language: Vec<&'a str>,
    /// Content-Location as written.
    #[b(12)]
    pub location: Option<&'a str>,
    /// What it holds.
    #[b(13)]
    pub kind: StoredKind<'a>,
}

/// What a part holds, which follows it.
#[derive(Debug, Encode, Decode)]
pub enum StoredKind<'a> {
    /// Nothing.
    #[n(0)]
    Leaf,
    /// So many parts; not none.
    #[n(1)]
    Multipart(#[n(0)] u32),
    /// A message with that envelope.
    #[n(2)]
    Message(#[b(0)] Box<StoredEnvelope<'a>>),
}

/// A [`super::Disposition`] as it is stored.
#[derive(Debug, Encode, Decode)]
pub struct StoredDisposition<'a> {
    /// `inline`, `attachment`, …, lower case.
    #[b(0)]
    pub kind: &'a str,
    /// Parameters as written.
    #[b(1)]
    pub params: Vec<StoredParameter<'a>>,
}

/// A [`super::Parameter`] as it is stored.
#[derive(Debug, Encode, Decode)]
pub struct StoredParameter<'a> {
    /// The name, lower case.
    #[b(0)]
    pub name: &'a str,
    /// The value, quotes removed.
    #[b(1)]
    pub value: &'a str,
}

/// An [`crate::Envelope`] as it is stored.
#[derive(Debug, Default, Encode, Decode)]
#[cbor(map)]
pub struct StoredEnvelope<'a> {
    /// The Date field as written.
    #[b(0)]
    pub date: Option<&'a str>,
    /// The Subject field, unfolded.
    #[b(1)]
    pub subject: Option<&'a str>,
    /// The From addresses.
    #[b(2)]
    #[cbor(default)]
    pub from: Vec<StoredAddress<'a>>,
    /// The Sender addresses.
    #[b(3)]
    #[cbor(default)]
    pub sender: Vec<StoredAddress<'a>>,
    /// The Reply-To addresses.
    #[b(4)]
    #[cbor(default)]
    pub reply_to: Vec<StoredAddress<'a>>,
    /// The To addresses.
    #[b(5)]
    #[cbor(default)]
    pub to: Vec<StoredAddress<'a>>,
    /// The Cc addresses.
    #[b(6)]
    #[cbor(default)]
    pub cc: Vec<StoredAddress<'a>>,
    /// The Bcc addresses.
    #[b(7)]
    #[cbor(default)]
    pub bcc: Vec<StoredAddress<'a>>,
    /// The In-Reply-To field as written.
    #[b(8)]
    pub in_reply_to: Option<&'a str>,
    /// The Message-ID field as written.
    #[b(9)]
    pub message_id: Option<&'a str>,
    #[b(10)]
    pub(super) references: Option<&'a str>,
    #[n(11)]
    pub(super) sent_date: Option<i64>,
    #[n(12)]
    #[cbor(default)]
    pub(super) sent_zone: i16,
}

/// An [`crate::Address`] as it is stored.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
pub struct StoredAddress<'a> {
    /// The display name.
    #[b(0)]
    pub name: Option<&'a str>,
    /// The obsolete source route.
    #[b(1)]
    pub adl: Option<&'a str>,
    /// The local part; or the name of a group that starts here.
    #[b(2)]
    pub mailbox: Option<&'a str>,
    /// The domain.
    #[b(3)]
    pub host: Option<&'a str>,
}

/// What of a stored structure is read, beside the numbers and the preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The envelope of the message.
    pub envelope: bool,
    /// The parts.
    pub parts: bool,
}

/// Parts for which memory is allocated before they are read.
const PARTS_AT_FIRST: u64 = 8;

impl<'a> StoredStructure<'a> {
    /// What [`Structure::encode`] wrote.
    ///
    /// # Errors
    /// `Corrupt` if these bytes are something else, or if their list of parts is no tree.
    pub fn decode(stored: &'a [u8]) -> Result<Self> {
        Self::decode_only(stored, Wanted { envelope: true, parts: true })
    }

    /// The same without what is not wanted: it is empty then, and not checked.
    ///
    /// # Errors
    /// As [`StoredStructure::decode`].
    pub fn decode_only(stored: &'a [u8], wanted: Wanted) -> Result<Self> {
        let (version, head) = read(&mut Decoder::new(stored), wanted).map_err(unreadable)?;
        check(version)?;
        if wanted.parts {
            let mut parts = head.parts.iter();
            check_tree(&mut parts, 0)?;
            if parts.next().is_some() {
                return Err(corrupt("parts that belong nowhere"));
            }
        }
        Ok(head)
    }

    /// The stored form of that structure.
    pub fn of(structure: &'a Structure) -> Self {
        let mut parts = Vec::new();
        structure.root.walk(&mut |part| parts.push(StoredPart::of(part)));
        StoredStructure {
            size: structure.size,
            lines: structure.lines,
            envelope: StoredEnvelope::of(&structure.envelope),
            preview: structure.preview.as_deref(),
            received_fields: structure.received_fields,
            limited: structure.limited,
            parts,
        }
    }
}

impl StoredStructure<'_> {
    /// About how many bytes of memory this takes, the stored bytes aside.
    pub fn weight(&self) -> usize {
        let params = self.parts.iter().map(|part| {
            let of_disposition = part.disposition.as_ref().map_or(0, |found| found.params.capacity());
            part.params.capacity() + of_disposition
        });
        size_of::<Self>()
            + self.parts.capacity() * size_of::<StoredPart<'_>>()
            + params.sum::<usize>() * size_of::<StoredParameter<'_>>()
    }
}

impl StoredPart<'_> {
    /// The header, its terminating empty line included.
    pub fn header(&self) -> Range<u64> {
        self.header.clone()
    }

    /// The body, in its transfer encoding.
    pub fn body(&self) -> Range<u64> {
        self.body.clone()
    }

    /// The encoding of the body.
    pub fn transfer_encoding(&self) -> Encoding {
        Encoding::named(self.encoding)
    }

    /// The value of a Content-Type parameter, as [`super::Part::param`].
    pub fn param(&self, name: &str) -> Option<String> {
        decoded(&self.params, name)
    }

    /// The file name, as [`super::Part::filename`].
    pub fn filename(&self) -> Option<String> {
        let disposition = self.disposition.as_ref().and_then(|found| decoded(&found.params, "filename"));
        disposition.or_else(|| self.param("name")).filter(|name| !name.is_empty())
    }

    /// Bytes of the body as it is encoded.
    pub fn size(&self) -> u64 {
        self.body.end - self.body.start
    }

    /// True for the media type `media_type`/`subtype`, both in lower case.
    pub fn is(&self, media_type: &str, subtype: &str) -> bool {
        self.media_type == media_type && self.subtype == subtype
    }
}

/// The version and the structure.
fn read<'a>(
    d: &mut Decoder<'a>,
    wanted: Wanted,
) -> std::result::Result<(u8, StoredStructure<'a>), Unreadable> {
    let missing = || Unreadable::message("a structure without its size, lines, envelope or parts");
    if d.array()? != Some(2) {
        return Err(Unreadable::message("not a version and a structure"));
    }
    let version = d.u8()?;
    let (mut size, mut lines, mut preview, mut received_fields, mut limited) = (None, None, None, 0, false);
    let mut envelope = (!wanted.envelope).then(StoredEnvelope::default);
    let mut parts = (!wanted.parts).then(Vec::new);
    for _ in 0..entries(d)? {
        match d.u32()? {
            0 => size = Some(d.u64()?),
            1 => lines = Some(d.u64()?),
            2 if wanted.envelope => envelope = Some(d.decode()?),
            3 => preview = d.decode()?,
            4 => received_fields = d.u32()?,
            5 => limited = d.bool()?,
            6 if wanted.parts => {
                let count = d.array()?.ok_or_else(|| Unreadable::message("parts without their number"))?;
                // A number that is wrong takes no memory.
                let mut read = Vec::with_capacity(count.min(PARTS_AT_FIRST) as usize);
                for _ in 0..count {
                    read.push(d.decode()?);
                }
                parts = Some(read);
            }
            _ => pass_over(d)?,
        }
    }
    let (Some(size), Some(lines), Some(envelope), Some(parts)) = (size, lines, envelope, parts) else {
        return Err(missing());
    };
    Ok((version, StoredStructure { size, lines, envelope, preview, received_fields, limited, parts }))
}

/// The value of a parameter, its sections joined and decoded.
fn decoded(params: &[StoredParameter<'_>], name: &str) -> Option<String> {
    let is_named = |param: &&StoredParameter<'_>| {
        param.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('*'))
    };
    let sections: Vec<Parameter> =
        params.iter().filter(is_named).map(|param| Parameter::new(param.name, param.value)).collect();
    params::decoded(&sections, name)
}

/// Whether the next part, and what it holds, is a part of a tree.
fn check_tree<'p, 'a: 'p>(parts: &mut impl Iterator<Item = &'p StoredPart<'a>>, depth: usize) -> Result<()> {
    // Each level of the scanner's nesting is one part, and a nested message adds the message
    // itself.
    if depth > 2 * limits::MIME_DEPTH + 2 {
        return Err(corrupt("nested too deeply"));
    }
    let part = parts.next().ok_or_else(|| corrupt("parts are missing"))?;
    if part.header.start > part.header.end || part.body.start > part.body.end {
        return Err(corrupt("a range ends before it starts"));
    }
    match part.kind {
        StoredKind::Leaf => Ok(()),
        StoredKind::Multipart(0) => Err(corrupt("a multipart without parts")),
        StoredKind::Multipart(count) => (0..count).try_for_each(|_| check_tree(parts, depth + 1)),
        StoredKind::Message(_) => check_tree(parts, depth + 1),
    }
}
