//! Streams bytes of a message from the store to the client, with at most a few chunks in memory.
//!
//! A literal begins with its length, so the length is known before the first byte is sent. It comes from the
//! offsets in the structure; only selected header fields must be counted first. Once announced, exactly that
//! many bytes must follow.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use sealpost_account::decoded::Span;
use sealpost_account::{Account, Message};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Kind, Result};
use sealpost_imap::types::{Partial, Section, SectionText};
use sealpost_mime::Outline;
use sealpost_mime::header::HeaderFilter;
use sealpost_vault::message::MessageReader;

use super::binary;
use super::char8;
use super::items::BodySection;
use super::section::{SectionBytes, cut, locate};
use crate::connection::{Connection, End};

/// Selected fields of headers up to this size are kept while they are counted; larger headers are read twice.
const KEPT_HEADER_BYTES: u64 = 64 * 1024;
/// Replaces damaged bytes.
const FILLER: u8 = b'?';

/// Access to a message.
pub(crate) struct Reads {
    pub(crate) reader: MessageReader,
    pub(crate) account: Arc<Account>,
    pub(crate) message: Message,
    /// The places of its parts, if they were read.
    pub(crate) outline: Option<Result<Outline>>,
    /// Its whole content, if it was read together with others.
    pub(crate) whole: Option<Bytes>,
}

/// The value of a body item.
pub(crate) enum Opened {
    /// `NIL`: the message has no such part.
    Nil,
    /// The part has an unknown encoding, so its decoded size is unknown (RFC 3516 §4.3).
    UnknownEncoding,
    /// The bytes.
    Bytes(OpenedBytes),
}

/// Bytes of which the first are available.
pub(crate) struct OpenedBytes {
    count: u64,
    /// Whether the bytes may contain NUL and may be sent as a literal8.
    nul: bool,
    source: Source,
}

enum Source {
    /// All bytes.
    Kept(Vec<u8>),
    /// A range of the message: its first bytes, and a stream of the rest.
    Range {
        reader: MessageReader,
        range: Range<u64>,
        first: Vec<Bytes>,
        rest: BoxStream<'static, Result<Vec<Bytes>>>,
    },
    /// A window of the fields that a filter selects.
    Filtered { header: BoxStream<'static, Result<Bytes>>, filter: HeaderFilter, window: Range<u64> },
    /// Decoded bytes.
    Decoded(BoxStream<'static, Result<Bytes>>),
}

impl Reads {
    /// Locates the bytes and reads the first of them.
    pub(crate) async fn open(&self, wanted: &BodySection) -> Result<Opened> {
        // The whole message needs no structure.
        let locate = match is_whole(&wanted.section) && !wanted.binary {
            true => SectionBytes::At(Span { range: 0..self.reader.layout().raw_bytes, ..Span::default() }),
            false => locate(&wanted.section, self.outline()?),
        };
        match locate {
            SectionBytes::Nowhere => Ok(Opened::Nil),
            SectionBytes::At(span) if wanted.binary => self.open_binary(wanted, span).await,
            SectionBytes::At(span) if span.layers.is_empty() => {
                self.open_range(cut(span.range, wanted.partial)).await.map(Opened::Bytes)
            }
            SectionBytes::At(span) => {
                let range = cut(span.range, wanted.partial);
                let count = range.end - range.start;
                let bytes = self.account.bytes(&self.message, Span { range, ..span }).await?;
                Ok(Opened::Bytes(OpenedBytes { count, nul: false, source: Source::Decoded(bytes) }))
            }
            SectionBytes::Fields(header, filter) => {
                self.open_fields(header, filter, wanted.partial).await.map(Opened::Bytes)
            }
        }
    }

    /// The places of the parts.
    pub(super) fn outline(&self) -> Result<&Outline> {
        match &self.outline {
            Some(Ok(outline)) => Ok(outline),
            // An unreadable structure is reported once per message.
            Some(Err(e)) => Err(Error::new(e.kind(), "the structure cannot be read")),
            None => Err(Error::internal("a section without the structure")),
        }
    }

    async fn open_binary(&self, wanted: &BodySection, span: Span) -> Result<Opened> {
        let Some(encoding) = binary::encoding(&wanted.section, self.outline()?) else {
            return Ok(Opened::UnknownEncoding);
        };
        let decoded = self.account.decoded(&self.message, &binary::inside(span, encoding)).await?;
        // RFC 3516 §4.2: a partial counts decoded bytes.
        let window = cut(0..decoded.size(), wanted.partial);
        let count = window.end - window.start;
        let source = Source::Decoded(decoded.stream(&self.reader, window));
        Ok(Opened::Bytes(OpenedBytes { count, nul: decoded.has_nul(), source }))
    }

    /// The range, if the whole message is available.
    fn read_before(&self, range: &Range<u64>) -> Option<Bytes> {
        let whole = self.whole.as_ref()?;
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        (start <= end && end <= whole.len()).then(|| whole.slice(start..end))
    }

    async fn open_range(&self, range: Range<u64>) -> Result<OpenedBytes> {
        if let Some(bytes) = self.read_before(&range) {
            return Ok(OpenedBytes::of(&self.reader, range, vec![bytes]));
        }
        let mut rest = self.reader.batches(range.clone());
        let count = range.end - range.start;
        let first = match rest.next().await {
            Some(Ok(first)) => first,
            // The damage may be in a later chunk that was opened together with the first.
            Some(Err(error)) if error.kind() == Kind::Corrupt && chunk_end(range.start) < range.end => {
                let alone = self.reader.batches(range.start..chunk_end(range.start)).next().await;
                rest = self.reader.batches(chunk_end(range.start)..range.end);
                alone.unwrap_or(Err(error))?
            }
            Some(Err(error)) => return Err(error),
            None if count == 0 => Vec::new(),
            None => return Err(Error::corrupt("a message is shorter than its structure says")),
        };
        let source = Source::Range { reader: self.reader.clone(), range, first, rest };
        Ok(OpenedBytes { count, nul: false, source })
    }

    /// The number of bytes that the filter selects.
    pub(super) async fn count_fields(&self, header: Span, mut filter: HeaderFilter) -> Result<u64> {
        let mut count = 0;
        let mut take = |bytes: &[u8]| count += bytes.len() as u64;
        let mut raw = self.account.bytes(&self.message, header).await?;
        while let Some(piece) = raw.next().await {
            filter.push(&piece?, &mut take);
        }
        filter.finish(&mut take);
        Ok(count)
    }

    async fn open_fields(
        &self,
        header: Span,
        filter: HeaderFilter,
        partial: Option<Partial>,
    ) -> Result<OpenedBytes> {
        if header.layers.is_empty()
            && let Some(bytes) = self.read_before(&header.range)
        {
            let mut fields = Vec::new();
            filter.apply(&bytes, &mut fields);
            let window = cut(0..fields.len() as u64, partial);
            return Ok(OpenedBytes::kept(fields, window));
        }
        let keep = header.range.end - header.range.start <= KEPT_HEADER_BYTES;
        let (mut kept, mut count) = (Vec::new(), 0);
        let mut pass = filter.clone();
        let mut take = |bytes: &[u8]| {
            count += bytes.len() as u64;
            if keep {
                kept.extend_from_slice(bytes);
            }
        };
        let mut raw = self.account.bytes(&self.message, header.clone()).await?;
        while let Some(piece) = raw.next().await {
            pass.push(&piece?, &mut take);
        }
        pass.finish(&mut take);
        let window = cut(0..count, partial);
        if keep {
            return Ok(OpenedBytes::kept(kept, window));
        }
        let count = window.end - window.start;
        let header = self.account.bytes(&self.message, header).await?;
        let source = Source::Filtered { header, filter, window };
        Ok(OpenedBytes { count, nul: false, source })
    }
}

impl Opened {
    /// All bytes of a message.
    pub(super) fn all(reader: &MessageReader, pieces: Vec<Bytes>) -> Self {
        Opened::Bytes(OpenedBytes::of(reader, 0..reader.layout().raw_bytes, pieces))
    }
}

impl OpenedBytes {
    /// All bytes of a range of a message.
    fn of(reader: &MessageReader, range: Range<u64>, pieces: Vec<Bytes>) -> Self {
        let count = range.end - range.start;
        let (reader, rest) = (reader.clone(), futures::stream::empty().boxed());
        OpenedBytes { count, nul: false, source: Source::Range { reader, range, first: pieces, rest } }
    }

    /// A window of given bytes.
    pub(super) fn kept(mut bytes: Vec<u8>, window: Range<u64>) -> Self {
        bytes.truncate(window.end as usize);
        bytes.drain(..window.start as usize);
        OpenedBytes { count: window.end - window.start, nul: false, source: Source::Kept(bytes) }
    }

    /// The number of bytes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The unchanged bytes, for another protocol. Damage and an early end are errors.
    pub(crate) fn pieces(self) -> BoxStream<'static, Result<Bytes>> {
        let pieces = match self.source {
            Source::Kept(bytes) => stream::once(async { Ok(Bytes::from(bytes)) }).boxed(),
            Source::Range { first, rest, .. } => {
                let first = stream::iter([Ok(first)]);
                first
                    .chain(rest)
                    .map_ok(|pieces| stream::iter(pieces.into_iter().map(Ok)))
                    .try_flatten()
                    .boxed()
            }
            Source::Decoded(decoded) => decoded,
            Source::Filtered { header, filter, window } => filtered(header, filter, window),
        };
        let whole = stream::try_unfold((pieces, self.count), |(mut pieces, left)| async move {
            match pieces.next().await.transpose()? {
                Some(piece) => {
                    let left = left.saturating_sub(piece.len() as u64);
                    Ok(Some((piece, (pieces, left))))
                }
                None if left == 0 => Ok(None),
                None => Err(Error::corrupt("a message is shorter than its structure says")),
            }
        });
        whole.boxed()
    }

    /// Sends the literal, with NUL replaced unless the client `takes_nul` (`char8.rs`). Damaged bytes are
    /// replaced, and the damage is returned. Any other failure ends the session, since the announced length
    /// cannot be kept.
    pub(crate) async fn send(
        self,
        connection: &mut Connection,
        takes_nul: bool,
    ) -> Result<Option<Error>, End> {
        match self.nul {
            // RFC 3516 §4.3: a literal8 only where it is required.
            true => connection.out().literal8_header(self.count),
            false => connection.out().literal_header(self.count),
        };
        let mut literal = Literal { connection, any_byte: self.nul || takes_nul };
        match self.source {
            Source::Kept(bytes) => {
                literal.bytes(&bytes).await?;
                Ok(None)
            }
            Source::Range { reader, range, first, rest } => {
                send_range(&mut literal, &reader, range, first, rest).await
            }
            Source::Decoded(decoded) => {
                send_decoded(&mut literal, decoded, self.count).await?;
                Ok(None)
            }
            Source::Filtered { header, filter, window } => {
                send_filtered(&mut literal, header, filter, window).await?;
                Ok(None)
            }
        }
    }
}

/// Sends bytes as a literal, with NUL replaced unless the client `takes_nul`.
pub(super) async fn send_bytes(
    connection: &mut Connection,
    takes_nul: bool,
    bytes: &[u8],
) -> Result<(), End> {
    connection.out().literal_header(bytes.len() as u64);
    Literal { connection, any_byte: takes_nul }.bytes(bytes).await
}

/// An announced literal.
struct Literal<'a> {
    connection: &'a mut Connection,
    /// Whether it may contain NUL.
    any_byte: bool,
}

impl Literal<'_> {
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), End> {
        match self.any_byte {
            true => self.connection.literal_bytes(bytes).await,
            false => self.connection.literal_bytes(&char8::bytes(bytes)).await,
        }
    }

    async fn pieces(&mut self, mut pieces: Vec<Bytes>) -> Result<(), End> {
        if !self.any_byte {
            pieces = pieces.into_iter().map(char8::piece).collect();
        }
        self.connection.literal_pieces(&pieces).await
    }
}

fn bytes_in(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

async fn send_range(
    literal: &mut Literal<'_>,
    reader: &MessageReader,
    range: Range<u64>,
    first: Vec<Bytes>,
    mut rest: BoxStream<'static, Result<Vec<Bytes>>>,
) -> Result<Option<Error>, End> {
    let mut at = range.start + bytes_in(&first);
    literal.pieces(first).await?;
    let mut until = range.end;
    let mut damage = None;
    while at < range.end {
        match rest.next().await {
            Some(Ok(pieces)) => {
                at += bytes_in(&pieces);
                literal.pieces(pieces).await?;
            }
            Some(Err(error)) if error.kind() == Kind::Corrupt => {
                // Several chunks were opened together, but each was sealed separately: this one may be
                // intact.
                let end = chunk_end(at).min(range.end);
                if end < until {
                    until = end;
                } else {
                    literal.bytes(&vec![FILLER; (end - at) as usize]).await?;
                    at = end;
                    until = range.end;
                    damage.get_or_insert(error);
                }
                rest = reader.batches(at..until);
            }
            None if at == until => {
                until = range.end;
                rest = reader.batches(at..until);
            }
            Some(Err(error)) => {
                tracing::error!(%error, "a message could not be sent to its end");
                return Err(End::Broken);
            }
            None => return Err(End::Broken),
        }
    }
    Ok(damage)
}

/// The end of the chunk that has this byte.
fn chunk_end(at: u64) -> u64 {
    let chunk = CHUNK_BYTES as u64;
    (at / chunk + 1).saturating_mul(chunk)
}

async fn send_decoded(
    literal: &mut Literal<'_>,
    mut decoded: BoxStream<'static, Result<Bytes>>,
    count: u64,
) -> Result<(), End> {
    let mut left = count;
    while let Some(piece) = decoded.next().await {
        let piece = piece.map_err(|error| {
            tracing::error!(%error, "a part could not be sent to its end");
            End::Broken
        })?;
        left = left.saturating_sub(piece.len() as u64);
        literal.bytes(&piece).await?;
    }
    if left == 0 { Ok(()) } else { Err(End::Broken) }
}

async fn send_filtered(
    literal: &mut Literal<'_>,
    header: BoxStream<'static, Result<Bytes>>,
    filter: HeaderFilter,
    window: Range<u64>,
) -> Result<(), End> {
    let mut pieces = filtered(header, filter, window);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            tracing::error!(%error, "a header could not be sent to its end");
            End::Broken
        })?;
        literal.bytes(&piece).await?;
    }
    Ok(())
}

/// A window of the fields that the filter selects.
fn filtered(
    header: BoxStream<'static, Result<Bytes>>,
    filter: HeaderFilter,
    window: Range<u64>,
) -> BoxStream<'static, Result<Bytes>> {
    let begin = (header, Some(filter), 0);
    let pieces = stream::try_unfold(begin, move |(mut header, filter, mut at)| {
        let window = window.clone();
        async move {
            let Some(mut filter) = filter else { return Ok(None) };
            let mut piece = Vec::new();
            let mut take = |bytes: &[u8]| {
                let within = cut_window(&window, at, bytes.len() as u64);
                piece.extend_from_slice(&bytes[within]);
                at += bytes.len() as u64;
            };
            let rest = match header.next().await.transpose()? {
                Some(read) => {
                    filter.push(&read, &mut take);
                    Some(filter)
                }
                None => {
                    filter.finish(&mut take);
                    None
                }
            };
            Ok(Some((Bytes::from(piece), (header, rest, at))))
        }
    });
    pieces.boxed()
}

/// The part of `len` bytes at `at` that is within the window.
fn cut_window(window: &Range<u64>, at: u64, len: u64) -> Range<usize> {
    let start = window.start.saturating_sub(at).min(len);
    let end = window.end.saturating_sub(at).min(len);
    start as usize..end.max(start) as usize
}

fn is_whole(section: &Section) -> bool {
    section.path.is_empty() && section.text == SectionText::Everything
}
