//! Mail in files: mbox, Maildir and single messages, read and written as streams.
//!
//! Every reader is a [`Source`]: it goes from message to message and hands out each one in pieces, so that a
//! file of any size, with lines of any length, is read in constant memory (Maildir: plus the names of one
//! folder's files). Nothing here knows the store.
//!
//! **Line ends.** Mail travels with CRLF, archives on disk usually keep LF. A message whose first
//! line ends in CRLF is taken exactly as it is; otherwise every bare LF becomes CRLF ([`lines`]).
//! Writers turn CRLF back into LF unless they are to keep the bytes exactly.
//!
//! **Other files.** The kind of a file depends on its contents, not on its name: `recognize`
//! distinguishes mail from other files, `packed` decompresses files, within limits.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod date;
pub mod discover;
pub mod eml;
pub mod flags;
mod header;
mod input;
pub mod lines;
mod long_name;
pub mod maildir;
pub mod mbox;
mod packed;
mod recognize;
mod source;
mod spool;
pub mod takeout;

pub use long_name::mark;
pub use source::{Meta, Source};
