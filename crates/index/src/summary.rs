//! Message summaries: of every message the little that SORT, THREAD and header SEARCH ask for.
//!
//! Reading 100,000 structures to sort a mailbox is 100,000 reads; the summaries of a thousand
//! messages are one. They are stored in sealed segments under `acct/{id}/idx/summary/` and made
//! from the stored structure and text of each message, never from the message. They are derived: a
//! segment that is missing or damaged is rebuilt, and an entry names the object it was made from,
//! so that a summary belongs to the message or is not used. Values too long for an entry are read
//! from the message's own structure and text. So a result is the same with segments, without them,
//! and with some.
//!
//! Format: `docs/format/summary.md`. Reasons: `docs/decisions/0011-summaries.md`.

mod block;
mod bloom;
mod compaction;
mod content;
mod fetch_many;
mod fuzz;
mod known;
mod packed;
mod pieces;
mod read_ahead;
mod segment;
mod segment_writer;
mod stored;
mod stream;
mod summarize;
#[cfg(test)]
mod tests;
mod texts;
mod verify;

use block::Block;
pub use block::{HEADER_FIELDS, Parts, Sent, Summary, SummaryAddress};
pub(crate) use content::Content;
pub(crate) use fuzz::{fuzz, fuzz_seed};
pub(crate) use known::{Known, SegmentLists, Stored};
pub(crate) use pieces::PieceSegment;
pub use pieces::{PieceReads, Pieces};
pub(crate) use pieces::{fuzz as fuzz_pieces, fuzz_seed as fuzz_seed_pieces};
pub(crate) use segment::SegmentName;
pub use stream::ReadOrder;
pub(crate) use summarize::Entry;
pub use texts::ShortText;
pub use verify::verify;
