//! Limits on derived data: summaries, texts, segments, packs.

/// Bytes of a sealed structure in the event of a delivery to a remote store; a larger one is read from the
/// object.
pub const DELIVERED_STRUCTURE_BYTES: usize = 2048;
/// Messages with a piece in one pack of a remote store.
pub const PACK_MESSAGES: usize = 1024;
/// Bytes of all pieces in one pack.
pub const PACK_BYTES: usize = 1024 * 1024;
/// Bytes of a message object that is packed whole.
pub const PACKED_MESSAGE_BYTES: usize = 256 * 1024;
/// Bytes of a message's header that a segment holds; a longer one is read from the message.
pub const HEADER_PIECE_BYTES: usize = 16 * 1024;
/// Bytes of a stored structure that a segment holds; a longer one is read from the message's object.
pub const STRUCTURE_PIECE_BYTES: usize = 4 * 1024;
/// Bytes of the compressed headers, or structures, of one segment together; a segment that would be
/// larger ends earlier.
pub const PIECE_SEGMENT_BYTES: usize = 768 * 1024;
/// Messages of one index segment.
pub const SUMMARY_SEGMENT_MESSAGES: usize = 1024;
/// Bytes of a message's summary that a segment holds; a longer one is read from the message's
/// structure and text.
pub const SUMMARY_BYTES: usize = 8 * 1024;
/// Bytes of the summaries of one segment together; a segment that would be larger ends earlier.
pub const SUMMARY_SEGMENT_BYTES: usize = 1024 * 1024;
/// Bytes of a message's searchable text that are searched directly; a longer one is first checked
/// against its Bloom filter.
pub const SHORT_TEXT_BYTES: usize = 2 * 1024;
/// Bytes of a message's searchable text that a segment holds; a longer one is read from the message's object.
pub const SEGMENT_TEXT_BYTES: usize = 16 * 1024;
/// Bytes of a segment's Bloom filter for a text that is not short.
pub const TEXT_SIGNATURE_BYTES: usize = 4096;
/// Bytes of the texts of one segment together; a segment that would be larger ends earlier.
pub const TEXT_SEGMENT_BYTES: usize = 2 * 1024 * 1024;
