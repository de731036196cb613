//! The body of the fuzz target for header segments.

use sealpost_base::ObjectId;

use super::super::content::Content;
use super::segment::{PieceSegment, PieceWriter};

/// See [`crate::fuzz::fuzz_headers`].
pub(crate) fn fuzz(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else { return };
    let Some((directory, pieces)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length))) else {
        return;
    };
    let Ok(segment) = PieceSegment::decode(directory, pieces.to_vec()) else { return };
    let mut writer = PieceWriter::new(Content::Headers);
    let mut scratch = Vec::new();
    for (number, object, piece) in segment.entries() {
        let mut plain = Vec::new();
        let read = piece.read(Content::Headers, &mut scratch, &mut plain);
        assert!(plain.len() <= Content::Headers.most_message_bytes() || read.is_err());
        assert!(segment.find(number, object).is_some());
        writer.copy(number, piece);
    }
    let [again, copied] = writer.sections();
    assert_eq!(
        (&again[..], &copied[..]),
        (directory, pieces),
        "a segment that is read and written again stays the same"
    );
}

/// See [`crate::fuzz::header_bytes`].
pub(crate) fn fuzz_seed(headers: &[&[u8]]) -> Vec<u8> {
    let mut writer = PieceWriter::new(Content::Headers);
    for (number, header) in headers.iter().enumerate() {
        let number = number as u32;
        if writer.push(number, ObjectId([number as u8; 16]), header).is_err() {
            return Vec::new();
        }
    }
    let [directory, pieces] = writer.sections();
    let mut bytes = u16::try_from(directory.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
    bytes.extend(directory);
    bytes.extend(pieces);
    bytes
}
