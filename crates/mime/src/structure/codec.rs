//! The stored form of a [`Structure`]: CBOR with numbered fields, the part tree as a flat list.
//!
//! `[version, {0: size, 1: lines, 2: envelope, 3: preview, 4: received fields, 5: limited, 6:
//! parts}]`. Parts are in the order of the message; each states its contents (nothing, so many
//! parts, or a message), which follow it. A flat list can be checked for depth while it is read, so
//! no stored bytes can exhaust the stack.

use std::ops::Range;

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, limits};

use super::{Disposition, Parameter, Part, PartKind, Structure};
use crate::envelope::Envelope;

const VERSION: u8 = 1;

#[derive(Encode, Decode)]
struct Stored {
    #[n(0)]
    version: u8,
    #[n(1)]
    head: PartHeader,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct PartHeader {
    #[n(0)]
    size: u64,
    #[n(1)]
    lines: u64,
    #[n(2)]
    envelope: Envelope,
    #[n(3)]
    preview: Option<String>,
    #[n(4)]
    #[cbor(default)]
    received_fields: u32,
    #[n(5)]
    #[cbor(default)]
    limited: bool,
    #[n(6)]
    parts: Vec<FlatPart>,
}

/// Like [`Stored`], skipping everything but the envelope.
#[derive(Decode)]
struct StoredEnvelope {
    #[n(0)]
    version: u8,
    #[n(1)]
    head: EnvelopeHead,
}

#[derive(Decode)]
#[cbor(map)]
struct EnvelopeHead {
    #[n(2)]
    envelope: Envelope,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct FlatPart {
    #[n(0)]
    header: Range<u64>,
    #[n(1)]
    body: Range<u64>,
    #[n(2)]
    lines: u64,
    #[n(3)]
    media_type: String,
    #[n(4)]
    subtype: String,
    #[n(5)]
    #[cbor(default)]
    params: Vec<Parameter>,
    #[n(6)]
    content_id: Option<String>,
    #[n(7)]
    description: Option<String>,
    #[n(8)]
    encoding: String,
    #[n(9)]
    md5: Option<String>,
    #[n(10)]
    disposition: Option<Disposition>,
    #[n(11)]
    #[cbor(default)]
    language: Vec<String>,
    #[n(12)]
    location: Option<String>,
    #[n(13)]
    kind: FlatKind,
}

#[derive(Encode, Decode)]
enum FlatKind {
    #[n(0)]
    Leaf,
    #[n(1)]
    Multipart(#[n(0)] u32),
    #[n(2)]
    Message(#[n(0)] Box<Envelope>),
}

impl Structure {
    /// The stored form: CBOR with numbered fields, versioned.
    pub fn encode(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        flatten(&self.root, &mut parts);
        let head = PartHeader {
            size: self.size,
            lines: self.lines,
            envelope: self.envelope.clone(),
            preview: self.preview.clone(),
            received_fields: self.received_fields,
            limited: self.limited,
            parts,
        };
        let mut out = Vec::new();
        match minicbor::encode(Stored { version: VERSION, head }, &mut out) {
            Ok(()) => out,
            // A Vec takes every write and no value here has an encoder that refuses.
            Err(error) => unreachable!("encoding a structure into memory: {error}"),
        }
    }

    /// The structure that [`Structure::encode`] wrote; `Corrupt` if these bytes are something else.
    pub fn decode(bytes: &[u8]) -> Result<Structure> {
        let stored: Stored = minicbor::decode(bytes).map_err(unreadable)?;
        check(stored.version)?;
        let head = stored.head;
        let mut parts = head.parts.into_iter();
        let root = unflatten(&mut parts, 0).map_err(corrupt)?;
        if parts.next().is_some() {
            return Err(corrupt("parts that belong nowhere"));
        }
        Ok(Structure {
            size: head.size,
            lines: head.lines,
            root,
            envelope: head.envelope,
            preview: head.preview,
            received_fields: head.received_fields,
            limited: head.limited,
        })
    }

    /// The envelope of a stored structure, without the parts, which may take much more.
    ///
    /// # Errors
    /// As [`Structure::decode`], except for errors in the parts.
    pub fn decode_envelope(bytes: &[u8]) -> Result<Envelope> {
        let stored: StoredEnvelope = minicbor::decode(bytes).map_err(unreadable)?;
        check(stored.version)?;
        Ok(stored.head.envelope)
    }
}

fn corrupt(why: &str) -> Error {
    Error::corrupt(format!("stored message structure: {why}"))
}

fn unreadable(e: minicbor::decode::Error) -> Error {
    corrupt("not readable").with_source(e)
}

fn check(version: u8) -> Result<()> {
    if version == VERSION { Ok(()) } else { Err(corrupt(&format!("version {version} is not known"))) }
}

fn flatten(part: &Part, out: &mut Vec<FlatPart>) {
    let kind = match &part.kind {
        PartKind::Leaf => FlatKind::Leaf,
        PartKind::Multipart(parts) => FlatKind::Multipart(parts.len().try_into().unwrap_or(u32::MAX)),
        PartKind::Message(envelope, _) => FlatKind::Message(envelope.clone()),
    };
    out.push(FlatPart {
        header: part.header.clone(),
        body: part.body.clone(),
        lines: part.lines,
        media_type: part.media_type.clone(),
        subtype: part.subtype.clone(),
        params: part.params.clone(),
        content_id: part.content_id.clone(),
        description: part.description.clone(),
        encoding: part.encoding.clone(),
        md5: part.md5.clone(),
        disposition: part.disposition.clone(),
        language: part.language.clone(),
        location: part.location.clone(),
        kind,
    });
    match &part.kind {
        PartKind::Leaf => {}
        PartKind::Multipart(parts) => parts.iter().for_each(|part| flatten(part, out)),
        PartKind::Message(_, part) => flatten(part, out),
    }
}

fn unflatten(parts: &mut impl Iterator<Item = FlatPart>, depth: usize) -> Result<Part, &'static str> {
    // Each level of the scanner's nesting is one part, and a nested message adds the message itself.
    if depth > 2 * limits::MIME_DEPTH + 2 {
        return Err("nested too deeply");
    }
    let flat = parts.next().ok_or("parts are missing")?;
    if flat.header.start > flat.header.end || flat.body.start > flat.body.end {
        return Err("a range ends before it starts");
    }
    let kind = match flat.kind {
        FlatKind::Leaf => PartKind::Leaf,
        FlatKind::Multipart(0) => return Err("a multipart without parts"),
        FlatKind::Multipart(n) => {
            PartKind::Multipart((0..n).map(|_| unflatten(parts, depth + 1)).collect::<Result<_, _>>()?)
        }
        FlatKind::Message(envelope) => PartKind::Message(envelope, Box::new(unflatten(parts, depth + 1)?)),
    };
    Ok(Part {
        header: flat.header,
        body: flat.body,
        lines: flat.lines,
        media_type: flat.media_type,
        subtype: flat.subtype,
        params: flat.params,
        content_id: flat.content_id,
        description: flat.description,
        encoding: flat.encoding,
        md5: flat.md5,
        disposition: flat.disposition,
        language: flat.language,
        location: flat.location,
        kind,
    })
}
