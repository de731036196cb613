//! One segment of pieces: what is stored, and what is read back. Bytes: `docs/format/header.md`.

use std::ops::Range;

use sealpost_base::{Error, ObjectId, Result, limits};
use sealpost_vault::index::{self, SegmentReader};

use super::super::content::Content;
use super::super::segment::SegmentName;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 4;
/// Number, object, plain and compressed length.
const ROW_BYTES: usize = 4 + 16 + 4 + 2;
const DIRECTORY: usize = 0;
const PIECES: usize = 1;
/// As the length of a piece: it is too long for a segment, and the message has it.
const ELSEWHERE: u16 = u16::MAX;

/// A segment that is being filled, in the order of message numbers.
pub(crate) struct PieceWriter {
    content: Content,
    rows: Vec<Row>,
    pieces: Vec<u8>,
}

/// A message, and where its piece is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    number: u32,
    object: ObjectId,
    /// Bytes of what the piece holds.
    plain: u32,
    /// Of the piece, [`ELSEWHERE`] if there is none.
    length: u16,
    start: u32,
}

impl Row {
    fn piece(&self) -> Option<Range<usize>> {
        let start = self.start as usize;
        (self.length != ELSEWHERE).then(|| start..start + usize::from(self.length))
    }
}

impl PieceWriter {
    /// An empty segment.
    pub(crate) fn new(content: Content) -> Self {
        PieceWriter { content, rows: Vec::new(), pieces: Vec::new() }
    }

    /// Adds what a message has. Numbers ascend. What is too long for a segment leaves a mark.
    ///
    /// # Errors
    /// `Internal` if it cannot be compressed.
    pub(crate) fn push(&mut self, number: u32, object: ObjectId, plain: &[u8]) -> Result<()> {
        if plain.len() > self.content.most_message_bytes() {
            self.push_elsewhere(number, object);
            return Ok(());
        }
        let start = self.pieces.len();
        let length = index::put_piece(plain, &mut self.pieces)?;
        match u16::try_from(length).ok().filter(|length| *length != ELSEWHERE) {
            Some(length) => self.row(number, object, plain.len() as u32, length, start),
            None => {
                self.pieces.truncate(start);
                self.push_elsewhere(number, object);
            }
        }
        Ok(())
    }

    /// Adds a message whose piece is too long.
    pub(crate) fn push_elsewhere(&mut self, number: u32, object: ObjectId) {
        self.row(number, object, 0, ELSEWHERE, self.pieces.len());
    }

    /// Adds a piece as it is in another segment.
    pub(crate) fn copy(&mut self, number: u32, of: Piece<'_>) {
        let start = self.pieces.len();
        let (object, plain, length) = (of.row().object, of.row().plain, of.row().length);
        self.pieces.extend_from_slice(of.compressed().unwrap_or_default());
        self.row(number, object, plain, length, start);
    }

    fn row(&mut self, number: u32, object: ObjectId, plain: u32, length: u16, start: usize) {
        debug_assert!(self.rows.last().is_none_or(|row| row.number < number));
        self.rows.push(Row { number, object, plain, length, start: start as u32 });
    }

    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// Whether it holds as much as a segment should.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= limits::SUMMARY_SEGMENT_MESSAGES || self.bytes() >= self.content.segment_bytes()
    }

    /// Bytes of its pieces.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.len()
    }

    /// What it is to be called; nothing if it is empty.
    pub(crate) fn name(&self) -> Option<SegmentName> {
        let (first, last) = (self.rows.first()?.number, self.rows.last()?.number);
        Some(SegmentName { first, last, entries: self.rows.len() as u32 })
    }

    /// The sections of the segment.
    pub(crate) fn sections(self) -> [Vec<u8>; 2] {
        let rows = &self.rows;
        let mut directory = Vec::with_capacity(HEAD_BYTES + rows.len() * ROW_BYTES);
        directory.push(VERSION);
        directory.extend((rows.len() as u32).to_le_bytes());
        rows.iter().for_each(|row| directory.extend(row.number.to_le_bytes()));
        rows.iter().for_each(|row| directory.extend(row.object.0));
        rows.iter().for_each(|row| directory.extend(row.plain.to_le_bytes()));
        rows.iter().for_each(|row| directory.extend(row.length.to_le_bytes()));
        [directory, self.pieces]
    }
}

/// A segment that was read back. Its pieces are still compressed.
pub(crate) struct PieceSegment {
    rows: Vec<Row>,
    pieces: Vec<u8>,
}

/// What a segment has of one message.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    segment: &'a PieceSegment,
    at: usize,
}

impl PieceSegment {
    /// Opens a segment.
    ///
    /// # Errors
    /// `Corrupt` for anything that is not what [`PieceWriter`] writes.
    pub(crate) fn open(content: Content, reader: &SegmentReader) -> Result<Self> {
        let directory =
            reader.section(DIRECTORY, HEAD_BYTES + limits::SUMMARY_SEGMENT_MESSAGES * ROW_BYTES)?;
        // The last piece may be as long as a piece can be.
        let pieces = reader.section(PIECES, content.segment_bytes() + usize::from(u16::MAX))?;
        Self::decode(&directory, pieces)
    }

    /// Reads the plaintext of the sections.
    ///
    /// # Errors
    /// As [`PieceSegment::open`].
    pub(crate) fn decode(directory: &[u8], pieces: Vec<u8>) -> Result<Self> {
        let corrupt = || Error::corrupt("a header segment that cannot be read");
        let (head, columns) = directory.split_first_chunk::<HEAD_BYTES>().ok_or_else(corrupt)?;
        let [VERSION, count @ ..] = head else { return Err(corrupt()) };
        let count = u32::from_le_bytes(*count) as usize;
        if count > limits::SUMMARY_SEGMENT_MESSAGES || columns.len() != count * ROW_BYTES {
            return Err(corrupt());
        }
        let (numbers, rest) = columns.split_at(count * 4);
        let (objects, rest) = rest.split_at(count * 16);
        let (plains, lengths) = rest.split_at(count * 4);
        let numbers = numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number));
        let objects = objects.as_chunks::<16>().0.iter().map(|object| ObjectId(*object));
        let plains = plains.as_chunks::<4>().0.iter().map(|plain| u32::from_le_bytes(*plain));
        let lengths = lengths.as_chunks::<2>().0.iter().map(|length| u16::from_le_bytes(*length));
        let (mut start, mut rows) = (0usize, Vec::with_capacity(count));
        for ((number, object), (plain, length)) in numbers.zip(objects).zip(plains.zip(lengths)) {
            let row = Row { number, object, plain, length, start: start as u32 };
            start = row.piece().map_or(start, |piece| piece.end);
            rows.push(row);
        }
        if start != pieces.len() || !rows.is_sorted_by(|a, b| a.number < b.number) {
            return Err(corrupt());
        }
        Ok(PieceSegment { rows, pieces })
    }

    /// What it has of the message of that number, if it was made from that object.
    pub(crate) fn find(&self, number: u32, object: ObjectId) -> Option<Piece<'_>> {
        let at = self.rows.binary_search_by_key(&number, |row| row.number).ok()?;
        (self.rows[at].object == object).then_some(Piece { segment: self, at })
    }

    /// All of it: message numbers, objects, and their pieces.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, ObjectId, Piece<'_>)> {
        self.rows.iter().enumerate().map(|(at, row)| (row.number, row.object, Piece { segment: self, at }))
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.pieces.capacity()
    }
}

impl<'a> Piece<'a> {
    fn row(self) -> &'a Row {
        &self.segment.rows[self.at]
    }

    fn compressed(self) -> Option<&'a [u8]> {
        self.segment.pieces.get(self.row().piece()?)
    }

    /// Appends what the piece holds to `out`; whether the segment has it. `scratch` is used again.
    ///
    /// # Errors
    /// `Corrupt` if it is not what [`PieceWriter::push`] was given.
    pub(crate) fn read(self, content: Content, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool> {
        let Some(compressed) = self.compressed() else { return Ok(false) };
        let start = out.len();
        index::take_piece(compressed, content.most_message_bytes(), scratch, out)?;
        if out.len() - start != self.row().plain as usize {
            return Err(Error::corrupt("a piece of another length than its segment says"));
        }
        Ok(true)
    }
}
