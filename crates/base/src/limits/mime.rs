//! Limits on the structure of a message.

/// Nesting of MIME parts below the message; deeper parts become opaque leaves.
pub const MIME_DEPTH: usize = 32;
/// Messages in base64 or quoted-printable within each other; the next one is an opaque leaf.
pub const MIME_ENCODED_DEPTH: usize = 3;
/// MIME parts of one message; further text stays in the last part.
pub const MIME_PARTS: usize = 1000;
/// Memory for each part beside its values during a scan, in bytes.
pub const MIME_PART_BYTES: usize = 1024;
/// Bytes of one header field (folded lines included) that are parsed; the rest is kept.
pub const HEADER_FIELD_BYTES: usize = 64 * 1024;
/// Bytes of parsed header values kept in one message's structure, all parts together.
pub const STRUCTURE_BYTES: usize = 512 * 1024;
/// Addresses of one header field that are kept in the envelope.
pub const ENVELOPE_ADDRESSES: usize = 1000;
/// Parameters of one MIME field that are kept.
pub const MIME_PARAMETERS: usize = 100;
/// Bytes of folded, searchable text stored with one message; a search beyond it reads the message.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Bytes of the target of one link in HTML that are searched.
pub const LINK_BYTES: usize = 2048;
/// Characters of a preview (RFC 8970 §3.1).
pub const PREVIEW_CHARS: usize = 200;
