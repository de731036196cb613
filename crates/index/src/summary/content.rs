//! The kinds of segments: summaries, short texts, texts of middle length, headers, and structures.

use std::ops::RangeInclusive;

use sealpost_base::limits;

/// What a segment holds of each message. Summaries and texts are alike on disk: a directory and
/// three columns of text. Headers and structures are pieces ([`super::pieces`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    /// What SORT, THREAD and searches of header fields ask for.
    Summaries,
    /// The searchable text: of the header, of the body, or of one that is not short its signature.
    Texts,
    /// The searchable texts that are not short, of those whose signatures match the query; the
    /// longest are read from their messages.
    LongTexts,
    /// The header of each message, as it is.
    Headers,
    /// The stored structure of each message.
    Structures,
}

impl Content {
    /// All of them.
    pub(crate) const ALL: [Content; 5] =
        [Content::Summaries, Content::Texts, Content::LongTexts, Content::Headers, Content::Structures];

    /// Whether its segments are of pieces.
    pub(super) fn is_pieces(self) -> bool {
        matches!(self, Content::Headers | Content::Structures)
    }

    /// The folder of its segments.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Content::Summaries => "summary",
            Content::Texts => "text",
            Content::LongTexts => "longer",
            Content::Headers => "header",
            Content::Structures => "structure",
        }
    }

    /// Bytes that a segment holds of one message, from and to: of one that has more or less there is a mark.
    pub(super) fn message_bytes(self) -> RangeInclusive<usize> {
        match self {
            Content::Summaries => 0..=limits::SUMMARY_BYTES,
            Content::Texts => 0..=limits::SHORT_TEXT_BYTES,
            Content::LongTexts => limits::SHORT_TEXT_BYTES + 1..=limits::SEGMENT_TEXT_BYTES,
            Content::Headers | Content::Structures => 0..=self.most_message_bytes(),
        }
    }

    /// The most bytes of one message in any segment of this kind, those that an earlier program
    /// wrote included.
    pub(super) fn most_message_bytes(self) -> usize {
        match self {
            Content::Summaries => limits::SUMMARY_BYTES,
            Content::Texts | Content::LongTexts => limits::SEGMENT_TEXT_BYTES,
            Content::Headers => limits::HEADER_PIECE_BYTES,
            Content::Structures => limits::STRUCTURE_PIECE_BYTES,
        }
    }

    /// Bytes of a segment's text, or of its pieces, together. One that would have more ends earlier.
    pub(super) fn segment_bytes(self) -> usize {
        match self {
            Content::Summaries => limits::SUMMARY_SEGMENT_BYTES,
            Content::Texts | Content::LongTexts => limits::TEXT_SEGMENT_BYTES,
            Content::Headers | Content::Structures => limits::PIECE_SEGMENT_BYTES,
        }
    }

    /// Bytes on disk of segments that may become one: about what compression makes of
    /// [`Content::segment_bytes`].
    pub(super) fn merged_bytes(self) -> u64 {
        match self {
            Content::Summaries => limits::SUMMARY_SEGMENT_BYTES as u64 / 2,
            Content::Texts | Content::LongTexts => limits::TEXT_SEGMENT_BYTES as u64 / 3,
            // Pieces are stored as they are counted.
            Content::Headers | Content::Structures => limits::PIECE_SEGMENT_BYTES as u64,
        }
    }
}
