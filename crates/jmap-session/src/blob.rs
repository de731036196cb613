//! Blobs (RFC 8620 §6, RFC 9404): the bytes of messages, and of parts without their transfer
//! encoding.
//!
//! Nothing is stored for them: an id says where the bytes are ([`id`]), and they are read from there
//! as they are sent ([`open`]). A blob exists for as long as the email that it is in.

mod download;
mod get;
mod id;
mod lookup;
mod open;

pub use download::BlobDownload;
pub(crate) use download::download;
pub(crate) use get::{DIGESTS, get};
pub(crate) use id::{BlobBase, BlobName, upload_id};
pub(crate) use lookup::lookup;
pub(crate) use open::{Blob, open};
