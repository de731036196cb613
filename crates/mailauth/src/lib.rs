//! Authentication of messages by signatures: DKIM (RFC 6376, with the rules of RFC 8301 and the
//! algorithm of RFC 8463).
//!
//! A message is signed and verified while it streams: memory depends on its header alone. The
//! caller queries DNS: a [`dkim::Verifier`] names the records that it needs and takes their texts.
//!
//! No I/O, no clock. Randomness only where [`dkim::SigningKey`] makes a key.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod canonical;
pub mod dkim;
pub mod tag_list;
