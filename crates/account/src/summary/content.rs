//! The two kinds of segments: summaries, and the texts of messages that have little of it.

use sealpost_base::limits;

/// What a segment holds of each message. Both kinds are alike on disk: a directory and three columns of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    /// What SORT, THREAD and searches of header fields ask for.
    Summaries,
    /// The searchable text: of the header, of the body, or of a long one its signature.
    Texts,
}

impl Content {
    /// Both.
    pub(crate) const ALL: [Content; 2] = [Content::Summaries, Content::Texts];

    /// The folder of its segments.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Content::Summaries => "summary",
            Content::Texts => "text",
        }
    }

    /// Bytes that a segment holds of one message; of one that has more there is a mark, or a signature of its text.
    pub(super) fn message_bytes(self) -> usize {
        match self {
            Content::Summaries => limits::SUMMARY_BYTES,
            Content::Texts => limits::SEGMENT_TEXT_BYTES,
        }
    }

    /// Bytes of a segment's text together. One that would have more ends earlier.
    pub(super) fn segment_bytes(self) -> usize {
        match self {
            Content::Summaries => limits::SUMMARY_SEGMENT_BYTES,
            Content::Texts => limits::TEXT_SEGMENT_BYTES,
        }
    }

    /// Bytes on disk of segments that may become one: about what compression makes of [`Content::segment_bytes`].
    pub(super) fn merged_bytes(self) -> u64 {
        match self {
            Content::Summaries => limits::SUMMARY_SEGMENT_BYTES as u64 / 2,
            Content::Texts => limits::TEXT_SEGMENT_BYTES as u64 / 3,
        }
    }
}
