use proptest::prelude::*;
use sealpost_base::{Kind, ObjectId, limits};

use super::super::content::Content;
use super::super::segment::SegmentName;
use super::segment::{PieceSegment, PieceWriter};

fn object(n: u32) -> ObjectId {
    ObjectId([n as u8; 16])
}

fn written(headers: &[Vec<u8>]) -> ([Vec<u8>; 2], SegmentName) {
    let mut writer = PieceWriter::new(Content::Headers);
    for (n, header) in (0..).zip(headers) {
        writer.push(3 * n, object(n), header).unwrap();
    }
    let name = writer.name().unwrap();
    (writer.sections(), name)
}

fn read(segment: &PieceSegment, n: u32) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let found = segment.find(3 * n, object(n))?.read(Content::Headers, &mut Vec::new(), &mut plain);
    found.unwrap().then_some(plain)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A header with any bytes comes back unchanged; one that is too long is marked.
    #[test]
    fn pieces_come_back_as_they_were(
        headers in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                "([A-Z][a-z-]{0,12}: [ -~]{0,60}\r\n){0,20}\r\n".prop_map(String::into_bytes),
                Just(vec![b'x'; limits::HEADER_PIECE_BYTES]),
                Just(vec![b'x'; limits::HEADER_PIECE_BYTES + 1]),
            ],
            1..20,
        ),
    ) {
        let ([directory, pieces], name) = written(&headers);
        prop_assert_eq!(name, SegmentName {
            first: 0, last: 3 * (headers.len() as u32 - 1), entries: headers.len() as u32,
        });
        let segment = PieceSegment::decode(&directory, pieces).unwrap();
        for (n, header) in (0..).zip(&headers) {
            let short = header.len() <= limits::HEADER_PIECE_BYTES;
            prop_assert_eq!(read(&segment, n), short.then(|| header.clone()));
            prop_assert!(segment.find(3 * n + 1, object(n)).is_none());
            prop_assert!(segment.find(3 * n, object(n + 1)).is_none());
        }
    }

    /// A changed byte is refused, or gives another header; nothing else happens.
    #[test]
    fn foreign_segments_are_refused(at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>()) {
        let headers: Vec<_> = (0..9).map(|n| format!("Subject: number {n}\r\n\r\n").into_bytes()).collect();
        let ([mut directory, mut pieces], _) = written(&headers);
        match cut {
            true => pieces.truncate(at.index(pieces.len())),
            false => {
                let at = at.index(directory.len());
                directory[at] ^= 1 << bit;
            }
        }
        if let Ok(segment) = PieceSegment::decode(&directory, pieces) {
            for (number, object, piece) in segment.entries() {
                let mut plain = Vec::new();
                if let Err(e) = piece.read(Content::Headers, &mut Vec::new(), &mut plain) {
                    prop_assert_eq!(e.kind(), Kind::Corrupt);
                }
                prop_assert!(segment.find(number, object).is_some());
            }
        }
    }
}

#[test]
fn segments_are_full_by_messages_and_by_bytes() {
    let mut writer = PieceWriter::new(Content::Structures);
    for n in 0..limits::SUMMARY_SEGMENT_MESSAGES as u32 {
        assert!(!writer.is_full());
        writer.push(n, object(n), b"short").unwrap();
    }
    assert!(writer.is_full());
    let mut writer = PieceWriter::new(Content::Headers);
    let mut n = 0u32;
    while !writer.is_full() {
        // Nothing that compresses.
        let random = |at: u32| (at ^ n).wrapping_mul(2_654_435_761).to_be_bytes()[0];
        let header: Vec<u8> = (0..limits::HEADER_PIECE_BYTES as u32).map(random).collect();
        writer.push(n, object(n), &header).unwrap();
        n += 1;
    }
    assert!((n as usize) < limits::SUMMARY_SEGMENT_MESSAGES);
    assert!(writer.bytes() <= limits::PIECE_SEGMENT_BYTES + usize::from(u16::MAX));
    let [directory, pieces] = writer.sections();
    PieceSegment::decode(&directory, pieces).unwrap();
}

/// A hostile segment that claims more than a piece may hold.
#[test]
fn a_piece_that_claims_more_than_it_may_is_damage() {
    let mut writer = PieceWriter::new(Content::Headers);
    writer.push(0, object(0), &[b'x'; limits::HEADER_PIECE_BYTES]).unwrap();
    let [directory, pieces] = writer.sections();
    let segment = PieceSegment::decode(&directory, pieces).unwrap();
    let piece = segment.find(0, object(0)).unwrap();
    let read = piece.read(Content::Structures, &mut Vec::new(), &mut Vec::new());
    assert_eq!(read.unwrap_err().kind(), Kind::Corrupt);
}
