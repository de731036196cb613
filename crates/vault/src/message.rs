//! One sealed message object: its raw bytes, its searchable text and its structure, each readable by itself.
//!
//! Every message has its own random key, which lives in the event that points to the message. A
//! [`MessageWriter`] seals while bytes arrive and holds a few chunks at most, for any size of the
//! message; a [`MessageReader`] opens only the requested chunks. Small complete messages are sealed
//! and stored many at a time ([`SealedMessage`]). A message with an evicted body keeps a stub
//! ([`MessageStub`]), and readers fetch the body from its source ([`EvictedBodies`]). All data read
//! was authenticated: account, object, section, number and the end of each section are bound to
//! every chunk. Format: `docs/format/message-object.md`.

mod evicted;
mod footer;
mod key;
mod layout;
mod reader;
mod sealed_message;
pub(crate) mod stub;
mod writer;

pub use evicted::{EvictedBodies, EvictedBody, Wanted, stub_path};
pub use footer::size_in;
use key::cipher;
pub use key::{MessageKey, path};
use layout::{FOOTER_BYTES, HEAD, INDEX, INDEX_ENTRY_BYTES, RAW, STRUCTURE, TEXT};
pub use layout::{Layout, SECTION_BYTES};
pub use reader::{MessageReader, READER_BYTES};
pub use sealed_message::SealedMessage;
pub use stub::{HEAD_BYTES, MessageStub};
pub use writer::{Finished, MessageWriter, WRITER_BYTES};

#[cfg(test)]
mod tests;
