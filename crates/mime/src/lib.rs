//! One-pass MIME scanner: structure, envelope, searchable text and preview from bytes as they arrive.
//!
//! A [`Scanner`] is fed the raw message in pieces of any size and ends with a [`Structure`]
//! (everything ENVELOPE, BODY, BODYSTRUCTURE, PREVIEW and BODY[section] need, with absolute byte
//! offsets into the raw message) and with its [`TextSink`], which received the decoded, folded
//! text, usually a [`Text`].
//!
//! Invariants:
//! - Memory does not depend on the size of the message: every buffer is bounded by a name in
//!   `sealpost_base::limits`.
//! - How the message was cut into pieces never changes the result.
//! - No input is refused. Broken input, or input beyond a limit, has a defined result, stated where
//!   it is decided.
//!
//! No I/O, no clock, no randomness.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod build;
mod canonical;
pub mod collate;
pub mod decode;
pub mod encode;
pub mod envelope;
pub mod fold;
pub mod header;
pub mod scanner;
pub mod seven_bit;
pub mod structure;
pub mod text;
pub mod unbinary;
mod weight;

pub use build::{Entity, MessageBuilder};
pub use canonical::is_ignorable;
pub use envelope::{Address, Envelope};
pub use fold::fold;
pub use scanner::Scanner;
pub use structure::{Disposition, Layer, Outline, OutlinePart, Parameter, Part, PartKind, Structure};
pub use text::{CappedText, Text, TextSink};
