//! [`Outline`]: where the parts of a message are, without what they say of themselves.
//!
//! It is all that a section of a message needs (RFC 3501 §6.4.5), and a fraction of the structure:
//! the texts of the stored form are passed over, not copied. The parts are a flat list in the order
//! of the message, as they are stored.

use std::ops::Range;

use minicbor::Decode;
use minicbor::decode::{Decoder, Error as Unreadable};
use sealpost_base::Result;

use super::codec::{check, corrupt, entries, pass_over, unreadable};
use super::stored::{StoredKind, StoredPart, StoredStructure};
use super::{Layer, Part, PartKind, Structure};
use crate::decode::Encoding;
use crate::header;

/// Where the parts of a message are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    size: u64,
    parts: Vec<Flat>,
}

/// A part of an outline: where it is, as [`Part`] says it.
#[derive(Debug, Clone, Copy)]
pub struct OutlinePart<'a> {
    flat: &'a Flat,
    /// What it holds begins here.
    behind: &'a [Flat],
}

/// One part of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flat {
    header: Range<u64>,
    body: Range<u64>,
    encoding: Option<Encoding>,
    holds: Holds,
}

/// What a part holds, which follows it in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Decode)]
enum Holds {
    #[n(0)]
    Nothing,
    #[n(1)]
    Parts(#[n(0)] u32),
    #[n(2)]
    Message(#[n(0)] PassedOver),
}

/// A value of the stored form that is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PassedOver;

impl Outline {
    /// The outline of the structure that [`Structure::encode`] wrote.
    ///
    /// # Errors
    /// `Corrupt` if these bytes are something else, or if their list of parts is no tree.
    pub fn decode(stored: &[u8]) -> Result<Outline> {
        let Stored { version, head: Head { size, parts } } = minicbor::decode(stored).map_err(unreadable)?;
        check(version)?;
        let outline = Outline { size, parts };
        if outline.after(0) != Some(outline.parts.len()) {
            return Err(corrupt("parts are missing, or belong nowhere"));
        }
        if outline.parts.iter().any(Flat::is_impossible) {
            return Err(corrupt("a range ends before it starts, or a multipart has no parts"));
        }
        Ok(outline)
    }

    /// The outline of `message` without its parts: its header and its body, which are all that a section
    /// with an empty path needs.
    pub fn without_parts(message: &[u8]) -> Outline {
        let (header, size) = (header::end(message) as u64, message.len() as u64);
        let (header, body) = (0..header, header..size);
        Outline { size, parts: vec![Flat { header, body, encoding: None, holds: Holds::Nothing }] }
    }

    /// Bytes of the message.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// About how many bytes of memory this takes.
    pub fn weight(&self) -> usize {
        size_of::<Outline>() + self.parts.capacity() * size_of::<Flat>()
    }

    /// The part at a section path, and the encoded messages that it is in, outermost first. The
    /// empty path is the message itself.
    pub fn part_within(&self, path: &[u32]) -> Option<(OutlinePart<'_>, Vec<Layer>)> {
        let (at, layers) = self.find(path)?;
        Some((OutlinePart::first(self.parts.get(at..)?)?, layers))
    }

    /// Where in the list the part at a section path is, and the encoded messages around it.
    ///
    /// "Every message has at least one part number": a message that is not multipart is its own
    /// part 1, and so is the message nested in a message/rfc822 part.
    pub(super) fn find(&self, path: &[u32]) -> Option<(usize, Vec<Layer>)> {
        let (mut at, mut layers) = (0, Vec::new());
        let mut is_message = true;
        for &number in path {
            let mut part = self.parts.get(at)?;
            if !is_message {
                layers.extend(part.layer());
                if part.is_message() {
                    at += 1;
                    part = self.parts.get(at)?;
                    is_message = true;
                }
            }
            match part.holds {
                Holds::Parts(count) => at = self.child(at, count, number)?,
                _ if is_message && number == 1 => {}
                _ => return None,
            }
            is_message = false;
        }
        Some((at, layers))
    }

    /// The part of that number, from 1 on, of the multipart at `at` with so many parts.
    fn child(&self, at: usize, count: u32, number: u32) -> Option<usize> {
        let before = number.checked_sub(1).filter(|before| *before < count)?;
        (0..before).try_fold(at + 1, |at, _| self.after(at))
    }

    /// What follows the part at `at` and all that it holds; `None` if the list ends before.
    fn after(&self, at: usize) -> Option<usize> {
        let (mut at, mut left) = (at, 1usize);
        while left > 0 {
            left = left - 1 + self.parts.get(at)?.holds.count();
            at += 1;
        }
        Some(at)
    }
}

impl<'a> OutlinePart<'a> {
    fn first(list: &'a [Flat]) -> Option<Self> {
        list.split_first().map(|(flat, behind)| OutlinePart { flat, behind })
    }

    /// The header, its terminating empty line included.
    pub fn header(self) -> Range<u64> {
        self.flat.header.clone()
    }

    /// The body, in its transfer encoding.
    pub fn body(self) -> Range<u64> {
        self.flat.body.clone()
    }

    /// How the body is encoded; `None` if that is not known here.
    pub fn encoding(self) -> Option<Encoding> {
        self.flat.encoding
    }

    /// Whether it is a multipart.
    pub fn is_multipart(self) -> bool {
        matches!(self.flat.holds, Holds::Parts(_))
    }

    /// The message nested in a message/rfc822 or message/global part: for `[n.HEADER]` and
    /// `[n.TEXT]`.
    pub fn message(self) -> Option<OutlinePart<'a>> {
        if self.flat.is_message() { Self::first(self.behind) } else { None }
    }

    /// As [`Part::layer`].
    pub fn layer(self) -> Option<Layer> {
        self.flat.layer()
    }
}

impl Flat {
    fn of(part: &Part) -> Self {
        let holds = match &part.kind {
            PartKind::Leaf => Holds::Nothing,
            PartKind::Multipart(parts) => Holds::Parts(parts.len().try_into().unwrap_or(u32::MAX)),
            PartKind::Message(..) => Holds::Message(PassedOver),
        };
        let (header, body) = (part.header.clone(), part.body.clone());
        Flat { header, body, encoding: known(&part.encoding), holds }
    }

    fn is_message(&self) -> bool {
        matches!(self.holds, Holds::Message(_))
    }

    fn layer(&self) -> Option<Layer> {
        let encoding = self.encoding.filter(|encoding| *encoding != Encoding::Identity)?;
        self.is_message().then(|| Layer { range: self.body.clone(), encoding })
    }

    fn is_impossible(&self) -> bool {
        let reversed = self.header.start > self.header.end || self.body.start > self.body.end;
        reversed || self.holds == Holds::Parts(0)
    }
}

impl Holds {
    /// How many parts follow for it, without what they hold.
    fn count(self) -> usize {
        match self {
            Holds::Nothing => 0,
            Holds::Parts(count) => count as usize,
            Holds::Message(PassedOver) => 1,
        }
    }
}

impl StoredStructure<'_> {
    /// Where its parts are.
    pub fn outline(&self) -> Outline {
        let flat = |part: &StoredPart<'_>| {
            let holds = match part.kind {
                StoredKind::Leaf => Holds::Nothing,
                StoredKind::Multipart(count) => Holds::Parts(count),
                StoredKind::Message(_) => Holds::Message(PassedOver),
            };
            let (header, body) = (part.header.clone(), part.body.clone());
            Flat { header, body, encoding: known(part.encoding), holds }
        };
        Outline { size: self.size, parts: self.parts.iter().map(flat).collect() }
    }
}

impl Structure {
    /// Where its parts are.
    pub fn outline(&self) -> Outline {
        let mut parts = Vec::new();
        self.root.walk(&mut |part| parts.push(Flat::of(part)));
        Outline { size: self.size, parts }
    }
}

/// The encoding of that name, if what it decodes to is known.
fn known(name: &str) -> Option<Encoding> {
    match name {
        "7bit" | "8bit" | "binary" => Some(Encoding::Identity),
        name => match Encoding::named(name) {
            Encoding::Identity | Encoding::Opaque => None,
            encoding => Some(encoding),
        },
    }
}

#[derive(Decode)]
struct Stored {
    #[n(0)]
    version: u8,
    #[n(1)]
    head: Head,
}

struct Head {
    size: u64,
    parts: Vec<Flat>,
}

impl<'b, C> Decode<'b, C> for Head {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> std::result::Result<Self, Unreadable> {
        let (mut size, mut parts) = (None, None);
        for _ in 0..entries(d)? {
            match d.u32()? {
                0 => size = Some(d.u64()?),
                6 => parts = Some(Decode::decode(d, ctx)?),
                _ => pass_over(d)?,
            }
        }
        match (size, parts) {
            (Some(size), Some(parts)) => Ok(Head { size, parts }),
            _ => Err(Unreadable::message("no size, or no parts")),
        }
    }
}

impl<'b, C> Decode<'b, C> for Flat {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> std::result::Result<Self, Unreadable> {
        let (mut header, mut body, mut encoding, mut holds) = (None, None, None, None);
        for _ in 0..entries(d)? {
            match d.u32()? {
                0 => header = Some(Decode::decode(d, ctx)?),
                1 => body = Some(Decode::decode(d, ctx)?),
                8 => encoding = Some(known(d.str()?)),
                13 => holds = Some(Decode::decode(d, ctx)?),
                _ => pass_over(d)?,
            }
        }
        match (header, body, encoding, holds) {
            (Some(header), Some(body), Some(encoding), Some(holds)) => {
                Ok(Flat { header, body, encoding, holds })
            }
            _ => Err(Unreadable::message("a part without its place, encoding or kind")),
        }
    }
}

impl<'b, C> Decode<'b, C> for PassedOver {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> std::result::Result<Self, Unreadable> {
        pass_over(d).map(|()| PassedOver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scanner;

    const NESTED: &str = "Content-Type: multipart/mixed; boundary=a\r\n\r\n\
        --a\r\n\r\nfirst\r\n\
        --a\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n\
        U3ViamVjdDogeA0KDQp0ZXh0DQo=\r\n\
        --a\r\nContent-Type: message/rfc822\r\n\r\n\
        Content-Type: multipart/alternative; boundary=b\r\n\r\n\
        --b\r\nContent-Transfer-Encoding: x-own\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\n\
        --a--\r\n";

    fn structure(message: &str) -> Structure {
        let mut scanner = Scanner::new();
        scanner.push(message.as_bytes());
        scanner.finish().0
    }

    #[test]
    fn an_outline_is_decoded_from_a_stored_structure() {
        for message in ["", "Subject: x\r\n\r\ntext\r\n", NESTED] {
            let structure = structure(message);
            let outline = Outline::decode(&structure.encode()).unwrap();
            assert_eq!(outline, structure.outline(), "{message}");
            let stored = structure.encode();
            assert_eq!(StoredStructure::decode(&stored).unwrap().outline(), outline, "{message}");
            assert_eq!(outline.size(), message.len() as u64);
        }
    }

    #[test]
    fn sections_are_found_in_nested_messages() {
        let outline = structure(NESTED).outline();
        let body = |path: &[u32]| {
            let (part, layers) = outline.part_within(path)?;
            assert_eq!(layers.is_empty(), path.first() != Some(&2) || path.len() == 1, "{path:?}");
            let range = part.body();
            Some(NESTED.get(range.start as usize..range.end as usize).filter(|_| layers.is_empty()))
        };
        assert_eq!(body(&[1]), Some(Some("first")));
        assert_eq!(body(&[3, 1]), Some(Some("one")));
        assert_eq!(body(&[3, 2]), Some(Some("two")));
        assert_eq!(body(&[2, 1]), Some(None), "inside of an encoded message");
        for nowhere in [&[4][..], &[0], &[1, 1], &[3, 3], &[3, 1, 1], &[2, 2], &[2, 1, 1]] {
            assert_eq!(body(nowhere), None, "{nowhere:?}");
        }
        let (third, _) = outline.part_within(&[3]).unwrap();
        assert!(third.message().unwrap().is_multipart() && third.layer().is_none());
        let (second, _) = outline.part_within(&[2]).unwrap();
        assert_eq!(second.layer().unwrap().encoding, Encoding::Base64);
        assert_eq!(outline.part_within(&[3, 1]).unwrap().0.encoding(), None, "x-own is not known");
    }

    #[test]
    fn a_list_that_is_no_tree_is_refused() {
        let mut structure = structure("Subject: x\r\n\r\ntext\r\n");
        structure.root.kind = PartKind::Multipart(Vec::new());
        assert!(Outline::decode(&structure.encode()).is_err(), "a multipart without parts");
        structure.root.kind = PartKind::Leaf;
        let sound = structure.encode();
        assert!(Outline::decode(&sound).is_ok());
        for end in 0..sound.len() {
            assert!(Outline::decode(&sound[..end]).is_err(), "{end}");
        }
        structure.root.body.start = structure.root.body.end + 1;
        assert!(Outline::decode(&structure.encode()).is_err(), "a range that ends before it starts");
    }
}
