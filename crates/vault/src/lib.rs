//! Sealing, keys and object stores. Plaintext cannot reach a store from here.
//!
//! [`Store`] takes only [`Sealed`] bytes, and only this crate can make those: a log entry
//! ([`entry`]), a checkpoint ([`checkpoint`]), an index segment ([`index`]), a message
//! ([`message`]), a temporary message ([`spool`]) or a record authenticated by the server
//! ([`record`]). Every reader checks the seal before it returns a byte, and all sealed bytes are
//! bound to their account and their place, so that nothing can be swapped, cut short or moved
//! unnoticed.
//!
//! The bytes on disk are described in `docs/format/`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod cache;
mod chunk;
mod cipher;
mod compress;
mod format;
mod kem;
mod key_file;
mod local;
mod metrics;
mod remote;
mod sealed;

pub mod checkpoint;
pub mod entry;
pub mod identity;
pub mod index;
pub mod keys;
pub mod mail_key;
pub mod mark;
pub mod message;
pub mod pack;
pub mod probe;
pub mod queue;
pub mod record;
pub mod server_key;
pub mod share_keys;
pub mod slot;
pub mod spool;
pub mod store;
pub mod token_keys;
pub mod upload;

#[doc(hidden)]
pub mod fuzz;

/// Overwrites plaintext that compression left in scratch memory; call it periodically.
pub fn wipe_scratch() {
    compress::wipe();
}

pub use cipher::{Digest, DigestAlgorithm};
pub use format::FORMAT;
pub use identity::Identity;
pub use keys::{AccountKeys, EarlierKeys, Epoch, Keyring, PublicKey, RootKey, RootKeyWatch};
pub use local::local_store_owner;
pub use metrics::StoreMetrics;
pub use remote::{Addressing, Azure, Credentials, Gcs, Refusal, RetryPolicy, S3};
pub use sealed::{Hash, Sealed};
pub use share_keys::ShareKeys;
pub use store::{AppendMode, Backend, Batch, ListedObject, Put, Store, StoreStats};
pub use token_keys::{TokenKeys, TokenKind};
