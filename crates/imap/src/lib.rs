//! IMAP types, parser and serializer for server and client; no I/O.
//!
//! Three steps, each usable alone: [`types`] (values that cannot be wrong), [`parse`] and [`write`] (bytes to
//! values and back, over complete buffers), [`server`] and [`client`] (state machines: bytes in, events out, for
//! any division of the bytes into pieces).
//!
//! Adding an extension: its values go into the file of `types` named after the command or response it touches,
//! its syntax beside the rule it extends in `parse`, its inverse into `write`; the state machines change only
//! when literals or the order of lines do.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod client;
#[doc(hidden)]
pub mod fuzz;
pub mod parse;
pub mod server;
pub mod types;
pub mod url;
pub mod utf7;
pub mod write;

#[cfg(test)]
mod tests;
