//! A segment: the summaries of up to a thousand messages as columns. Bytes: `docs/format/summary.md`.
//!
//! The texts of each message are compressed by themselves, and the columns are not: a size tells
//! nothing of what two senders wrote alike.

use std::fmt;
use std::str::FromStr;

use sealpost_base::{AccountId, Error, ObjectId, Result, limits};
use sealpost_vault::index::{self, SegmentReader};

use super::content::Content;
use super::{Parts, Sent, bloom};

/// It says how the texts in it are folded as well.
const VERSION: u8 = 3;
const HEAD_BYTES: usize = 1 + 4 + 3 * 4;
/// Number, object, date, zone, flags, and the compressed lengths of three parts.
const ROW_BYTES: usize = 4 + 16 + 8 + 2 + 1 + 3 * 2;
/// More than a part grows by compression at worst.
const GROWTH_BYTES: usize = 512;
const DIRECTORY: usize = 0;
/// The parts of summaries, in the order of their sections after the directory.
const PARTS: [Parts; 3] = [Parts::FIELDS, Parts::IDS, Parts::HEADERS];

/// The part in which a text that is too long has its signature.
const SIGNATURE: usize = 2;

/// The message has a Date field that can be understood.
const DATED: u8 = 1;
/// The text of its header fields is complete.
const COMPLETE: u8 = 2;
/// Its summary is too long for a segment.
const ELSEWHERE: u8 = 4;

/// Which messages a segment is about, as its path says: the first and the last number, and how many
/// between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentName {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) entries: u32,
}

impl SegmentName {
    /// Where it is.
    pub(crate) fn path(self, content: Content, account: AccountId) -> String {
        format!("{}/{self}", prefix(content, account))
    }

    pub(crate) fn covers(self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:08x}-{:08x}", self.first, self.last, self.entries)
    }
}

impl FromStr for SegmentName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("not the name of a summary segment: {name:?}"));
        let number = |hex: &str| {
            let digits = hex.len() == 8 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            u32::from_str_radix(hex, 16).ok().filter(|_| digits).ok_or_else(bad)
        };
        let mut parts = name.split('-');
        let mut next = || number(parts.next().unwrap_or_default());
        let (first, last, entries) = (next()?, next()?, next()?);
        if parts.next().is_some() || first > last {
            return Err(bad());
        }
        Ok(SegmentName { first, last, entries })
    }
}

/// Where the segments of an account are.
pub(crate) fn prefix(content: Content, account: AccountId) -> String {
    format!("{}/{}", index::prefix(account), content.folder())
}

/// A segment that is being filled, in the order of message numbers.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct SegmentWriter {
    content: Content,
    rows: Vec<Row>,
    texts: [String; 3],
}

impl SegmentWriter {
    /// An empty segment.
    pub(crate) fn new(content: Content) -> Self {
        SegmentWriter { content, rows: Vec::new(), texts: [const { String::new() }; 3] }
    }

    /// Adds a summary. Numbers ascend. One that has no place in a segment of this kind leaves a mark.
    pub(crate) fn push(
        &mut self,
        number: u32,
        object: ObjectId,
        sent: Option<Sent>,
        headers_complete: bool,
        parts: [&str; 3],
    ) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        if !self.content.message_bytes().contains(&bytes) {
            // The rest of a truncated text is unknown.
            let known = self.content == Content::Texts && headers_complete;
            let signature = if known { bloom::of([parts[0], parts[1]]) } else { String::new() };
            return self.push_elsewhere(number, object, &signature);
        }
        let flags = sent.map_or(0, |_| DATED) | if headers_complete { COMPLETE } else { 0 };
        for (text, part) in self.texts.iter_mut().zip(parts) {
            text.push_str(part);
        }
        self.row(number, object, sent, flags);
    }

    /// Adds a message whose summary is too long for a segment; of a text, with its signature if it has one.
    pub(crate) fn push_elsewhere(&mut self, number: u32, object: ObjectId, signature: &str) {
        self.texts[SIGNATURE].push_str(signature);
        self.row(number, object, None, ELSEWHERE);
    }

    fn row(&mut self, number: u32, object: ObjectId, sent: Option<Sent>, flags: u8) {
        debug_assert!(self.rows.last().is_none_or(|row| row.number < number));
        let ends = self.texts.each_ref().map(|text| text.len() as u32);
        self.rows.push(Row { number, object, sent, flags, ends });
    }

    pub(crate) fn content(&self) -> Content {
        self.content
    }

    /// Whether it holds as much as a segment should.
    pub(crate) fn is_full(&self) -> bool {
        let bytes: usize = self.texts.iter().map(String::len).sum();
        self.rows.len() >= limits::SUMMARY_SEGMENT_MESSAGES || bytes >= self.content.segment_bytes()
    }

    /// What it is to be called; nothing if it is empty.
    pub(crate) fn name(&self) -> Option<SegmentName> {
        let (first, last) = (self.rows.first()?.number, self.rows.last()?.number);
        Some(SegmentName { first, last, entries: self.rows.len() as u32 })
    }

    /// The sections of the segment.
    ///
    /// # Errors
    /// `Internal` if a text cannot be compressed.
    pub(crate) fn sections(self) -> Result<[Vec<u8>; 4]> {
        let mut directory = Vec::with_capacity(HEAD_BYTES + self.rows.len() * ROW_BYTES);
        directory.push(VERSION);
        directory.extend((self.rows.len() as u32).to_le_bytes());
        self.texts.iter().for_each(|text| directory.extend((text.len() as u32).to_le_bytes()));
        let rows = &self.rows;
        let sent = |row: &Row| row.sent.unwrap_or(Sent { seconds: 0, zone: 0 });
        rows.iter().for_each(|row| directory.extend(row.number.to_le_bytes()));
        rows.iter().for_each(|row| directory.extend(row.object.0));
        rows.iter().for_each(|row| directory.extend(sent(row).seconds.to_le_bytes()));
        rows.iter().for_each(|row| directory.extend(sent(row).zone.to_le_bytes()));
        rows.iter().for_each(|row| directory.push(row.flags));
        let mut sections = [const { Vec::new() }; 3];
        for (part, section) in sections.iter_mut().enumerate() {
            let (text, mut start) = (self.texts[part].as_bytes(), 0);
            section.reserve(text.len());
            for row in rows {
                let end = row.ends[part] as usize;
                let length = index::put_piece(&text[start..end], section)?;
                directory.extend(u16::try_from(length).map_err(|_| too_long())?.to_le_bytes());
                start = end;
            }
        }
        let [fields, ids, headers] = sections;
        Ok([directory, fields, ids, headers])
    }
}

fn too_long() -> Error {
    Error::internal("what a message has in a segment is too long")
}

/// A segment that was read back, or the requested parts of it.
pub(crate) struct Segment {
    rows: Vec<Row>,
    texts: [String; 3],
}

/// A message, and where its parts end in the texts; they begin where those of the row before end.
#[cfg_attr(test, derive(Clone))]
struct Row {
    number: u32,
    object: ObjectId,
    sent: Option<Sent>,
    flags: u8,
    ends: [u32; 3],
}

/// What a segment says about a message.
pub(crate) enum Found<'a> {
    /// This; parts that were not requested are empty.
    Summary(Option<Sent>, bool, [&'a str; 3]),
    /// Its summary is too long for a segment; of a text the signature, empty if there is none or it
    /// was not requested.
    Elsewhere(&'a str),
}

impl Segment {
    /// Opens the requested parts of a segment.
    ///
    /// # Errors
    /// `Corrupt` for anything that is not what [`SegmentWriter`] writes.
    pub(crate) fn open(content: Content, reader: &SegmentReader, parts: Parts) -> Result<Self> {
        let most = HEAD_BYTES + limits::SUMMARY_SEGMENT_MESSAGES * ROW_BYTES;
        let directory = reader.section(DIRECTORY, most)?;
        let most = content.segment_bytes() + content.most_message_bytes();
        let most = most + limits::SUMMARY_SEGMENT_MESSAGES * GROWTH_BYTES;
        let mut texts = [None, None, None];
        for (number, (part, text)) in PARTS.iter().zip(&mut texts).enumerate() {
            if parts.contains(*part) {
                *text = Some(reader.section(DIRECTORY + 1 + number, most)?);
            }
        }
        Self::decode(content, &directory, texts)
    }

    /// Reads the plaintext of the sections, without those of other parts.
    pub(crate) fn decode(content: Content, directory: &[u8], texts: [Option<Vec<u8>>; 3]) -> Result<Self> {
        let corrupt = || Error::corrupt("a summary segment that cannot be read");
        let (head, columns) = directory.split_first_chunk::<HEAD_BYTES>().ok_or_else(corrupt)?;
        let ([VERSION, numbers @ ..], most) = (head, content.segment_bytes() + content.most_message_bytes())
        else {
            return Err(corrupt());
        };
        let mut numbers =
            numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number) as usize);
        let mut next = || numbers.next().unwrap_or_default();
        let (count, totals) = (next(), [next(), next(), next()]);
        if count > limits::SUMMARY_SEGMENT_MESSAGES || columns.len() != count * ROW_BYTES {
            return Err(corrupt());
        }
        let mut columns = Columns { rest: columns, count };
        let numbers = columns.next::<4>().map(u32::from_le_bytes);
        let objects = columns.next::<16>().map(ObjectId);
        let seconds = columns.next::<8>().map(i64::from_le_bytes);
        let zones = columns.next::<2>().map(i16::from_le_bytes);
        let flags = columns.next::<1>().map(|[flags]| flags);
        let mut rows: Vec<Row> = numbers
            .zip(objects)
            .zip(seconds.zip(zones))
            .zip(flags)
            .map(|(((number, object), (seconds, zone)), flags)| {
                let sent = (flags & DATED != 0).then_some(Sent { seconds, zone });
                Row { number, object, sent, flags, ends: [0; 3] }
            })
            .collect();
        if !rows.is_sorted_by(|a, b| a.number < b.number) {
            return Err(corrupt());
        }
        let mut scratch = Vec::new();
        let mut read = [const { String::new() }; 3];
        for (part, section) in texts.into_iter().enumerate() {
            let lengths = columns.next::<2>().map(u16::from_le_bytes).map(usize::from);
            let Some(section) = section else {
                lengths.for_each(drop);
                continue;
            };
            let total = totals[part];
            if total > most {
                return Err(corrupt());
            }
            let (mut rest, mut text) = (&section[..], Vec::with_capacity(total));
            for (row, length) in rows.iter_mut().zip(lengths) {
                let (piece, after) = rest.split_at_checked(length).ok_or_else(corrupt)?;
                rest = after;
                let limit = content.most_message_bytes().min(total - text.len());
                index::take_piece(piece, limit, &mut scratch, &mut text)?;
                row.ends[part] = text.len() as u32;
            }
            let text = String::from_utf8(text).map_err(|_| corrupt())?;
            let cut = |row: &Row| text.is_char_boundary(row.ends[part] as usize);
            if !rest.is_empty() || text.len() != total || !rows.iter().all(cut) {
                return Err(corrupt());
            }
            read[part] = text;
        }
        Ok(Segment { rows, texts: read })
    }

    /// What it says about the message of that number, if it was made from that object.
    pub(crate) fn find(&self, number: u32, object: ObjectId) -> Option<Found<'_>> {
        let at = self.rows.binary_search_by_key(&number, |row| row.number).ok()?;
        (self.rows[at].object == object).then(|| self.at(at))
    }

    /// The messages, by number, and what it says about them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, ObjectId, Found<'_>)> {
        self.rows.iter().enumerate().map(|(at, row)| (row.number, row.object, self.at(at)))
    }

    fn at(&self, at: usize) -> Found<'_> {
        let row = &self.rows[at];
        let part = |part: usize| {
            let start = at.checked_sub(1).map_or(0, |before| self.rows[before].ends[part]);
            self.texts[part].get(start as usize..row.ends[part] as usize).unwrap_or_default()
        };
        if row.flags & ELSEWHERE != 0 {
            return Found::Elsewhere(part(SIGNATURE));
        }
        Found::Summary(row.sent, row.flags & COMPLETE != 0, [part(0), part(1), part(2)])
    }
}

/// Columns one after the other, each of `count` values.
struct Columns<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> Columns<'a> {
    fn next<const N: usize>(&mut self) -> impl Iterator<Item = [u8; N]> + use<'a, N> {
        let (column, rest) = self.rest.split_at_checked(self.count * N).unwrap_or_default();
        self.rest = rest;
        column.as_chunks::<N>().0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Entry;

    fn push(writer: &mut SegmentWriter, number: u32, object: ObjectId, entry: &Entry) {
        writer.push(number, object, entry.sent, entry.headers_complete, entry.parts());
    }

    fn entry(n: usize) -> Entry {
        Entry {
            sent: (!n.is_multiple_of(3)).then_some(Sent { seconds: n as i64 - 5, zone: -60 }),
            headers_complete: n.is_multiple_of(2),
            fields: "é".repeat(n),
            ids: format!("<{n}>"),
            headers: String::new(),
        }
    }

    fn filled(count: usize) -> SegmentWriter {
        let mut writer = SegmentWriter::new(Content::Summaries);
        for n in 0..count {
            push(&mut writer, n as u32 * 2, ObjectId([n as u8; 16]), &entry(n));
        }
        writer
    }

    fn decode(writer: &SegmentWriter, wanted: [bool; 3]) -> Result<Segment> {
        let [directory, texts @ ..] = writer.clone().sections().unwrap();
        let mut wanted = wanted.into_iter();
        Segment::decode(
            writer.content(),
            &directory,
            texts.map(|text| wanted.next().unwrap().then_some(text)),
        )
    }

    #[test]
    fn written_summaries_are_found() {
        let writer = filled(20);
        assert_eq!(writer.name(), Some(SegmentName { first: 0, last: 38, entries: 20 }));
        for wanted in [[true; 3], [false, true, false], [false; 3]] {
            let segment = decode(&writer, wanted).unwrap();
            assert_eq!(segment.entries().count(), 20);
            for n in 0..20 {
                let found = segment.find(n as u32 * 2, ObjectId([n as u8; 16]));
                let Some(Found::Summary(sent, complete, parts)) = found else { panic!("{n}") };
                let entry = entry(n);
                assert_eq!((sent, complete), (entry.sent, entry.headers_complete));
                for ((found, made), wanted) in parts.iter().zip(entry.parts()).zip(wanted) {
                    assert_eq!(*found, if wanted { made } else { "" });
                }
                assert!(segment.find(n as u32 * 2 + 1, ObjectId([n as u8; 16])).is_none());
                assert!(segment.find(n as u32 * 2, ObjectId([77; 16])).is_none());
            }
        }
    }

    #[test]
    fn a_summary_that_is_too_long_is_elsewhere() {
        let mut writer = filled(1);
        push(
            &mut writer,
            9,
            ObjectId([9; 16]),
            &Entry { headers: "x".repeat(limits::SUMMARY_BYTES), ..entry(1) },
        );
        push(&mut writer, 10, ObjectId([10; 16]), &entry(1));
        let segment = decode(&writer, [true; 3]).unwrap();
        assert!(matches!(segment.find(9, ObjectId([9; 16])), Some(Found::Elsewhere(""))));
        assert!(matches!(
            segment.find(10, ObjectId([10; 16])),
            Some(Found::Summary(_, false, ["é", "<1>", ""]))
        ));
    }

    #[test]
    fn a_text_that_is_too_long_leaves_its_signature() {
        let mut writer = SegmentWriter::new(Content::Texts);
        let long = "plenty of words ".repeat(limits::SEGMENT_TEXT_BYTES / 10);
        for (number, complete) in [(1, true), (2, false)] {
            writer.push(number, ObjectId([1; 16]), None, complete, ["subject: x\n", &long, ""]);
        }
        for (wanted, expected) in [([true; 3], true), ([true, true, false], false)] {
            let segment = decode(&writer, wanted).unwrap();
            let signature = |number| match segment.find(number, ObjectId([1; 16])) {
                Some(Found::Elsewhere(signature)) => signature,
                _ => panic!("{number}"),
            };
            assert_eq!(
                signature(1),
                if expected { bloom::of(["subject: x\n", &long]) } else { String::new() }
            );
            assert_eq!(signature(2), "", "of a text that is cut off nothing is known");
        }
    }

    #[test]
    fn segments_are_full_by_messages_and_by_bytes() {
        assert!(filled(10).name().is_some() && !filled(10).is_full());
        assert!(SegmentWriter::new(Content::Summaries).name().is_none());
        let mut writer = SegmentWriter::new(Content::Summaries);
        let most = Entry { headers: "x".repeat(limits::SUMMARY_BYTES - 3), ..entry(0) };
        for n in 0..(limits::SUMMARY_SEGMENT_BYTES / limits::SUMMARY_BYTES) as u32 {
            assert!(!writer.is_full());
            push(&mut writer, n, ObjectId([0; 16]), &most);
        }
        push(&mut writer, 9999, ObjectId([0; 16]), &most);
        assert!(writer.is_full());
        decode(&writer, [true; 3]).unwrap();
        let mut writer = SegmentWriter::new(Content::Summaries);
        for n in 0..limits::SUMMARY_SEGMENT_MESSAGES as u32 {
            assert!(!writer.is_full());
            push(&mut writer, n, ObjectId([0; 16]), &entry(0));
        }
        assert!(writer.is_full());
        decode(&writer, [true; 3]).unwrap();
    }

    #[test]
    fn names_are_read_back() {
        let name = SegmentName { first: 10, last: 0xffff_ffff, entries: 3 };
        assert_eq!(name.to_string().parse::<SegmentName>().unwrap(), name);
        for bad in [
            "",
            "0",
            "00000001-00000000-00000001",
            "00000000-00000001-00000001-00000000",
            "0000000A-0000000B-00000001",
            "+0000000-00000001-00000001",
        ] {
            assert!(bad.parse::<SegmentName>().is_err(), "{bad}");
        }
    }
}
