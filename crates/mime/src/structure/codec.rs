//! A [`Structure`] from its stored form and back: CBOR with numbered fields, the part tree as a
//! flat list.
//!
//! `[version, {0: size, 1: lines, 2: envelope, 3: preview, 4: received fields, 5: limited, 6:
//! parts}]`. Parts are in the order of the message; each states its contents (nothing, so many
//! parts, or a message), which follow it. A flat list can be checked for depth while it is read, so
//! no stored bytes can exhaust the stack.

use minicbor::Decode;
use minicbor::data::Type;
use minicbor::decode::{Decoder, Error as Unreadable};
use sealpost_base::{Error, Result};

use super::stored::{
    StoredAddress, StoredDisposition, StoredEnvelope, StoredKind, StoredParameter, StoredPart,
    StoredStructure, VERSION, Versioned,
};
use super::{Disposition, Parameter, Part, PartKind, Structure};
use crate::envelope::{Address, Envelope};

/// As [`Versioned`], of which everything but the envelope is passed over.
#[derive(Decode)]
struct VersionedEnvelope<'a> {
    #[n(0)]
    version: u8,
    #[b(1)]
    head: EnvelopeHead<'a>,
}

#[derive(Decode)]
#[cbor(map)]
struct EnvelopeHead<'a> {
    #[b(2)]
    envelope: StoredEnvelope<'a>,
}

impl Structure {
    /// The stored form: CBOR with numbered fields, versioned.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match minicbor::encode(Versioned { version: VERSION, head: StoredStructure::of(self) }, &mut out) {
            Ok(()) => out,
            // A Vec takes every write and no value here has an encoder that refuses.
            Err(error) => unreachable!("encoding a structure into memory: {error}"),
        }
    }

    /// The structure that [`Structure::encode`] wrote; `Corrupt` if these bytes are something else.
    pub fn decode(bytes: &[u8]) -> Result<Structure> {
        let head = StoredStructure::decode(bytes)?;
        let root = unflatten(&mut head.parts.iter()).ok_or_else(|| corrupt("parts are missing"))?;
        Ok(Structure {
            size: head.size,
            lines: head.lines,
            root,
            envelope: head.envelope.to_envelope(),
            preview: head.preview.map(str::to_owned),
            received_fields: head.received_fields,
            limited: head.limited,
        })
    }

    /// The envelope of a stored structure, without the parts, which may take much more.
    ///
    /// # Errors
    /// As [`Structure::decode`], except for errors in the parts.
    pub fn decode_envelope(bytes: &[u8]) -> Result<Envelope> {
        let stored: VersionedEnvelope<'_> = minicbor::decode(bytes).map_err(unreadable)?;
        check(stored.version)?;
        Ok(stored.head.envelope.to_envelope())
    }
}

/// The number of entries of a map.
pub(super) fn entries(d: &mut Decoder<'_>) -> std::result::Result<u64, Unreadable> {
    d.map()?.ok_or_else(|| Unreadable::message("a map without its length"))
}

/// Passes over a value. Texts are not read: most of a structure is texts, and `Decoder::skip` checks each.
pub(super) fn pass_over(d: &mut Decoder<'_>) -> std::result::Result<(), Unreadable> {
    let mut left = 1u64;
    while left > 0 {
        left -= 1;
        match d.datatype()? {
            Type::String => pass_over_text(d)?,
            Type::Array => {
                let items = d.array()?.unwrap_or_default();
                left = left.saturating_add(items);
            }
            Type::Map => {
                let items = d.map()?.unwrap_or_default();
                left = left.saturating_add(items.saturating_mul(2));
            }
            _ => d.skip()?,
        }
    }
    Ok(())
}

/// Passes over a text of known length (RFC 8949 §3).
fn pass_over_text(d: &mut Decoder<'_>) -> std::result::Result<(), Unreadable> {
    let (input, at) = (d.input(), d.position());
    let head = input.get(at..).and_then(|rest| rest.split_first());
    let (length, behind) = match head {
        Some((first, rest)) => match (first & 0x1f, rest) {
            (short @ 0..24, _) => (usize::from(short), at + 1),
            (24, [length, ..]) => (usize::from(*length), at + 2),
            (25, [high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])), at + 3),
            _ => return d.skip(),
        },
        None => return d.skip(),
    };
    match behind.checked_add(length).filter(|end| *end <= input.len()) {
        Some(end) => {
            d.set_position(end);
            Ok(())
        }
        None => d.skip(),
    }
}

pub(super) fn corrupt(why: &str) -> Error {
    Error::corrupt(format!("stored message structure: {why}"))
}

pub(super) fn unreadable(e: minicbor::decode::Error) -> Error {
    corrupt("not readable").with_source(e)
}

pub(super) fn check(version: u8) -> Result<()> {
    if version == VERSION { Ok(()) } else { Err(corrupt(&format!("version {version} is not known"))) }
}

/// The next part, with what it holds. The list was checked to be a tree.
fn unflatten<'p, 'a: 'p>(parts: &mut impl Iterator<Item = &'p StoredPart<'a>>) -> Option<Part> {
    let stored = parts.next()?;
    let kind = match &stored.kind {
        StoredKind::Leaf => PartKind::Leaf,
        StoredKind::Multipart(count) => {
            PartKind::Multipart((0..*count).map(|_| unflatten(parts)).collect::<Option<_>>()?)
        }
        StoredKind::Message(envelope) => {
            PartKind::Message(Box::new(envelope.to_envelope()), Box::new(unflatten(parts)?))
        }
    };
    Some(Part {
        header: stored.header.clone(),
        body: stored.body.clone(),
        lines: stored.lines,
        media_type: stored.media_type.to_owned(),
        subtype: stored.subtype.to_owned(),
        params: parameters(&stored.params),
        content_id: text(stored.content_id),
        description: text(stored.description),
        encoding: stored.encoding.to_owned(),
        md5: text(stored.md5),
        disposition: stored
            .disposition
            .as_ref()
            .map(|found| Disposition { kind: found.kind.to_owned(), params: parameters(&found.params) }),
        language: stored.language.iter().map(|tag| (*tag).to_owned()).collect(),
        location: text(stored.location),
        kind,
    })
}

fn text(stored: Option<&str>) -> Option<String> {
    stored.map(str::to_owned)
}

fn parameters(stored: &[StoredParameter<'_>]) -> Vec<Parameter> {
    stored.iter().map(|param| Parameter::new(param.name, param.value)).collect()
}

fn addresses(stored: &[StoredAddress<'_>]) -> Vec<Address> {
    let address = |stored: &StoredAddress<'_>| Address {
        name: text(stored.name),
        adl: text(stored.adl),
        mailbox: text(stored.mailbox),
        host: text(stored.host),
    };
    stored.iter().map(address).collect()
}

impl StoredEnvelope<'_> {
    fn to_envelope(&self) -> Envelope {
        Envelope {
            date: text(self.date),
            subject: text(self.subject),
            from: addresses(&self.from),
            sender: addresses(&self.sender),
            reply_to: addresses(&self.reply_to),
            to: addresses(&self.to),
            cc: addresses(&self.cc),
            bcc: addresses(&self.bcc),
            in_reply_to: text(self.in_reply_to),
            message_id: text(self.message_id),
            references: text(self.references),
            sent_date: self.sent_date,
            sent_zone: self.sent_zone,
        }
    }
}

impl<'a> StoredEnvelope<'a> {
    pub(super) fn of(envelope: &'a Envelope) -> Self {
        let addresses = |list: &'a [Address]| {
            let address = |address: &'a Address| StoredAddress {
                name: address.name.as_deref(),
                adl: address.adl.as_deref(),
                mailbox: address.mailbox.as_deref(),
                host: address.host.as_deref(),
            };
            list.iter().map(address).collect()
        };
        StoredEnvelope {
            date: envelope.date.as_deref(),
            subject: envelope.subject.as_deref(),
            from: addresses(&envelope.from),
            sender: addresses(&envelope.sender),
            reply_to: addresses(&envelope.reply_to),
            to: addresses(&envelope.to),
            cc: addresses(&envelope.cc),
            bcc: addresses(&envelope.bcc),
            in_reply_to: envelope.in_reply_to.as_deref(),
            message_id: envelope.message_id.as_deref(),
            references: envelope.references.as_deref(),
            sent_date: envelope.sent_date,
            sent_zone: envelope.sent_zone,
        }
    }
}

impl<'a> StoredPart<'a> {
    /// Without what it holds.
    pub(super) fn of(part: &'a Part) -> Self {
        let parameters = |params: &'a [Parameter]| -> Vec<_> {
            params.iter().map(|param| StoredParameter { name: &param.name, value: &param.value }).collect()
        };
        let kind = match &part.kind {
            PartKind::Leaf => StoredKind::Leaf,
            PartKind::Multipart(parts) => StoredKind::Multipart(parts.len().try_into().unwrap_or(u32::MAX)),
            PartKind::Message(envelope, _) => StoredKind::Message(Box::new(StoredEnvelope::of(envelope))),
        };
        StoredPart {
            header: part.header.clone(),
            body: part.body.clone(),
            lines: part.lines,
            media_type: &part.media_type,
            subtype: &part.subtype,
            params: parameters(&part.params),
            content_id: part.content_id.as_deref(),
            description: part.description.as_deref(),
            encoding: &part.encoding,
            md5: part.md5.as_deref(),
            disposition: part.disposition.as_ref().map(|disposition| StoredDisposition {
                kind: &disposition.kind,
                params: parameters(&disposition.params),
            }),
            language: part.language.iter().map(String::as_str).collect(),
            location: part.location.as_deref(),
            kind,
        }
    }
}
