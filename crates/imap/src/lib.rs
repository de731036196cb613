//! IMAP types, parser and serializer for server and client; no I/O.
//!
//! Three steps, each usable alone: [`types`] (values that cannot be wrong), [`parse`] and [`write`]
//! (bytes to values and back, over complete buffers), [`server`] and [`client`] (state machines:
//! bytes in, events out, for any division of the bytes into pieces).
//!
//! Adding an extension: its values go into the file of `types` named after the command or response
//! it touches, its syntax beside the rule it extends in `parse`, its inverse into `write`; the
//! state machines change only when literals or the order of lines do.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod client;
pub mod parse;
pub mod server;
pub mod types;
pub mod url;
pub mod utf7;
pub mod write;

/// A vendor extension of RFC 5161: after ENABLE with this name, a Sealpost server sends NUL in the
/// literals of FETCH and URLFETCH as it is, against CHAR8 (RFC 3501 §9). For clients that compare
/// bytes, as the archive's does; the decoder of [`client`] takes them. Reasons:
/// `docs/decisions/0016-imap4rev2-utf8-objects.md`.
pub const NUL_EXTENSION: &str = "X-SEALPOST-NUL";

#[cfg(test)]
mod tests;
