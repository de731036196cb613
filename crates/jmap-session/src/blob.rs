//! Blobs (RFC 8620 §6, RFC 9404): the bytes of messages, and of their parts without transfer encoding.
//!
//! Blobs of messages take no space in the store. An id says where the bytes are ([`id`]), and responses read
//! them from there ([`open`]). Such a blob exists as long as an email that contains it.

mod digests;
mod download;
mod get;
mod id;
mod lookup;
mod open;

pub(crate) use digests::DIGESTS;
pub use download::BlobDownload;
pub(crate) use download::download;
pub(crate) use get::get;
pub(crate) use id::{BlobBase, BlobName, upload_id};
pub(crate) use lookup::lookup;
pub(crate) use open::{Blob, open};
