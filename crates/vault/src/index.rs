//! Index segments: what is derived from an account's messages to find them, sealed and bound to its
//! account and path.
//!
//! A segment has several sections, so that a reader opens only those it needs. It holds no keys,
//! and can be rebuilt from its sources. Sections are not compressed, because they hold texts of
//! different senders: the texts of each message are, by themselves ([`put_piece`]). Format:
//! `docs/format/summary.md`.

use bytes::{Bytes, BytesMut};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{AccountId, Error, Random, Result};

use crate::cipher::{ObjectCipher, PiecePosition, sha256};
use crate::{AccountKeys, Epoch, Sealed, chunk, compress};

/// "Sealpost index", version 2: sealed under the first root key.
const MAGIC: [u8; 4] = *b"SPI\x02";
/// Version 3 says under the key of which epoch it is sealed.
const MAGIC_EPOCH: [u8; 4] = *b"SPI\x03";
const SALT_BYTES: usize = 32;
const FIXED_BYTES: usize = MAGIC_EPOCH.len() + 4 + SALT_BYTES + 1;
/// Bytes of one section's size in the header.
const SIZE_BYTES: usize = 4;
/// Sections of one segment.
pub const MAX_SECTIONS: usize = 16;
/// Plaintext bytes of one section.
pub const SECTION_BYTES: usize = 16 * 1024 * 1024;

/// Where the index segments of an account are.
pub fn prefix(account: AccountId) -> String {
    format!("acct/{account}/idx")
}

/// Seals `sections` as the segment at `path`, which lies below [`prefix`].
///
/// # Errors
/// `Limit` if there are too many sections, or one is too long.
pub fn seal(
    keys: &AccountKeys,
    account: AccountId,
    path: &str,
    sections: &[&[u8]],
    random: &dyn Random,
) -> Result<Sealed> {
    if sections.len() > MAX_SECTIONS || sections.iter().any(|section| section.len() > SECTION_BYTES) {
        return Err(Error::new(sealpost_base::Kind::Limit, "an index segment that is too large"));
    }
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt);
    let plain: usize = sections.iter().map(|section| section.len()).sum();
    let room = plain + plain / CHUNK_BYTES * chunk::OVERHEAD_BYTES;
    let mut object = Vec::with_capacity(FIXED_BYTES + room + sections.len() * chunk::MAX_PADDING_BYTES);
    keys.epoch().begin(MAGIC, MAGIC_EPOCH, &mut object);
    object.extend_from_slice(&salt);
    object.push(sections.len() as u8);
    let sizes = object.len();
    object.resize(sizes + sections.len() * SIZE_BYTES, 0);
    let cipher = cipher(keys, account, path, &salt);
    for (number, section) in sections.iter().enumerate() {
        let size = chunk::seal_section_raw(&cipher, number as u8, section, &mut object) as u32;
        let at = sizes + number * SIZE_BYTES;
        object[at..at + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    }
    Ok(Sealed::new(object))
}

/// The sizes on disk of a segment's sections, which fill the rest of it: readable without a key.
///
/// # Errors
/// `Corrupt` if it is no segment or is cut short.
pub fn sections(object: &[u8]) -> Result<Vec<usize>> {
    SegmentHeader::of(object).map(|head| head.sizes)
}

/// What is in front of the sections.
struct SegmentHeader<'a> {
    epoch: Epoch,
    salt: &'a [u8],
    sizes: Vec<usize>,
    /// The sections, one after the other.
    body: &'a [u8],
}

impl<'a> SegmentHeader<'a> {
    fn of(object: &'a [u8]) -> Result<Self> {
        let corrupt = || Error::corrupt("not an index segment, or of a version this program does not know");
        let (epoch, rest) = Epoch::begun(MAGIC, MAGIC_EPOCH, object).ok_or_else(corrupt)?;
        let (salt, rest) = rest.split_at_checked(SALT_BYTES).ok_or_else(corrupt)?;
        let (count, rest) = rest.split_first().ok_or_else(corrupt)?;
        let count = usize::from(*count);
        let sizes = (count <= MAX_SECTIONS).then(|| rest.split_at_checked(count * SIZE_BYTES)).flatten();
        let (sizes, body) = sizes.ok_or_else(corrupt)?;
        let sizes = sizes_of(sizes, body)?;
        Ok(SegmentHeader { epoch, salt, sizes, body })
    }
}

fn sizes_of(sizes: &[u8], body: &[u8]) -> Result<Vec<usize>> {
    let sizes: Vec<usize> = sizes
        .chunks_exact(SIZE_BYTES)
        .map(|s| u32::from_be_bytes([s[0], s[1], s[2], s[3]]) as usize)
        .collect();
    if sizes.iter().fold(0usize, |sum, size| sum.saturating_add(*size)) != body.len() {
        return Err(Error::corrupt("an index segment whose sections do not fill it"));
    }
    Ok(sizes)
}

/// Appends `plain`, what a message has in a section, to it, compressed by itself; how many bytes that is.
///
/// # Errors
/// `Internal` if it cannot be compressed.
pub fn put_piece(plain: &[u8], section: &mut Vec<u8>) -> Result<usize> {
    compress::put_piece(plain, section)
}

/// Appends what [`put_piece`] was given to `out`, at most `limit` bytes of it. `scratch` is any
/// vector, which is used again.
///
/// # Errors
/// `Corrupt` if it is no such piece, or longer.
pub fn take_piece(piece: &[u8], limit: usize, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
    compress::take_piece(piece, limit, scratch, out)
}

/// Opens the sections of one segment, each by itself.
pub struct SegmentReader {
    cipher: ObjectCipher,
    path: String,
    sections: Vec<Bytes>,
}

impl SegmentReader {
    /// A reader of `object`, which was found at `path`. Opens nothing yet.
    ///
    /// # Errors
    /// `Corrupt` if it is no segment.
    pub fn new(keys: &AccountKeys, account: AccountId, path: &str, object: &Bytes) -> Result<Self> {
        let SegmentHeader { epoch, salt, sizes, body } =
            SegmentHeader::of(object).map_err(|e| e.context(path))?;
        let cipher = cipher(keys.in_epoch(epoch).map_err(|e| e.context(path))?, account, path, salt);
        let mut rest = object.slice_ref(body);
        let sections = sizes.iter().map(|size| rest.split_to(*size)).collect();
        Ok(SegmentReader { cipher, path: path.to_owned(), sections })
    }

    /// How many sections there are.
    pub fn count(&self) -> usize {
        self.sections.len()
    }

    /// The plaintext of section `number`, at most `limit` bytes.
    ///
    /// # Errors
    /// `Corrupt` for anything that is not exactly what was sealed for this account, path and section.
    pub fn section(&self, number: usize, limit: usize) -> Result<Vec<u8>> {
        self.open(number, limit).map_err(|e| e.context(&self.path))
    }

    fn open(&self, number: usize, limit: usize) -> Result<Vec<u8>> {
        let mut sealed = match self.sections.get(number) {
            Some(section) => &section[..],
            None => return Err(Error::corrupt("an index segment lacks a section")),
        };
        let mut out = Vec::new();
        for chunk in 0u32.. {
            let size = chunk::sealed_size(sealed)?;
            let (first, rest) = sealed
                .split_at_checked(size)
                .ok_or_else(|| Error::corrupt("an index segment ends within a chunk"))?;
            let place = PiecePosition { section: number as u8, number: chunk, last: rest.is_empty() };
            let plain = chunk::open(&self.cipher, place, BytesMut::from(first))?;
            if out.len() + plain.len() > limit {
                return Err(Error::corrupt(format!("a section of an index segment has over {limit} bytes")));
            }
            if rest.is_empty() && chunk == 0 {
                return Ok(plain.into());
            }
            if !rest.is_empty() && plain.len() != CHUNK_BYTES {
                return Err(Error::corrupt("a chunk before the last is not full"));
            }
            if chunk == 0 {
                // At once: a section that grows leaves holes in the memory of the process.
                out.reserve_exact(limit.min((1 + chunks(rest)?) * CHUNK_BYTES));
            }
            out.extend_from_slice(&plain);
            if rest.is_empty() {
                break;
            }
            sealed = rest;
        }
        Ok(out)
    }
}

/// How many chunks a section has.
fn chunks(mut sealed: &[u8]) -> Result<usize> {
    let mut count = 0;
    while !sealed.is_empty() {
        sealed = sealed.get(chunk::sealed_size(sealed)?..).unwrap_or_default();
        count += 1;
    }
    Ok(count)
}

fn cipher(keys: &AccountKeys, account: AccountId, path: &str, salt: &[u8]) -> ObjectCipher {
    let context = sha256(&[b"sealpost index v1", &account.0, path.as_bytes()]);
    ObjectCipher::new(salt, keys.index.bytes(), context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RootKey;
    use sealpost_base::{Kind, SeededRandom};

    const ACCOUNT: AccountId = AccountId([3; 16]);

    fn keys() -> AccountKeys {
        AccountKeys::derive(&RootKey::generate(&SeededRandom::new(1)), ACCOUNT)
    }

    fn open(account: AccountId, path: &str, object: &[u8]) -> Result<Vec<Vec<u8>>> {
        let reader = SegmentReader::new(&keys(), account, path, &Bytes::copy_from_slice(object))?;
        (0..reader.count()).map(|n| reader.section(n, SECTION_BYTES)).collect()
    }

    #[test]
    fn opens_for_its_account_and_path_only() {
        let text: Vec<u8> = (0..200_000u32).map(|n| (n / 300) as u8).collect();
        let sections: [&[u8]; 3] = [b"first", &text, b""];
        let object = seal(&keys(), ACCOUNT, "a/b", &sections, &SeededRandom::new(2)).unwrap();
        let object = object.as_ref();
        assert!((text.len()..text.len() + 3000).contains(&object.len()), "nothing is compressed together");
        assert_eq!(super::sections(object).unwrap().len(), 3);
        assert_eq!(open(ACCOUNT, "a/b", object).unwrap(), sections);
        for refused in [
            open(AccountId([4; 16]), "a/b", object),
            open(ACCOUNT, "a/c", object),
            open(ACCOUNT, "a/b", &object[..object.len() - 1]),
            open(ACCOUNT, "a/b", &[object, b"x"].concat()),
            open(ACCOUNT, "a/b", &object[..30]),
            open(ACCOUNT, "a/b", b""),
        ] {
            assert_eq!(refused.unwrap_err().kind(), Kind::Corrupt);
        }
        // All of the head, and a few of each chunk.
        let places = (0..400).chain((400..object.len()).step_by(9973)).chain(object.len() - 50..object.len());
        for at in places {
            let mut damaged = object.to_vec();
            damaged[at] ^= 1 << (at % 8);
            assert!(open(ACCOUNT, "a/b", &damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn limits_hold() {
        let random = SeededRandom::new(2);
        let many = vec![&b""[..]; MAX_SECTIONS + 1];
        assert_eq!(seal(&keys(), ACCOUNT, "p", &many, &random).err().unwrap().kind(), Kind::Limit);
        let long = vec![0; SECTION_BYTES + 1];
        assert_eq!(seal(&keys(), ACCOUNT, "p", &[&long], &random).err().unwrap().kind(), Kind::Limit);
        let object = seal(&keys(), ACCOUNT, "p", &[&long[..100_000]], &random).unwrap();
        let reader =
            SegmentReader::new(&keys(), ACCOUNT, "p", &Bytes::copy_from_slice(object.as_ref())).unwrap();
        assert_eq!(reader.section(0, 100_000).unwrap().len(), 100_000);
        assert_eq!(reader.section(0, 99_999).unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(reader.section(1, 9).unwrap_err().kind(), Kind::Corrupt);
    }

    /// Sections that changed places, or whose sizes were moved, open to nothing.
    #[test]
    fn sections_cannot_change_places() {
        let sections: [&[u8]; 2] = [b"first", b"other"];
        let object = seal(&keys(), ACCOUNT, "p", &sections, &SeededRandom::new(2)).unwrap();
        let mut swapped = object.as_ref().to_vec();
        let body = swapped.split_off(MAGIC.len() + SALT_BYTES + 1 + 2 * SIZE_BYTES);
        let (first, second) = body.split_at(body.len() / 2);
        swapped.extend_from_slice(second);
        swapped.extend_from_slice(first);
        assert_eq!(open(ACCOUNT, "p", &swapped).unwrap_err().kind(), Kind::Corrupt);
    }
}
