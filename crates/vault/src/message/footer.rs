//! The end of a message object: how many bytes the message has, for nodes that count without the
//! account's key.
//!
//! It is sealed under a key of the server, which nodes have and other readers of the store have
//! not. Readers of messages use the layout in the event and never need it. Format:
//! `docs/format/message-object.md`.

use sealpost_base::{Error, Kind, Result};

use crate::cipher::{ObjectCipher, PiecePosition, TAG_BYTES, sha256};
use crate::{ListedObject, Store};

/// "Sealpost message", version 2: the last bytes of the object.
pub(super) const MAGIC: [u8; 4] = *b"SPM\x02";
/// `SPT`, version 2: the last bytes of a stub.
pub(super) const STUB_MAGIC: [u8; 4] = *b"SPT\x02";
const SIZE_BYTES: usize = 8;
/// Of a footer.
pub(super) const BYTES: usize = SIZE_BYTES + TAG_BYTES + MAGIC.len();

const PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };

/// The footer of the object at `path`, which ends with `magic`, for a message of so many bytes. It
/// is deterministic. A store without a key ([`Store::seal_sizes`]) has empty footers.
pub(super) fn of(store: &Store, path: &str, magic: [u8; 4], raw_bytes: u64) -> [u8; BYTES] {
    let mut footer = [0; BYTES];
    if let Some(cipher) = ciphers(store, path).next() {
        let mut sealed = raw_bytes.to_be_bytes().to_vec();
        cipher.seal(PLACE, magic, &mut sealed, 0);
        footer[..SIZE_BYTES + TAG_BYTES].copy_from_slice(&sealed);
    }
    footer[SIZE_BYTES + TAG_BYTES..].copy_from_slice(&magic);
    footer
}

/// Whether `found` is that footer, under the current key or one before it.
pub(super) fn is_of(store: &Store, path: &str, magic: [u8; 4], raw_bytes: u64, found: &[u8]) -> bool {
    if store.sizes_keys().is_empty() {
        return *found == of(store, path, magic, raw_bytes);
    }
    opened(store, path, found) == Some((magic, raw_bytes))
}

/// How a footer ends, and the size that it says.
fn opened(store: &Store, path: &str, footer: &[u8]) -> Option<([u8; 4], u64)> {
    let (sealed, magic) = footer.split_last_chunk::<{ MAGIC.len() }>()?;
    let size = |cipher: ObjectCipher| {
        let mut sealed = sealed.to_vec();
        cipher.open(PLACE, *magic, &mut sealed).ok()?;
        sealed.first_chunk().map(|size| u64::from_be_bytes(*size))
    };
    ciphers(store, path).find_map(size).map(|size| (*magic, size))
}

/// Bytes of the message in an object, as its footer says.
///
/// # Errors
/// `Corrupt` if it does not end as a message object of this server does, whole or thin; what the store says.
pub async fn size_in(store: &Store, object: &ListedObject) -> Result<u64> {
    let corrupt = || Error::corrupt(format!("{} does not end as a message does", object.path));
    let start = object.size.checked_sub(BYTES as u64).ok_or_else(corrupt)?;
    let read = async || {
        let footer = store.read_range(&object.path, start..object.size).await?;
        let known = |(magic, _): &([u8; 4], u64)| [MAGIC, STUB_MAGIC].contains(magic);
        opened(store, &object.path, &footer).filter(known).map(|(_, size)| size).ok_or_else(corrupt)
    };
    match read().await {
        // One answer of a remote store may be wrong.
        Err(e) if e.kind() == Kind::Corrupt && store.forget(&object.path).await => read().await,
        size => size,
    }
}

/// The current one, and those of server keys before it.
fn ciphers(store: &Store, path: &str) -> impl Iterator<Item = ObjectCipher> {
    let context = sha256(&[b"sealpost message size v1", path.as_bytes()]);
    store.sizes_keys().iter().map(move |key| ObjectCipher::new(&[], key.bytes(), context))
}
