//! Parts of messages without their transfer encoding: how many octets they come to, and any range of these.
//!
//! A part is read through once to count ([`Decoded::measure`]); on the way the decoder's state is noted at some places, so
//! that a range is decoded from the place before it and not from the beginning: a client that takes a large part in slices
//! costs the server each slice once. Memory does not depend on the size of the part: at most [`POINTS`] places are
//! remembered, and of as many parts as have room in the cache.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{Error, ObjectId, Result};
use sealpost_mime::decode::{Encoding, TransferDecoder};
use sealpost_vault::message::MessageReader;

use crate::cache::Cache;

/// Places of one part that are remembered.
const POINTS: u64 = 128;
/// Encoded bytes between two of them at least.
const STRIDE_BYTES: u64 = 512 * 1024;

/// What is known of a part's decoded form.
#[derive(Debug)]
pub struct Decoded {
    /// The encoded octets, in the message.
    range: Range<u64>,
    size: u64,
    nul: bool,
    points: Vec<Point>,
}

/// A place in a part where decoding can begin.
#[derive(Debug, Clone)]
struct Point {
    /// In the message.
    encoded: u64,
    /// In the decoded part.
    decoded: u64,
    decoder: TransferDecoder,
}

impl Decoded {
    /// Reads the part through.
    ///
    /// # Errors
    /// `Corrupt` if the message is damaged, or what the store says.
    pub async fn measure(reader: MessageReader, range: Range<u64>, encoding: Encoding) -> Result<Self> {
        let stride = STRIDE_BYTES.max((range.end - range.start) / POINTS);
        let mut at = Point { encoded: range.start, decoded: 0, decoder: TransferDecoder::new(encoding) };
        let mut points = vec![at.clone()];
        let mut nul = false;
        let mut out = Vec::new();
        let mut raw = reader.raw(range.clone());
        while let Some(piece) = raw.next().await {
            let piece = piece?;
            if at.encoded >= points.last().map_or(0, |last| last.encoded) + stride {
                points.push(at.clone());
            }
            out.clear();
            at.decoder.push(&piece, &mut out);
            nul |= out.contains(&0);
            at.decoded += out.len() as u64;
            at.encoded += piece.len() as u64;
        }
        if at.encoded != range.end {
            return Err(Error::corrupt("a message is shorter than its structure says"));
        }
        out.clear();
        at.decoder.finish(&mut out);
        let size = at.decoded + out.len() as u64;
        Ok(Decoded { range, size, nul, points })
    }

    /// Octets of the decoded part.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether there is a NUL among them.
    pub fn has_nul(&self) -> bool {
        self.nul
    }

    /// These of the decoded octets, in pieces of bounded size. It holds what [`MessageReader::raw`] holds and a piece.
    pub fn stream(&self, reader: &MessageReader, window: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let window = window.start.min(self.size)..window.end.min(self.size);
        let before = self.points.partition_point(|point| point.decoded <= window.start).saturating_sub(1);
        let from = match self.points.get(before) {
            Some(point) if !window.is_empty() => point.clone(),
            _ => return futures::stream::empty().boxed(),
        };
        let raw = reader.raw(from.encoded..self.range.end);
        let at = from.decoded;
        let walk = Walk { raw, decoder: Some(from.decoder), at, window };
        futures::stream::try_unfold(walk, Walk::step).boxed()
    }
}

/// Decoding under way.
struct Walk {
    raw: BoxStream<'static, Result<Bytes>>,
    /// `None` when the part is over.
    decoder: Option<TransferDecoder>,
    /// Where in the decoded part the next octet is.
    at: u64,
    /// What is wanted.
    window: Range<u64>,
}

impl Walk {
    async fn step(mut self) -> Result<Option<(Bytes, Walk)>> {
        while self.at < self.window.end {
            let Some(mut decoder) = self.decoder.take() else { break };
            let mut out = Vec::new();
            match self.raw.next().await {
                Some(piece) => {
                    decoder.push(&piece?, &mut out);
                    self.decoder = Some(decoder);
                }
                None => decoder.finish(&mut out),
            }
            let len = out.len() as u64;
            let skip = self.window.start.saturating_sub(self.at).min(len);
            let end = (self.window.end - self.at).min(len);
            self.at += len;
            let wanted = Bytes::from(out).slice(skip as usize..end.max(skip) as usize);
            if !wanted.is_empty() {
                return Ok(Some((wanted, self)));
            }
        }
        Ok(None)
    }
}

/// A part: the message, its octets there, and how they are encoded.
pub(crate) type Key = (ObjectId, Range<u64>, Encoding);

/// Parts that were measured lately.
pub(crate) type DecodedCache = Cache<Decoded, Key>;

impl Decoded {
    /// What it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.points.capacity() * size_of::<Point>()
    }
}
