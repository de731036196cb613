//! Header segments: of a thousand messages in the order of their numbers the header as it is, or
//! the stored structure.
//!
//! Clients that synchronize request fields of headers, envelopes and structures of whole mailboxes.
//! These are read here in long runs, one object for a thousand messages, and never from the
//! messages themselves. Each message is compressed alone, and only the requested pieces are
//! decompressed. Headers and structures are in segments of their own, because most commands need
//! one of them.
//!
//! They are derived like summaries: missing or damaged pieces are read from the message instead,
//! with the same result, and made again. Format: `docs/format/header.md`. Reasons:
//! `docs/decisions/0075-headers-in-segments.md`.

mod fuzz;
mod make;
mod reads;
mod rewrite;
mod segment;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use fuzz::{fuzz, fuzz_seed};
pub use reads::{PieceReads, Pieces};
pub(crate) use segment::PieceSegment;
pub(super) use verify::verify;
