//! What is derived from an account's mail: summaries and searchable texts in segments, and packs.
//!
//! All of it can be rebuilt from the messages at any time, so nothing here is ever the only copy,
//! and an account is served the same without it, only slower. `account` knows this crate as a
//! [`Derived`](sealpost_account::Derived) of its accounts; sessions get it with [`Index::of`].

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

#[doc(hidden)]
pub mod fuzz;
mod index;
pub mod packs;
pub mod summary;

pub use index::{Index, Indexer};
pub use packs::{PackReads, Packed};
pub use summary::{Parts, PieceReads, Pieces, ReadOrder, Sent, Summary, SummaryAddress};
