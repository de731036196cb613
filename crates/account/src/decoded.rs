//! Parts of messages without their transfer encoding: their size, and ranges of their bytes.
//!
//! A part is read once to measure it ([`Decoded::measure`]). Meanwhile the decoder's state is recorded at
//! some points, so that a range is decoded from the preceding point instead of from the start. A client that
//! reads a large part in slices costs the server each slice once. Memory does not depend on the size of the
//! part: at most [`POINTS`] points are kept, for as many parts as the cache holds.
//!
//! A part of an encoded message has several layers ([`Layer`]): each is measured, and the next one decodes
//! its output.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use sealpost_base::{Error, ObjectId, Result};
use sealpost_mime::Layer;
use sealpost_mime::decode::TransferDecoder;
use sealpost_vault::message::MessageReader;

use crate::cache::Cache;

/// Points that are kept of one part.
const POINTS: u64 = 128;
/// The least distance of two points, in encoded bytes.
const STRIDE_BYTES: u64 = 512 * 1024;

/// Bytes of a message, or of a decoded part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The encoded bytes of each layer, outermost first.
    pub layers: Vec<Layer>,
    /// The range in the output of the innermost layer; of the message if there is no layer.
    pub range: Range<u64>,
}

/// The measured decoded form of a part.
#[derive(Debug)]
pub struct Decoded {
    /// The part whose decoded form has the encoded bytes; `None` for the message itself.
    around: Option<Arc<Decoded>>,
    /// The encoded bytes in it.
    range: Range<u64>,
    size: u64,
    nul: bool,
    points: Vec<Point>,
}

/// A point at which decoding can begin.
#[derive(Debug, Clone)]
struct Point {
    /// The offset in the message or in the surrounding part.
    encoded: u64,
    /// The offset in the decoded part.
    decoded: u64,
    decoder: TransferDecoder,
}

impl Decoded {
    /// Measures a part by reading it. `around`: the part whose decoded form has the encoded bytes.
    ///
    /// # Errors
    /// `Corrupt` if the message is damaged; store errors.
    pub async fn measure(reader: &MessageReader, around: Option<Arc<Decoded>>, layer: Layer) -> Result<Self> {
        let Layer { range, encoding } = layer;
        let stride = STRIDE_BYTES.max((range.end - range.start) / POINTS);
        let mut at = Point { encoded: range.start, decoded: 0, decoder: TransferDecoder::new(encoding) };
        let mut points = vec![at.clone()];
        let mut nul = false;
        let mut out = Vec::new();
        let mut raw = bytes(reader, around.as_deref(), range.clone());
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
        Ok(Decoded { around, range, size, nul, points })
    }

    /// The size of the decoded part, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it contains a NUL.
    pub fn has_nul(&self) -> bool {
        self.nul
    }

    /// A range of the decoded bytes, in pieces of bounded size. Holds as much as [`MessageReader::raw`] and
    /// one piece.
    pub fn stream(&self, reader: &MessageReader, window: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let window = window.start.min(self.size)..window.end.min(self.size);
        let before = self.points.partition_point(|point| point.decoded <= window.start).saturating_sub(1);
        let from = match self.points.get(before) {
            Some(point) if !window.is_empty() => point.clone(),
            _ => return futures::stream::empty().boxed(),
        };
        let raw = bytes(reader, self.around.as_deref(), from.encoded..self.range.end);
        let at = from.decoded;
        let walk = Walk { raw, decoder: Some(from.decoder), at, window };
        futures::stream::try_unfold(walk, Walk::step).boxed()
    }
}

/// A range of the decoded form of `around`, or of the message.
fn bytes(
    reader: &MessageReader,
    around: Option<&Decoded>,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes>> {
    match around {
        Some(around) => around.stream(reader, range),
        None => reader.raw(range),
    }
}

/// A decoding in progress.
struct Walk {
    raw: BoxStream<'static, Result<Bytes>>,
    /// `None` at the end of the part.
    decoder: Option<TransferDecoder>,
    /// The offset of the next byte in the decoded part.
    at: u64,
    /// The requested range.
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

/// A part: the message, and the layers that lead to the part.
pub(crate) type Key = (ObjectId, Vec<Layer>);

/// Recently measured parts.
pub(crate) type DecodedCache = Cache<Decoded, Key>;

impl Decoded {
    /// Its memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.points.capacity() * size_of::<Point>()
    }
}
