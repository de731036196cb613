//! One append-only, hash-chained, sealed log per account: append, replay, checkpoint, trim.
//!
//! The contents of entries are opaque here. The invariants:
//!
//! - An entry is durable when [`Journal::append`] returns `Done`, and at most one entry ever counts at a
//!   position. With conditional create there is only one; otherwise the writers agree on one ([`DiskPaxos`]).
//! - Each entry carries the hash of the previous one, so that no swap, reorder or loss goes undetected, and a
//!   MAC, so that no other object passes for an entry. An object without a valid MAC is reported, skipped,
//!   and never appended to. [`Replay`] decides which entries count. Manifests and marks of skipped positions
//!   have such a MAC too, and count only with it.
//! - A stale writer learns that it is stale: [`Append::Lost`] if others appended, [`Append::Trimmed`] if
//!   checkpoints cover the entry that it would have followed and a trim removed it. Neither leaves an object
//!   that replay would count.
//! - A trim removes an entry only when two checkpoints exist at or above the next position, and never removes
//!   the newest two checkpoints. So the manifests always show every process up to which position the log may
//!   have been removed.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod attested;
mod ballot;
mod checkpoint;
mod disk_paxos;
mod journal;
mod log;
mod lost;
mod manifests;
mod metrics;
mod noise;
mod read;
mod repair;
mod replay;
mod skip;
mod survey;
mod tail;
#[cfg(test)]
mod tests;
mod trim_watermark;

pub use ballot::{Ballot, EntryName};
pub use checkpoint::{Checkpoint, ChunkRef};
pub use disk_paxos::DiskPaxos;
pub use journal::{Journal, entries_of, log_entry, queue_entries_of};
pub use log::{Append, Seal};
pub use manifests::is_mark;
pub use metrics::JournalMetrics;
pub use read::{Content, Entry, Read};
pub use repair::{Break, Repaired};
pub use replay::{Cover, Replay, Step};
pub use survey::{Survey, Unfit as UnfitObject};
pub use tail::Tail;
